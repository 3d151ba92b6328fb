/* The endpoint's profiles of waits: block, mutex, and the events. */
#include <sys/wait.h>

#include "tests/support/http_tools.h"
#include "tests/support/waiting.h"

/* Returns what go tool pprof prints of a profile of the endpoint. */
static char *pprof_of(const struct cp_http *http, const char *path, const char *arguments)
{
    char url[300];

    snprintf(url, sizeof url, "'http://%s" PPROF "/%s'", cp_http_address(http), path);
    return pprof(arguments, url);
}

static void check_pprof_of(const struct cp_http *http, const char *path, const char *arguments,
                           const char *const *parts)
{
    char *text = pprof_of(http, path, arguments);

    for (; *parts != NULL; parts++)
        CHECK_CONTAINS(text, *parts);
    free(text);
}
#define CHECK_PPROF_OF(http, path, arguments, ...)                                                           \
    check_pprof_of((http), (path), (arguments), (const char *const[]){__VA_ARGS__, NULL})

/* ---- What the program records ---------------------------------------------------------------- */

CP_TEST(block_and_mutex_are_what_the_program_has_recorded)
{
    struct cp_http *http = start_http(NULL);
    struct cp_error err = {0};

    CHECKF(cp_contention_start(CP_CONTENTION_BLOCK, 1, &err) == 0, "%s", err.message);
    CHECKF(cp_contention_start(CP_CONTENTION_MUTEX, 1, &err) == 0, "%s", err.message);
    play_on_one_m();
    CHECK_PPROF_OF(http, "block", "-raw", "PeriodType: contentions count\n", "Period: 1\n",
                   "contentions/count delay/nanoseconds[dflt]\n");
    CHECK_PPROF_OF(http, "block", "-symbolize=none -top -cum -sample_index=contentions", "of 30 total",
                   " wait_here\n");
    CHECK_PPROF_OF(http, "mutex", "-symbolize=none -top -cum -sample_index=contentions", "of 30 total",
                   " release_here\n");
    play_on_one_m(); /* the recordings go on */
    cp_contention_stop(CP_CONTENTION_BLOCK);
    play_on_one_m();
    CHECK_PPROF_OF(http, "block", "-symbolize=none -top -sample_index=contentions", "of 60 total");
    CHECK_PPROF_OF(http, "mutex", "-symbolize=none -top -sample_index=contentions", "of 90 total");
    check_answer(http, "-o /dev/null -D - $base/block", 200,
                 "\nContent-Disposition: attachment; filename=\"block\"\n", NULL);
    cp_contention_stop(CP_CONTENTION_MUTEX);
    cp_http_stop(http);
}

CP_TEST(block_and_mutex_are_text_as_gos_are)
{
    struct cp_http *http = start_http(NULL);

    CHECK_EQ(cp_contention_start(CP_CONTENTION_BLOCK, 1, NULL), 0);
    CHECK_EQ(cp_contention_start(CP_CONTENTION_MUTEX, 1, NULL), 0);
    play_on_one_m();
    check_answer(http, "\"$base/block?debug=1\"", 200, "\nContent-Type: text/plain; charset=utf-8\n",
                 "\n--- contention:\ncycles/second=1000000000\n", " 30 @ 0x", "\twait_here+0x", NULL);
    check_answer(http, "\"$base/mutex?debug=1\"", 200, "\n--- mutex:\ncycles/second=1000000000\n", " 30 @ 0x",
                 "\trelease_here+0x", NULL);
    cp_contention_stop(CP_CONTENTION_BLOCK);
    cp_contention_stop(CP_CONTENTION_MUTEX);
    cp_http_stop(http);
}

/* The sentence reaches a person who asks with go tool pprof, too. */
CP_TEST(what_nobody_records_is_told)
{
    struct cp_http *http = start_http(NULL);
    int status;
    char *text;

    check_answer(http, "$base/block", 404, "does not record its block profile", "block?seconds=10", NULL);
    check_answer(http, "\"$base/mutex?debug=1\"", 404, "does not record its mutex profile", NULL);
    text = test_command(&status, "PPROF_TMPDIR=%s HOME=%s go tool pprof -raw http://%s" PPROF "/mutex 2>&1",
                        test_dir(), test_dir(), cp_http_address(http));
    CHECK_CONTAINS(text, "mutex?seconds=10 records for 10 seconds");
    CHECK(status != 0);
    free(text);
    cp_http_stop(http);
}

/* ---- Recorded for the request ---------------------------------------------------------------- */

static uint32_t is_over;

static void *play_again_and_again(void *arg)
{
    while (cp_load_acquire(&is_over) == 0) /* pairs with the release in end_play() */
        play_on_one_m();
    return arg;
}

static pthread_t begin_play(void)
{
    pthread_t thread;

    is_over = 0;
    CHECK_EQ(pthread_create(&thread, NULL, play_again_and_again, NULL), 0);
    return thread;
}

static void end_play(pthread_t thread)
{
    cp_store_release(&is_over, 1); /* pairs with the acquire in play_again_and_again() */
    pthread_join(thread, NULL);
}

CP_TEST(some_seconds_are_recorded_for_the_request)
{
    struct cp_http *http = start_http(NULL);
    const pthread_t thread = begin_play();

    CHECK_PPROF_OF(http, "block?seconds=1&period=1", "-raw", "PeriodType: contentions count\n",
                   "contentions/count delay/nanoseconds[dflt]\n", "wait_here", "reason:[park]");
    CHECK_PPROF_OF(http, "mutex?seconds=1&period=1", "-raw", "contentions/count delay/nanoseconds[dflt]\n",
                   "release_here");
    CHECK_PPROF_OF(http, "profile?event=wait:1&seconds=1", "-raw", "PeriodType: delay nanoseconds\n",
                   "waits/count delay/nanoseconds[dflt]\n", "wait_here");
    check_answer(http, "-o /dev/null -D - \"$base/block?seconds=1\"", 200,
                 "\nContent-Disposition: attachment; filename=\"block-delta\"\n", NULL);
    check_answer(http, "\"$base/profile?event=lock&period=1&seconds=1&debug=1\"", 200, "\n--- mutex:\n",
                 "\trelease_here+0x", NULL);
    end_play(thread);
    cp_http_stop(http);
}

