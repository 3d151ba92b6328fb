#include "core_pmu_linux.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/sysctl_linux.h"

struct cp__core_pmus cp__core_pmus;

/* Reads the number of a core PMU; returns false for other PMUs. A core PMU has a file "cpus", which says to
 * which CPUs it belongs. Every other PMU says on which CPUs to open its events ("cpumask"), or nothing. */
static bool read_type(const char *devices, const char *name, uint32_t *type)
{
    char path[512];
    double number;

    snprintf(path, sizeof path, "%s/%s/cpus", devices, name);
    if (access(path, R_OK) < 0)
        return false;
    snprintf(path, sizeof path, "%s/%s/type", devices, name);
    number = cp__file_number(path, "%lf", -1);
    if (number >= 0)
        *type = (uint32_t)number;
    return number >= 0;
}

static int by_type(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

void cp__core_pmus_find(const char *devices, struct cp__core_pmus *found)
{
    DIR *directory = opendir(devices);
    const struct dirent *entry;

    *found = (struct cp__core_pmus){.n = 0};
    if (directory == NULL)
        return;
    while (found->n < CP__CORE_PMUS && (entry = readdir(directory)) != NULL)
        found->n += read_type(devices, entry->d_name, &found->types[found->n]);
    closedir(directory);
    qsort(found->types, (size_t)found->n, sizeof found->types[0], by_type);
    if (found->n == 1)
        found->n = 0;
}

/* Changes attr so that it opens on the PMU of the i-th kind of core. Returns false if the event does not
 * depend on the kind of core. */
static bool turn_from_handler(struct perf_event_attr *attr, int i)
{
    uint64_t type = cp__core_pmus.types[i];

    switch (attr->type) {
    case PERF_TYPE_HARDWARE:
    case PERF_TYPE_HW_CACHE:
        attr->config |= type << 32; /* PERF_PMU_TYPE_SHIFT, Linux 5.13 */
        return true;
    case PERF_TYPE_RAW:
        attr->type = (uint32_t)type;
        return true;
    default:
        return false;
    }
}

int cp__core_pmus_add_from_handler(const struct perf_event_attr *attr, cp__core_pmu_add_fn *add_from_handler,
                                   void *context)
{
    struct perf_event_attr one;
    int added = 0;

    for (int i = 0; i < cp__core_pmus.n; i++) {
        int result;

        one = *attr;
        if (!turn_from_handler(&one, i))
            break;
        result = add_from_handler(context, &one);
        if (result == -EMFILE || result == -ENFILE || result == -ENOMEM)
            return result;
        added += result == 0;
    }
    one = *attr;
    return added > 0 ? 0 : add_from_handler(context, &one);
}
