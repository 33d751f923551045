#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The descriptor, or -1 where what it names is not this user's alone to write. */
static int check_folder(int fd, const char *name, struct st_why *why)
{
	struct stat stat;

	if (fstat(fd, &stat) < 0)
		st_why_set(why, "%s: %s", name, strerror(errno));
	else if (stat.st_uid != geteuid())
		st_why_set(why, "%s: belongs to another user", name);
	else if (stat.st_mode & (S_IWGRP | S_IWOTH))
		st_why_set(why, "%s: others may write there", name);
	else
		return fd;
	close(fd);
	return -1;
}

int st_folder_open(int parent, const char *name, bool create, struct st_why *why)
{
	int fd;

	if (create && mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
		return st_why_set(why, "%s: cannot be made (%s)", name, strerror(errno));
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		/* A symbolic link gives ELOOP or ENOTDIR, by kernel. */
		return st_why_set(why, "%s: cannot be opened (%s)", name, strerror(errno));
	return check_folder(fd, name, why);
}

int st_spool_open(const char *spool, const char *folder, bool create, struct st_why *why)
{
	char name[24];
	int top, user, fd = -1;
	struct st_why inner;

	top = open(spool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0)
		return st_why_set(why, "spool %s: cannot be opened (%s)", spool, strerror(errno));
	snprintf(name, sizeof(name), "%lu", (unsigned long)geteuid());
	user = st_folder_open(top, name, create, &inner);
	if (user >= 0)
		fd = st_folder_open(user, folder, create, &inner);
	if (fd < 0)
		st_why_set(why, "spool %s: %.100s", spool, inner.text);
	if (user >= 0)
		close(user);
	close(top);
	return fd;
}

static int check_file(int fd, const char *name, size_t max, struct stat *stat, struct st_why *why)
{
	if (fstat(fd, stat) < 0)
		return st_why_set(why, "%s: %s", name, strerror(errno));
	if (!S_ISREG(stat->st_mode))
		return st_why_set(why, "%s: is no regular file", name);
	if (stat->st_uid != geteuid())
		return st_why_set(why, "%s: belongs to another user", name);
	if (stat->st_mode & (S_IWGRP | S_IWOTH))
		return st_why_set(why, "%s: others may write it", name);
	if (stat->st_size < 0 || (uint64_t)stat->st_size > max)
		return st_why_set(why, "%s: is larger than %zu bytes", name, max);
	return 0;
}

char *st_file_read(int folder, const char *name, size_t max, size_t *size, struct st_why *why)
{
	struct stat stat;
	char *data = NULL;
	size_t used = 0;
	ssize_t n = 0;
	/* O_NONBLOCK: a FIFO that somebody put there must not hold us. */
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	why->text[0] = '\0';
	if (fd < 0) {
		if (errno != ENOENT)
			st_why_set(why, "%s: cannot be opened (%s)", name, strerror(errno));
		return NULL;
	}
	if (check_file(fd, name, max, &stat, why) < 0)
		goto out;
	data = malloc((size_t)stat.st_size + 1);
	if (!data) {
		st_why_set(why, "%s: no memory", name);
		goto out;
	}
	while (used < (size_t)stat.st_size && (n = read(fd, data + used, (size_t)stat.st_size - used)) > 0)
		used += (size_t)n;
	if (n < 0) {
		st_why_set(why, "%s: cannot be read (%s)", name, strerror(errno));
		free(data);
		data = NULL;
		goto out;
	}
	data[used] = '\0';
	*size = used;
out:
	close(fd);
	return data;
}

/* A user's limit on file sizes must give EFBIG here, not the signal that ends srun. */
static void hold_size_signal(sigset_t *before)
{
	sigset_t size;

	sigemptyset(&size);
	sigaddset(&size, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &size, before);
}

static void release_size_signal(const sigset_t *before)
{
	const struct timespec now = { 0 };
	sigset_t size;

	sigemptyset(&size);
	sigaddset(&size, SIGXFSZ);
	if (!sigismember(before, SIGXFSZ)) {
		while (sigtimedwait(&size, NULL, &now) == SIGXFSZ)
			;
		pthread_sigmask(SIG_SETMASK, before, NULL);
	}
}

static int write_all(int fd, const char *data, size_t size)
{
	sigset_t before;
	size_t done = 0;
	ssize_t n = 0;

	hold_size_signal(&before);
	while (done < size) {
		n = write(fd, data + done, size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (n == 0 && done < size)
		errno = ENOSPC;
	n = errno;
	release_size_signal(&before);
	errno = (int)n;
	return done == size ? 0 : -1;
}

int st_file_write(int folder, const char *name, const char *data, size_t size, struct st_why *why)
{
	char temporary[256];
	int fd, rv = -1;

	snprintf(temporary, sizeof(temporary), ".%.200s.%ld", name, (long)getpid());
	unlinkat(folder, temporary, 0);
	fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return st_why_set(why, "%s: cannot be written (%s)", name, strerror(errno));
	if (write_all(fd, data, size) < 0)
		st_why_set(why, "%s: cannot be written (%s)", name, strerror(errno));
	else
		rv = 0;
	/* A full disk may show only here (NFS). */
	if (close(fd) < 0 && rv == 0)
		rv = st_why_set(why, "%s: cannot be written (%s)", name, strerror(errno));
	if (rv == 0 && renameat(folder, temporary, folder, name) < 0)
		rv = st_why_set(why, "%s: cannot be renamed (%s)", name, strerror(errno));
	if (rv < 0)
		unlinkat(folder, temporary, 0);
	return rv;
}

int st_memory_file(const char *data, size_t size, char *path, size_t room, struct st_why *why)
{
	int fd = (int)syscall(SYS_memfd_create, "slurm-topo", 1u /* MFD_CLOEXEC */);

	if (fd < 0)
		return st_why_set(why, "file in memory: %s", strerror(errno));
	if (write_all(fd, data, size) < 0) {
		st_why_set(why, "file in memory: %s", strerror(errno));
		close(fd);
		return -1;
	}
	snprintf(path, room, "/proc/self/fd/%d", fd);
	return 0;
}

int st_file_append(int folder, const char *name, const char *data, size_t size, struct st_why *why)
{
	struct stat stat;
	int rv = -1;
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
			0600);

	if (fd < 0)
		return st_why_set(why, "%s: cannot be opened (%s)", name, strerror(errno));
	/* A record file that grew to 64 MiB has no reader. */
	if (check_file(fd, name, 64u << 20, &stat, why) < 0)
		goto out;
	if (write_all(fd, data, size) < 0) {
		st_why_set(why, "%s: cannot be written (%s)", name, strerror(errno));
		goto out;
	}
	rv = 0;
out:
	close(fd);
	return rv;
}
