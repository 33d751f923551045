/* The ABI of MPI 5.0: handles are pointers, those that are predefined small numbers, the same in all libraries. */
#include "backend.h"

struct st_f2c st_f2c;

int st_abi_open(st_find_fn find)
{
    st_f2c.comm = (MPI_Comm(*)(MPI_Fint))find("PMPI_Comm_fromint");
    st_f2c.type = (MPI_Datatype(*)(MPI_Fint))find("PMPI_Type_fromint");
    st_f2c.op = (MPI_Op(*)(MPI_Fint))find("PMPI_Op_fromint");
    st_f2c.win = (MPI_Win(*)(MPI_Fint))find("PMPI_Win_fromint");
    st_f2c.request = (MPI_Request(*)(MPI_Fint))find("PMPI_Request_fromint");
    return st_f2c.comm && st_f2c.type && st_f2c.op && st_f2c.win && st_f2c.request ? 0 : -1;
}

/* The libraries that have it so far are MPICH and what is made of it. */
const struct st_algorithms *st_algorithms_of(bool nonblocking, bool inter)
{
    if (inter)
        return nonblocking ? &st_openmpi_inter_nonblocking : &st_openmpi_inter_blocking;
    return &st_mpich;
}
