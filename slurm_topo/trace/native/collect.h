/* Makes the counters of a node one file. Plain C and system calls: the plugin calls it in a forked child. */
#ifndef ST_COLLECT_H
#define ST_COLLECT_H

#include <stddef.h>
#include <stdint.h>

struct st_collect_meta {
    const char *job, *step, *node; /* NULL: not known */
    const char *keys;              /* fingerprint keys, joined by ':' */
    const char *plan;              /* path of the plan of this step */
    uint32_t nodes;                /* nodes of the step, 0: not known */
    int64_t start_ns, end_ns;      /* of the step, nanoseconds since the epoch; end 0: now */
};

/*
 * Write the counters in `dir` to `out_path` (mode 0600, under a temporary name first) and remove them with `dir`.
 *
 * Returns the number of ranks written; 0 where there were none (nothing is written then); -1 on an error, with one
 * line in `reason` (which may also tell why ranks are missing after a success). `dir` and what is in it must belong to
 * the effective user. On an error the counters stay.
 */
int st_collect(const char *dir, const char *out_path, const struct st_collect_meta *meta, char *reason, size_t size);

#endif
