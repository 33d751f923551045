/* Memory in the order of a stack, and the end of a search. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <time.h>

#include "st_internal.h"

enum { BLOCK_BYTES = 1 << 20 };

struct st_block {
	st_block *below;
	size_t size;
	size_t used;
	_Alignas(16) unsigned char data[];
};

void *st_take(st_arena *arena, size_t count, size_t size)
{
	size_t bytes;
	st_block *block = arena->top;

	if (size && count > (SIZE_MAX / 2) / size)
		return NULL;
	bytes = (count * size + 15) & ~(size_t)15;
	if (!block || block->size - block->used < bytes) {
		size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
		block = malloc(sizeof(*block) + capacity);
		if (!block)
			return NULL;
		block->below = arena->top;
		block->size = capacity;
		block->used = 0;
		arena->top = block;
	}
	void *memory = block->data + block->used;
	block->used += bytes;
	return memory;
}

st_mark st_arena_mark(const st_arena *arena)
{
	st_mark mark = {arena->top, arena->top ? arena->top->used : 0};
	return mark;
}

void st_arena_release(st_arena *arena, st_mark mark)
{
	while (arena->top && arena->top != mark.block) {
		st_block *below = arena->top->below;
		/* The first block stays: small cuts come by the thousand. */
		if (!mark.block && !below) {
			arena->top->used = 0;
			return;
		}
		free(arena->top);
		arena->top = below;
	}
	if (arena->top)
		arena->top->used = mark.used;
}

void st_arena_free(st_arena *arena)
{
	while (arena->top) {
		st_block *below = arena->top->below;
		free(arena->top);
		arena->top = below;
	}
}

bool st_expired(const st_control *control)
{
	struct timespec now;

	if (!control)
		return false;
	if (control->stop)
		return true;
	if (control->deadline <= 0)
		return false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec >= control->deadline;
}

void st_shuffle(int32_t *order, int32_t n, st_random *random)
{
	for (int32_t i = 0; i < n; i++)
		order[i] = i;
	for (int32_t i = n - 1; i > 0; i--) {
		int32_t j = (int32_t)st_below(random, (uint32_t)i + 1), kept = order[i];
		order[i] = order[j];
		order[j] = kept;
	}
}
