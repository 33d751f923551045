/* Looks like an MPI library to the dispatcher: functions that say what they were given. */
#include <stdio.h>

int PMPI_Init(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

int MPI_Init(int *argc, char ***argv)
{
    return PMPI_Init(argc, argv) + 1; /* not what is behind the dispatcher */
}

int PMPI_Sendrecv(const void *a, int b, long c, int d, int e, void *f, int g, long h, int i, int j, long k, void *l)
{
    printf("%ld %d %ld %d %d %ld %d %ld %d %d %ld %ld\n", (long)a, b, c, d, e, (long)f, g, h, i, j, k, (long)l);
    return 42;
}

int MPI_Sendrecv(void)
{
    return -1;
}

void pmpi_get_accumulate_(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k,
                          long l, int *error)
{
    *error = (int)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l);
}

void mpi_get_accumulate_(void)
{
}

#ifdef WITH_NEW
int PMPI_Send_c(const void *a, long long b, long c, int d, int e, long f)
{
    (void)a, (void)c, (void)d, (void)e, (void)f;
    return (int)(b >> 32);
}

int MPI_Send_c(void)
{
    return -1;
}
#endif

int PMPI_Barrier(long comm)
{
    return (int)comm;
}

int MPI_Barrier(long comm)
{
    return (int)comm - 1;
}
