/* A shared library of ours before ld.so is told to preload it. */
#ifndef ST_LIBRARY_H
#define ST_LIBRARY_H

#include "base.h"

/*
 * 0, or -1 and why: it is missing, or no whole shared library for programs like this one. ld.so would complain in every
 * program about what is no library, and every program would crash on one that an upgrade or a full disk has cut short.
 */
int st_library_check(const char *path, struct st_why *why);

#endif
