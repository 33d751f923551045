#define _GNU_SOURCE
#include "backend.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct st_handles st_handles;
struct st_f2c st_f2c;

static const struct st_algorithms *blocking_algorithms;

static const struct st_algorithms *blocking(void);

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
    blocking_algorithms = blocking();
    return 0;
}

/* Open MPI 5 has the tables of 4.1, but leaves out the empty blocks of an alltoallv. */
static const struct st_algorithms *blocking(void)
{
    static struct st_algorithms chosen;
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length;

    chosen = st_openmpi_blocking;
    if (st_mpi.Get_library_version(version, &length) == MPI_SUCCESS && strncmp(version, "Open MPI v", 10) == 0 &&
        atoi(version + 10) >= 5)
        chosen.alltoallv = st_openmpi_nonblocking.alltoallv;
    return &chosen;
}

const struct st_algorithms *st_algorithms_of(bool nonblocking, bool inter)
{
    if (inter)
        return nonblocking ? &st_openmpi_inter_nonblocking : &st_openmpi_inter_blocking;
    return nonblocking ? &st_openmpi_nonblocking : blocking_algorithms;
}
