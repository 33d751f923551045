/* A pointer in an integer-keyed table that many threads read without a lock and few write. */
#ifndef ST_MAP_H
#define ST_MAP_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct st_table;

struct st_map {
    _Atomic(struct st_table *) table;
    size_t live, used; /* entries, and entries with the removed ones */
    pthread_mutex_t lock;
};

#define ST_MAP_EMPTY {.lock = PTHREAD_MUTEX_INITIALIZER}

/* NULL where the key is not there. */
void *st_map_get(struct st_map *map, uintptr_t key);

/* -1 where there is no memory. */
int st_map_put(struct st_map *map, uintptr_t key, void *value);

/* Remove and return; NULL where the key is not there. */
void *st_map_take(struct st_map *map, uintptr_t key);

#endif
