/*
 * A program may ask for MPI-4's functions by weak symbols and do without where the library lacks them (mpi4py does). A
 * stub exported here would promise what the library cannot keep. So, once the program has been loaded, these symbols
 * of ours become indirect functions: whoever is loaded later gets the stub where an MPI library in the process has the
 * function, and nothing otherwise. (From the start they cannot be: the dynamic linker complains about indirect
 * functions of a library that it relocates after the one that refers to them.)
 */
#define _GNU_SOURCE
#include "dispatch_optional.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#define RESOLVER_OFFSET 32

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

struct tables {
    ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *gnu_hash;
    const uint32_t *hash;
};

static const void *address(uintptr_t base, ElfW(Addr) value)
{
    /* glibc has added the base already; others have not. */
    return (const void *)(value < base ? base + value : value);
}

static void read_dynamic(struct tables *t, uintptr_t base, const ElfW(Dyn) * entry)
{
    memset(t, 0, sizeof *t);
    for (; entry->d_tag != DT_NULL; entry++) {
        const void *where = address(base, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB)
            t->symbols = (ElfW(Sym) *)where;
        else if (entry->d_tag == DT_STRTAB)
            t->names = where;
        else if (entry->d_tag == DT_GNU_HASH)
            t->gnu_hash = where;
        else if (entry->d_tag == DT_HASH)
            t->hash = where;
    }
}

static bool defined(const struct tables *t, uint32_t i, const char *name)
{
    const ElfW(Sym) *symbol = &t->symbols[i];
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value && strcmp(t->names + symbol->st_name, name) == 0;
}

static bool in_gnu_hash(const struct tables *t, const char *name)
{
    uint32_t buckets = t->gnu_hash[0], first = t->gnu_hash[1], words = t->gnu_hash[2], key = 5381, i;
    const uint32_t *bucket = t->gnu_hash + 4 + words * (sizeof(ElfW(Addr)) / 4), *chain = bucket + buckets;

    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        key = key * 33 + *at;
    i = buckets ? bucket[key % buckets] : 0;
    if (i < first)
        return false;
    for (;; i++) {
        uint32_t there = chain[i - first];
        if ((there | 1) == (key | 1) && defined(t, i, name))
            return true;
        if (there & 1)
            return false;
    }
}

static bool in_hash(const struct tables *t, const char *name)
{
    uint32_t key = 0, buckets = t->hash[0];

    for (const unsigned char *at = (const unsigned char *)name; *at; at++) {
        uint32_t high;
        key = (key << 4) + *at;
        high = key & 0xf0000000;
        key = (key ^ (high >> 24)) & ~high;
    }
    for (uint32_t i = buckets ? t->hash[2 + key % buckets] : 0; i; i = t->hash[2 + buckets + i])
        if (defined(t, i, name))
            return true;
    return false;
}

bool st_is_mpi_library(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return (strcasestr(name, "mpi") || strstr(name, "mca_common_monitoring")) && !strstr(name, "slurm_topo");
}

static int look_into(struct dl_phdr_info *info, size_t size, void *name)
{
    struct tables t;

    (void)size;
    if (!info->dlpi_name || !st_is_mpi_library(info->dlpi_name))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        read_dynamic(&t, info->dlpi_addr, (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
        if (!t.symbols || !t.names)
            return 0;
        return t.gnu_hash ? in_gnu_hash(&t, name) : t.hash ? in_hash(&t, name) : 0;
    }
    return 0;
}

bool st_is_loaded(const char *name)
{
    return dl_iterate_phdr(look_into, (void *)name) != 0;
}

/* Stubs of optional symbols lie between these two. */
extern const char st_optional_begin[] __attribute__((visibility("hidden")));
extern const char st_optional_end[] __attribute__((visibility("hidden")));

static void make_indirect(ElfW(Sym) * symbols, uint32_t count, uintptr_t base)
{
    for (uint32_t i = 0; i < count; i++) {
        uintptr_t at = base + symbols[i].st_value;
        if (symbols[i].st_shndx == SHN_UNDEF || at < (uintptr_t)st_optional_begin || at >= (uintptr_t)st_optional_end)
            continue;
        symbols[i].st_info = ELF64_ST_INFO(ELF64_ST_BIND(symbols[i].st_info), STT_GNU_IFUNC);
        symbols[i].st_value += RESOLVER_OFFSET;
    }
}

/* Runs when all that was linked with the program is in place, before its main. */
__attribute__((constructor)) static void program_is_loaded(void)
{
    uintptr_t base = (uintptr_t)__ehdr_start, page = (uintptr_t)sysconf(_SC_PAGESIZE), from, to;
    struct tables t;
    uint32_t count;

    read_dynamic(&t, base, _DYNAMIC);
    if (!t.symbols || !t.hash)
        return;
    count = t.hash[1];
    from = (uintptr_t)t.symbols & ~(page - 1);
    to = ((uintptr_t)(t.symbols + count) + page - 1) & ~(page - 1);
    /* Where that is forbidden the symbols stay as they are. */
    if (mprotect((void *)from, to - from, PROT_READ | PROT_WRITE) != 0)
        return;
    make_indirect(t.symbols, count, base);
    mprotect((void *)from, to - from, PROT_READ);
}