CP_TEST(bad_queries_are_refused)
{
    struct cp_http *http = start_http(NULL);

    check_answer(http, "\"$base/block?seconds=1&debug=1\"", 400, "debug=1 asks for text", NULL);
    check_answer(http, "\"$base/block?period=1\"", 400, "give \"seconds\", too", NULL);
    check_answer(http, "\"$base/mutex?seconds=0\"", 400, "seconds", NULL);
    check_answer(http, "\"$base/mutex?event=wait\"", 400, "debug, seconds, period", NULL);
    check_answer(http, "\"$base/profile?event=wait:u\"", 400, "cannot have the suffix", NULL);
    cp_http_stop(http);
}

CP_TEST(the_pages_list_waits)
{
    struct cp_http *http = start_http(NULL);

    check_answer(
        http, "$base/", 200, "<a href=\"block?seconds=10\">block</a>",
        "<a href=\"profile?event=wait&amp;period=1000000&amp;seconds=10\">wait</a></td><td>1000000 ns</td>",
        "Who makes others wait", NULL);
    check_answer(http, "$base/ui/events.json", 200,
                 "\"period\":1000000,\"isTime\":true,\"isWait\":true,\"isWall\":false,\"maxRate\":0",
                 "\"period\":10000000,\"isTime\":true,\"isWait\":true,\"isWall\":true,\"maxRate\":0", NULL);
    cp_http_stop(http);
}

/* ---- The calls ------------------------------------------------------------------------------- */

CP_TEST(a_recording_starts_once)
{
    struct cp_memory memory = {0};
    struct cp_error err = {0};

    CHECK_EQ(cp_contention_start(CP_CONTENTION_BLOCK, 0, &err), 0);
    CHECK_EQ(cp_contention_start(CP_CONTENTION_BLOCK, 1000000, &err), 0); /* the preset */
    CHECK_EQ(cp_contention_start(CP_CONTENTION_BLOCK, 1, &err), -EBUSY);
    CHECK_CONTAINS(err.message, "with a period of 1000000 ns");
    CHECK_EQ(cp_contention_profile(CP_CONTENTION_MUTEX, cp_writer_memory(&memory), CP_FORM_PPROF, &err),
             -ESRCH);
    CHECK_EQ(cp_contention_profile(CP_CONTENTION_BLOCK, cp_writer_memory(&memory), CP_FORM_STATES, &err),
             -EINVAL);
    CHECK_EQ(cp_contention_profile((enum cp_contention)2, cp_writer_memory(&memory), CP_FORM_PPROF, &err),
             -EINVAL);
    CHECK_EQ(cp_contention_start((enum cp_contention)2, 0, &err), -EINVAL);
    CHECK_EQ(cp_contention_start(CP_CONTENTION_MUTEX, UINT64_MAX, &err), -EINVAL);
    CHECK_EQ(memory.size, 0);
    cp_contention_stop(CP_CONTENTION_BLOCK);
    cp_contention_stop(CP_CONTENTION_BLOCK);
    cp_contention_stop((enum cp_contention)2);
    CHECK_EQ(cp_contention_start(CP_CONTENTION_BLOCK, 1, &err), 0);
    play_on_one_m();
    cp_contention_stop(CP_CONTENTION_BLOCK);
    CHECK_EQ(cp_contention_start(CP_CONTENTION_BLOCK, 1, &err), 0); /* anew */
    cp_contention_stop(CP_CONTENTION_BLOCK);
    CHECK_EQ(cp_contention_profile(CP_CONTENTION_BLOCK, cp_writer_memory(&memory), CP_FORM_PPROF, &err), 0);
    save(&memory, file_in_dir("anew.pb.gz"));
    free(memory.data);
    memory.data = (unsigned char *)pprof("-comments", file_in_dir("anew.pb.gz"));
    CHECK_CONTAINS((char *)memory.data, "empty: longer # nothing ");
    free(memory.data);
}

CP_TEST(a_child_records_nothing)
{
    struct cp_memory memory = {0};
    int status;

    CHECK_EQ(cp_contention_start(CP_CONTENTION_BLOCK, 1, NULL), 0);
    if (fork() == 0) {
        struct cp_error err = {0};
        const int before =
            cp_contention_profile(CP_CONTENTION_BLOCK, cp_writer_memory(&memory), CP_FORM_PPROF, &err);
        const int start = cp_contention_start(CP_CONTENTION_BLOCK, 1, &err);

        cp_contention_stop(CP_CONTENTION_BLOCK);
        _exit(before == -ESRCH && start == 0 ? 0 : 1);
    }
    CHECK(wait(&status) > 0);
    CHECK_EQ(status, 0);
    play_on_one_m();
    CHECK_EQ(cp_contention_profile(CP_CONTENTION_BLOCK, cp_writer_memory(&memory), CP_FORM_TEXT, NULL), 0);
    CHECKF(memmem(memory.data, memory.size, " 30 @ 0x", 8) != NULL, "%.*s", (int)memory.size, memory.data);
    cp_contention_stop(CP_CONTENTION_BLOCK);
    free(memory.data);
}
