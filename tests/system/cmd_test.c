/* The command counterpoint, from its command line to its exit status. */
#include "tests/support/refuse.h"

#include <ctype.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__)
#define IS_ARM64 1
#else
#define IS_ARM64 0
#endif
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* ---- Running it ------------------------------------------------------------------------------ */

/* Copies the program to a directory that every user may enter, because the build may stand where others may
 * not. Returns the directory. */
static const char *program_dir(void)
{
    static bool is_copied;

    if (!is_copied)
        free(test_command(NULL, "cp %s/bin/counterpoint %s && chmod 755 %s", test_build_dir(), test_dir(),
                          test_dir()));
    is_copied = true;
    return test_dir();
}

static char *run(int *status, const char *arguments)
{
    return test_command(status, "cd %s && ./counterpoint %s", program_dir(), arguments);
}

/* Checks that no line is longer than a terminal's, except a line that is one event's name alone, which cannot
 * be broken. */
static void check_lines(const char *text)
{
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, "\n");
        bool is_name = strncmp(line, "  ", 2) == 0 && 2 + strcspn(line + 2, " \n") == length;

        CHECKF(length <= 80 || is_name, "%zu columns: %.*s", length, (int)length, line);
        CHECKF(length == 0 || line[length - 1] != ' ', "ends in a space: %.*s", (int)length, line);
        CHECKF(line[length] == '\n', "no end: %s", line);
    }
}

/* Returns an event's row of the list, with one space between the columns, or NULL if the list has no such
 * row. A name that is longer than its column has a line of its own, above the other columns. The caller frees
 * the row. */
static char *row_of(const char *text, const char *name)
{
    size_t length = strlen(name), n;
    const char *rest;
    char *row;

    while (*text != '\0' && (strncmp(text, "  ", 2) != 0 || strncmp(text + 2, name, length) != 0 ||
                             (text[2 + length] != ' ' && text[2 + length] != '\n')))
        text += strcspn(text, "\n") + 1;
    if (*text == '\0')
        return NULL;
    rest = text + 2 + length;
    rest += strspn(rest, "\n");
    row = calloc(1, strlen(text));
    n = (size_t)sprintf(row, "%s", name);
    for (; *rest != '\n' && *rest != '\0'; rest++) {
        if (*rest != ' ' || row[n - 1] != ' ')
            row[n++] = *rest;
    }
    return row;
}

/* Returns the answer of jq to a filter of the program's JSON output. */
static char *query(const char *arguments, const char *filter)
{
    if (system("command -v jq > /dev/null") != 0)
        SKIP("jq is not here");
    return test_command(NULL, "cd %s && { ./counterpoint events --json %s || [ $? = 1 ]; } | jq -r '%s'",
                        program_dir(), arguments, filter);
}

/* ---- The kernel's own answers ---------------------------------------------------------------- */

