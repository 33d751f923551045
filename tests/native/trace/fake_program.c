/* Calls through the dispatcher with many arguments; argv[1]: a library to load late. */
#include <dlfcn.h>
#include <stdio.h>

int MPI_Init(int *, char ***);
int MPI_Sendrecv(const void *, int, long, int, int, void *, int, long, int, int, long, void *);
void mpi_get_accumulate_(long, long, long, long, long, long, long, long, long, long, long, long, int *);
int MPI_Barrier(long);

int main(int argc, char **argv)
{
    int sum = 0, canary[8] = {1, 2, 3, 4, 5, 6, 7, 8}, (*ask)(void) = NULL;
    void *late = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;

    if (MPI_Init(NULL, NULL) != 0)
        return 1;
    for (int i = 0; i < 2; i++)
        if (MPI_Sendrecv((void *)1, 2, 3, 4, 5, (void *)6, 7, 8, 9, 10, 11, (void *)12) != 42)
            return 2;
    mpi_get_accumulate_(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, &sum);
    if (late)
        ask = (int (*)(void))dlsym(late, "new_function");
    printf("%d %d %d\n", sum, MPI_Barrier(5), ask ? ask() : -2);
    for (int i = 0; i < 8; i++)
        if (canary[i] != i + 1)
            return 3;
    return 0;
}
