/* Numbers in the kernel's files, and the kernel's settings. */
#ifndef COUNTERPOINT_RUNTIME_BASE_SYSCTL_LINUX_H
#define COUNTERPOINT_RUNTIME_BASE_SYSCTL_LINUX_H

#include <stdint.h>

/* Returns the number in the first line of a file that has this format of scanf(), which reads one double;
 * `otherwise` if no line has. */
double cp__file_number(const char *path, const char *format, double otherwise);

/* The folder of the settings. Tests set a folder of their own. */
extern const char *cp__sysctl_root;

/* Returns the number of a setting, such as "kernel/kptr_restrict"; INT64_MIN if the setting cannot be
 * read. */
int64_t cp__sysctl(const char *name);

#endif
