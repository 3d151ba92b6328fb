/* From the kernel's addresses to its functions. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_KERNEL_H
#define COUNTERPOINT_PPROF_SYMBOL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kernel has the upper half of the address space. (So has one page that looks like the program's, the
 * [vsyscall] of x86-64, which the process's own mappings tell.) */
#define CP__KERNEL_START (UINT64_C(1) << 63)

/* addresses[i] lies in that function; module: "[MODULE]", or "" for the kernel itself. Both are valid during
 * the call only. A negative result ends the search. */
typedef int cp__kernel_symbol_fn(void *context, size_t i, const char *name, const char *module);

/*
 * Looks n addresses up, which ascend, in a file such as /proc/kallsyms, and calls fn for each that is in a
 * function. -ENOMEM, what fn returned, or 0; why the file cannot be read; -EPERM where it does not show
 * addresses to this process. The memory that it takes grows with n and not with the file.
 */
int cp__kernel_symbolise(const char *kallsyms, const uint64_t *addresses, size_t n, cp__kernel_symbol_fn *fn,
                         void *context);
/* Puts such a result in words: why kernel frames have no names, and what to do. */
void cp__kernel_explain(int result, char *text, size_t size);

#endif
