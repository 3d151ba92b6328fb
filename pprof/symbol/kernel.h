/* Finds the kernel's functions by addresses. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_KERNEL_H
#define COUNTERPOINT_PPROF_SYMBOL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kernel has the upper half of the address space. On x86-64, so has [vsyscall], a page of the kernel
 * that /proc/self/maps lists among the mappings of the process. */
#define CP__KERNEL_START (UINT64_C(1) << 63)

/* Called if addresses[i] lies in the function "name". "module" is "[MODULE]", or "" for the kernel itself.
 * Both strings are valid only during the call. A negative result ends the search. */
typedef int cp__kernel_symbol_fn(void *context, size_t i, const char *name, const char *module);

/*
 * Looks up n ascending addresses in a file such as /proc/kallsyms, and calls fn() for each that is in a
 * function. Returns 0, -ENOMEM, or what fn() returned; or, if the file cannot be read, why; or -EPERM if the
 * file does not show addresses to this process. The memory that the search takes grows with n, not with the
 * file.
 */
int cp__kernel_symbolise(const char *kallsyms, const uint64_t *addresses, size_t n, cp__kernel_symbol_fn *fn,
                         void *context);
/* Writes a sentence for such a result: why kernel frames have no names, and what to do. */
void cp__kernel_explain(int result, char *text, size_t size);

#endif
