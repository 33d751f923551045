#include "fake_spank.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

struct fake fake;
static int handle;

static void refuse(const char *function, const char *reason)
{
	fprintf(stderr, "fake spank: %s: %s\n", function, reason);
	abort();
}

static uint32_t number(const char *name, uint32_t missing)
{
	return getenv(name) ? (uint32_t)strtoul(getenv(name), NULL, 10) : missing;
}

void fake_load(const char *phase)
{
	size_t used = 0;

	fake.phase = phase;
	fake.job = number("FAKE_JOB", 77);
	fake.step = number("FAKE_STEP", 0);
	fake.rank = number("FAKE_RANK", 0);
	fake.total = number("FAKE_TOTAL", 2);
	fake.uid = number("FAKE_UID", geteuid());
	fake.gid = number("FAKE_GID", getegid());
	for (size_t i = 0; environ[i] && used < 255; i++)
		if (strncmp(environ[i], "FAKE_", 5))
			fake.environment[used++] = strdup(environ[i]);
		/* They would act on this program itself. */
		else if (!strncmp(environ[i], "FAKE_LD_PRELOAD=", 16) || !strncmp(environ[i], "FAKE_ASAN_OPTIONS=", 18))
			fake.environment[used++] = strdup(environ[i] + 5);
}

void fake_print(void)
{
	for (size_t i = 0; fake.environment[i]; i++) {
		printf("env %s\n", fake.environment[i]);
		free(fake.environment[i]);
	}
}

static int find(const char *name)
{
	size_t len = strlen(name);

	for (int i = 0; fake.environment[i]; i++)
		if (!strncmp(fake.environment[i], name, len) && fake.environment[i][len] == '=')
			return i;
	return -1;
}

static void check(spank_t spank, const char *function, const char *phase)
{
	if ((void *)spank != (void *)&handle)
		refuse(function, "not the handle that was given");
	if (phase && strcmp(phase, fake.phase))
		refuse(function, "not allowed in this phase");
}

spank_context_t spank_context(void)
{
	return fake.context;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
	check(spank, "spank_option_register", "init");
	if (!option->name || !option->usage || !option->arginfo || strlen(option->name) > SPANK_OPTION_MAXLEN)
		refuse("spank_option_register", "an incomplete option");
	/* Slurm copies it: the caller's may be gone when it is used. */
	fake.option = malloc(sizeof(*option));
	*fake.option = *option;
	return ESPANK_SUCCESS;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
	va_list arguments;
	spank_err_t rc = ESPANK_SUCCESS;

	check(spank, "spank_get_item", NULL);
	if (fake.context != S_CTX_REMOTE)
		refuse("spank_get_item", "not in slurmstepd");
	va_start(arguments, item);
	switch (item) {
	case S_JOB_ID:
		*va_arg(arguments, uint32_t *) = fake.job;
		break;
	case S_JOB_STEPID:
		*va_arg(arguments, uint32_t *) = fake.step;
		break;
	case S_JOB_UID:
		*va_arg(arguments, uid_t *) = fake.uid;
		break;
	case S_JOB_GID:
		*va_arg(arguments, gid_t *) = fake.gid;
		break;
	case S_JOB_NNODES:
		*va_arg(arguments, uint32_t *) = 2;
		break;
	case S_JOB_TOTAL_TASK_COUNT:
		*va_arg(arguments, uint32_t *) = fake.total;
		break;
	case S_JOB_SUPPLEMENTARY_GIDS:
		*va_arg(arguments, gid_t **) = &fake.gid;
		*va_arg(arguments, int *) = 1;
		break;
	case S_TASK_GLOBAL_ID:
		if (strcmp(fake.phase, "task_init"))
			rc = ESPANK_NOT_TASK;
		else
			*va_arg(arguments, uint32_t *) = fake.rank;
		break;
	default:
		refuse("spank_get_item", "an item that the fake does not know");
	}
	va_end(arguments);
	return rc;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *value, int size)
{
	int at = find(name);

	check(spank, "spank_getenv", NULL);
	if (fake.context != S_CTX_REMOTE)
		return ESPANK_NOT_REMOTE;
	if (at < 0)
		return ESPANK_ENV_NOEXIST;
	if (snprintf(value, (size_t)size, "%s", fake.environment[at] + strlen(name) + 1) >= size)
		return ESPANK_NOSPACE;
	return ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
	int at = find(name);

	check(spank, "spank_unsetenv", "task_init");
	if (at < 0)
		return ESPANK_SUCCESS;
	free(fake.environment[at]);
	for (; fake.environment[at]; at++)
		fake.environment[at] = fake.environment[at + 1];
	return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite)
{
	size_t size = strlen(name) + strlen(value) + 2;
	int at = find(name);

	check(spank, "spank_setenv", "task_init");
	if (at >= 0 && !overwrite)
		return ESPANK_ENV_EXISTS;
	spank_unsetenv(spank, name);
	for (at = 0; fake.environment[at]; at++)
		;
	if (at >= 255)
		refuse("spank_setenv", "the fake is full");
	fake.environment[at] = malloc(size);
	snprintf(fake.environment[at], size, "%s=%s", name, value);
	return ESPANK_SUCCESS;
}

static void say(const char *level, const char *format, va_list arguments)
{
	fprintf(stderr, "%s: ", level);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
}

#define LOG(name, level)                                    \
	void name(const char *format, ...)                  \
	{                                                   \
		va_list arguments;                          \
		va_start(arguments, format);                \
		say(level, format, arguments);              \
		va_end(arguments);                          \
	}

LOG(slurm_info, "info")
LOG(slurm_error, "error")
LOG(slurm_verbose, "verbose")

spank_t fake_handle(void);
spank_t fake_handle(void)
{
	return (spank_t)(void *)&handle;
}
