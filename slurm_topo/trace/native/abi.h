/*
 * The MPI library that a file is compiled for: ST_OPENMPI (4 and 5 share their ABI), ST_MPICH (and all that share
 * its ABI, Intel MPI among them) or ST_STANDARD (the ABI of MPI 5.0, libmpi_abi of any library). Only what the tracer needs of mpi.h, so that it is built without any MPI; a test compares it with the
 * headers that are installed. Handles that Open MPI defines as objects of its library are read at run time.
 */
#ifndef ST_ABI_H
#define ST_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int MPI_Fint;
typedef ptrdiff_t MPI_Aint;
typedef long long MPI_Count;
typedef void MPI_Status; /* only ever passed on */

#define MPI_SUCCESS 0
#define MPI_UNDEFINED (-32766)

#if defined(ST_OPENMPI)

typedef struct ompi_communicator_t *MPI_Comm;
typedef struct ompi_datatype_t *MPI_Datatype;
typedef struct ompi_op_t *MPI_Op;
typedef struct ompi_win_t *MPI_Win;
typedef struct ompi_info_t *MPI_Info;
typedef struct ompi_request_t *MPI_Request;
typedef struct ompi_group_t *MPI_Group;
typedef struct ompi_message_t *MPI_Message;

#define MPI_IN_PLACE ((const void *)1)
#define MPI_PROC_NULL (-2)
#define MPI_ROOT (-4)
#define MPI_CART 1
#define MPI_GRAPH 2
#define MPI_DIST_GRAPH 3
#define MPI_THREAD_MULTIPLE 3
#define MPI_MAX_LIBRARY_VERSION_STRING 256

struct st_handles {
    MPI_Comm world, comm_null;
    MPI_Op op_no_op;
    const void *fortran_in_place;
};
extern struct st_handles st_handles;
#define MPI_COMM_WORLD st_handles.world
#define MPI_COMM_NULL st_handles.comm_null
#define MPI_NO_OP st_handles.op_no_op

/* The C meaning of a buffer that Fortran passed. */
static inline const void *st_f_buffer(const void *address)
{
    return address && address == st_handles.fortran_in_place ? MPI_IN_PLACE : address;
}

#elif defined(ST_MPICH)

typedef int MPI_Comm;
typedef int MPI_Datatype;
typedef int MPI_Op;
typedef int MPI_Win;
typedef int MPI_Info;
typedef int MPI_Request;
typedef int MPI_Group;
typedef int MPI_Message;

#define MPI_IN_PLACE ((const void *)-1)
#define MPI_PROC_NULL (-1)
#define MPI_ROOT (-3)
#define MPI_CART 2
#define MPI_GRAPH 1
#define MPI_DIST_GRAPH 3
#define MPI_THREAD_MULTIPLE 3
#define MPI_MAX_LIBRARY_VERSION_STRING 8192
#define MPI_COMM_WORLD ((MPI_Comm)0x44000000)
#define MPI_COMM_NULL ((MPI_Comm)0x04000000)
#define MPI_NO_OP ((MPI_Op)0x5800000e)

/* Its Fortran functions call the C functions, by the names that are wrapped: they must not count a second time. */
#define ST_FORTRAN_CALLS_C

#define st_f_comm(f) ((MPI_Comm)(f))
#define st_f_type(f) ((MPI_Datatype)(f))
#define st_f_op(f) ((MPI_Op)(f))
#define st_f_win(f) ((MPI_Win)(f))
#define st_f_request(f) ((MPI_Request)(f))
#define st_f_buffer(address) (address)

#elif defined(ST_STANDARD)

typedef struct MPI_ABI_Comm *MPI_Comm;
typedef struct MPI_ABI_Datatype *MPI_Datatype;
typedef struct MPI_ABI_Op *MPI_Op;
typedef struct MPI_ABI_Win *MPI_Win;
typedef struct MPI_ABI_Info *MPI_Info;
typedef struct MPI_ABI_Request *MPI_Request;
typedef struct MPI_ABI_Group *MPI_Group;
typedef struct MPI_ABI_Message *MPI_Message;

#define MPI_IN_PLACE ((const void *)1)
#define MPI_PROC_NULL (-3)
#define MPI_ROOT (-4)
#define MPI_CART 211
#define MPI_GRAPH 212
#define MPI_DIST_GRAPH 213
#define MPI_THREAD_MULTIPLE 4096
#define MPI_MAX_LIBRARY_VERSION_STRING 8192
#define MPI_COMM_WORLD ((MPI_Comm)0x101)
#define MPI_COMM_NULL ((MPI_Comm)0x100)
#define MPI_NO_OP ((MPI_Op)0x3d)

#define ST_FORTRAN_CALLS_C
#define st_f_buffer(address) (address)

#else
#error "define ST_OPENMPI, ST_MPICH or ST_STANDARD"
#endif

#if defined(ST_OPENMPI) || defined(ST_STANDARD)

/* Conversions from Fortran are functions of the library. */
struct st_f2c {
    MPI_Comm (*comm)(MPI_Fint);
    MPI_Datatype (*type)(MPI_Fint);
    MPI_Op (*op)(MPI_Fint);
    MPI_Win (*win)(MPI_Fint);
    MPI_Request (*request)(MPI_Fint);
};
extern struct st_f2c st_f2c;
#define st_f_comm(f) st_f2c.comm(f)
#define st_f_type(f) st_f2c.type(f)
#define st_f_op(f) st_f2c.op(f)
#define st_f_win(f) st_f2c.win(f)
#define st_f_request(f) st_f2c.request(f)

#endif

#endif
