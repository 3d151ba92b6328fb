#include "sysctl_linux.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

const char *cp__sysctl_root = "/proc/sys";

int64_t cp__sysctl(const char *name)
{
    char path[PATH_MAX];
    int64_t value;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", cp__sysctl_root, name);
    file = fopen(path, "re");
    if (file == NULL)
        return INT64_MIN;
    if (fscanf(file, "%" SCNd64, &value) != 1)
        value = INT64_MIN;
    fclose(file);
    return value;
}
