/* What the files of Open MPI's model share. */
#ifndef ST_MODEL_OPENMPI_H
#define ST_MODEL_OPENMPI_H

#include "model_parts.h"
#include "model_tables.h"

static inline uint32_t choose_from(const struct rule *rules, int n, int size, uint64_t bytes)
{
    for (int i = 0; i < n; i++)
        if ((rules[i].below_size == ANY || (uint32_t)size < rules[i].below_size) &&
            (rules[i].below_bytes == ANY || bytes < rules[i].below_bytes))
            return rules[i].algorithm;
    return 0;
}
#define choose(rules, size, bytes) choose_from(rules, sizeof(rules) / sizeof *(rules), size, bytes)

void st_tuned_bcast(const struct st_model *m, uint64_t count, uint64_t element, int root);
void st_tuned_gather(const struct st_model *m, uint64_t bytes, int root);
void st_tuned_gatherv(const struct st_model *m, uint64_t bytes, int root);
void st_tuned_scatter(const struct st_model *m, uint64_t bytes, int root);
void st_tuned_scatterv(const struct st_model *m, struct st_counts counts, uint64_t element, int root);
void st_tuned_reduce(const struct st_model *m, uint64_t count, uint64_t element, int root);
void st_reduce_linear(const struct st_model *m, uint64_t bytes, int root);
void st_reduce_halving(const struct st_model *m, uint64_t count, uint64_t element, int root);
void st_allreduce_halving(const struct st_model *m, uint64_t count, uint64_t element);
void st_allreduce_doubling(const struct st_model *m, uint64_t bytes);
void st_linear_scan(const struct st_model *m, uint64_t count, uint64_t element);
void st_tuned_reduce_scatter(const struct st_model *m, struct st_counts counts, uint64_t element);
void st_tuned_reduce_scatter_block(const struct st_model *m, uint64_t count, uint64_t element);

#endif
