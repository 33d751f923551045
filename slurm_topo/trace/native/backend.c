/* The library of one MPI's ABI: opened by the dispatcher, it starts with MPI_Init and ends with MPI_Finalize. */
#define _GNU_SOURCE
#include "backend.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void **st_real;
struct st_mpi st_mpi;

static st_find_fn find_symbol;

uint64_t st_type_size(MPI_Datatype type)
{
    MPI_Count size = 0;

    if (st_mpi.Type_size_x(type, &size) != MPI_SUCCESS || size < 0)
        return 0;
    return (uint64_t)size;
}

/* --- time spent waiting ------------------------------------------------------------------------------------------ */

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return st_now();
#endif
}

uint64_t st_wait_begin(void)
{
    return st_on ? ticks() : 0;
}

/* The pair of clocks lets a reader turn ticks into seconds, also of a program that was killed. */
static void read_clocks(void)
{
    st_head->ticks_last = ticks();
    st_head->ns_last = st_now();
    if (st_head->ns_last > st_head->ns_start)
        st_counters_advance(st_head->ns_last - st_head->ns_start);
}

void st_wait_end(enum st_wait kind, uint64_t begun)
{
    uint64_t spent, *where;

    if (!begun || !st_on)
        return;
    spent = ticks() - begun;
    where = kind == ST_WAIT_COLL ? &st_head->wait_coll_ticks : &st_head->wait_p2p_ticks;
    if (st_threads)
        __atomic_fetch_add(where, spent, __ATOMIC_RELAXED);
    else
        *where += spent;
    if (begun - st_head->ticks_last > (1ull << 26)) /* some hundredths of a second */
        read_clocks();
}

/* --- begin and end ----------------------------------------------------------------------------------------------- */

static int own_directory(const char *dir)
{
    struct stat status;

    return lstat(dir, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
           !(status.st_mode & (S_IWGRP | S_IWOTH));
}

/* Ranks of one MPI_COMM_WORLD, and no others, share this name. */
static void name_world(char *out, size_t size)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PMI_KVS"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) {
            snprintf(out, size, "%s", value);
            return;
        }
    }
    /* Under PMI 1 a launch has no name; a step has. Launches of one size in one step cannot be told apart then. */
    if (getenv("PMI_RANK"))
        snprintf(out, size, "pmi %s%s", getenv("SLURM_STEP_ID") ? getenv("SLURM_STEP_ID") : "",
                 getenv("PMI_SPAWNED") ? " spawned" : "");
    else
        snprintf(out, size, "pid %ld", (long)getpid());
}

/* The script is the first argument of an interpreter that is no option. */
static void name_program(void)
{
    char line[4096];
    size_t length, at = 0;
    FILE *file;
    ssize_t n = readlink("/proc/self/exe", st_head->executable, sizeof st_head->executable - 1);

    if (n < 0)
        st_head->executable[0] = '\0';
    file = fopen("/proc/self/cmdline", "re");
    if (!file)
        return;
    length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    for (at += strlen(line) + 1; at < length && line[at] == '-'; at += strlen(line + at) + 1)
        if (strcmp(line + at, "-c") == 0)
            return;
    if (at < length)
        snprintf(st_head->script, sizeof st_head->script, "%s", line + at);
}

