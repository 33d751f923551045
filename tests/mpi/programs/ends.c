/* Ten messages along the ring, then the end named by the argument: finalize, kill, abort, exit, child or sum. */
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void sum(int rank)
{
    double x[1000], y[1000], total = 0;
    for (int i = 0; i < 1000; i++)
        x[i] = sin(i * 0.37 + rank) * 1e-3 + 1.0 / (i + 1 + rank);
    MPI_Allreduce(x, y, 1000, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < 1000; i++)
        total += y[i];
    if (rank == 0)
        printf("%a\n", total);
}

int main(int argc, char **argv)
{
    const char *end = argc > 1 ? argv[1] : "finalize";
    int rank, size, box = 0, got;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 10; i++)
        MPI_Sendrecv(&box, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(end, "sum"))
        sum(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(end, "kill"))
        kill(getpid(), SIGKILL);
    if (!strcmp(end, "abort") && rank == size - 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (!strcmp(end, "abort"))
        pause();
    if (!strcmp(end, "exit"))
        _exit(3);
    if (!strcmp(end, "child")) {
        pid_t child = fork();
        if (child == 0) {
            execlp("sh", "sh", "-c", "echo child | cat", (char *)NULL);
            _exit(1);
        }
        waitpid(child, NULL, 0);
    }
    MPI_Finalize();
    return 0;
}
