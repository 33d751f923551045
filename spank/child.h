/* Starting a program that may take only so long. */
#ifndef ST_CHILD_H
#define ST_CHILD_H

#include "base.h"

enum st_child_end { ST_CHILD_DONE, ST_CHILD_FAILED, ST_CHILD_LATE };

/*
 * Runs argv[0] (an absolute path) in a process group of its own with a small environment and the
 * variables `extra` (NULL at the end), nothing on its
 * standard input and output, and kills the whole group at the deadline. On failure `why` holds what became of it
 * and the last line that it wrote on standard error.
 */
enum st_child_end st_child_run(char *const *argv, char *const *extra, int deadline_ms, struct st_why *why);

/* The same, and what it wrote on standard output, at most `max` bytes and a byte 0 behind them; free() the text. */
enum st_child_end st_child_read(char *const *argv, int deadline_ms, size_t max, char **text, struct st_why *why);

#endif
