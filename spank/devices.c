#include "devices.h"

#include <string.h>

#define DEVICES_MAX 256

struct words {
	const char *at[DEVICES_MAX];
	size_t len[DEVICES_MAX];
	size_t count;
};

static int split(const char *text, struct words *words)
{
	words->count = 0;
	while (*text) {
		size_t len = strcspn(text, ",");

		if (!len || words->count == DEVICES_MAX)
			return -1;
		words->at[words->count] = text;
		words->len[words->count++] = len;
		text += len + (text[len] == ',');
	}
	return words->count ? 0 : -1;
}

/* The number that Slurm has for a device. */
static int number_of(const struct words *words, size_t i, unsigned *number)
{
	unsigned value = 0;

	for (size_t c = 0; c < words->len[i]; c++) {
		if (words->at[i][c] < '0' || words->at[i][c] > '9' || value >= ST_SET_BITS)
			return -1;
		value = value * 10 + (unsigned)(words->at[i][c] - '0');
	}
	*number = value;
	return value < ST_SET_BITS ? 0 : -1;
}

static int append(const struct words *words, size_t i, char *list, size_t size, size_t *used)
{
	if (*used + words->len[i] + 2 > size)
		return -1;
	if (*used)
		list[(*used)++] = ',';
	memcpy(list + *used, words->at[i], words->len[i]);
	*used += words->len[i];
	list[*used] = '\0';
	return 0;
}

int st_devices_order(const char *visible, const char *known, const struct st_span *gpus, bool isolate, char *list,
		     size_t size)
{
	static struct words seen, named;
	struct st_set own, found = { { 0 } };
	bool first[DEVICES_MAX] = { false };
	size_t used = 0;

	if (!gpus->text || st_set_parse(gpus->text, gpus->len, &own) < 0)
		return -1;
	if (split(visible, &seen) < 0 || split(known ? known : visible, &named) < 0 || seen.count != named.count)
		return -1;
	for (size_t i = 0; i < seen.count; i++) {
		unsigned number;

		if (number_of(&named, i, &number) < 0)
			return -1;
		first[i] = st_set_has(&own, number);
		if (first[i])
			st_set_add(&found, number);
	}
	/* A device of the plan that this step does not have: the plan is for another one. */
	if (st_set_count(&found) != st_set_count(&own))
		return -1;
	list[0] = '\0';
	for (int pass = 1; pass >= (isolate ? 1 : 0); pass--)
		for (size_t i = 0; i < seen.count; i++)
			if (first[i] == (pass == 1) && append(&seen, i, list, size, &used) < 0)
				return -1;
	return 0;
}
