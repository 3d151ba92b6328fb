/*
 * The C library's own functions of the names that the preloaded library takes the place of. The linker turns
 * calls of those names in the whole library, the core included, into calls of these (--wrap in the Makefile),
 * so that only the program's calls come to the functions of threads.c, exec.c, signals.c and descriptors.c.
 */
#ifndef COUNTERPOINT_PRELOAD_REAL_H
#define COUNTERPOINT_PRELOAD_REAL_H

#include <stddef.h>

/* Returns the next function of that name after this library's. The dynamic linker is asked once for each
 * name: the first call is made by the constructor, because a handler of the program's may make a later one.
 * If this C library has no such function, the result is one that fails with ENOSYS. */
void *cp__real_from_handler(void **known, const char *name);

/* Asks for all names. */
void cp__real_prepare(void);

/* Calls the next function of that name: REAL(execve)(path, argv, envp). */
#define REAL(name) ((__typeof__(&name))cp__real_from_handler(&cp__real_functions[CP__REAL_##name], #name))

#define CP__REAL_NAMES(x)                                                                                    \
    x(pthread_create) x(thrd_create) x(pthread_setname_np) x(sigaction) x(signal) x(execve) x(execvpe)       \
        x(execveat) x(fexecve) x(exit) x(_exit) x(quick_exit) x(close_range) x(prctl)

#define CP__REAL_NUMBER(name) CP__REAL_##name,
enum { CP__REAL_NAMES(CP__REAL_NUMBER) CP__REAL_COUNT };
extern void *cp__real_functions[CP__REAL_COUNT];

#endif