/* "Open MPI v4.1.4" of a line that goes on with much more; "MPICH Version: 4.0.2" as it is. */
static void name_library(const char *version)
{
    snprintf(st_head->library, sizeof st_head->library, "%.*s", (int)strcspn(version, ",\n"), version);
    for (char *at = st_head->library; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
}

static void describe(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    MPI_Comm parent = MPI_COMM_NULL;
    cpu_set_t *cpus = (cpu_set_t *)(void *)st_head->cpus;
    int length, level = -1;

    gethostname(st_head->host, sizeof st_head->host - 1);
    name_world(st_head->world, sizeof st_head->world);
    name_program();
    if (sched_getaffinity(0, sizeof st_head->cpus, cpus) != 0)
        memset(st_head->cpus, 0, sizeof st_head->cpus);
    if (st_mpi.Get_library_version(version, &length) == MPI_SUCCESS)
        name_library(version);
    if (st_mpi.Query_thread(&level) == MPI_SUCCESS)
        st_head->thread_level = level;
    st_threads = level == MPI_THREAD_MULTIPLE;
    if (st_mpi.Comm_get_parent(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL)
        st_head->flags |= ST_FLAG_SPAWNED;
}

bool st_measuring;

/* Asked for, and the library has the component that can tell. */
static void begin_measuring(void)
{
    if (!getenv(ST_ENV_MEASURE) || !find_symbol("mca_common_monitoring_record_pml"))
        return;
    st_measuring = true;
    st_head->flags |= ST_FLAG_MEASURED;
}

static void begin(void)
{
    const char *dir = getenv(ST_ENV_DIR);
    int rank, size;

    if (!dir || st_head || !own_directory(dir))
        return;
    if (st_mpi.Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        st_mpi.Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS || st_counters_open(dir, rank, size) != 0)
        return;
    describe();
    if (st_peers_open(rank, size) != 0) {
        st_counters_off("the MPI library refused an attribute key");
        return;
    }
    begin_measuring();
    st_head->start_ns = st_head->ns_start = st_now();
    st_head->ticks_start = ticks();
    read_clocks();
    st_head->state = ST_STATE_RUNNING;
    st_on = true;
}

static bool before_finalize(void)
{
    bool counting = st_on;

    st_on = false;
    if (counting)
        read_clocks();
    return counting;
}

static void after_finalize(bool counted)
{
    if (!counted)
        return;
    st_head->end_ns = st_now();
    st_head->state = ST_STATE_FINALIZED;
}

static void w_mca_common_monitoring_record_pml(int world_rank, size_t bytes, int tag)
{
    ((void (*)(int, size_t, int))st_real[ST_I_mca_common_monitoring_record_pml])(world_rank, bytes, tag);
    if (st_on && st_measuring)
        st_count(ST_COLL, world_rank, 1, bytes);
}

static int w_MPI_Init(int *argc, char ***argv)
{
    int rc = ((int (*)(int *, char ***))st_real[ST_I_MPI_Init])(argc, argv);
    if (rc == MPI_SUCCESS)
        begin();
    return rc;
}

static int w_MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int rc = ((int (*)(int *, char ***, int, int *))st_real[ST_I_MPI_Init_thread])(argc, argv, required, provided);
    if (rc == MPI_SUCCESS)
        begin();
    return rc;
}

static int w_MPI_Finalize(void)
{
    bool counted = before_finalize();
    int rc = ((int (*)(void))st_real[ST_I_MPI_Finalize])();
    after_finalize(counted);
    return rc;
}

static void fortran_init(int symbol, MPI_Fint *ierror)
{
    ((void (*)(MPI_Fint *))st_real[symbol])(ierror);
    if (!ierror || *ierror == MPI_SUCCESS)
        begin();
}

static void fortran_init_thread(int symbol, MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror)
{
    ((void (*)(MPI_Fint *, MPI_Fint *, MPI_Fint *))st_real[symbol])(required, provided, ierror);
    if (!ierror || *ierror == MPI_SUCCESS)
        begin();
}

static void fortran_finalize(int symbol, MPI_Fint *ierror)
{
    bool counted = before_finalize();
    ((void (*)(MPI_Fint *))st_real[symbol])(ierror);
    after_finalize(counted);
}

static void w_mpi_init_(MPI_Fint *ierror)
{
    fortran_init(ST_I_mpi_init_, ierror);
}

static void w_mpi_init_f08_(MPI_Fint *ierror)
{
    fortran_init(ST_I_mpi_init_f08_, ierror);
}

static void w_mpi_init_thread_(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror)
{
    fortran_init_thread(ST_I_mpi_init_thread_, required, provided, ierror);
}

static void w_mpi_init_thread_f08_(MPI_Fint *required, MPI_Fint *provided, MPI_Fint *ierror)
{
    fortran_init_thread(ST_I_mpi_init_thread_f08_, required, provided, ierror);
}

static void w_mpi_finalize_(MPI_Fint *ierror)
{
    fortran_finalize(ST_I_mpi_finalize_, ierror);
}

static void w_mpi_finalize_f08_(MPI_Fint *ierror)
{
    fortran_finalize(ST_I_mpi_finalize_f08_, ierror);
}

#include "wrappers.h"

/* --- what the dispatcher sees ------------------------------------------------------------------------------------- */

static void *const wrappers[ST_SYMBOLS] = {
#define ST_SYMBOL(number, name, real) (void *)w_##name,
#include "dispatch_table.h"
#undef ST_SYMBOL
};

static int load_functions(void)
{
    const struct {
        void *where;
        const char *name;
    } needed[] = {
#define NEED(f) {&st_mpi.f, "PMPI_" #f}
        NEED(Comm_size), NEED(Comm_rank), NEED(Comm_group), NEED(Comm_remote_group), NEED(Comm_remote_size),
        NEED(Comm_test_inter), NEED(Comm_get_parent), NEED(Comm_create_keyval), NEED(Comm_set_attr),
        NEED(Win_create_keyval), NEED(Win_set_attr), NEED(Win_get_group), NEED(Group_size),
        NEED(Group_translate_ranks), NEED(Group_free), NEED(Type_size_x), NEED(Op_commutative), NEED(Topo_test),
        NEED(Cartdim_get), NEED(Cart_shift), NEED(Graph_neighbors_count), NEED(Graph_neighbors),
        NEED(Dist_graph_neighbors_count), NEED(Dist_graph_neighbors), NEED(Initialized), NEED(Query_thread), NEED(Get_library_version),
#undef NEED
    };

    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        void *symbol = find_symbol(needed[i].name);
        if (!symbol)
            return -1;
        memcpy(needed[i].where, &symbol, sizeof symbol);
    }
    return 0;
}

#ifdef ST_FORTRAN_CALLS_C
/* In Fortran 2008 only those without a buffer have a name that is wrapped, and they call the P functions. */
static void *const *c_wrappers(void)
{
    static void *chosen[ST_SYMBOLS];
    static const char *const names[ST_SYMBOLS] = {
#define ST_SYMBOL(number, name, real) #name,
#include "dispatch_table.h"
#undef ST_SYMBOL
    };

    for (int i = 0; i < ST_SYMBOLS; i++)
        chosen[i] = names[i][0] == 'M' || strstr(names[i], "_f08_") ? wrappers[i] : NULL;
    return chosen;
}
#else
static void *const *c_wrappers(void)
{
    return wrappers;
}
#endif

static void *const *open_backend(void **real, st_find_fn find)
{
    int initialized = 0;

    st_real = real;
    find_symbol = find;
    if (load_functions() != 0 || st_abi_open(find) != 0)
        return NULL;
    /* Another tool in front of this one may have taken MPI_Init for itself. */
    if (st_mpi.Initialized(&initialized) == MPI_SUCCESS && initialized)
        begin();
    return c_wrappers();
}

__attribute__((visibility("default"))) const struct st_backend st_backend = {
    .symbols = ST_SYMBOLS,
    .names =
#define ST_SYMBOL(number, name, real) #name " "
#include "dispatch_table.h"
#undef ST_SYMBOL
    ,
    .open = open_backend,
};
