/* Placement in slots, with both directions of the map. */
#include <stdlib.h>
#include <string.h>

#include "swap.h"

int st_layout_open(st_layout *layout, const st_instance *instance, const int32_t *core_of)
{
	size_t n = (size_t)instance->graph.vertices;

	layout->instance = instance;
	layout->slot_of = malloc(n * sizeof(int32_t));
	layout->vertex_at = malloc(n * sizeof(int32_t));
	layout->code_of = malloc(n * sizeof(uint32_t));
	if (!layout->slot_of || !layout->vertex_at || !layout->code_of) {
		st_layout_close(layout);
		return -1;
	}
	for (size_t v = 0; v < n; v++) {
		int32_t slot = instance->tree.slot_of_core[core_of[v]];
		layout->slot_of[v] = slot;
		layout->vertex_at[slot] = (int32_t)v;
		layout->code_of[v] = instance->tree.code[slot];
	}
	return 0;
}

void st_layout_store(const st_layout *layout, int32_t *core_of)
{
	for (int32_t v = 0; v < layout->instance->graph.vertices; v++)
		core_of[v] = layout->instance->tree.core_of_slot[layout->slot_of[v]];
}

void st_layout_close(st_layout *layout)
{
	free(layout->slot_of);
	free(layout->vertex_at);
	free(layout->code_of);
	memset(layout, 0, sizeof(*layout));
}
