/* A clock that jumps: preloaded into one process, whose time of day is ten years ahead or behind, in turns of three looks. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

/* What it starts (sacct, scontrol) has the right time: their clocks are not ours to answer for. */
__attribute__((constructor)) static void alone(void)
{
	unsetenv("LD_PRELOAD");
}

static time_t jump(void)
{
	static unsigned looks;
	const time_t years = 10L * 365 * 86400;

	return looks++ / 3 % 2 ? -years : years;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	int rc;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	rc = real(id, now);
	if (rc == 0 && id == CLOCK_REALTIME)
		now->tv_sec += jump();
	return rc;
}

int gettimeofday(struct timeval *now, void *zone)
{
	struct timespec precise;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec precise;

	clock_gettime(CLOCK_REALTIME, &precise);
	if (out)
		*out = precise.tv_sec;
	return precise.tv_sec;
}
