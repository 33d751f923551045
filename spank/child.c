#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Standard error of the child, its end kept. */
struct tail {
	char text[2048];
	size_t used;
};

/* What a job's environment holds for its program (LD_PRELOAD, PYTHONPATH, ...) is not meant for ours. */
static bool is_kept(const char *variable)
{
	static const char *const kept[] = { "SLURM", "PATH=", "HOME=", "USER=", "LOGNAME=", "LANG=", "LC_", "TZ=", "TMPDIR=" };

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (!strncmp(variable, kept[i], strlen(kept[i])))
			return true;
	return false;
}

static bool is_replaced(const char *variable, char *const *extra)
{
	size_t name = strcspn(variable, "=") + 1;

	for (size_t i = 0; extra[i]; i++)
		if (!strncmp(variable, extra[i], name))
			return true;
	return false;
}

static char **small_environment(char *const *extra)
{
	/* A thread a core for the algebra library would cost more than the whole search. */
	static char one_openmp[] = "OMP_NUM_THREADS=1", one_blas[] = "OPENBLAS_NUM_THREADS=1";
	size_t count = 0, used = 0;
	char **environment;

	while (environ[count])
		count++;
	for (size_t i = 0; extra[i]; i++)
		count++;
	environment = malloc((count + 3) * sizeof(*environment));
	if (!environment)
		return NULL;
	for (size_t i = 0; extra[i]; i++)
		environment[used++] = extra[i];
	for (size_t i = 0; environ[i]; i++)
		if (is_kept(environ[i]) && !is_replaced(environ[i], extra))
			environment[used++] = environ[i];
	environment[used++] = one_openmp;
	environment[used++] = one_blas;
	environment[used] = NULL;
	return environment;
}

static void close_from(int first)
{
#ifdef SYS_close_range
	if (!syscall(SYS_close_range, (unsigned)first, ~0u, 0))
		return;
#endif
	for (int fd = first; fd < 4096; fd++)
		close(fd);
}

/* Runs between fork and exec: system calls, but for the text of an error. */
static _Noreturn void become(char *const *argv, char **environment, int output, int errors, pid_t parent)
{
	int null = open("/dev/null", O_RDWR);
	const char *text;
	sigset_t none;

	setpgid(0, 0);
	/* An srun that is killed must not leave the search behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	for (int number = 1; number < 32; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(output < 0 ? null : output, 1) < 0 || dup2(errors, 2) < 0)
		_exit(127);
	close_from(3);
	execve(argv[0], argv, environment);
	/* The interpreter of a script may be missing, or not be for this user. */
	text = strerror(errno);
	if (write(2, "cannot be executed: ", 20) == 20 && write(2, text, strlen(text)) < 0)
		_exit(126);
	_exit(127);
}

static void keep_tail(struct tail *tail, const char *data, size_t size)
{
	if (tail->used + size > sizeof(tail->text)) {
		size_t keep = sizeof(tail->text) / 2;

		if (tail->used > keep) {
			memmove(tail->text, tail->text + tail->used - keep, keep);
			tail->used = keep;
		}
	}
	memcpy(tail->text + tail->used, data, size);
	tail->used += size;
}

