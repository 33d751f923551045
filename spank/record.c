#include "record.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The longest value of a string, as it stands in the line. */
#define TEXT_MAX 240

/* Length of the UTF-8 sequence at `text`, 0 where there is none. */
static size_t sequence(const unsigned char *text)
{
	size_t len = text[0] >= 0xf0 && text[0] < 0xf5 ? 4 : text[0] >= 0xe0 ? 3 : text[0] >= 0xc2 ? 2 : 0;

	if (text[0] < 0xc2 || text[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return len;
}

/* Escapes `value`; what is no UTF-8 becomes "?". */
static void escape(const char *value, char *into, size_t size)
{
	const unsigned char *at = (const unsigned char *)value;
	size_t used = 0, len;

	while (*at && used + 7 < size) {
		if (*at == '"' || *at == '\\') {
			into[used++] = '\\';
			into[used++] = (char)*at++;
		} else if (*at < 0x20 || *at == 0x7f) {
			used += (size_t)snprintf(into + used, 7, "\\u%04x", *at++);
		} else if (*at < 0x80) {
			into[used++] = (char)*at++;
		} else if ((len = sequence(at))) {
			memcpy(into + used, at, len);
			used += len;
			at += len;
		} else {
			into[used++] = '?';
			at++;
		}
	}
	into[used] = '\0';
}

/* Two bytes stay free for the end of the line. */
static void add(struct st_record *record, const char *key, const char *value, const char *quote)
{
	size_t room = ST_RECORD_MAX - 2 - record->used;
	int n = snprintf(record->text + record->used, room, "%s\"%s\": %s%s%s", record->used > 1 ? ", " : "", key, quote,
			 value, quote);

	if (n > 0 && (size_t)n < room)
		record->used += (size_t)n;
}

void st_record_begin(struct st_record *record, const char *where)
{
	struct timespec now;
	char time[32];

	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(time, sizeof(time), "%lld.%03ld", (long long)now.tv_sec, now.tv_nsec / 1000000);
	record->text[0] = '{';
	record->used = 1;
	st_record_text(record, "format", "slurm-topo-record");
	st_record_count(record, "version", 1);
	add(record, "time", time, "");
	st_record_text(record, "where", where);
}

void st_record_text(struct st_record *record, const char *key, const char *value)
{
	char text[TEXT_MAX];

	if (!value)
		return;
	escape(value, text, sizeof(text));
	add(record, key, text, "\"");
}

void st_record_real(struct st_record *record, const char *key, double value)
{
	char text[40], *comma;

	if (!(value >= 0) || value > 1e300)
		return;
	snprintf(text, sizeof(text), "%.9g", value);
	/* The locale of the program that we are in may write a comma. */
	comma = strchr(text, ',');
	if (comma)
		*comma = '.';
	add(record, key, text, "");
}

void st_record_count(struct st_record *record, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	add(record, key, text, "");
}

size_t st_record_end(struct st_record *record)
{
	memcpy(record->text + record->used, "}\n", 3);
	return record->used + 2;
}
