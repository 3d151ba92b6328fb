#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "altstack.h"
#include "runtime/base/fail.h"

/* The handler's own frames take less than 8 KiB, and the kernel's up to 4 KiB (AVX-512), and as much again if
 * another signal interrupts the handler. A stack that the thread has already is used if it has
 * ALTSTACK_ENOUGH. */
#define ALTSTACK_ENOUGH ((size_t)32 << 10)
#define ALTSTACK_SIZE ((size_t)64 << 10)
/* The size of the guard below the alternate stack, a multiple of every page size. */
#define ALTSTACK_GUARD ((size_t)64 << 10)
/* How much of the alternate stack a signal uses: the kernel alone pushes up to 11 KiB (AMX). */
#define ALTSTACK_FIRST ((size_t)16 << 10)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Returns where the library notes, at the end of its own stack, the stack that the thread had before. */
static stack_t *before_of(char *lo)
{
    return (stack_t *)(void *)(lo + ALTSTACK_SIZE) - 1;
}

int cp__os_altstack_make(void **mapped, struct cp_error *err)
{
    stack_t old;
    stack_t stack = {.ss_size = ALTSTACK_SIZE - sizeof old};
    char *memory;

    *mapped = NULL;
    if (sigaltstack(NULL, &old) == 0 && (old.ss_flags & SS_DISABLE) == 0 && old.ss_size >= ALTSTACK_ENOUGH)
        return 0;
    memory = mmap(NULL, ALTSTACK_GUARD + ALTSTACK_SIZE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return cp__error(err, -ENOMEM, "There is no memory for an alternate signal stack (%zu bytes).",
                         ALTSTACK_SIZE);
    mprotect(memory, ALTSTACK_GUARD, PROT_NONE);
    stack.ss_sp = memory + ALTSTACK_GUARD;
    *before_of(memory + ALTSTACK_GUARD) = old;
    if (sigaltstack(&stack, NULL) < 0) {
        int result = -errno;

        munmap(memory, ALTSTACK_GUARD + ALTSTACK_SIZE);
        return cp__error(
            err, result,
            "sigaltstack refused an alternate signal stack: %s. Attach the thread while it runs on none.",
            strerror(-result));
    }
    *mapped = memory;
    return 0;
}

/* If pages are larger than the first part, whole pages are populated. Kernels before 5.14 refuse both. */
void cp__os_altstack_populate_from_handler(void *mapped)
{
    char *lo;

    if (mapped == NULL)
        return;
    lo = (char *)mapped + ALTSTACK_GUARD;
    if (syscall(SYS_madvise, lo + ALTSTACK_SIZE - ALTSTACK_FIRST, ALTSTACK_FIRST, MADV_POPULATE_WRITE) < 0)
        syscall(SYS_madvise, lo, ALTSTACK_SIZE, MADV_POPULATE_WRITE);
}

/* The kernel does not let go of a stack that the thread runs on, or if the stack that the thread had before
 * is too small for what the thread uses by now. The next signal may need the stack then, so it stays mapped.
 */
void cp__os_altstack_free(void *mapped)
{
    stack_t current;

    if (mapped == NULL)
        return;
    if (sigaltstack(NULL, &current) == 0 && current.ss_sp == (char *)mapped + ALTSTACK_GUARD &&
        sigaltstack(before_of(current.ss_sp), NULL) < 0)
        return;
    munmap(mapped, ALTSTACK_GUARD + ALTSTACK_SIZE);
}
