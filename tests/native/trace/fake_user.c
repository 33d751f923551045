/* Loaded late, as a Python extension is: asks for a new function by a weak symbol. */
#include <stddef.h>

int MPI_Send_c(const void *, long long, long, int, int, long) __attribute__((weak));

int new_function(void)
{
    return MPI_Send_c ? MPI_Send_c(NULL, 7ll << 32, 0, 0, 0, 0) : -1;
}
