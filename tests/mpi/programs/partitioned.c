/* MPI-4: four partitions of 10 int along the ring, started twice. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, size, box[40] = {0}, got[40];
    MPI_Request r[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Psend_init(box, 4, 10, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r[0]);
    MPI_Precv_init(got, 4, 10, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &r[1]);
    for (int turn = 0; turn < 2; turn++) {
        MPI_Startall(2, r);
        for (int i = 0; i < 4; i++)
            MPI_Pready(i, r[0]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    MPI_Finalize();
    return 0;
}
