/* The counter file of this process: opened once, grown in place, never a cause of failure. */
#ifndef ST_COUNTERS_H
#define ST_COUNTERS_H

#include "layout.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum st_kind { ST_P2P, ST_COLL, ST_OUT, ST_IN };

/* True while counting; every hook asks this first. */
extern bool st_on;
/* True under MPI_THREAD_MULTIPLE: additions are atomic then. */
extern bool st_threads;
extern struct st_header *st_head;

/* Open the counters of rank `rank` of `size` in `dir`; -1 (and a reason file where possible) on any fault. */
int st_counters_open(const char *dir, int rank, int size);

/* Stop counting; the file stays for the collector. */
void st_counters_off(const char *reason);

/* Leave a note for the collector about a rank that has no counters. */
void st_counters_note(const char *dir, const char *reason);

/* Count messages and bytes to (ST_IN: from) a world rank; ranks of other worlds are negative. */
void st_count(enum st_kind kind, int peer, uint64_t messages, uint64_t bytes);

/* Time goes on: `elapsed` nanoseconds since counting began. Epochs are doubled in width when there are too many. */
void st_counters_advance(uint64_t elapsed);

/* Nanoseconds since the epoch. */
uint64_t st_now(void);

#endif
