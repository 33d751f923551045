/* The table against a plain array, at random; readers beside a writer. */
#include "map.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define KEYS 5000

static struct st_map map = ST_MAP_EMPTY;
static atomic_int done;

static void *reader(void *unused)
{
    (void)unused;
    while (!atomic_load(&done))
        for (uintptr_t key = 0; key < 100; key++) {
            void *value = st_map_get(&map, 1000000 + key);
            assert(!value || value == (void *)(key + 1));
        }
    return NULL;
}

int main(void)
{
    static void *expected[KEYS];
    pthread_t threads[2];

    srand(1);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, reader, NULL);
    for (uintptr_t key = 0; key < 100; key++)
        assert(st_map_put(&map, 1000000 + key, (void *)(key + 1)) == 0);
    for (int i = 0; i < 300000; i++) {
        uintptr_t key = (uintptr_t)(rand() % KEYS);
        if (rand() % 2) {
            void *value = (void *)(uintptr_t)(rand() + 1);
            assert(st_map_put(&map, key, value) == 0);
            expected[key] = value;
        } else {
            assert(st_map_take(&map, key) == expected[key]);
            expected[key] = NULL;
        }
        assert(st_map_get(&map, key) == expected[key]);
    }
    for (uintptr_t key = 0; key < KEYS; key++)
        assert(st_map_get(&map, key) == expected[key]);
    atomic_store(&done, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    puts("ok");
    return 0;
}