/* Reads what there is. false at the end of the pipe. */
static bool drain(int fd, struct tail *tail)
{
	char data[512];
	ssize_t n;

	while ((n = read(fd, data, sizeof(data))) > 0)
		keep_tail(tail, data, (size_t)n);
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* The last line, without what a terminal would take for a command. */
static const char *last_line(struct tail *tail)
{
	char *line;

	while (tail->used && tail->text[tail->used - 1] <= ' ')
		tail->used--;
	tail->text[tail->used < sizeof(tail->text) ? tail->used : sizeof(tail->text) - 1] = '\0';
	line = strrchr(tail->text, '\n');
	line = line ? line + 1 : tail->text;
	for (char *c = line; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return line;
}

/* Waits for the child and keeps its standard error. false at the deadline. */
static bool attend(pid_t pid, int errors, double deadline, int *status, struct tail *tail)
{
	bool open = true;

	for (;;) {
		struct pollfd waiting = { .fd = open ? errors : -1, .events = POLLIN };
		double left = deadline - st_clock();
		pid_t gone;

		poll(&waiting, 1, left > 0.002 ? 2 : 0);
		if (open)
			open = drain(errors, tail);
		gone = waitpid(pid, status, WNOHANG);
		/* Where SIGCHLD is ignored the status is lost: the plan will tell. */
		if (gone < 0 && errno == ECHILD)
			*status = 0;
		if (gone == pid || (gone < 0 && errno == ECHILD)) {
			drain(errors, tail);
			return true;
		}
		if (left <= 0)
			return false;
	}
}

static enum st_child_end judge(int status, struct tail *tail, struct st_why *why)
{
	const char *line = last_line(tail);

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return ST_CHILD_DONE;
	if (WIFEXITED(status))
		st_why_set(why, "ended with exit code %d%s%.140s", WEXITSTATUS(status), *line ? ": " : "", line);
	else
		st_why_set(why, "was killed by signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	return ST_CHILD_FAILED;
}

static enum st_child_end start(char *const *argv, char **environment, int output, int *ends, int deadline_ms,
			       struct st_why *why)
{
	struct tail tail = { .used = 0 };
	pid_t parent = getpid(), pid;
	int status = 0;

	pid = fork();
	if (pid == 0)
		become(argv, environment, output, ends[1], parent);
	close(ends[1]);
	ends[1] = -1;
	if (pid < 0) {
		st_why_set(why, "%.120s cannot be started: %s", argv[0], strerror(errno));
		return ST_CHILD_FAILED;
	}
	setpgid(pid, pid);
	if (attend(pid, ends[0], st_clock() + deadline_ms / 1000.0, &status, &tail))
		return judge(status, &tail, why);
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	/* A child that hangs in the kernel (a dead file server) cannot even be killed: it is left behind. */
	attend(pid, ends[0], st_clock() + 0.1, &status, &tail);
	st_why_set(why, "took more than %d ms", deadline_ms);
	return ST_CHILD_LATE;
}

static enum st_child_end run(char *const *argv, char *const *extra, int output, int deadline_ms, struct st_why *why)
{
	enum st_child_end end = ST_CHILD_FAILED;
	char **environment = small_environment(extra);
	int ends[2] = { -1, -1 };

	if (access(argv[0], X_OK) < 0)
		st_why_set(why, "%.140s: %s", argv[0], strerror(errno));
	else if (!environment || pipe2(ends, O_CLOEXEC) < 0)
		st_why_set(why, "%.120s cannot be started: %s", argv[0], strerror(errno));
	else if (fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
		end = start(argv, environment, output, ends, deadline_ms, why);
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
	free(environment);
	return end;
}

enum st_child_end st_child_run(char *const *argv, char *const *extra, int deadline_ms, struct st_why *why)
{
	return run(argv, extra, -1, deadline_ms, why);
}

enum st_child_end st_child_read(char *const *argv, int deadline_ms, size_t max, char **text, struct st_why *why)
{
	char *const none[] = { NULL };
	/* Not a pipe: nobody has to empty it, whatever the program writes. */
	int output = memfd_create("slurm-topo-answer", MFD_CLOEXEC);
	enum st_child_end end = ST_CHILD_FAILED;
	ssize_t n = -1;

	*text = output < 0 ? NULL : malloc(max + 1);
	if (!*text)
		st_why_set(why, "%.120s cannot be started: no memory", argv[0]);
	else
		end = run(argv, none, output, deadline_ms, why);
	if (end == ST_CHILD_DONE && (n = pread(output, *text, max, 0)) < 0) {
		st_why_set(why, "%.120s: its answer cannot be read", argv[0]);
		end = ST_CHILD_FAILED;
	}
	if (output >= 0)
		close(output);
	if (n < 0) {
		free(*text);
		*text = NULL;
	} else {
		(*text)[n] = '\0';
	}
	return end;
}
