/* Profiles of a program whose green threads pass watches: go tool pprof cuts them to a watch, and to its
 * slowest rounds. */
#include <unistd.h>

#include "sched.h"
#include "tests/support/session_tools.h"
#include "watch.h"

#define PERIOD test_period(100000, 1)

/* The G runs for so many periods, in code that a test finds by its name. The number keeps the compiler from
 * making one function of all. */
#define WORK(name, number)                                                                                   \
    __attribute__((noinline)) static void name(int periods)                                                  \
    {                                                                                                        \
        __asm__ volatile("" : : "i"(number));                                                                \
        SIM_RUN((uint64_t)periods *PERIOD);                                                                  \
    }
WORK(parse_fast, 1)
WORK(parse_slow, 2)
WORK(sort_all, 3)
WORK(rest, 4)

static struct cp_watch *open_timed(const char *name)
{
    const struct cp_watch_options options = {.size = sizeof options, .name = name};
    struct cp_watch *watch = NULL;
    struct cp_error err = {0};

    CHECKF(cp_watch_open(&watch, &options, &err) == 0, "%s", err.message);
    return watch;
}

static struct cp_watch *parse, *sort;
enum { SLOW_MS = 60 };

/* The slow round waits for some time. */
static void parse_one(intptr_t i)
{
    if (i != 7) {
        parse_fast(1);
        return;
    }
    parse_slow(5);
    usleep(SLOW_MS * 1000);
    cp_yield();
    parse_slow(6);
}

static void sort_one(void)
{
    CP_WATCH_SCOPE(sort);
    sort_all(2);
}

/* A round of "parse", and for every fourth G a round of "sort" in it. */
static void pass(void *arg)
{
    const intptr_t i = (intptr_t)arg;

    CP_WATCH(parse)
    {
        parse_one(i);
        if (i % 4 == 0)
            sort_one();
    }
    rest(3);
}

enum { GS = 100 };

static void run_all(void *arg)
{
    (void)arg;
    for (intptr_t i = 0; i < GS; i++)
        CHECK_EQ(cp_go(pass, (void *)i), 0);
}

static void profile_gs(struct cp_writer w)
{
    struct cp_sched_options options = {.size = sizeof options, .threads = 2};
    struct cp_error err = {0};

    CHECKF(cp_start_cpu_profile_with_config(&err, cp_option_event(w, "taskClock", PERIOD)) == 0, "%s",
           err.message);
    CHECKF(cp_sched_run(&options, run_all, NULL, &err) == 0, "%s", err.message);
    CHECKF(cp_stop_cpu_profile(&err) == 0, "%s", err.message);
}

/* Checks how many samples are shown of a function; 0: none. */
static void check_shown(const char *top, const char *function, int samples)
{
    char line[160];

    snprintf(line, sizeof line, "%10d ", samples);
    if (samples == 0) {
        CHECKF(strstr(top, function) == NULL, "%s in %s", function, top);
        return;
    }
    for (const char *at = top; (at = strstr(at, line)) != NULL; at++) {
        const char *end = strchr(at, '\n');
        const size_t n = end == NULL ? strlen(at) : (size_t)(end - at);

        if (n > strlen(function) && strncmp(at + n - strlen(function), function, strlen(function)) == 0)
            return;
    }
    TEST_FAIL("not %d of %s in %s", samples, function, top);
}

static void check_cut(const char *path, const char *options, int fast, int slow, int sorted, int others)
{
    char arguments[300], *top;

    snprintf(arguments, sizeof arguments, "-symbolize=none -top -nodefraction=0 -sample_index=samples %s",
             options);
    top = pprof(arguments, path);
    check_shown(top, "parse_fast", fast);
    check_shown(top, "parse_slow", slow);
    check_shown(top, "sort_all", sorted);
    check_shown(top, " rest", others);
    free(top);
}

/* Copies what pprof is to be given, from the comment that tells it. */
static void read_filter(const char *comments, const char *key, char *filter, size_t size)
{
    const char *line = strstr(comments, key), *from, *to;

    CHECKF(line != NULL, "%s", comments);
    from = strstr(line, "-tagfocus=");
    CHECKF(from != NULL, "%s", line);
    to = strchr(from, '\n');
    CHECK(to != NULL && (size_t)(to - from) < size);
    memcpy(filter, from, (size_t)(to - from));
    filter[to - from] = '\0';
}

SIM_TEST(a_profile_is_cut_to_a_watch_and_to_its_slowest_rounds)
{
    const char *path = file_in_dir("watch.pb.gz");
    struct cp_memory memory = {0};
    char *comments, filter[200];

    parse = open_timed("parse");
    sort = open_timed("sort");
    profile_gs(cp_writer_memory(&memory));
    save(&memory, path);
    free(memory.data);
    check_cut(path, "", GS - 1, 11, 2 * GS / 4, 3 * GS);
    check_cut(path, "-tagfocus=watch=parse", GS - 1, 11, 2 * GS / 4, 0);
    check_cut(path, "-tagfocus=watch=sort", 0, 0, 2 * GS / 4, 0);
    check_cut(path, "-tagignore=watch", 0, 0, 0, 3 * GS);
    comments = pprof("-comments", path);
    read_filter(comments, "watch: parse # 100 of its rounds have samples, of which 100 had ended", filter,
                sizeof filter);
    check_cut(path, filter, GS - 1, 11, 2 * GS / 4, 0);
    free(comments);
    comments = pprof("-top -tagfocus=parse=60ms:", path);
    CHECK_CONTAINS(comments, "parse_slow");
    free(comments);
    cp_watch_close(parse);
    cp_watch_close(sort);
}

/* The bound of the slowest 1 % keeps one of 100 rounds, whichever was the slowest. */
SIM_TEST(the_slowest_hundredth_of_a_hundred_rounds_is_one)
{
    const char *path = file_in_dir("slow.pb.gz");
    struct cp_memory memory = {0};
    char *text, filter[200], arguments[300];
    unsigned n = 0;

    parse = open_timed("parse");
    profile_gs(cp_writer_memory(&memory));
    save(&memory, path);
    free(memory.data);
    text = pprof("-comments", path);
    read_filter(text, "watch_slowest: ", filter, sizeof filter);
    free(text);
    snprintf(arguments, sizeof arguments, "-raw %s", filter);
    text = pprof(arguments, path);
    for (const char *at = text; (at = strstr(at, " parse:[")) != NULL; at++)
        n++;
    CHECKF(n >= 1 && n <= 4, "%u stacks: %s", n, text);
    free(text);
    cp_watch_close(parse);
}
