/* Each rank sends one int to each other rank: more partners than the first page of counters holds. */
#include <mpi.h>
#include <stdio.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
    int rank, size, box = 1, got, total = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1) { /* no file may be longer than this from now on, or SIGXFSZ comes */
        struct rlimit limit = {4096, 4096};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    for (int i = 1; i < size; i++) {
        MPI_Sendrecv(&box, 1, MPI_INT, (rank + i) % size, 0, &got, 1, MPI_INT, (rank + size - i) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        total += got;
    }
    if (total != size - 1)
        printf("wrong\n");
    MPI_Finalize();
    return 0;
}
