/* A placement that is being changed, and what a swap would change in its cost. */
#ifndef ST_SWAP_H
#define ST_SWAP_H

#include "st_internal.h"

typedef struct {
	const st_instance *instance;
	int32_t *slot_of;     /* vertex -> slot */
	int32_t *vertex_at;   /* slot -> vertex */
	uint32_t *code_of;    /* vertex -> code of its slot */
} st_layout;

int st_layout_open(st_layout *layout, const st_instance *instance, const int32_t *core_of);
void st_layout_store(const st_layout *layout, int32_t *core_of);
void st_layout_close(st_layout *layout);

static inline void st_swap(st_layout *layout, int32_t u, int32_t v)
{
	int32_t s = layout->slot_of[u], t = layout->slot_of[v];
	const uint32_t *code = layout->instance->tree.code;

	layout->slot_of[u] = t;
	layout->slot_of[v] = s;
	layout->vertex_at[t] = u;
	layout->vertex_at[s] = v;
	layout->code_of[u] = code[t];
	layout->code_of[v] = code[s];
}

/*
 * What moving u alone from code `from` to code `to` changes; `tie` gets the cost of its edge to the vertex at `to`,
 * which is not moved away here.
 */
static inline __attribute__((always_inline)) double st_move_change(const st_layout *layout, int32_t u, uint32_t from,
								   uint32_t to, double *tie, const bool two)
{
	const st_graph *graph = &layout->instance->graph;
	const double *byte = layout->instance->tree.byte_by_bit, *message = layout->instance->tree.message_by_bit;
	double change = 0;

	for (int64_t i = graph->row[u]; i < graph->row[u + 1]; i++) {
		uint32_t code = layout->code_of[graph->to[i]];
		int there = st_bit(code ^ to), here = st_bit(code ^ from);
		double part = (double)graph->weight[i] * (byte[there] - byte[here]);
		if (two)
			part += (double)graph->message[i] * (message[there] - message[here]);
		change += part;
		if (there == 0)
			*tie -= part;
	}
	return change;
}

/* Change of the cost when u and v change places. The edge between them keeps its length. */
static inline __attribute__((always_inline)) double st_swap_change(const st_layout *layout, int32_t u, int32_t v,
								   const bool two)
{
	uint32_t s = layout->code_of[u], t = layout->code_of[v];
	double tie = 0;
	double change = st_move_change(layout, u, s, t, &tie, two);

	change += st_move_change(layout, v, t, s, &tie, two);
	return change + tie;
}

#endif
