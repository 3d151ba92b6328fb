/* The profile of where the rounds of a watch began, read by go tool pprof and protoc. */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched.h"
#include "tests/support/session_tools.h"
#include "tests/support/stopwatch.h"

static struct cp_watch *watch;

static void pass_round(int i)
{
    struct cp_watch_round round;

    CHECK_EQ(cp_watch_begin(watch, &round), 0);
    __asm__ volatile("" : : "r"(i));
    CHECK_EQ(cp_watch_end(&round), 0);
}

#define FROM(name, number)                                                                                   \
    __attribute__((noinline)) static void name(int n)                                                        \
    {                                                                                                        \
        for (int i = 0; i < n; i++)                                                                          \
            pass_round(i + (number));                                                                        \
        __asm__ volatile("" : : "i"(number));                                                                \
    }
FROM(from_here, 1)
FROM(from_there, 2)

static const struct cp_watch_options options_of_all = {.size = sizeof options_of_all,
                                                       .name = "rounds",
                                                       .quantities = "cpuTime,pageFaults per contextSwitches",
                                                       .labels = "kind",
                                                       .has_stacks = true};

static void open_for_stacks(const char *quantities)
{
    struct cp_watch_options options = options_of_all;

    options.quantities = quantities;
    watch = open_watch_of(&options);
}

/* Writes the profile into the test's directory; returns its path. */
static const char *write_begins(enum cp_profile_form form, const char *name)
{
    const char *path = file_in_dir(name);
    struct cp_memory memory = {0};
    struct cp_error err = {0};

    CHECKF(cp_watch_write_profile(watch, cp_writer_memory(&memory), form, &err) == 0, "%s", err.message);
    save(&memory, path);
    free(memory.data);
    return path;
}

/* Checks that each of these texts is in what pprof prints. */
static void check_pprof(const char *path, const char *arguments, const char *const *parts)
{
    char *text = pprof(arguments, path);

    for (; *parts != NULL; parts++)
        CHECK_CONTAINS(text, *parts);
    free(text);
}
#define CHECK_PPROF(path, arguments, ...)                                                                    \
    check_pprof((path), (arguments), (const char *const[]){__VA_ARGS__, NULL})

/* ---- The file -------------------------------------------------------------------------------- */

CP_TEST(rounds_are_counted_where_they_began)
{
    struct cp_m *m = attach_m();
    const char *path;

    open_for_stacks("cpuTime");
    from_here(3);
    from_there(40);
    path = write_begins(CP_FORM_PPROF, "begins.pb.gz");
    CHECK_PPROF(path, "-raw", "PeriodType: rounds count\n",
                "rounds/count time/nanoseconds[dflt] "
                "cpuTime/nanoseconds\n");
    CHECK_PPROF(path, "-symbolize=none -top -cum -sample_index=rounds",
                "Showing nodes accounting for 43, 100% of 43 total", "         3  6.98%", "  from_here\n",
                "        40 93.02%", "  from_there\n");
    CHECK_PPROF(path, "-symbolize=none -peek=pass_round -sample_index=rounds", "|   from_there",
                "|   from_here");
    cp_watch_close(watch);
    cp_m_detach(m);
}

CP_TEST(the_time_of_rounds_is_that_of_the_watch)
{
    struct cp_m *m = attach_m();
    struct found time, cpu;
    char *text, line[120];

    open_for_stacks("cpuTime");
    from_here(5);
    time = find_row_of(watch, "time", NULL, CP_WATCH_UNFORKED);
    cpu = find_row_of(watch, "cpuTime", NULL, CP_WATCH_UNFORKED);
    text = pprof("-raw", write_begins(CP_FORM_PPROF, "time.pb.gz"));
    snprintf(line, sizeof line, "%11d %10.0f %10.0f: ", 5, time.sum, cpu.sum);
    CHECK_CONTAINS(text, line);
    free(text);
    cp_watch_close(watch);
    cp_m_detach(m);
}

/* A ratio is no sum. The event may be refused to this user. */
CP_TEST(ratios_are_left_out)
{
    struct cp_m *m = attach_m();
    struct cp_error err = {0};

    if (cp_watch_open(&watch, &options_of_all, &err) < 0)
        SKIP("%s", err.message);
    from_here(2);
    CHECK_PPROF(write_begins(CP_FORM_PPROF, "ratio.pb.gz"), "-raw",
                "rounds/count time/nanoseconds[dflt] cpuTime/nanoseconds\n");
    cp_watch_close(watch);
    cp_m_detach(m);
}

/* ---- Gs, labels, forks ----------------------------------------------------------------------- */

enum { GS = 60, THREADS = 3, EACH = 5 };

static void run_labelled(void *arg)
{
    const intptr_t i = (intptr_t)arg;

    CHECK_EQ(cp_label_set("kind", i % 3 == 0 ? "third" : "other"), 0);
    CHECK_EQ(cp_label_set("g", "many"), 0); /* no key of the watch */
    cp_yield();
    from_here(EACH);
    cp_yield();
    from_there(1);
}

