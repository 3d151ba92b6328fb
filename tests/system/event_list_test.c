/* The list of events: each name in it can be parsed. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "runtime.h"
#include "tests/support/test.h"

struct list {
    char *names[20000];
    char *groups[20000];
    size_t n;
    size_t stop_at; /* 0: never stops */
};

static int take(void *context, const struct cp_event_info *info)
{
    struct list *list = context;

    CHECK(list->n < sizeof list->names / sizeof list->names[0]);
    CHECK(info->name != NULL && info->group != NULL && strchr(info->group, ' ') == NULL);
    CHECKF(info->alias == NULL || strcmp(info->alias, info->name) != 0, "%s", info->name);
    list->names[list->n] = strdup(info->name);
    list->groups[list->n] = strdup(info->group);
    list->n++;
    return list->n == list->stop_at ? -EINTR : 0;
}

static struct list *list_events(void)
{
    struct list *list = calloc(1, sizeof *list);

    CHECK_EQ(cp_event_each(take, list), 0);
    return list;
}

static void forget(struct list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->names[i]);
        free(list->groups[i]);
    }
    free(list);
}

static size_t count(const struct list *list, const char *group)
{
    size_t n = 0;

    for (size_t i = 0; i < list->n; i++)
        n += strcmp(list->groups[i], group) == 0;
    return n;
}

static bool has(const struct list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->names[i], name) == 0)
            return true;
    }
    return false;
}

static void check_name(const char *name)
{
    struct cp_event_spec spec = {.size = sizeof spec}, again = {.size = sizeof again};
    struct cp_event_encoding encoding;
    struct cp_error err = {0};

    CHECKF(cp_event_parse(name, &spec, &err) == 0, "%s: %s", name, err.message);
    CHECKF(cp_event_parse(spec.name, &again, &err) == 0, "%s is %s: %s", name, spec.name, err.message);
    CHECKF(again.event == spec.event && memcmp(&again.encoding, &spec.encoding, sizeof spec.encoding) == 0,
           "%s is %s", name, spec.name);
    CHECKF(cp_event_encode(&spec, &encoding) ==
               (spec.kind == CP_EVENT_TIMER || spec.kind == CP_EVENT_WAIT ? -EINVAL : 0),
           "%s", name);
}

