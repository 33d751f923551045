#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char *const arm_names[] = { "off", "observe", "advise", "enforce" };

int st_why_set(struct st_why *why, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why->text, sizeof(why->text), format, arguments);
	va_end(arguments);
	return -1;
}

int st_arm_parse(const char *text)
{
	for (int arm = ST_OFF; text && arm <= ST_ENFORCE; arm++)
		if (!strcmp(text, arm_names[arm]))
			return arm;
	return -1;
}

const char *st_arm_name(int arm)
{
	return arm >= ST_OFF && arm <= ST_ENFORCE ? arm_names[arm] : "unknown";
}

static const char *const memory_names[] = { "plan", "preferred", "bind", "interleave", "none" };

int st_memory_parse(const char *text)
{
	for (int memory = ST_MEMORY_PLAN; memory <= ST_MEMORY_NONE; memory++)
		if (!strcmp(text, memory_names[memory]))
			return memory;
	return -1;
}

const char *st_memory_name(enum st_memory memory)
{
	return memory_names[memory];
}

int st_number(const char *text, uint64_t max, uint64_t *value)
{
	uint64_t number = 0;

	if (!text || !*text)
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		if (number > (UINT64_MAX - 9) / 10)
			return -1;
		number = number * 10 + (uint64_t)(*text - '0');
	}
	if (number > max)
		return -1;
	*value = number;
	return 0;
}

/* Digits at `*at`, of a number below ST_SET_BITS; moves `*at` behind them. */
static int scan_index(const char **at, const char *end, unsigned *number)
{
	const char *start = *at;
	unsigned value = 0;

	while (*at < end && **at >= '0' && **at <= '9') {
		value = value * 10 + (unsigned)(**at - '0');
		if (value >= ST_SET_BITS)
			return -1;
		(*at)++;
	}
	*number = value;
	return *at > start ? 0 : -1;
}

/* One range of a list; moves `*at` behind it and the comma. 1, 0 for the last one, -1 where it is none. */
static int scan_range(const char **at, const char *end, unsigned *low, unsigned *high)
{
	if (scan_index(at, end, low) < 0)
		return -1;
	*high = *low;
	if (*at < end && **at == '-') {
		(*at)++;
		if (scan_index(at, end, high) < 0 || *high < *low)
			return -1;
	}
	if (*at == end)
		return 0;
	return *(*at)++ == ',' ? 1 : -1;
}

bool st_set_valid(const char *text, size_t len)
{
	const char *at = text;
	unsigned low, high;
	int rc;

	while ((rc = scan_range(&at, text + len, &low, &high)) > 0)
		;
	return rc == 0;
}

int st_set_parse(const char *text, size_t len, struct st_set *set)
{
	const char *at = text;
	unsigned low, high;
	int rc;

	memset(set, 0, sizeof(*set));
	do {
		rc = scan_range(&at, text + len, &low, &high);
		for (unsigned i = low; rc >= 0 && i <= high; i++)
			st_set_add(set, i);
	} while (rc > 0);
	return rc;
}

void st_set_format(const struct st_set *set, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned low = 0; low < ST_SET_BITS; low++) {
		unsigned high = low;
		int n;

		if (!st_set_has(set, low))
			continue;
		while (high + 1 < ST_SET_BITS && st_set_has(set, high + 1))
			high++;
		if (high > low)
			n = snprintf(text + used, size - used, "%s%u-%u", used ? "," : "", low, high);
		else
			n = snprintf(text + used, size - used, "%s%u", used ? "," : "", low);
		if (n < 0 || (size_t)n >= size - used) {
			text[used] = '\0';
			return;
		}
		used += (size_t)n;
		low = high;
	}
}

void st_set_add(struct st_set *set, unsigned number)
{
	if (number < ST_SET_BITS)
		set->word[number / 64] |= UINT64_C(1) << (number % 64);
}

bool st_set_has(const struct st_set *set, unsigned number)
{
	return number < ST_SET_BITS && (set->word[number / 64] >> (number % 64) & 1);
}

bool st_set_empty(const struct st_set *set)
{
	for (size_t i = 0; i < ST_SET_BITS / 64; i++)
		if (set->word[i])
			return false;
	return true;
}

bool st_set_meets(const struct st_set *a, const struct st_set *b)
{
	for (size_t i = 0; i < ST_SET_BITS / 64; i++)
		if (a->word[i] & b->word[i])
			return true;
	return false;
}

void st_set_cut(struct st_set *set, const struct st_set *by)
{
	for (size_t i = 0; i < ST_SET_BITS / 64; i++)
		set->word[i] &= by->word[i];
}

void st_set_join(struct st_set *set, const struct st_set *with)
{
	for (size_t i = 0; i < ST_SET_BITS / 64; i++)
		set->word[i] |= with->word[i];
}

unsigned st_set_count(const struct st_set *set)
{
	unsigned count = 0;

	for (size_t i = 0; i < ST_SET_BITS / 64; i++)
		count += (unsigned)__builtin_popcountll(set->word[i]);
	return count;
}

double st_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
