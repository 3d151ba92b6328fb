/* Lists the events that can be sampled, as the kernel and the tables here name them. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "list.h"
#include "rows.h"

/* Calls `each` for the entries of a directory in alphabetical order, except hidden ones. */
static void for_each(struct cp__event_list *list, const char *path,
                     void (*each)(struct cp__event_list *list, const char *path, const char *name))
{
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);

    for (int i = 0; i < n; i++) {
        if (list->result == 0 && entries[i]->d_name[0] != '.')
            each(list, path, entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

/* Returns whether a file exists in path/directory. */
static bool has_file(const char *path, const char *directory, const char *file)
{
    char full[PATH_MAX];

    snprintf(full, sizeof full, "%s/%s/%s", path, directory, file);
    return access(full, F_OK) == 0;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Lists the rows from `from` to `to`: only those of one kind if the rows have names of their own. */
static void list_rows(struct cp__event_list *list, const char *group, size_t from, size_t to,
                      enum cp_event_kind kind)
{
    const struct cp__event *row;

    for (size_t i = from; i < to && (row = cp__event_row(i)) != NULL; i++) {
        /* "raw" is no event without a number */
        if (i != CP_CPUPROF_HW_RAW && (row->kind == kind || to <= CP_CPUPROF_NAMED))
            cp__event_list_tell(list, &(struct cp_event_info){.name = row->name,
                                                              .alias = row->alias,
                                                              .group = group,
                                                              .description = row->description});
    }
}

static void list_caches(struct cp__event_list *list)
{
    struct cp__cache_event event;

    for (size_t i = 0; cp__cache_event(i, &event); i++)
        cp__event_list_tell(list, &(struct cp_event_info){.name = event.name, .group = "cache"});
}

/* ---- PMUs ------------------------------------------------------------------------------------ */

/* Lists an event of a PMU if its name can be parsed. Files such as "EVENT.unit" describe EVENT and cannot be
 * parsed, and neither can events that need a parameter. */
static void list_pmu_event(struct cp__event_list *list, const char *path, const char *event)
{
    const char *pmu = path + strlen(cp__pmus) + 1;
    int length = (int)strcspn(pmu, "/");
    char name[2 * NAME_MAX + 3], group[NAME_MAX + 1];
    struct cp_event_spec spec = {.size = sizeof spec};

    snprintf(group, sizeof group, "%.*s", length, pmu);
    snprintf(name, sizeof name, "%s/%s/", group, event);
    if (cp_event_parse(name, &spec, NULL) == 0)
        cp__event_list_tell(
            list, &(struct cp_event_info){.name = name,
                                          .group = has_file(cp__pmus, group, "cpumask") ? "uncore" : group});
}

static void list_pmu(struct cp__event_list *list, const char *path, const char *pmu)
{
    char events[PATH_MAX];

    snprintf(events, sizeof events, "%s/%s/events", path, pmu);
    for_each(list, events, list_pmu_event);
}

/* Lists a PMU that counts for threads. */
static void list_thread_pmu(struct cp__event_list *list, const char *path, const char *pmu)
{
    if (!has_file(path, pmu, "cpumask"))
        list_pmu(list, path, pmu);
}

/* Lists a PMU that counts for the whole machine. */
static void list_uncore_pmu(struct cp__event_list *list, const char *path, const char *pmu)
{
    if (has_file(path, pmu, "cpumask"))
        list_pmu(list, path, pmu);
}

/* ---- Tracepoints ----------------------------------------------------------------------------- */

static void list_tracepoint(struct cp__event_list *list, const char *path, const char *event)
{
    char name[sizeof((struct cp_event_spec *)NULL)->name];
    int n = snprintf(name, sizeof name, "tracepoint:%s:%s", last_part(path), event);

    if (n < (int)sizeof name && has_file(path, event, "id"))
        cp__event_list_tell(list, &(struct cp_event_info){.name = name,
                                                          .alias = name + strlen("tracepoint:"),
                                                          .group = "tracepoints"});
}

static void list_system(struct cp__event_list *list, const char *path, const char *system)
{
    char events[PATH_MAX];

    snprintf(events, sizeof events, "%s/%s", path, system);
    for_each(list, events, list_tracepoint);
}

/* Lists the tracepoints of the first tracefs that can be read. */
static void list_tracepoints(struct cp__event_list *list)
{
    char path[PATH_MAX];

    for (size_t i = 0; cp__tracefs[i] != NULL; i++) {
        snprintf(path, sizeof path, "%s/events", cp__tracefs[i]);
        if (access(path, R_OK | X_OK) != 0)
            continue;
        for_each(list, path, list_system);
        return;
    }
}

int cp_event_each(cp_event_each_fn *fn, void *context)
{
    struct cp__event_list list = {.fn = fn, .context = context};

    list_rows(&list, "presets", 0, CP_CPUPROF_NAMED, CP_EVENT_TIMER);
    list_rows(&list, "waits", CP_CPUPROF_NAMED + 1, SIZE_MAX, CP_EVENT_WAIT);
    list_rows(&list, "software", CP_CPUPROF_NAMED + 1, SIZE_MAX, CP_EVENT_SOFTWARE);
    list_rows(&list, "hardware", CP_CPUPROF_NAMED + 1, SIZE_MAX, CP_EVENT_HARDWARE);
    list_caches(&list);
    for_each(&list, cp__pmus, list_thread_pmu);
    cp__event_list_pfm(&list);
    for_each(&list, cp__pmus, list_uncore_pmu);
    list_tracepoints(&list);
    return list.result;
}
