#define _GNU_SOURCE
#include "counters.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FIRST_BYTES 4096
#define MAX_STEP (1u << 20)
#define FIRST_EPOCH_NS 50000000u

bool st_on;
bool st_threads;
struct st_header *st_head;

static struct {
    char path[4096];
    dev_t device;
    ino_t inode;
    struct st_slot *slots;
    uint32_t allocated;
    int size;
    _Atomic uint32_t *index; /* world rank -> slot number + 1 */
    uint32_t epoch;
    pthread_mutex_t lock;
} counters = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Takes what cannot be counted, so that callers need no test. */
static struct st_slot nowhere;

uint64_t st_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void st_counters_off(const char *reason)
{
    st_on = false;
    if (!st_head)
        return;
    st_head->flags |= ST_FLAG_OFF;
    snprintf(st_head->reason, sizeof st_head->reason, "%s", reason);
}

void st_counters_note(const char *dir, const char *reason)
{
    char path[4096];
    int fd;

    if (snprintf(path, sizeof path, "%s/%ld%s", dir, (long)getpid(), ST_REASON_SUFFIX) >= (int)sizeof path)
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    /* A note that cannot be written is a note that nobody misses. */
    if (write(fd, reason, strlen(reason)) < 0)
        unlink(path);
    close(fd);
}

