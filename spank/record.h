/* A decision as one JSON object on one line of at most 1000 bytes. */
#ifndef ST_RECORD_H
#define ST_RECORD_H

#include "base.h"

#define ST_RECORD_MAX 1000

struct st_record {
	char text[ST_RECORD_MAX + 1];
	size_t used;
};

/* Begins with format, version, time and `where`. */
void st_record_begin(struct st_record *record, const char *where);
/* A key whose value would not fit any more is left out; a long string is cut. NULL adds nothing. */
void st_record_text(struct st_record *record, const char *key, const char *value);
/* Not a number, or below 0: nothing is added. */
void st_record_real(struct st_record *record, const char *key, double value);
void st_record_count(struct st_record *record, const char *key, uint64_t value);
/* Adds the closing bracket and the newline; the size of the line. */
size_t st_record_end(struct st_record *record);

#endif
