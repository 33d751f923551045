#include "map.h"

#include <stdatomic.h>
#include <stdlib.h>

#define EMPTY 0u
#define TOMB 1u

struct entry {
    _Atomic uintptr_t key;
    _Atomic(void *) value;
};

struct st_table {
    size_t mask;
    struct entry entries[];
};

/* Handles may be 0 or 1 in some library; keys may not. */
static inline uintptr_t key_of(uintptr_t handle)
{
    return handle + 2;
}

static inline size_t hash(uintptr_t key)
{
    return (size_t)((key * 0x9E3779B97F4A7C15u) >> 20);
}

static struct entry *find(struct st_table *table, uintptr_t key)
{
    if (!table)
        return NULL;
    for (size_t i = hash(key);; i++) {
        struct entry *entry = &table->entries[i & table->mask];
        uintptr_t there = atomic_load_explicit(&entry->key, memory_order_acquire);
        if (there == key)
            return entry;
        if (there == EMPTY)
            return NULL;
    }
}

void *st_map_get(struct st_map *map, uintptr_t handle)
{
    struct entry *entry = find(atomic_load_explicit(&map->table, memory_order_acquire), key_of(handle));
    return entry ? atomic_load_explicit(&entry->value, memory_order_acquire) : NULL;
}

static void insert(struct st_table *table, uintptr_t key, void *value)
{
    size_t i = hash(key);

    while (atomic_load_explicit(&table->entries[i & table->mask].key, memory_order_relaxed) > TOMB)
        i++;
    /* A reader that sees the key sees its value. */
    atomic_store_explicit(&table->entries[i & table->mask].value, value, memory_order_relaxed);
    atomic_store_explicit(&table->entries[i & table->mask].key, key, memory_order_release);
}

/* Readers may still be in the old table: it is kept (all of them together are smaller than the new one). */
static int rebuild(struct st_map *map)
{
    struct st_table *old = atomic_load(&map->table), *new;
    size_t room = old ? old->mask + 1 : 64;

    if (map->live * 2 >= room)
        room *= 2;
    new = calloc(1, sizeof *new + room * sizeof(struct entry));
    if (!new)
        return -1;
    new->mask = room - 1;
    for (size_t i = 0; old && i <= old->mask; i++)
        if (atomic_load(&old->entries[i].key) > TOMB)
            insert(new, atomic_load(&old->entries[i].key), atomic_load(&old->entries[i].value));
    map->used = map->live;
    atomic_store_explicit(&map->table, new, memory_order_release);
    return 0;
}

int st_map_put(struct st_map *map, uintptr_t handle, void *value)
{
    struct st_table *table;
    struct entry *entry;
    int rv = -1;

    pthread_mutex_lock(&map->lock);
    table = atomic_load(&map->table);
    entry = find(table, key_of(handle));
    if (entry) {
        atomic_store_explicit(&entry->value, value, memory_order_release);
        rv = 0;
        goto out;
    }
    if ((!table || (map->used + 1) * 4 > (table->mask + 1) * 3) && rebuild(map) != 0)
        goto out;
    insert(atomic_load(&map->table), key_of(handle), value);
    map->live++;
    map->used++;
    rv = 0;
out:
    pthread_mutex_unlock(&map->lock);
    return rv;
}

void *st_map_take(struct st_map *map, uintptr_t handle)
{
    struct entry *entry;
    void *value = NULL;

    pthread_mutex_lock(&map->lock);
    entry = find(atomic_load(&map->table), key_of(handle));
    if (entry) {
        value = atomic_load(&entry->value);
        atomic_store_explicit(&entry->key, TOMB, memory_order_release);
        map->live--;
    }
    pthread_mutex_unlock(&map->lock);
    return value;
}