CP_TEST(every_listed_name_can_be_parsed)
{
    struct list *list = list_events();

    for (size_t i = 0; i < list->n; i++)
        check_name(list->names[i]);
    printf("%zu names\n", list->n);
    CHECK_EQ(count(list, "presets"), 12);
    CHECK_EQ(count(list, "waits"), 4);
    CHECK(count(list, "cache") >= 20);
    CHECK(has(list, "timer") && has(list, "cycles") && has(list, "cpuMigrations"));
    CHECK(has(list, "minorFaults") && has(list, "LLC-load-misses"));
    CHECK(!has(list, "raw") && !has(list, "named")); /* neither is an event's name */
    forget(list);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The events of a group stand together, and each name stands in the list once. */
CP_TEST(the_list_is_in_order)
{
    struct list *list = list_events();

    for (size_t i = 1; i < list->n; i++) {
        if (strcmp(list->groups[i], list->groups[i - 1]) == 0)
            continue;
        for (size_t k = i + 1; k < list->n; k++)
            CHECKF(strcmp(list->groups[k], list->groups[i - 1]) != 0, "%s is in two places", list->groups[k]);
    }
    qsort(list->names, list->n, sizeof list->names[0], by_name);
    for (size_t i = 1; i < list->n; i++)
        CHECKF(strcmp(list->names[i], list->names[i - 1]) != 0, "%s", list->names[i]);
    forget(list);
}

CP_TEST(a_list_ends_where_its_taker_wants)
{
    for (size_t n = 1; n < 50; n += 7) {
        struct list *list = calloc(1, sizeof *list);

        list->stop_at = n;
        CHECK_EQ(cp_event_each(take, list), -EINTR);
        CHECK_EQ(list->n, n);
        forget(list);
    }
}

/* The list has all names that the kernel's own files have. */
CP_TEST(the_kernels_names_are_all_there)
{
    struct list *list = list_events();
    char *names =
        test_command(NULL, "cd /sys/bus/event_source/devices && ls -d */events/* | grep -v '\\.'; true");
    char *tracepoints = test_command(
        NULL,
        "for t in /sys/kernel/tracing /sys/kernel/debug/tracing; do cd $t/events 2> /dev/null || continue; "
        "ls -d */*/id; break; done; true");
    size_t n = 0;

    for (char *line = strtok(names, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char name[600];
        struct cp_event_spec spec = {.size = sizeof spec};

        snprintf(name, sizeof name, "%.*s/%s/", (int)strcspn(line, "/"), line, strrchr(line, '/') + 1);
        CHECKF(has(list, name) == (cp_event_parse(name, &spec, NULL) == 0), "%s", name);
    }
    for (char *line = strtok(tracepoints, "\n"); line != NULL; line = strtok(NULL, "\n"))
        n += strstr(line, "/id") != NULL;
    CHECK_EQ(count(list, "tracepoints"), n);
    free(names);
    free(tracepoints);
    forget(list);
}

/* LIBPFM_FORCE_PMU tells libpfm4 which processor to assume; the manual of libpfm4 names that processor's
 * events. */
CP_TEST(libpfm4s_names_are_there)
{
#if defined(__aarch64__)
    const char *pmu = "arm_ac57", *names[] = {"CPU_CYCLES", "INST_RETIRED", "L1D_CACHE_REFILL", NULL};
#else
    const char *pmu = "skl", *names[] = {"MEM_LOAD_RETIRED:L3_MISS", "INST_RETIRED:ANY_P",
                                         "BR_MISP_RETIRED:CONDITIONAL", NULL};
#endif
    struct list *list;

    setenv("LIBPFM_FORCE_PMU", pmu, 1);
    list = list_events();
    printf("%zu of %s\n", count(list, pmu), pmu);
    CHECK(count(list, pmu) > 50);
    for (int i = 0; names[i] != NULL; i++)
        CHECKF(has(list, names[i]), "%s", names[i]);
    for (size_t i = 0; i < list->n; i++)
        check_name(list->names[i]);
    CHECK_EQ(count(list, "presets"), 12); /* the table's events are in the list, too */
    forget(list);
}

/* Runs itself in a mount namespace, with PMUs that the test describes. */
CP_TEST(pmus_of_the_whole_machine_stand_together)
{
    const char *dir = test_dir();
    struct list *list;

    free(test_command(
        NULL,
        "cd %s && for pmu in uncore_imc_0 fast uncore_imc_1; do\n"
        "mkdir -p $pmu/events $pmu/format && echo 77 > $pmu/type && echo config:0-7 > $pmu/format/event\n"
        "echo event=0x4 > $pmu/events/reads && echo MiB > $pmu/events/reads.unit\n"
        "echo event=0x5,umask=? > $pmu/events/open; done; touch uncore_imc_0/cpumask uncore_imc_1/cpumask",
        dir));
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount(dir, "/sys/bus/event_source/devices", NULL, MS_BIND, NULL) < 0)
        SKIP("a mount namespace cannot be had here: %s", strerror(errno));
    list = list_events();
    CHECK_EQ(count(list, "fast"), 1);
    CHECK_EQ(count(list, "uncore"), 2);
    CHECK(has(list, "fast/reads/") && has(list, "uncore_imc_0/reads/") && has(list, "uncore_imc_1/reads/"));
    forget(list);
}

/* Runs itself in a mount namespace, because tracefs is often not mounted. */
CP_TEST(tracepoints_are_listed_where_tracefs_is)
{
    int status;

    if (access("/sys/kernel/tracing/events", X_OK) == 0)
        SKIP("tracefs is mounted: the other tests have seen it");
    free(test_command(&status, "unshare -m mount -t tracefs tracefs /sys/kernel/tracing 2>&1"));
    if (status != 0)
        SKIP("tracefs cannot be mounted here");
    free(test_command(
        NULL,
        "unshare -m sh -c 'mount -t tracefs tracefs /sys/kernel/tracing && "
        "%s/tests/event_list_test -v -run \"every_listed_name_can_be_parsed|the_list_is_in_order|"
        "the_kernels_names_are_all_there\"' | grep -c '^--- PASS' | grep -qx 3",
        test_build_dir()));
}
