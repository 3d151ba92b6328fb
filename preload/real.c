/* See real.h. */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "atomic.h"

void *cp__real_functions[CP__REAL_COUNT];

/* Stands for a function that this C library does not have. */
static int is_missing(void)
{
    errno = ENOSYS;
    return -1;
}

void *cp__real_from_handler(void **known, const char *name)
{
    void *function = cp_load_relaxed(known); /* relaxed: every thread finds the same function */

    if (function == NULL) {
        function = dlsym(RTLD_NEXT, name);
        if (function == NULL)
            function = (void *)is_missing;
        cp_store_relaxed(known, function);
    }
    return function;
}

void cp__real_prepare(void)
{
#define CP__REAL_TEXT(name) #name,
    static const char *const names[] = {CP__REAL_NAMES(CP__REAL_TEXT)};

    for (int i = 0; i < CP__REAL_COUNT; i++)
        cp__real_from_handler(&cp__real_functions[i], names[i]);
}

/* ---- What the linker puts in the place of the library's own calls ---------------------------- */

int __wrap_sigaction(int number, const struct sigaction *action, struct sigaction *old);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *),
                          void *arg);

int __wrap_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    return ((__typeof__(&__wrap_sigaction))cp__real_from_handler(&cp__real_functions[CP__REAL_sigaction],
                                                                 "sigaction"))(number, action, old);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*fn)(void *), void *arg)
{
    return ((__typeof__(&__wrap_pthread_create))cp__real_from_handler(
        &cp__real_functions[CP__REAL_pthread_create], "pthread_create"))(thread, attributes, fn, arg);
}
