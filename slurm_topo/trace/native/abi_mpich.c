/* MPICH and what shares its ABI: handles are integers, the same in all of them. */
#include "backend.h"

int st_abi_open(st_find_fn find)
{
    (void)find;
    return 0;
}

const struct st_algorithms *st_algorithms_of(bool nonblocking, bool inter)
{
    if (inter)
        return nonblocking ? &st_openmpi_inter_nonblocking : &st_openmpi_inter_blocking;
    return &st_mpich;
}