/* Room in the file for `bytes`: blocks are allocated now, for a full disk would raise SIGBUS later. */
static int reserve(int fd, uint64_t bytes)
{
    struct rlimit limit;

    /* Beyond the limit the kernel sends SIGXFSZ, which would end the program. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
        return EFBIG;
    return posix_fallocate(fd, 0, (off_t)bytes);
}

static int create(const char *dir, int rank)
{
    int fd = -1;

    /* Two containers of one node may see the same process id. */
    for (int attempt = 0; attempt < 100 && fd < 0; attempt++) {
        int n = snprintf(counters.path, sizeof counters.path, "%s/%d.%ld.%d%s", dir, rank, (long)getpid(), attempt,
                         ST_COUNTERS_SUFFIX);
        if (n >= (int)sizeof counters.path)
            return -1;
        fd = open(counters.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

static int map_file(int fd, int size)
{
    struct stat status;
    size_t span = sizeof(struct st_header) + (size_t)size * sizeof(struct st_slot);
    void *base, *index;

    if (fstat(fd, &status) != 0 || reserve(fd, FIRST_BYTES) != 0)
        return -1;
    /* Address space for all partners there can be; the file grows below it. */
    base = mmap(NULL, span < FIRST_BYTES ? FIRST_BYTES : span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return -1;
    index = mmap(NULL, ((size_t)size + 1) * sizeof *counters.index, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (index == MAP_FAILED) {
        munmap(base, span < FIRST_BYTES ? FIRST_BYTES : span);
        return -1;
    }
    st_head = base;
    counters.device = status.st_dev;
    counters.inode = status.st_ino;
    counters.slots = (struct st_slot *)((char *)base + sizeof(struct st_header));
    counters.allocated = (FIRST_BYTES - sizeof(struct st_header)) / sizeof(struct st_slot);
    counters.index = index;
    counters.size = size;
    return 0;
}

int st_counters_open(const char *dir, int rank, int size)
{
    char reason[128];
    int fd, fault;

    fd = create(dir, rank);
    if (fd < 0) {
        snprintf(reason, sizeof reason, "counters cannot be created (%s)", strerror(errno));
        st_counters_note(dir, reason);
        return -1;
    }
    fault = map_file(fd, size);
    close(fd);
    if (fault) {
        unlink(counters.path);
        st_counters_note(dir, "no space or memory for the counters");
        return -1;
    }
    memcpy(st_head->magic, ST_COUNTERS_MAGIC, sizeof st_head->magic);
    st_head->version = ST_VERSION;
    st_head->header_bytes = sizeof(struct st_header);
    st_head->slot_bytes = sizeof(struct st_slot);
    st_head->rank = rank;
    st_head->size = size;
    st_head->pid = (uint32_t)getpid();
    st_head->epoch_ns = FIRST_EPOCH_NS;
    st_head->epochs = 1;
    return 0;
}

/* The file is opened again by name: a descriptor kept open could have been closed and reused by the program. */
static int grow(void)
{
    struct stat status;
    uint64_t bytes = sizeof(struct st_header) + (uint64_t)counters.allocated * sizeof(struct st_slot);
    uint64_t wanted = bytes + (bytes < MAX_STEP ? bytes : MAX_STEP);
    int rv = -1, fd = open(counters.path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && status.st_dev == counters.device && status.st_ino == counters.inode &&
        reserve(fd, wanted) == 0) {
        counters.allocated = (uint32_t)((wanted - sizeof(struct st_header)) / sizeof(struct st_slot));
        rv = 0;
    }
    close(fd);
    return rv;
}

static struct st_slot *new_slot(int peer)
{
    struct st_slot *slot = &nowhere;
    uint32_t number;

    pthread_mutex_lock(&counters.lock);
    number = atomic_load_explicit(&counters.index[peer], memory_order_acquire);
    if (number) {
        slot = &counters.slots[number - 1];
    } else if (st_on) {
        if (st_head->slots == counters.allocated && grow() != 0) {
            st_counters_off("the counters could not grow (disk full?)");
        } else {
            slot = &counters.slots[st_head->slots];
            slot->peer = (uint32_t)peer;
            number = ++st_head->slots;
            atomic_store_explicit(&counters.index[peer], number, memory_order_release);
        }
    }
    pthread_mutex_unlock(&counters.lock);
    return slot;
}

static inline void add(uint64_t *where, uint64_t value)
{
    if (st_threads)
        __atomic_fetch_add(where, value, __ATOMIC_RELAXED);
    else
        *where += value;
}

static inline int bin_of(uint64_t bytes)
{
    int bin = bytes ? 64 - __builtin_clzll(bytes) : 0;
    return bin < ST_BINS ? bin : ST_BINS - 1;
}

/* Two epochs become one. Other threads may be counting: nothing gets lost, a little may land one epoch off. */
static void halve_epochs(struct st_slot *slot)
{
    for (int i = 0; i < ST_EPOCHS; i++) {
        uint64_t bytes = __atomic_exchange_n(&slot->epoch_bytes[i], 0, __ATOMIC_RELAXED);
        __atomic_fetch_add(&slot->epoch_bytes[i / 2], bytes, __ATOMIC_RELAXED);
    }
}

void st_counters_advance(uint64_t elapsed)
{
    pthread_mutex_lock(&counters.lock);
    while (elapsed / st_head->epoch_ns >= ST_EPOCHS) {
        for (uint32_t i = 0; i < st_head->slots; i++)
            halve_epochs(&counters.slots[i]);
        st_head->epoch_ns *= 2;
    }
    counters.epoch = (uint32_t)(elapsed / st_head->epoch_ns);
    st_head->epochs = counters.epoch + 1;
    pthread_mutex_unlock(&counters.lock);
}

void st_count(enum st_kind kind, int peer, uint64_t messages, uint64_t bytes)
{
    struct st_slot *slot;
    uint64_t *pair;
    uint32_t number;

    if ((unsigned)peer >= (unsigned)counters.size) {
        add(&st_head->foreign_messages, messages);
        add(&st_head->foreign_bytes, bytes);
        return;
    }
    number = atomic_load_explicit(&counters.index[peer], memory_order_acquire);
    slot = number ? &counters.slots[number - 1] : new_slot(peer);
    pair = &slot->p2p_messages + 2 * (int)kind;
    add(pair, messages);
    add(pair + 1, bytes);
    /* Where the library reports all messages, those of the program come a second time. */
    if (kind != ST_P2P || !(st_head->flags & ST_FLAG_MEASURED))
        add(&slot->epoch_bytes[counters.epoch], bytes);
    if (kind == ST_P2P && messages)
        add(&st_head->bins[bin_of(bytes / messages)], messages);
}