static const struct preset {
    const char *name;
    uint32_t type;
    uint64_t config;
    const char *kind;
    const char *period;
    bool is_kernels; /* happens in the kernel only */
} presets[] = {
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, "hardware", "10000000", false},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, "hardware", "1000000", false},
    {"cacheReferences", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, "hardware", "100000", false},
    {"cacheMisses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, "hardware", "10000", false},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, "hardware", "100000", false},
    {"branchMisses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, "hardware", "10000", false},
    {"taskClock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, "clock", "10 ms", false},
    {"cpuClock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, "clock", "10 ms", false},
    {"pageFaults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, "software", "-", false},
    {"contextSwitches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, "software", "-", true},
    {"cpuMigrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, "software", "-", true},
};

/* Whether a counter of cycles counts: the PMU of some virtual machines stays at 0. */
static bool do_cycles_count(void)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_HARDWARE,
                                   .config = PERF_COUNT_HW_CPU_CYCLES,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    uint64_t count = 0;

    for (volatile int i = 0; i < 10000000; i++)
        continue;
    if (fd < 0 || read(fd, &count, sizeof count) != sizeof count)
        count = 0;
    close(fd);
    return count != 0;
}

/* Returns 0, or the errno with which the kernel refuses the event. */
static int open_event(const struct preset *preset, bool in_kernel)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = preset->type,
                                   .config = preset->config,
                                   .sample_period = 10000000,
                                   .sample_type = PERF_SAMPLE_IP,
                                   .disabled = 1,
                                   .exclude_kernel = !in_kernel,
                                   .exclude_hv = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    int error = errno;

    if (fd < 0)
        return error;
    close(fd);
    return 0;
}

static const char *expected_state(const struct preset *preset)
{
    if (preset->type == PERF_TYPE_HARDWARE && open_event(preset, false) == 0)
        return do_cycles_count() ? "works" : "opens, but does not count here";
    if (preset->type == PERF_TYPE_HARDWARE || preset->is_kernels)
        return open_event(preset, preset->is_kernels) == 0 ? "works" : NULL;
    if (open_event(preset, true) == 0)
        return "works";
    return open_event(preset, false) == 0 ? "works, in user mode only" : NULL;
}

static bool does_work(const struct preset *preset)
{
    const char *expected = expected_state(preset);

    return expected != NULL && strncmp(expected, "works", strlen("works")) == 0;
}

static bool has_core_pmu(void)
{
    return system("ls -d /sys/bus/event_source/devices/cpu /sys/bus/event_source/devices/*/cpus 2> /dev/null "
                  "| grep -q .") == 0;
}

/* Checks the event's row against the kernel's answer to the same request. */
static void check_preset(const char *text, const struct preset *preset)
{
    const char *expected = expected_state(preset);
    char *row = row_of(text, preset->name);
    char start[64];

    CHECKF(row != NULL, "%s is not listed:\n%s", preset->name, text);
    puts(row);
    snprintf(start, sizeof start, "%s %s %s ", preset->name, preset->kind, preset->period);
    CHECKF(strncmp(row, start, strlen(start)) == 0, "%s", row);
    if (expected != NULL)
        CHECK_STR(row + strlen(start), expected);
    else
        CHECKF(strncmp(row + strlen(start), "works", 5) != 0 && row[strlen(start)] != '\0', "%s", row);
    free(row);
}

static void check_presets(const char *text)
{
    for (size_t i = 0; i < ARRAY_SIZE(presets); i++)
        check_preset(text, &presets[i]);
}

static void check_row(const char *text, const char *expected)
{
    char *name = strndup(expected, strcspn(expected, " "));
    char *row = row_of(text, name);

    CHECK_STR(row, expected);
    free(row);
    free(name);
}

/* Checks that the event works, or works in user mode only if the user may count no more. */
static void check_works(const char *text, const char *name)
{
    char *row = row_of(text, name);

    CHECK_CONTAINS(row, " software - works");
    free(row);
}

/* ---- The list -------------------------------------------------------------------------------- */

CP_TEST(presets_are_listed_with_what_the_kernel_says_of_them)
{
    int status;
    char *text = run(&status, "events");

    CHECK_EQ(status, 0);
    check_lines(text);
    check_presets(text);
    check_row(text, "timer timer 10 ms works");
    free(text);
}

CP_TEST(without_a_pmu_the_list_says_so_and_what_to_use)
{
    char *text = run(NULL, "events");

    test_need_events();
    if (has_core_pmu() || open_event(&presets[0], false) == 0)
        SKIP("this machine has a PMU");
    check_row(text, system("grep -qw hypervisor /proc/cpuinfo") == 0
                        ? "cacheMisses hardware 10000 no hardware PMU (virtual machine)"
                        : "cacheMisses hardware 10000 no hardware PMU");
    CHECK_CONTAINS(text, "Use taskClock");
    CHECK_CONTAINS(text, "\ncache "); /* all cache events are one line */
    free(text);
}

CP_TEST(a_user_sees_what_the_paranoid_level_leaves)
{
    char *root = run(NULL, "events"), *text;
    long paranoid = become_nobody();
    int status;

    text = run(&status, "events");
    CHECK_EQ(status, 0);
    check_lines(text);
    check_presets(text);
    check_row(text, "timer timer 10 ms works");
    if (paranoid == 2) {
        check_row(text, "contextSwitches software - kernel mode: paranoid level 2");
        CHECK_CONTAINS(text, "give this process CAP_PERFMON");
        check_row(root, "contextSwitches software - works");
    }
    if (paranoid > 2)
        CHECK_CONTAINS(text, "forbidden: paranoid level");
    free(text);
    free(root);
}

/* Containers forbid perf_event_open() by a seccomp filter. The program inherits the test's. */
CP_TEST(behind_seccomp_only_the_timer_works)
{
    char *text;

    refuse_call(SYS_perf_event_open, EPERM);
    text = run(NULL, "events");
    check_lines(text);
    check_row(text, "timer timer 10 ms works");
    check_row(text, "taskClock clock 10 ms forbidden by seccomp");
    check_row(text, "cycles hardware 10000000 forbidden by seccomp");
    CHECK_CONTAINS(text, "\nforbidden by seccomp: ");
    CHECK_CONTAINS(text, "--cap-add");
    free(text);
}

CP_TEST(a_list_without_tracepoints_says_why)
{
    char *text, *json;
    int status;

    if (access("/sys/kernel/tracing/events", R_OK | X_OK) == 0) {
        text = run(NULL, "events");
        CHECK_CONTAINS(text, "\ntracepoints ");
        CHECK(strstr(text, "no tracepoints") == NULL);
        free(text);
        become_nobody();
    }
    text = run(NULL, "events");
    check_lines(text);
    CHECK(strstr(text, "\ntracepoints ") == NULL);
    CHECK_CONTAINS(text, "\nno tracepoints: The tracepoint ");
    CHECK_CONTAINS(text, "/sys/kernel/tracing");
    free(text);
    text = run(&status, "events tracepoints 2>&1 > /dev/null");
    CHECK_EQ(status, 2);
    CHECK_CONTAINS(text, "/sys/kernel/tracing");
    json = run(NULL, "events --json");
    CHECK_CONTAINS(json, "\"no_tracepoints\": \"The tracepoint ");
    free(json);
    free(text);
}

CP_TEST(groups_and_patterns_narrow_the_list)
{
    char *text = run(NULL, "events cache");

    test_need_events();
    check_lines(text);
    for (const char *const *name =
             (const char *const[]){"L1-dcache-loads", "LLC-load-misses", "iTLB-loads", NULL};
         *name != NULL; name++) {
        char *row = row_of(text, *name);

        CHECKF(row != NULL, "%s:\n%s", *name, text);
        free(row);
    }
    CHECK(strstr(text, "taskClock  ") == NULL);
    free(text);
    text = run(NULL, "events '*FAULTS'");
    check_lines(text);
    check_works(text, "pageFaults");
    check_works(text, "minorFaults");
    CHECK(strstr(text, "timer ") == NULL && strstr(text, "alignment-faults") == NULL);
    free(text);
    text = run(NULL, "events 'minor-*'"); /* perf's name */
    check_works(text, "minorFaults");
    free(text);
    text = run(NULL, "events '*'");
    check_lines(text);
    CHECK_CONTAINS(text, "\ncache\n");
    free(text);
}

/* ---- One event ------------------------------------------------------------------------------- */

static const struct shown {
    const char *arguments;
    const char *lines; /* the lines that the text must have, separated by '|' */
} shown[] = {
    {"timer", "kind timer|encoding none: timer_create(2) on the thread's CPU clock|period 10 ms|"
              "perf has no such event|here works"},
    {"cycles", "kind hardware|encoding type=0 (hardware) config=0x0 config1=0x0 config2=0x0|modes user|"
               "precise_ip 0|period 10000000|perf perf record -e cpu-cycles:u -c 10000000"},
    {"cycles:kpp", "modes kernel|precise_ip 2|perf perf record -e cpu-cycles:kpp -c 10000000"},
    {"cache-misses", "encoding type=0 (hardware) config=0x3 config1=0x0 config2=0x0|period 10000"},
    {"r1c2", "kind hardware|encoding type=4 (raw) config=0x1c2 config1=0x0 config2=0x0|period 100000|"
             "perf perf record -e r1c2:u -c 100000"},
    {"LLC-store-misses", "encoding type=3 (cache) config=0x10102 config1=0x0 config2=0x0|"
                         "perf perf record -e LLC-store-misses:u -c 10000"},
    {"taskClock:u:2ms", "kind clock|encoding type=1 (software) config=0x1 config1=0x0 config2=0x0|modes user|"
                        "period 2 ms|perf perf record -e task-clock:u -c 2000000|here works"},
    {"minorFaults:u",
     "encoding type=1 (software) config=0x5 config1=0x0 config2=0x0|"
     "perf perf record -e minor-faults:u -c 1|period no preset: programs differ too much in it"},
    {"mem:0x7000/4:w",
     "kind watchpoint|encoding type=5 (breakpoint) config=0x0 bp_type=2 bp_addr=0x7000 bp_len=4|"
     "perf perf record -e mem:0x7000/4:w:u -c 1"},
};

static void check_field(const char *text, const char *field)
{
    size_t name = strcspn(field, " ");
    char line[200];

    snprintf(line, sizeof line, "\n  %-12.*s%s\n", (int)name, field, field + name + 1);
    CHECKF(strstr(text, line) != NULL, "no %s in %s", line, text);
}

CP_TEST(an_event_is_shown_with_its_encoding)
{
    test_need_events();
    for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
        char arguments[64];
        char *fields = strdup(shown[i].lines);
        int status;
        char *text;

        snprintf(arguments, sizeof arguments, "events %s", shown[i].arguments);
        text = run(&status, arguments);
        check_lines(text);
        CHECK_EQ(status, strstr(text, "\n  here        works") != NULL ? 0 : 1);
        CHECK_EQ(status == 1, strstr(text, "\nThe event ") != NULL);
        for (char *field = strtok(fields, "|"); field != NULL; field = strtok(NULL, "|"))
            check_field(text, field);
        free(fields);
        free(text);
    }
}

CP_TEST(an_event_of_another_pmu_has_perfs_spelling)
{
    char *text;

    test_need_events();
    if (access("/sys/bus/event_source/devices/msr/events/tsc", R_OK) != 0)
        SKIP("there is no PMU msr here");
    text = run(&(int){0}, "events msr/tsc/");
    check_field(text, "perf perf record -e msr/tsc/u -c 100000");
    check_field(text, "here counts only, does not sample");
    free(text);
    text = run(&(int){0}, "events msr/event=0/kpp");
    check_field(text, "modes kernel");
    check_field(text, "perf perf record -e msr/tsc/kpp -c 100000");
    free(text);
}

CP_TEST(the_exit_status_tells_whether_an_event_works)
{
    for (size_t i = 0; i < ARRAY_SIZE(presets); i++) {
        char arguments[64];
        int status;

        snprintf(arguments, sizeof arguments, "events %s", presets[i].name);
        free(run(&status, arguments));
        CHECKF(status == !does_work(&presets[i]), "%s: %d", presets[i].name, status);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Makes a row of the text from each event of the JSON output. */
static const char row_filter[] =
    ".events[] | [.name, .kind, (if .period == null then \"-\" elif .period_unit == \"ns\" then "
    "\"\\(.period / 1000000) ms\" else \"\\(.period)\" end), (if .works == null then \"not tried\" elif "
    ".works "
    "then (if .kind != \"hardware\" and (.modes | index(\"kernel\") | not) then \"works, in user mode only\" "
    "else "
    "\"works\" end) else .reason end)] | join(\" \")";

static void check_agreement(const char *arguments, int least)
{
    char command[64];
    char *rows = query(arguments, row_filter), *text;
    int n = 0;

    snprintf(command, sizeof command, "events %s", arguments);
    text = run(NULL, command);
    for (char *row = strtok(rows, "\n"); row != NULL; row = strtok(NULL, "\n"), n++)
        check_row(text, row);
    CHECK(n >= least);
    free(rows);
    free(text);
}

CP_TEST(json_agrees_with_the_text)
{
    check_agreement("presets", 12);
    check_agreement("software", 5);
    check_agreement("\"*Faults*\"", 4);
}

/* LIBPFM_FORCE_PMU tells libpfm4 which processor to assume. That processor has hundreds of events. */
CP_TEST(a_long_group_is_one_line)
{
    const char *pmu = IS_ARM64 ? "arm_n1" : "skl";
    char *text, *row, start[32];

    setenv("LIBPFM_FORCE_PMU", pmu, 1);
    text = run(NULL, "events");
    check_lines(text);
    snprintf(start, sizeof start, "\n%s ", pmu);
    row = strstr(text, start);
    CHECKF(row != NULL && strtol(row + strlen(start), &row, 10) > 60, "%s", text);
    CHECK(strncmp(row, " events  ", 9) == 0);
    free(text);
    text = run(NULL, "events '*CYCLES*'");
    check_lines(text);
    CHECK_CONTAINS(text, IS_ARM64 ? "\n  CPU_CYCLES " : "\n  UNHALTED_CORE_CYCLES ");
    free(text);
    text = query("", "[.groups[] | select(.listed | not) | .name] | join(\" \")");
    CHECK_CONTAINS(text, pmu);
    free(text);
}

CP_TEST(json_tells_what_is_not_listed)
{
    char *groups = query("", "[.groups[] | select(.listed) | .events] | add");
    char *events = query("", ".events | length");
    char *names = query("", "[.groups[].name] | join(\" \")");

    CHECK_STR(groups, events);
    CHECK_CONTAINS(names, "presets waits software hardware cache");
    free(groups);
    free(events);
    free(names);
}

CP_TEST(json_shows_one_event)
{
    char *text = query("LLC-load-misses",
                       "[.name, .group, .kind, .perf, .period, .encoding.type, .encoding.config] | @tsv");

    CHECK_STR(text, "LLC-load-misses\tcache\thardware\tLLC-load-misses:u\t10000\t3\t0x10002\n");
    free(text);
    text = query("branchInstructions:pp", "[.name, .alias, .period_unit, .precise_ip, .description] | @tsv");
    CHECK_STR(text, "branchInstructions:pp\tbranch-instructions\tevents\t2\tbranches that retire\n");
    free(text);
    text = query("timer", "[.works, .encoding, .perf, .period] | tojson");
    CHECK_STR(text, "[true,null,null,10000000]\n");
    free(text);
    refuse_call(SYS_perf_event_open, EPERM);
    text = query("taskClock", "[.works, .reason, (.message | length > 100)] | tojson");
    CHECK_STR(text, "[false,\"forbidden by seccomp\",true]\n");
    free(text);
}

/* ---- Usage and output ------------------------------------------------------------------------ */

static void check_run(const char *arguments, int expected, const char *says)
{
    int status;
    char *text = run(&status, arguments);

    CHECKF(status == expected, "%s: status %d: %s", arguments, status, text);
    CHECKF(strstr(text, says) != NULL, "%s: %s", arguments, text);
    free(text);
}

static void check_engine(const char *asked, const char *says)
{
    char *text;

    setenv("CP_ENGINE", asked, 1);
    text = run(NULL, "events presets");
    check_lines(text);
    CHECK_CONTAINS(text, says);
    free(text);
}

CP_TEST(the_list_says_how_samples_come)
{
    const char *why;
    enum cp_engine engine;

    check_engine("signal", "\nengine: signal, because it was asked for\n");
    check_engine("steam", "\nengine: The environment variable CP_ENGINE is wrong.");
    check_run("events presets --json", 0, "\"engine\": null, \"engine_reason\": \"The env");
    unsetenv("CP_ENGINE");
    CHECK_EQ(cp_engine_choose(&engine, &why, NULL), 0);
    check_engine("", engine == CP_ENGINE_TRAP ? "\nengine: trap\n" : "\nengine: signal, because ");
}

CP_TEST(bad_usage_is_told)
{
    check_run("2>&1 > /dev/null", 2, "usage: counterpoint");
    check_run("evens 2>&1 > /dev/null", 2, "no command \"evens\"");
    check_run("--evens 2>&1 > /dev/null", 2, "no option \"--evens\"");
    check_run("--version now 2>&1 > /dev/null", 2, "--version");
    check_run("events --jason 2>&1 > /dev/null", 2, "--jason");
    check_run("events -xy 2>&1 > /dev/null", 2, "does not know -xy");
    check_run("events --json=yes 2>&1 > /dev/null", 2, "--json");
    check_run("events cycles branches 2>&1 > /dev/null", 2, "not 2");
    check_run("events cicles 2>&1 > /dev/null", 2, "no event named \"cicles\"");
    check_run("events --json taskClock:1 2>&1 > /dev/null", 2, "1 ns is too small for taskClock");
    check_run("events '' 2>&1 > /dev/null", 2, "The event has no name.");
    check_run("events 'cicl*' 2>&1 > /dev/null", 2, "No event matches \"cicl*\"");
    check_run("events -- timer", 0, "timer");
}

CP_TEST(help_and_version_are_printed)
{
    static const char *const spellings[] = {"--help", "-help", "-h"};
    char *text;

    for (size_t i = 0; i < ARRAY_SIZE(spellings); i++) {
        char arguments[40];

        text = run(NULL, spellings[i]);
        check_lines(text);
        CHECK_CONTAINS(text, "  events ");
        free(text);
        snprintf(arguments, sizeof arguments, "events %s 2> /dev/null", spellings[i]);
        text = run(NULL, arguments);
        check_lines(text);
        CHECK_CONTAINS(text, "--json");
        CHECK_CONTAINS(text, "Exit status: ");
        free(text);
    }
    text = run(NULL, "--version");
    CHECKF(strncmp(text, "counterpoint ", 13) == 0 && isdigit((unsigned char)text[13]), "%s", text);
    free(text);
}

CP_TEST(output_that_does_not_arrive_is_told)
{
    check_run("events 2>&1 > /dev/full", 3, "could not be written: No space left on device");
    check_run("events --json '*' 2>&1 > /dev/full", 3, "could not be written: No space left on device");
    check_run("--version 2>&1 > /dev/full", 3, "could not be written");
    check_run("events timer 2>&1 >&-", 3, "could not be written: Bad file descriptor");
    check_run(
        "--version > version && { trap '' PIPE; { sleep 0.2; ./counterpoint events; echo $? > status; } 2> "
        "said | true; } && cat said status",
        0, "could not be written: Broken pipe.\n3\n");
}
