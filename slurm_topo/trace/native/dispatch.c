/*
 * The library that is preloaded. It exports the names of MPI functions and links to no MPI library: in a program
 * without MPI nobody calls them. At the first call it looks at what the program has loaded, opens the library made for
 * that ABI, and from then on each name is one indirect jump to its wrapper, or, where nothing is to be traced, to the
 * MPI library itself.
 */
#define _GNU_SOURCE
#include "dispatch.h"
#include "dispatch_optional.h"
#include "layout.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LIBRARIES 32
#define MAX_PATH 4096

enum {
#define ST_SYMBOL(number, name, real) INDEX_##name = number,
#include "dispatch_table.h"
#undef ST_SYMBOL
    SYMBOLS
};

static const char table_names[] =
#define ST_SYMBOL(number, name, real) #name " "
#include "dispatch_table.h"
#undef ST_SYMBOL
    ;

static const char *const names[SYMBOLS] = {
#define ST_SYMBOL(number, name, real) #name,
#include "dispatch_table.h"
#undef ST_SYMBOL
};

static const char *const real_names[SYMBOLS] = {
#define ST_SYMBOL(number, name, real) #real,
#include "dispatch_table.h"
#undef ST_SYMBOL
};

static void *libraries[MAX_LIBRARIES];
static int library_count;
static char library_names[MAX_LIBRARIES][MAX_PATH];

/* Read by the exported symbols (dispatch_stubs.S). */
void st_first(void);
void st_resolve(unsigned long number);
void *st_targets[SYMBOLS] = {
#define ST_SYMBOL(number, name, real) st_first,
#include "dispatch_table.h"
#undef ST_SYMBOL
};

/* MPI_ERR_OTHER is 16 in Open MPI and 15 in MPICH: what matters is that it is not MPI_SUCCESS. */
static int missing(void)
{
    return 16;
}

/* True where a library in the process defines the symbol; no function of the linker is called. */
void *st_choose(unsigned long number, void *stub)
{
    return st_is_loaded(real_names[number]) || st_is_loaded(names[number]) ? stub : NULL;
}

static int collect_name(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *path = info->dlpi_name;

    (void)size, (void)data;
    if (path && library_count < MAX_LIBRARIES && strlen(path) < MAX_PATH && st_is_mpi_library(path))
        strcpy(library_names[library_count++], path);
    return 0;
}

/* Programs may have loaded their MPI library with RTLD_LOCAL: it is found by its file, not by its symbols. */
static void find_libraries(void)
{
    int found = 0;

    dl_iterate_phdr(collect_name, NULL);
    for (int i = 0; i < library_count; i++) {
        void *handle = dlopen(library_names[i], RTLD_LAZY | RTLD_NOLOAD);
        if (handle)
            libraries[found++] = handle;
    }
    library_count = found;
}

static void *find(const char *name)
{
    for (int i = 0; i < library_count; i++) {
        void *symbol = dlsym(libraries[i], name);
        if (symbol)
            return symbol;
    }
    return NULL;
}

/* For the ABI library, which asks again after MPI_Init: the MPI library loads parts of its own in it. */
static void *find_by_now(const char *name)
{
    void *symbol = find(name);

    if (!symbol) {
        library_count = 0;
        find_libraries();
        symbol = find(name);
    }
    return symbol;
}

/*
 * What comes next under the same name: the MPI library itself, or a tool of the user that is preloaded behind this one
 * and must see the calls as well. Where the MPI library is loaded locally nothing comes next; it is asked directly then,
 * for the profiling name, which MPICH's Fortran 2008 does not have.
 */
static void *find_real(unsigned long number)
{
    void *symbol = dlsym(RTLD_NEXT, names[number]);

    if (!symbol)
        symbol = find(real_names[number]);
    return symbol ? symbol : find(names[number]);
}

/* The library of MPI 5.0's ABI has its name from the standard: behind it may be any MPI. */
static bool is_standard(void *symbol)
{
    Dl_info where;
    const char *slash;

    if (!dladdr(symbol, &where) || !where.dli_fname)
        return false;
    slash = strrchr(where.dli_fname, '/');
    return strncmp(slash ? slash + 1 : where.dli_fname, "libmpi_abi.", 11) == 0;
}

static const char *abi(void)
{
    void *init = find("PMPI_Init");

    if (init && is_standard(init))
        return "standard";
    if (find("ompi_mpi_comm_world"))
        return "openmpi";
    return init ? "mpich" : NULL;
}

static const struct st_backend *open_backend(void)
{
    char path[MAX_PATH];
    const char *kind = abi(), *slash;
    const struct st_backend *backend;
    void *handle;
    Dl_info self;

    if (!kind || !dladdr((void *)&table_names, &self) || !(slash = strrchr(self.dli_fname, '/')))
        return NULL;
    if (snprintf(path, sizeof path, "%.*s/libslurm_topo_trace_%s.so", (int)(slash - self.dli_fname), self.dli_fname,
                 kind) >= (int)sizeof path)
        return NULL;
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    backend = handle ? dlsym(handle, "st_backend") : NULL;
    if (!backend || backend->symbols != SYMBOLS || strcmp(backend->names, table_names) != 0)
        return NULL;
    return backend;
}

static void *real_symbols[SYMBOLS];
static void *const *wrappers;

static void *target_of(unsigned long number)
{
    if (!real_symbols[number])
        return (void *)missing;
    return wrappers && wrappers[number] ? wrappers[number] : real_symbols[number];
}

static void start(void)
{
    const struct st_backend *backend;

    find_libraries();
    for (int i = 0; i < SYMBOLS; i++)
        real_symbols[i] = find_real((unsigned long)i);
    if (getenv(ST_ENV_DIR) && (backend = open_backend()))
        wrappers = backend->open(real_symbols, find_by_now);
    for (int i = 0; i < SYMBOLS; i++)
        if (real_symbols[i])
            __atomic_store_n(&st_targets[i], target_of((unsigned long)i), __ATOMIC_RELEASE);
}

/* A symbol of a library that was loaded after the first call, such as that of the Fortran interface. */
static void retry(unsigned long number)
{
    library_count = 0;
    find_libraries();
    real_symbols[number] = find_real(number);
    __atomic_store_n(&st_targets[number], target_of(number), __ATOMIC_RELEASE);
}

void st_resolve(unsigned long number)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool started;

    pthread_mutex_lock(&lock);
    if (!started)
        start();
    started = true;
    if (__atomic_load_n(&st_targets[number], __ATOMIC_ACQUIRE) == (void *)st_first)
        retry(number);
    pthread_mutex_unlock(&lock);
}
