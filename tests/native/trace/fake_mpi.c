/* Looks like an MPI library to the dispatcher: functions that say what they were given, each under two names. */
#include <stdio.h>

#define ALSO(name, real) extern __typeof__(real) name __attribute__((weak, alias(#real)))

int PMPI_Init(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}
ALSO(MPI_Init, PMPI_Init);

int PMPI_Sendrecv(const void *a, int b, long c, int d, int e, void *f, int g, long h, int i, int j, long k, void *l)
{
    printf("%ld %d %ld %d %d %ld %d %ld %d %d %ld %ld\n", (long)a, b, c, d, e, (long)f, g, h, i, j, k, (long)l);
    return 42;
}
ALSO(MPI_Sendrecv, PMPI_Sendrecv);

void pmpi_get_accumulate_(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k,
                          long l, int *error)
{
    *error = (int)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l);
}
ALSO(mpi_get_accumulate_, pmpi_get_accumulate_);

#ifdef WITH_NEW
int PMPI_Send_c(const void *a, long long b, long c, int d, int e, long f)
{
    (void)a, (void)c, (void)d, (void)e, (void)f;
    return (int)(b >> 32);
}
ALSO(MPI_Send_c, PMPI_Send_c);
#endif

int PMPI_Barrier(long comm)
{
    return (int)comm;
}
ALSO(MPI_Barrier, PMPI_Barrier);
