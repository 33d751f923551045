#define _GNU_SOURCE
#include "backend.h"

#include <dlfcn.h>

struct st_handles st_handles;
struct st_f2c st_f2c;

/* A program that is not position-independent holds the library's objects itself (copy relocations). */
static void *object(st_find_fn find, const char *name)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    return symbol ? symbol : find(name);
}

int st_abi_open(st_find_fn find)
{
    /* Fortran's common block is in the program itself, where one is linked with it. */
    st_handles.fortran_in_place = dlsym(RTLD_DEFAULT, "mpi_fortran_in_place_");
    st_handles.world = object(find, "ompi_mpi_comm_world");
    st_handles.comm_null = object(find, "ompi_mpi_comm_null");
    st_handles.op_no_op = object(find, "ompi_mpi_op_no_op");
    st_f2c.comm = (MPI_Comm(*)(MPI_Fint))find("PMPI_Comm_f2c");
    st_f2c.type = (MPI_Datatype(*)(MPI_Fint))find("PMPI_Type_f2c");
    st_f2c.op = (MPI_Op(*)(MPI_Fint))find("PMPI_Op_f2c");
    st_f2c.win = (MPI_Win(*)(MPI_Fint))find("PMPI_Win_f2c");
    st_f2c.request = (MPI_Request(*)(MPI_Fint))find("PMPI_Request_f2c");
    if (!st_handles.world || !st_handles.comm_null || !st_handles.op_no_op || !st_f2c.comm || !st_f2c.type ||
        !st_f2c.op || !st_f2c.win || !st_f2c.request)
        return -1;
    return 0;
}

const struct st_algorithms *st_algorithms_of(bool nonblocking, bool inter)
{
    if (inter)
        return nonblocking ? &st_openmpi_inter_nonblocking : &st_openmpi_inter_blocking;
    return nonblocking ? &st_openmpi_nonblocking : &st_openmpi_blocking;
}
