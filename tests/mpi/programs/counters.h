/* A traced program looks into its own counters, and into those of Open MPI's monitoring component. */
#ifndef COUNTERS_H
#define COUNTERS_H

#include "../../../slurm_topo/trace/native/layout.h"

#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Messages and bytes by world rank. */
struct traffic {
    unsigned long long messages[4096], bytes[4096];
};

static const struct st_header *own_counters(void)
{
    const char *dir = getenv(ST_ENV_DIR);
    char path[4096];
    int rank, fd;
    void *map;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s/%d.%d.0%s", dir ? dir : "", rank, getpid(), ST_COUNTERS_SUFFIX);
    fd = open(path, O_RDONLY);
    if (fd < 0)
        return NULL;
    map = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

/* Everything but one-sided traffic. */
static void read_own(const struct st_header *head, struct traffic *t)
{
    const struct st_slot *slots = (const struct st_slot *)(head + 1);

    memset(t, 0, sizeof *t);
    for (unsigned i = 0; i < head->slots; i++) {
        t->messages[slots[i].peer] = slots[i].p2p_messages + slots[i].coll_messages;
        t->bytes[slots[i].peer] = slots[i].p2p_bytes + slots[i].coll_bytes;
    }
}

/*
 * Open MPI's monitoring component (--mca pml_monitoring_enable 1) reports each message to this function of its own
 * library. Defined in the program (linked with -rdynamic) it comes first: what the library really sends is seen here.
 */
static struct traffic seen_by_monitoring;
static int monitoring_calls;

void mca_common_monitoring_record_pml(int world_rank, size_t bytes, int tag)
{
    (void)tag;
    monitoring_calls++;
    seen_by_monitoring.messages[world_rank]++;
    seen_by_monitoring.bytes[world_rank] += bytes;
}

static void read_monitoring(struct traffic *t)
{
    *t = seen_by_monitoring;
}

#endif
