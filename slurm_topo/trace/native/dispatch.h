/* What the preloaded dispatcher and the library of one MPI's ABI tell each other. */
#ifndef ST_DISPATCH_H
#define ST_DISPATCH_H

#include <stddef.h>

/* Finds a symbol among the MPI libraries that the program has really loaded by now; NULL where there is none. */
typedef void *(*st_find_fn)(const char *name);

/* Exported by every ABI library as `st_backend`. */
struct st_backend {
    size_t symbols;    /* length of the table that it was built with */
    const char *names; /* digest of the table: the names joined by blanks */
    /* `real`: what stands behind each symbol. Returns the wrappers in the order of the table, NULL for
     * symbols that are to be left alone; or NULL for all. */
    void *const *(*open)(void **real, st_find_fn find);
};

#endif
