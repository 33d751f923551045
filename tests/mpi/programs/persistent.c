/* A persistent broadcast of 40 bytes from rank 1, started three times, and one of a neighbourhood, started twice. */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#if OMPI_MAJOR_VERSION < 5
#define MPI_Bcast_init MPIX_Bcast_init
#define MPI_Neighbor_allgather_init MPIX_Neighbor_allgather_init
#endif
#endif

int main(int argc, char **argv)
{
    int size, dims[1], closed[1] = {1}, box[10] = {0}, got[20];
    MPI_Comm cart;
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    dims[0] = size;
    MPI_Bcast_init(box, 10, MPI_INT, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, closed, 0, &cart);
    MPI_Neighbor_allgather_init(box, 5, MPI_INT, got, 5, MPI_INT, cart, MPI_INFO_NULL, &request);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(1, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    MPI_Comm_free(&cart);
    MPI_Finalize();
    return 0;
}
