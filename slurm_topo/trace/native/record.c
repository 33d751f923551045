#include "backend.h"

#include <stdlib.h>

struct st_map st_requests = ST_MAP_EMPTY;

struct st_record *st_record_new(enum st_kind kind)
{
    struct st_record *record = calloc(1, sizeof *record);
    if (record)
        record->kind = kind;
    return record;
}

int st_record_add(struct st_record *record, int peer, uint64_t messages, uint64_t bytes)
{
    if (record->count == record->room) {
        int room = record->room ? 2 * record->room : 4;
        struct st_send *sends = realloc(record->sends, (size_t)room * sizeof *sends);
        if (!sends)
            return -1;
        record->sends = sends;
        record->room = room;
    }
    record->sends[record->count++] = (struct st_send){peer, messages, bytes};
    return 0;
}

void st_record_free(struct st_record *record)
{
    if (record)
        free(record->sends);
    free(record);
}

static void start(MPI_Request request)
{
    const struct st_record *record = st_map_get(&st_requests, (uintptr_t)request);

    for (int i = 0; record && i < record->count; i++)
        st_count(record->kind, record->sends[i].peer, record->sends[i].messages, record->sends[i].bytes);
}

void st_start(int count, MPI_Request *requests)
{
    for (int i = 0; i < count; i++)
        start(requests[i]);
}

void st_start_f(int count, MPI_Fint *requests)
{
    for (int i = 0; i < count; i++)
        start(st_f_request(requests[i]));
}

void st_request_free(MPI_Request *request)
{
    st_record_free(st_map_take(&st_requests, (uintptr_t)*request));
}

void st_request_free_f(MPI_Fint *request)
{
    st_record_free(st_map_take(&st_requests, (uintptr_t)st_f_request(*request)));
}
