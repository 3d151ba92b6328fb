/* See next.h. */
#include "next.h"

#include <dlfcn.h>
#include <errno.h>

void *cp__next_functions[CP__NEXT_COUNT];

/* Stands for a function that this C library does not have, and that so no program knows. */
static int is_not_there(void)
{
    errno = ENOSYS;
    return -1;
}

/* Of pthread_cond_wait() and its like, the dynamic linker finds the default version, with which
 * programs are linked since 2003. */
void *cp__next_find(enum cp__next_name number)
{
#define CP__NEXT_TEXT(name) #name,
    static const char *const names[] = {CP__NEXT_NAMES(CP__NEXT_TEXT)};
    const int saved_errno = errno;
    void *function = dlsym(RTLD_NEXT, names[number]);

    if (function == NULL)
        function = (void *)is_not_there;
    cp_store_relaxed(&cp__next_functions[number], function); /* relaxed: see cp__next() */
    errno = saved_errno;
    return function;
}
