/* Counters in a file: growth, threads, partners of other worlds, an end by lack of room. argv[1]: a directory. */
#include "counters.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define SIZE 3000

static void *worker(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100000; i++)
        st_count(i % 2 ? ST_P2P : ST_COLL, i % SIZE, 1, 10);
    return NULL;
}

int main(int argc, char **argv)
{
    struct rlimit limit = {65536, 65536};
    const struct st_slot *slots;
    pthread_t threads[4];
    uint64_t messages = 0, bytes = 0;

    assert(argc == 2);
    assert(st_counters_open("/nowhere", 0, 4) == -1 && !st_head);
    assert(st_counters_open(argv[1], 7, SIZE) == 0);
    slots = (const struct st_slot *)(st_head + 1);
    st_head->state = ST_STATE_RUNNING;
    st_on = st_threads = true;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, worker, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert(st_head->slots == SIZE);
    for (uint32_t i = 0; i < st_head->slots; i++) {
        messages += slots[i].p2p_messages + slots[i].coll_messages;
        bytes += slots[i].p2p_bytes + slots[i].coll_bytes;
    }
    assert(messages == 400000 && bytes == 4000000);
    st_count(ST_P2P, -1, 2, 20);
    st_count(ST_P2P, SIZE, 1, 10);
    assert(st_head->foreign_messages == 3 && st_head->foreign_bytes == 30);
    assert(st_head->bins[4] == 200000);

    /* A second world of the process: no room for all partners. */
    assert(st_counters_open(argv[1], 8, SIZE) == 0);
    setrlimit(RLIMIT_FSIZE, &limit);
    st_on = true;
    st_threads = false;
    for (int i = 0; i < SIZE; i++)
        st_count(ST_P2P, i, 1, 10);
    assert(!st_on && (st_head->flags & ST_FLAG_OFF) && strstr(st_head->reason, "grow"));
    assert(st_head->slots < SIZE && st_head->slots > 16);
    st_head->state = ST_STATE_RUNNING;
    puts("ok");
    return 0;
}
