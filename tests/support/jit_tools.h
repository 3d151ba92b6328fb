/* Writes the files by which just-in-time compilers name code. */
#ifndef COUNTERPOINT_TESTS_JIT_TOOLS_H
#define COUNTERPOINT_TESTS_JIT_TOOLS_H

#include <elf.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

static inline void remove_file(void *path)
{
    unlink(path);
}

/* Returns the path of perf's map of this process. A map that is left there is removed after the test. */
static inline const char *jit_map_path(void)
{
    static char path[64];

    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    cp_t_cleanup(cp_t_self(), remove_file, path);
    return path;
}

/* Code that a program makes, which calls f(ns). */
typedef void made_code(void (*f)(long), long ns);

#if defined(__x86_64__)
/* push %rbp; mov %rsp,%rbp; mov %rdi,%rax; mov %rsi,%rdi; call *%rax; pop %rbp; ret */
static const unsigned char code_bytes[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
                                           0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
#elif defined(__aarch64__)
/* stp x29,x30,[sp,#-16]!; mov x29,sp; mov x2,x0; mov x0,x1; blr x2; ldp x29,x30,[sp],#16; ret */
static const uint32_t code_bytes[] = {0xa9bf7bfd, 0x910003fd, 0xaa0003e2, 0xaa0103e0,
                                      0xd63f0040, 0xa8c17bfd, 0xd65f03c0};
#else
#error "There is no made code for this processor."
#endif

/* Makes the code, in memory of no file. */
static inline made_code *make_code(void)
{
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(page != MAP_FAILED);
    memcpy(page, code_bytes, sizeof code_bytes);
    __builtin___clear_cache(page, page + sizeof code_bytes);
    CHECK_EQ(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    return (made_code *)(uintptr_t)page;
}

/* Writes a map that names the code. */
static inline void write_jit_map(made_code *code, const char *name)
{
    FILE *file = fopen(jit_map_path(), "we");

    CHECK(file != NULL);
    fprintf(file, "%" PRIxPTR " %zx %s\n", (uintptr_t)code, sizeof code_bytes, name);
    CHECK_EQ(fclose(file), 0);
}

static inline void put32(FILE *file, uint32_t word)
{
    CHECK_EQ(fwrite(&word, sizeof word, 1, file), 1);
}

static inline void put64(FILE *file, uint64_t word)
{
    CHECK_EQ(fwrite(&word, sizeof word, 1, file), 1);
}

static inline void put_header(FILE *file, uint32_t unused, uint64_t flags)
{
    put32(file, 0x4A695444);
    put32(file, 1);
    put32(file, 40);
    put32(file, EM_X86_64);
    put32(file, unused);
    put32(file, (uint32_t)getpid());
    put64(file, 0);
    put64(file, flags);
}

static inline void put_dump_header(FILE *file, uint64_t flags)
{
    put_header(file, 0, flags);
}

static inline void put_record(FILE *file, uint32_t type, size_t size, uint64_t stamp)
{
    put32(file, type);
    put32(file, (uint32_t)(16 + size));
    put64(file, stamp);
}

/* The code was made there. The code itself is "size" bytes behind the name. */
static inline void put_load(FILE *file, uint64_t stamp, uint64_t address, uint64_t size, uint64_t index,
                            const char *name)
{
    put_record(file, 0, 40 + strlen(name) + 1 + size, stamp);
    put32(file, (uint32_t)getpid());
    put32(file, (uint32_t)getpid());
    put64(file, address);
    put64(file, address);
    put64(file, size);
    put64(file, index);
    fwrite(name, strlen(name) + 1, 1, file);
    for (uint64_t i = 0; i < size; i++)
        putc(0x90, file);
}

/* The code was moved. */
static inline void put_move(FILE *file, uint64_t stamp, uint64_t from, uint64_t to, uint64_t size,
                            uint64_t index)
{
    put_record(file, 1, 48, stamp);
    put32(file, (uint32_t)getpid());
    put32(file, (uint32_t)getpid());
    put64(file, to);
    put64(file, from);
    put64(file, to);
    put64(file, size);
    put64(file, index);
}

/* Two lines of the code at an address: the first line from the beginning on, the second from offset 8 on. */
static inline void put_lines(FILE *file, uint64_t stamp, uint64_t address, const char *first,
                             const char *second)
{
    put_record(file, 2, 16 + 2 * 16 + strlen(first) + 1 + strlen(second) + 1, stamp);
    put64(file, address);
    put64(file, 2);
    put64(file, address);
    put32(file, 11);
    put32(file, 0);
    fwrite(first, strlen(first) + 1, 1, file);
    put64(file, address + 8);
    put32(file, 22);
    put32(file, 0);
    fwrite(second, strlen(second) + 1, 1, file);
}

#endif