static void run_all_labelled(void *arg)
{
    (void)arg;
    for (intptr_t i = 0; i < GS; i++)
        CHECK_EQ(cp_go(run_labelled, (void *)i), 0);
}

/* Two Ms bring the same stack, which is one sample. */
CP_TEST(stacks_of_gs_are_folded_by_the_labels_of_the_watch)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = THREADS};
    struct cp_error err = {0};
    const char *path;
    char *text;

    open_for_stacks(NULL);
    CHECKF(cp_sched_run(&options, run_all_labelled, NULL, &err) == 0, "%s", err.message);
    path = write_begins(CP_FORM_PPROF, "gs.pb.gz");
    CHECK_PPROF(path, "-tags -sample_index=rounds", " kind: Total 360", "240.0 (66.67%): other",
                "120.0 (33.33%): third");
    CHECK_PPROF(path, "-symbolize=none -top -cum -sample_index=rounds -tagfocus=kind=third",
                "       100 27.78%", "  from_here", "        20  5.56%", "  from_there");
    text = pprof("-raw", path);
    CHECK(strstr(text, "many") == NULL);
    free(text);
    text = test_command(NULL,
                        "file=$(dpkg -L golang-github-google-pprof-dev | grep '/profile\\.proto$') && "
                        "gzip -dc %s | protoc --decode=perftools.profiles.Profile -I ${file%%/*} $file | "
                        "grep -c '^sample {'",
                        path);
    CHECK_STR(text, "4\n");
    free(text);
    cp_watch_close(watch);
}

/* The parent's side and the child's, each in its process. */
CP_TEST(sides_of_a_fork_are_labels)
{
    struct cp_m *m = attach_m();
    struct cp_watch_round round;
    pid_t pid;
    int status;

    open_for_stacks(NULL);
    CHECK_EQ(cp_watch_begin(watch, &round), 0);
    pid = fork();
    CHECK(pid >= 0);
    CHECK_EQ(cp_watch_end(&round), 0);
    from_here(2);
    CHECK_PPROF(write_begins(CP_FORM_PPROF, pid == 0 ? "child.pb.gz" : "parent.pb.gz"),
                "-tags -sample_index=rounds", " side: Total 1", pid == 0 ? ": child" : ": parent");
    if (pid == 0)
        _exit(0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    cp_watch_close(watch);
    cp_m_detach(m);
}

/* ---- Forms, names and mistakes --------------------------------------------------------------- */

CP_TEST(the_profile_may_be_a_text)
{
    struct cp_m *m = attach_m();
    struct cp_memory memory = {0};
    struct cp_error err = {0};

    open_for_stacks(NULL);
    from_there(7);
    CHECKF(cp_watch_write_profile_of("rounds", cp_writer_memory(&memory), CP_FORM_TEXT, &err) == 0, "%s",
           err.message);
    CHECK(memory.size > 0);
    memory.data[memory.size - 1] = '\0';
    CHECK_CONTAINS((char *)memory.data, "rounds profile: total 7\n7 @ 0x");
    CHECK_CONTAINS((char *)memory.data, "\tfrom_there+0x");
    free(memory.data);
    cp_watch_close(watch);
    cp_m_detach(m);
}

static void check_refused_write(int result, int expected, const struct cp_error *err, const char *part)
{
    CHECK_EQ(result, expected);
    CHECK_CONTAINS(err->message, part);
}

CP_TEST(what_has_no_stacks_is_refused_in_words)
{
    const struct cp_watch_keys_options of_keys = {.size = sizeof of_keys, .name = "queue"};
    struct cp_memory memory = {0};
    struct cp_writer w = cp_writer_memory(&memory);
    struct cp_watch_keys *keys;
    struct cp_error err = {0};

    CHECK_EQ(cp_watch_keys_open(&keys, &of_keys, &err), 0);
    watch = open_watch("plain", NULL);
    check_refused_write(cp_watch_write_profile(watch, w, CP_FORM_PPROF, &err), -EINVAL, &err,
                        "\"plain\" does not know where its rounds began. Open it with has_stacks");
    check_refused_write(cp_watch_write_profile_of("queue", w, CP_FORM_PPROF, &err), -EINVAL, &err,
                        "\"queue\" is for keys");
    check_refused_write(cp_watch_write_profile_of("none", w, CP_FORM_PPROF, &err), -ENOENT, &err,
                        "no open watch named \"none\"");
    check_refused_write(cp_watch_write_profile(watch, w, CP_FORM_STATES, &err), -EINVAL, &err, "no form 2");
    check_refused_write(cp_watch_write_profile(NULL, w, CP_FORM_PPROF, &err), -EINVAL, &err,
                        "No watch was given");
    check_refused_write(cp_watch_write_profile_of(NULL, w, CP_FORM_PPROF, &err), -EINVAL, &err,
                        "No watch was given");
    CHECK_EQ(memory.size, 0);
    cp_watch_close(watch);
    cp_watch_keys_close(keys);
}
