#include "sysctl_linux.h"

#include <limits.h>
#include <stdio.h>

const char *cp__sysctl_root = "/proc/sys";

double cp__file_number(const char *path, const char *format, double otherwise)
{
    FILE *file = fopen(path, "re");
    double number = otherwise;
    char line[256];

    if (file == NULL)
        return otherwise;
    while (fgets(line, sizeof line, file) != NULL && sscanf(line, format, &number) != 1) {
    }
    fclose(file);
    return number;
}

int64_t cp__sysctl(const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", cp__sysctl_root, name);
    return (int64_t)cp__file_number(path, "%lf", (double)INT64_MIN);
}
