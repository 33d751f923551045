/* Symbols that some MPI libraries have and others lack. */
#ifndef ST_DISPATCH_OPTIONAL_H
#define ST_DISPATCH_OPTIONAL_H

#include <stdbool.h>

/* Does an MPI library in this process define the symbol? Safe while the dynamic linker is at work. */
bool st_is_loaded(const char *name);

/* Called by the resolvers in dispatch_stubs.S: the stub, or NULL where there is nothing behind it. */
void *st_choose(unsigned long number, void *stub);

/* Is this the file of an MPI library, or of one of its parts that is asked? */
bool st_is_mpi_library(const char *path);

#endif
