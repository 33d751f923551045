#define _GNU_SOURCE
#include "collect.h"
#include "layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_RANKS 65536
#define MAX_RANK_BYTES (1ull << 32)

struct collection {
    int dir, out;
    struct st_trace_header head;
    char *reason;
    size_t size;
};

static int fail(struct collection *c, const char *what)
{
    snprintf(c->reason, c->size, "%s: %s", what, strerror(errno));
    return -1;
}

/* Every length written here is a multiple of eight bytes. */
static void add_to_sums(struct st_trace_header *head, const unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        head->sum += word;
        head->weighted += head->sum;
    }
}

static int write_all(struct collection *c, const void *data, size_t length)
{
    const char *at = data;

    while (length > 0) {
        ssize_t n = write(c->out, at, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(c, "the trace cannot be written");
        at += n;
        length -= (size_t)n;
    }
    return 0;
}

static int append(struct collection *c, const void *data, size_t length)
{
    add_to_sums(&c->head, data, length);
    c->head.total_bytes += length;
    return write_all(c, data, length);
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcmp(name + n - m, suffix) == 0;
}

/* Counters as the tracer writes them, in a file of this user. */
static bool valid(const struct st_header *head, const struct stat *status)
{
    uint64_t bytes = sizeof *head + (uint64_t)head->slots * sizeof(struct st_slot);

    return S_ISREG(status->st_mode) && status->st_uid == geteuid() && memcmp(head->magic, ST_COUNTERS_MAGIC, 8) == 0 &&
           head->version == ST_VERSION && head->header_bytes == sizeof *head &&
           head->slot_bytes == sizeof(struct st_slot) && head->state != ST_STATE_NEW && head->size > 0 &&
           head->rank >= 0 && head->rank < head->size && head->slots <= (uint32_t)head->size &&
           bytes <= MAX_RANK_BYTES && (uint64_t)status->st_size >= bytes;
}

static ssize_t read_full(int fd, void *data, size_t length)
{
    size_t done = 0;

    while (done < length) {
        ssize_t n = read(fd, (char *)data + done, length - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int copy_slots(struct collection *c, int fd, uint32_t slots)
{
    static struct st_slot buffer[512];
    const uint32_t most = sizeof buffer / sizeof *buffer;

    while (slots > 0) {
        uint32_t n = slots < most ? slots : most;
        size_t length = n * sizeof *buffer;
        if (read_full(fd, buffer, length) != (ssize_t)length) {
            /* The size was checked: the program is still at it, or the disk has gone. */
            return fail(c, "counters became shorter while they were read");
        }
        if (append(c, buffer, length) != 0)
            return -1;
        slots -= n;
    }
    return 0;
}

static int add_rank(struct collection *c, const char *name)
{
    struct st_header head;
    struct stat status;
    int rv = -1, fd = openat(c->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &status) != 0 || read_full(fd, &head, sizeof head) != sizeof head ||
        !valid(&head, &status) || c->head.records >= MAX_RANKS) {
        c->head.skipped++;
        rv = 0;
        goto out;
    }
    if (append(c, &head, sizeof head) != 0 || copy_slots(c, fd, head.slots) != 0)
        goto out;
    c->head.records++;
    rv = 0;
out:
    if (fd >= 0)
        close(fd);
    return rv;
}

/* Why a rank has no counters, in its own words; the first such word is kept. */
static void note_reason(struct collection *c, const char *name)
{
    char text[sizeof c->head.reason];
    struct stat status;
    ssize_t n;
    int fd = openat(c->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return;
    c->head.skipped++;
    if (!c->head.reason[0] && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
        (n = read(fd, text, sizeof text - 1)) > 0) {
        text[n] = '\0';
        for (char *at = text; *at; at++)
            if ((unsigned char)*at < ' ')
                *at = ' ';
        memcpy(c->head.reason, text, sizeof text);
    }
    close(fd);
}

/* Calls are bounded by the entries of the directory; `remove` deletes what the tracer made there. */
static int walk(struct collection *c, bool remove)
{
    struct dirent *entry;
    DIR *listing;
    int rv = 0, again = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    listing = again >= 0 ? fdopendir(again) : NULL;
    if (!listing) {
        if (again >= 0)
            close(again);
        return fail(c, "the counters cannot be listed");
    }
    while (rv == 0 && (entry = readdir(listing))) {
        bool counters = ends_with(entry->d_name, ST_COUNTERS_SUFFIX);
        if (!counters && !ends_with(entry->d_name, ST_REASON_SUFFIX))
            continue;
        if (remove)
            unlinkat(c->dir, entry->d_name, 0);
        else if (counters)
            rv = add_rank(c, entry->d_name);
        else
            note_reason(c, entry->d_name);
    }
    closedir(listing);
    return rv;
}

static void copy(char *out, size_t size, const char *text)
{
    if (text)
        snprintf(out, size, "%s", text);
}

static void begin(struct collection *c, const struct st_collect_meta *meta)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    memcpy(c->head.magic, ST_TRACE_MAGIC, sizeof c->head.magic);
    c->head.version = ST_VERSION;
    c->head.header_bytes = sizeof c->head;
    c->head.total_bytes = sizeof c->head;
    c->head.nodes = meta->nodes;
    c->head.start_ns = meta->start_ns;
    c->head.end_ns = meta->end_ns ? meta->end_ns : (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    copy(c->head.job, sizeof c->head.job, meta->job);
    copy(c->head.step, sizeof c->head.step, meta->step);
    copy(c->head.node, sizeof c->head.node, meta->node);
    copy(c->head.keys, sizeof c->head.keys, meta->keys);
    copy(c->head.plan, sizeof c->head.plan, meta->plan);
}

static int open_directory(struct collection *c, const char *dir)
{
    struct stat status;

    c->dir = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (c->dir < 0 || fstat(c->dir, &status) != 0)
        return fail(c, "the directory of the counters cannot be opened");
    if (status.st_uid != geteuid()) {
        errno = EPERM;
        return fail(c, "the directory of the counters belongs to somebody else");
    }
    return 0;
}

int st_collect(const char *dir, const char *out_path, const struct st_collect_meta *meta, char *reason, size_t size)
{
    struct collection c = {.dir = -1, .out = -1, .reason = reason, .size = size};
    char temporary[4096];
    bool made = false;
    int rv = -1;

    reason[0] = '\0';
    if (snprintf(temporary, sizeof temporary, "%s.%ld.tmp", out_path, (long)getpid()) >= (int)sizeof temporary) {
        errno = ENAMETOOLONG;
        fail(&c, "the trace cannot be written");
        goto out;
    }
    if (open_directory(&c, dir) != 0)
        goto out;
    c.out = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (c.out < 0) {
        fail(&c, "the trace cannot be created");
        goto out;
    }
    made = true;
    begin(&c, meta);
    if (write_all(&c, &c.head, sizeof c.head) != 0 || walk(&c, false) != 0)
        goto out;
    if (c.head.records > 0) {
        if (lseek(c.out, 0, SEEK_SET) != 0 || write_all(&c, &c.head, sizeof c.head) != 0 || fsync(c.out) != 0 ||
            rename(temporary, out_path) != 0) {
            if (!reason[0])
                fail(&c, "the trace cannot be finished");
            goto out;
        }
        made = false;
    }
    if (c.head.reason[0])
        snprintf(reason, size, "%s", c.head.reason);
    else if (c.head.skipped)
        snprintf(reason, size, "%u files of counters were not complete", c.head.skipped);
    walk(&c, true);
    rmdir(dir);
    rv = (int)c.head.records;
out:
    if (made)
        unlink(temporary);
    if (c.out >= 0)
        close(c.out);
    if (c.dir >= 0)
        close(c.dir);
    return rv;
}
