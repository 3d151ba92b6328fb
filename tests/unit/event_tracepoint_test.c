/* Tracepoints: with directories of them made here. */
#include <sys/stat.h>

#include "tests/support/event_tools.h"
#include "tests/support/refuse.h"

static void write_id(const char *system, const char *name, const char *text)
{
    char path[512];

    snprintf(path, sizeof path, "tracefs/events/%s/%s", system, name);
    free(test_command(NULL, "mkdir -p %s/%s", test_dir(), path));
    strcat(path, "/id");
    test_write_file(path, text);
}

static int find(const char *const *tracefs, const char *name, struct cp_event_spec *spec, const char **suffix,
                struct cp_error *err)
{
    *spec = (struct cp_event_spec){.size = sizeof(struct cp_event_spec), .event = CP_CPUPROF_NAMED};
    return cp__event_find_tracepoint(tracefs, name, spec, suffix, err);
}

CP_TEST(tracepoints_are_found)
{
    char good[512], empty[512];
    const char *const one[] = {good, NULL};
    const char *const second[] = {empty, good, NULL};
    struct cp_event_spec spec = {.size = sizeof spec};
    const char *suffix;

    snprintf(good, sizeof good, "%s/tracefs", test_dir());
    snprintf(empty, sizeof empty, "%s/empty", test_dir());
    write_id("sched", "sched_switch", "316\n");
    write_id("timer", "hrtimer_start", "77\n");
    CHECK_EQ(find(one, "sched:sched_switch", &spec, &suffix, NULL), 0);
    CHECK_STR(spec.name, "tracepoint:sched:sched_switch");
    CHECK_EQ(spec.event, CP_CPUPROF_NAMED);
    CHECK_EQ(spec.kind, CP_EVENT_TRACEPOINT);
    CHECK_EQ(spec.encoding.type, PERF_TYPE_TRACEPOINT);
    CHECK_EQ(spec.encoding.config, 316);
    CHECK_EQ(spec.preset_period, 1);
    CHECK(suffix == NULL);
    CHECK_EQ(find(second, "timer:hrtimer_start:k", &spec, &suffix, NULL), 0);
    CHECK_EQ(spec.encoding.config, 77);
    CHECK_STR(suffix, "k");
}

CP_TEST(bad_tracepoints_are_refused)
{
    static const struct {
        const char *name;
        int code;
        const char *said;
    } bad[] = {
        {"sched:none", -ENOENT, "no tracepoint sched:none"},
        {"none:none", -ENOENT, "no tracepoint none:none"},
        {"broken:broken", -ENOENT, "no tracepoint"},
        {"sched", -EINVAL, "cannot be read"},
        {"sched:", -EINVAL, "cannot be read"},
        {":x", -EINVAL, "cannot be read"},
        {"../events/sched:sched_switch", -EINVAL, "cannot be read"},
        {"..:sched", -EINVAL, "cannot be read"},
        {"sched:sched switch", -EINVAL, "cannot be read"},
        {"", -EINVAL, "cannot be read"},
    };
    char good[512], empty[512];
    const char *const one[] = {good, NULL};
    const char *const none[] = {empty, "/no/such", NULL};
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err = {0};
    const char *suffix;

    snprintf(good, sizeof good, "%s/tracefs", test_dir());
    snprintf(empty, sizeof empty, "%s/empty", test_dir());
    free(test_command(NULL, "mkdir %s", empty));
    write_id("sched", "sched_switch", "316\n");
    write_id("broken", "broken", "\n");
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        int result = find(one, bad[i].name, &spec, &suffix, &err);

        CHECKF(result == bad[i].code, "%s: %d", bad[i].name, result);
        check_message(&err);
        CHECK_CONTAINS(err.message, bad[i].said);
    }
    CHECK_EQ(find(none, "sched:sched_switch", &spec, &suffix, &err), -ENODEV);
    check_message(&err);
    CHECK_CONTAINS(err.message, "mount -t tracefs");
    CHECK_CONTAINS(err.message, empty);
}

/* If the directory of tracepoints is closed to the user, the message tells how to open it. */
CP_TEST(a_closed_directory_of_tracepoints_is_told)
{
    char closed[512];
    const char *const one[] = {closed, NULL};
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err = {0};
    const char *suffix;

    snprintf(closed, sizeof closed, "%s/tracefs", test_dir());
    write_id("sched", "sched_switch", "316\n");
    CHECK_EQ(chmod(closed, 0700), 0);
    CHECK_EQ(chmod(test_dir(), 0755), 0);
    become_nobody();
    CHECK_EQ(find(one, "sched:sched_switch", &spec, &suffix, &err), -EACCES);
    check_message(&err);
    CHECK_CONTAINS(err.message, "remount,mode=755");
}
