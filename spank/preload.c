#include "preload.h"

#include <string.h>

static bool is_named(const char *item, size_t len, const char *name)
{
	size_t n = strlen(name);

	return len >= n && !strncmp(item + len - n, name, n) && (len == n || item[len - n - 1] == '/');
}

bool st_preload_drop(const char *list, const char *name, char *into, size_t size)
{
	size_t used = 0;

	into[0] = '\0';
	while (*list) {
		size_t len = strcspn(list, ": ");

		if (len && !is_named(list, len, name)) {
			if (used + (used > 0) + len + 1 > size)
				return false;
			if (used)
				into[used++] = ':';
			memcpy(into + used, list, len);
			used += len;
			into[used] = '\0';
		}
		list += len + (list[len] != '\0');
	}
	return true;
}
