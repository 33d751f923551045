#include "library.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The linker puts our own header there: what we are, the other must be. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static bool is_kin(const ElfW(Ehdr) *head)
{
	return !memcmp(head->e_ident, __ehdr_start.e_ident, EI_VERSION) && head->e_machine == __ehdr_start.e_machine &&
	       head->e_type == ET_DYN && head->e_phentsize == sizeof(ElfW(Phdr));
}

/* Everything that the headers name lies inside the file. */
static bool is_whole(int fd, const ElfW(Ehdr) *head, uint64_t size)
{
	if (head->e_shoff + (uint64_t)head->e_shnum * head->e_shentsize > size)
		return false;
	for (unsigned i = 0; i < head->e_phnum; i++) {
		ElfW(Phdr) part;

		if (pread(fd, &part, sizeof(part), (off_t)(head->e_phoff + i * sizeof(part))) != sizeof(part))
			return false;
		if (part.p_type == PT_LOAD && part.p_offset + part.p_filesz > size)
			return false;
	}
	return head->e_phnum > 0;
}

int st_library_check(const char *path, struct st_why *why)
{
	/* Of a FIFO in its place nobody waits for the other end. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ElfW(Ehdr) head;
	struct stat stat;
	bool sound;

	if (fd < 0)
		return st_why_set(why, "tracer: %.120s cannot be read (%s)", path, strerror(errno));
	sound = fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
		is_kin(&head) && is_whole(fd, &head, (uint64_t)stat.st_size);
	close(fd);
	return sound ? 0 : st_why_set(why, "tracer: %.120s is no whole shared library of this machine", path);
}
