/* What every part of the plugin shares: arms, reasons, sets of CPUs. */
#ifndef ST_BASE_H
#define ST_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What may be done to a job, from nothing to everything; the order counts. */
enum st_arm { ST_OFF, ST_OBSERVE, ST_ADVISE, ST_ENFORCE };

/* The memory policy of a rank; the first: as the plan says. */
enum st_memory { ST_MEMORY_PLAN, ST_MEMORY_PREFERRED, ST_MEMORY_BIND, ST_MEMORY_INTERLEAVE, ST_MEMORY_NONE };

/* Why something was not done: one line for a person and for the record. */
struct st_why {
	char text[256];
};

#define ST_SET_BITS 4096

/* A set of small numbers: OS indices of CPUs or NUMA nodes. */
struct st_set {
	uint64_t word[ST_SET_BITS / 64];
};

/* Returns -1, so that a failing function can end with `return st_why_set(...)`. */
int st_why_set(struct st_why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The arm of that name, -1 where there is none. */
int st_arm_parse(const char *text);
const char *st_arm_name(int arm);

/* The memory policy of that name, -1 where there is none. */
int st_memory_parse(const char *text);
const char *st_memory_name(enum st_memory memory);

/* A decimal number of at most `max`, the whole text. 0, or -1 where it is no such number. */
int st_number(const char *text, uint64_t max, uint64_t *value);

/* A list such as "0-3,8" of length `len`. 0, or -1 where it is no list of numbers below ST_SET_BITS. */
int st_set_parse(const char *text, size_t len, struct st_set *set);
/* Whether it is such a list: ten times as fast, for readers of whole plans. */
bool st_set_valid(const char *text, size_t len);
/* The list of the set, cut to `size` bytes. */
void st_set_format(const struct st_set *set, char *text, size_t size);
void st_set_add(struct st_set *set, unsigned number);
bool st_set_has(const struct st_set *set, unsigned number);
bool st_set_empty(const struct st_set *set);
bool st_set_meets(const struct st_set *a, const struct st_set *b);
void st_set_cut(struct st_set *set, const struct st_set *by);
void st_set_join(struct st_set *set, const struct st_set *with);
unsigned st_set_count(const struct st_set *set);

/* Seconds of a monotonic clock. */
double st_clock(void);

#endif
