/* The counters of one rank in memory and in files: docs/formats-trace.md describes every field. */
#ifndef ST_LAYOUT_H
#define ST_LAYOUT_H

#include <stdint.h>

#define ST_COUNTERS_MAGIC "STCOUNT\n"
#define ST_TRACE_MAGIC "STTRACE\n"
#define ST_VERSION 1
#define ST_BINS 48
#define ST_EPOCHS 6
#define ST_COUNTERS_SUFFIX ".counters"
#define ST_REASON_SUFFIX ".off"
#define ST_ENV_DIR "SLURM_TOPO_JOB_COUNTERS"
#define ST_ENV_MEASURE "SLURM_TOPO_JOB_MEASURE"

enum st_state { ST_STATE_NEW = 0, ST_STATE_RUNNING = 1, ST_STATE_FINALIZED = 2 };

/* What went from this rank to one partner; the in_ fields came from it (one-sided get). */
struct st_slot {
    uint32_t peer;
    uint32_t reserved;
    uint64_t p2p_messages, p2p_bytes;
    uint64_t coll_messages, coll_bytes;
    uint64_t out_messages, out_bytes;
    uint64_t in_messages, in_bytes;
    uint64_t epoch_bytes[ST_EPOCHS];
    uint64_t spare;
};

/* The head of a rank's counters, 2048 bytes; slots follow. Times are nanoseconds since the epoch (UTC). */
struct st_header {
    char magic[8];
    uint32_t version, header_bytes, slot_bytes, slots;
    int32_t rank, size;
    uint32_t pid, state;
    int32_t thread_level;
    uint32_t flags;
    uint64_t start_ns, end_ns;
    uint64_t wait_p2p_ticks, wait_coll_ticks;
    uint64_t ticks_start, ticks_last, ns_start, ns_last;
    uint64_t epoch_ns, epochs;
    uint64_t foreign_messages, foreign_bytes;
    uint64_t calls_p2p, calls_coll, calls_rma;
    uint64_t spare[7];
    uint64_t bins[ST_BINS];
    uint8_t cpus[256];
    char host[64], world[64], library[128], executable[256], script[256], reason[128];
    char pad[288];
};

/* The head of a trace file, 2048 bytes; records (header and slots of each rank) follow. */
struct st_trace_header {
    char magic[8];
    uint32_t version, header_bytes, records, nodes;
    uint64_t total_bytes, sum, weighted; /* of the words behind this head: sum of all, sum of the sums up to each */
    int64_t start_ns, end_ns;
    uint32_t skipped, flags;
    char job[32], step[32], node[256], keys[128], plan[1024], reason[128];
    char pad[376];
};

/* Set in the flags of a header. */
#define ST_FLAG_SPAWNED 1u
#define ST_FLAG_OFF 2u
#define ST_FLAG_MEASURED 4u /* the collective fields hold all messages that the library reported */

_Static_assert(sizeof(struct st_slot) == 128, "slots are 128 bytes");
_Static_assert(sizeof(struct st_header) == 2048, "rank headers are 2048 bytes");
_Static_assert(sizeof(struct st_trace_header) == 2048, "trace headers are 2048 bytes");

#endif
