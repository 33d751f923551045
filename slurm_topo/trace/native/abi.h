/*
 * The MPI library that this file is compiled for. Handles that its mpi.h defines as symbols of the library are read at
 * run time instead, so that nothing here needs the library to be loaded.
 */
#ifndef ST_ABI_H
#define ST_ABI_H

#include <mpi.h>

/* Handles and addresses of the loaded library. */
struct st_handles {
    MPI_Comm world, comm_null;
    MPI_Op op_no_op;
    const void *fortran_in_place;
};
extern struct st_handles st_handles;

#ifdef OPEN_MPI

#undef MPI_COMM_WORLD
#undef MPI_COMM_NULL
#undef MPI_NO_OP
#define MPI_COMM_WORLD st_handles.world
#define MPI_COMM_NULL st_handles.comm_null
#define MPI_NO_OP st_handles.op_no_op

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

#else

/* Its Fortran functions call the C functions, by the names that are wrapped: they must not count a second time. */
#define ST_FORTRAN_CALLS_C

#define st_f_comm(f) ((MPI_Comm)(f))
#define st_f_type(f) ((MPI_Datatype)(f))
#define st_f_op(f) ((MPI_Op)(f))
#define st_f_win(f) ((MPI_Win)(f))
#define st_f_request(f) ((MPI_Request)(f))

#endif

/* The C meaning of a buffer that Fortran passed. */
static inline const void *st_f_buffer(const void *address)
{
    return address && address == st_handles.fortran_in_place ? MPI_IN_PLACE : address;
}

#endif
