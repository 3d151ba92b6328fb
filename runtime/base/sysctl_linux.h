/* The kernel's settings. */
#ifndef COUNTERPOINT_RUNTIME_BASE_SYSCTL_LINUX_H
#define COUNTERPOINT_RUNTIME_BASE_SYSCTL_LINUX_H

#include <stdint.h>

/* Where they stand; the tests have some of their own. */
extern const char *cp__sysctl_root;

/* The number that is set, "kernel/kptr_restrict" for instance; INT64_MIN where it cannot be read. */
int64_t cp__sysctl(const char *name);

#endif
