/* The user's folder in the spool: opened so that nobody else's file is ever followed, read or written. */
#ifndef ST_SPOOL_H
#define ST_SPOOL_H

#include <sys/types.h>

#include "base.h"

/*
 * Opens <spool>/<uid>/<folder> of the user that this process is. With `create` what is missing is made (mode 0700).
 * A descriptor, or -1 and why: missing, a symbolic link, somebody else's, writable by others.
 */
int st_spool_open(const char *spool, const char *folder, bool create, struct st_why *why);

/* Opens a folder `name` below `parent` by the same rules, mode 0700 where it is made. */
int st_folder_open(int parent, const char *name, bool create, struct st_why *why);

/*
 * The bytes of a regular file of this user that nobody else can write, at most `max`, a byte 0 behind them.
 * NULL and why; where the file is missing `why` is empty. free() the result.
 */
char *st_file_read(int folder, const char *name, size_t max, size_t *size, struct st_why *why);

/* Writes under another name and renames. 0, or -1 and why; then nothing is left behind. */
int st_file_write(int folder, const char *name, const char *data, size_t size, struct st_why *why);

/*
 * A file in memory that this process can open by `path` (of at least 32 bytes) as long as it lives: nobody can take it
 * away between our writing and another's reading. 0, or -1 and why.
 */
int st_memory_file(const char *data, size_t size, char *path, size_t room, struct st_why *why);

/* Adds a line in one write. 0, or -1 and why. */
int st_file_append(int folder, const char *name, const char *data, size_t size, struct st_why *why);

#endif
