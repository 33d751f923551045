/* Two ranks spawn two of themselves; each world has a ring of its own, and rank 0 greets across. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, other;
    int rank, size, box = 1, got;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    other = parent;
    if (parent == MPI_COMM_NULL)
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
    for (int i = 0; i < (parent == MPI_COMM_NULL ? 1 : 3); i++)
        MPI_Sendrecv(&box, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Sendrecv(&box, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, 0, 0, other, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&other);
    MPI_Finalize();
    return 0;
}
