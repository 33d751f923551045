/* Particles in boxes: the number that goes to each other box changes at every step and is not known beforehand. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 2000

struct particle {
    double place[3], speed[3];
    int number;
};

int main(int argc, char **argv)
{
    int rank, size, steps = 20, mine = 400, total;
    struct particle *own = calloc(MOST, sizeof *own), *out = calloc(MOST, sizeof *out);
    int blocks[3] = {3, 3, 1};
    MPI_Aint at[3] = {offsetof(struct particle, place), offsetof(struct particle, speed),
                      offsetof(struct particle, number)};
    MPI_Datatype kinds[3] = {MPI_DOUBLE, MPI_DOUBLE, MPI_INT}, packed, type;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Type_create_struct(3, blocks, at, kinds, &packed); /* 52 bytes of data in 56 */
    MPI_Type_create_resized(packed, 0, sizeof(struct particle), &type);
    MPI_Type_commit(&type);
    int *send = calloc(4 * (size_t)size, sizeof *send), *receive = send + size, *from = send + 2 * size;
    int *to = send + 3 * size;
    srand(rank + 1);
    for (int i = 0; i < mine; i++)
        own[i].number = i;
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < size; i++)
            send[i] = i == rank ? 0 : rand() % 2 ? rand() % (mine / (2 * size) + 1) : 0;
        MPI_Alltoall(send, 1, MPI_INT, receive, 1, MPI_INT, MPI_COMM_WORLD);
        int leave = 0, come = 0;
        for (int i = 0; i < size; i++) {
            from[i] = leave;
            to[i] = come;
            leave += send[i];
            come += receive[i];
        }
        for (int i = 0; i < leave; i++)
            out[i] = own[--mine];
        MPI_Alltoallv(out, send, from, type, own + mine, receive, to, type, MPI_COMM_WORLD);
        mine += come;
        if (step % 5 == 0) { /* the last ones travel alone, announced by nothing but their length */
            MPI_Status status;
            int length, alone = mine > 10 ? 5 : 0;
            MPI_Request r;
            MPI_Issend(own + mine - alone, alone, type, (rank + 1) % size, 9, MPI_COMM_WORLD, &r);
            MPI_Probe((rank + size - 1) % size, 9, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, type, &length);
            MPI_Recv(out, length, type, status.MPI_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Wait(&r, MPI_STATUS_IGNORE);
            mine += length - alone;
        }
    }
    MPI_Reduce(&mine, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d\n", total);
    MPI_Finalize();
    return 0;
}
