/* Profiles of what Gs wait for, read by go tool pprof and protoc. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/session_tools.h"
#include "tests/support/waiting.h"
#include "watch.h"

/* ---- A session ------------------------------------------------------------------------------- */

/* Records what play_on_one_m() does, and writes the profile to a file of the test's directory. */
static const char *record_to(const char *file, struct cp_profiling_option option)
{
    const char *path = file_in_dir(file);
    struct cp_session *session;
    struct cp_error err = {0};

    option.writer = cp_writer_path(path);
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    play_on_one_m();
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    cp_session_close(session);
    return path;
}

static const char *record_event(const char *event, uint64_t period)
{
    return record_to("waits.pb.gz", cp_option_event(cp_writer_path(""), event, period));
}

static void check_pprof(const char *path, const char *arguments, const char *const *parts)
{
    char *text = pprof(arguments, path);

    for (; *parts != NULL; parts++)
        CHECK_CONTAINS(text, *parts);
    free(text);
}
#define CHECK_PPROF(path, arguments, ...)                                                                    \
    check_pprof((path), (arguments), (const char *const[]){__VA_ARGS__, NULL})

/* With a period of 1 ns, each wait is recorded, so that the numbers are exact. */
CP_TEST(waits_are_counted_where_they_waited)
{
    const char *path = record_event("wait", 1);

    CHECK_PPROF(path, "-raw", "PeriodType: delay nanoseconds\n", "Period: 1\n",
                "waits/count delay/nanoseconds[dflt]\n");
    CHECK_PPROF(path, "-symbolize=none -top -cum -sample_index=waits -focus=wait_here",
                "Showing nodes accounting for 30, 100% of 30 total", " wait_here\n", " wait_often\n");
    CHECK_PPROF(path, "-tags -sample_index=waits", " 30.0 (  100%): park\n", " 30.0 (  100%): waiter\n");
    CHECK_PPROF(path, "-comments", "event: wait\n", "engine: runtime # ", "period: 1 # ns", "samples: 30 # ",
                "limits: none");
}

CP_TEST(locks_are_counted_where_they_were_released)
{
    const char *path = record_event("lock", 1);

    CHECK_PPROF(path, "-raw", "PeriodType: delay nanoseconds\n",
                "contentions/count delay/nanoseconds[dflt]\n");
    CHECK_PPROF(path, "-symbolize=none -top -cum -sample_index=contentions -focus=release_here",
                "Showing nodes accounting for 30, 100% of 30 total", " release_here\n", " release_often\n");
    CHECK_PPROF(path, "-tags -sample_index=contentions", " 30.0 (  100%): park\n",
                " 30.0 (  100%): releaser\n");
}

CP_TEST(delays_are_counted_where_the_g_could_run)
{
    const char *path = record_event("runnable", 1);

    CHECK_PPROF(path, "-raw", "delays/count delay/nanoseconds[dflt]\n");
    CHECK_PPROF(path, "-symbolize=none -top -cum -sample_index=delays -focus=wait_here", " wait_here\n",
                " wait_often\n");
}

/* The names and the period of what net/http/pprof calls block. */
CP_TEST(types_can_be_those_of_go)
{
    struct cp_profiling_option option = cp_option_event(cp_writer_path(""), "wait", 1);
    const char *path;

    option.flags = CP_OPTION_CONTENTIONS;
    path = record_to("go.pb.gz", option);
    CHECK_PPROF(path, "-raw", "PeriodType: contentions count\n", "Period: 1\n",
                "contentions/count delay/nanoseconds[dflt]\n");
    CHECK_PPROF(path, "-symbolize=none -top -sample_index=contentions", "of 30 total");
}

/* ---- Beside others --------------------------------------------------------------------------- */

/* A slot samples one event, and recordings have the others; a second session has its own. */
CP_TEST(sessions_record_and_sample_at_once)
{
    struct cp_memory memory[4] = {{0}};
    const struct cp_profiling_option options[] = {cp_option_event(cp_writer_memory(&memory[0]), "wait", 1),
                                                  cp_option_event(cp_writer_memory(&memory[1]), "timer", 0),
                                                  cp_option_event(cp_writer_memory(&memory[2]), "lock", 1)};
    const struct cp_profiling_option other = cp_option_event(cp_writer_memory(&memory[3]), "wait", 1);
    struct cp_slot_stats stats = {.size = sizeof stats};
    struct cp_session *session, *second;
    struct cp_error err = {0};

    CHECKF(cp_session_start(&session, options, 3, &err) == 0, "%s", err.message);
    play_on_one_m();
    CHECKF(cp_session_start(&second, &other, 1, &err) == 0, "%s", err.message);
    play_on_one_m();
    CHECK_EQ(cp_session_stats(session, 0, &stats), 0);
    CHECK_EQ(stats.samples, 2 * PARKS);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    CHECKF(cp_session_stop(second, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_session_stats(session, 0, &stats), 0);
    CHECK_EQ(stats.samples, 2 * PARKS);
    CHECK_EQ(cp_session_stats(session, 1, &stats), 0);
    CHECK(stats.cpu_ns > 0);
    CHECK_EQ(cp_session_stats(second, 0, &stats), 0);
    CHECK_EQ(stats.samples, PARKS);
    cp_session_close(session);
    cp_session_close(second);
    for (size_t i = 0; i < 4; i++) {
        CHECK(memory[i].size > 0);
        free(memory[i].data);
    }
}

/* What happened before the start and after the halt is in no profile. */
CP_TEST(a_halted_session_records_no_more)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "wait", 1);
    struct cp_session *session;
    struct cp_error err = {0};

    play_on_one_m();
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    play_on_one_m();
    CHECKF(cp_session_halt(session, &err) == 0, "%s", err.message);
    play_on_one_m();
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    save(&memory, file_in_dir("halted.pb.gz"));
    CHECK_PPROF(file_in_dir("halted.pb.gz"), "-symbolize=none -top -sample_index=waits", "of 30 total");
    cp_session_close(session);
    free(memory.data);
}

/* Go's own form, with the time in ns before the number. Readers of the old form read it, too. */
CP_TEST(the_text_is_that_of_go)
{
    const char *path = file_in_dir("waits.txt");
    struct cp_memory memory = {0}, text = {0};
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "wait", 1);
    struct cp_session *session;
    struct cp_error err = {0};

    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    play_on_one_m();
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    CHECKF(cp_session_write_text(session, 0, cp_writer_memory(&text), &err) == 0, "%s", err.message);
    save(&text, path);
    CHECK_PPROF(path, "-symbolize=none -raw", "contentions/count delay/nanoseconds");
    text.data[text.size - 1] = '\0';
    CHECK(strncmp((char *)text.data, "--- contention:\ncycles/second=1000000000\n# event: wait\n", 55) == 0);
    CHECK_CONTAINS((char *)text.data, " 30 @ 0x");
    CHECK_CONTAINS((char *)text.data, "# labels: {\"reason\":\"park\", \"role\":\"waiter\"}\n");
    CHECK_CONTAINS((char *)text.data, "\twait_here+0x");
    cp_session_close(session);
    free(memory.data);
    free(text.data);
}

/* ---- Stacks that cannot be copied ------------------------------------------------------------- */

static int copy_error; /* of each call of process_vm_readv(); 0: the call is the kernel's */

static long copy_or_fail(long number, const long arguments[6])
{
    if (number != SYS_process_vm_readv || copy_error == 0)
        return sim_hand_on(number, arguments);
    errno = copy_error;
    return -1;
}

/* Waits until the session has looked at the waiting thread a few times. */
__attribute__((noinline)) static void stand_still(struct cp_session *session)
{
    struct cp_slot_stats stats = {.size = sizeof stats};

    cp_wait_begin(CP_WAIT_IO, NULL);
    while (stats.samples < 5) {
        usleep(1000);
        CHECK_EQ(cp_session_stats(session, 0, &stats), 0);
    }
    cp_wait_end();
}

/* Returns what go tool pprof says of a thread that has stood still: its comments, and where it stood. */
static char *record_standing(int error)
{
    const char *path = file_in_dir("wall.pb.gz");
    const struct cp_profiling_option option = cp_option_event(cp_writer_path(path), "wall", 1000000);
    struct cp_session *session;
    struct cp_error err = {0};

    copy_error = error;
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    stand_still(session);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    cp_session_close(session);
    return pprof("-symbolize=none -traces -tagfocus=state=waiting", path);
}

CP_TEST(a_profile_says_that_stacks_cannot_be_copied)
{
    static const int refused[] = {EPERM, ENOSYS};
    char *text;

    attach();
    sim_hook(copy_or_fail);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        text = record_standing(refused[i]);
        CHECK_CONTAINS(text, "\nstacks: none # the system does not let the process copy its own memory by "
                             "process_vm_readv(), so ");
        CHECK_CONTAINS(text, "\nlimits: stacks");
        CHECK_CONTAINS(text, "reason:  io\n");
        CHECKF(strstr(text, " stand_still\n") == NULL, "%s", text);
        free(text);
    }
    text = record_standing(EFAULT); /* a stack that is gone is no refusal */
    CHECKF(strstr(text, "\nstacks: none") == NULL && strstr(text, " stand_still\n") == NULL, "%s", text);
    free(text);
    text = record_standing(0);
    CHECKF(strstr(text, "\nstacks: none") == NULL && strstr(text, " stand_still\n") != NULL, "%s", text);
    free(text);
}

/* ---- Nothing to tell ------------------------------------------------------------------------- */

CP_TEST(an_empty_profile_says_why)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "runnable", 0);
    struct cp_session *session;
    struct cp_error err = {0};

    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    CHECK(cp_session_warning(session, 0) == NULL);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    CHECK_CONTAINS(cp_session_warning(session, 0),
                   "The profile of runnable is empty: no green thread is known ");
    CHECK_CONTAINS(cp_session_warning(session, 0), "the period of 1000000 ns");
    save(&memory, file_in_dir("empty.pb.gz"));
    CHECK_PPROF(file_in_dir("empty.pb.gz"), "-comments", "empty: longer # no green thread ",
                "limits: empty # ");
    cp_session_close(session);
    free(memory.data);
}

static sem_t thread_waits, thread_may_end;

static void *wait_for_long(void *unused)
{
    struct cp_m *m;

    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    cp_wait_begin(CP_WAIT_SEMAPHORE, &thread_may_end);
    sem_post(&thread_waits);
    sem_wait(&thread_may_end);
    cp_wait_end();
    cp_m_detach(m);
    return unused;
}

/* A wait is recorded when it ends. */
CP_TEST(waits_that_have_not_ended_are_told)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "wait", 0);
    struct cp_session *session;
    struct cp_error err = {0};
    pthread_t thread;

    sem_init(&thread_waits, 0, 0);
    sem_init(&thread_may_end, 0, 0);
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    CHECK_EQ(pthread_create(&thread, NULL, wait_for_long, NULL), 0);
    sem_wait(&thread_waits);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    sem_post(&thread_may_end);
    pthread_join(thread, NULL);
    save(&memory, file_in_dir("open.pb.gz"));
    CHECK_PPROF(file_in_dir("open.pb.gz"), "-comments", "open: 1 # waits had not ended",
                "empty: longer # nothing that the runtime tells of has ended a wait as long as ");
    cp_session_close(session);
    free(memory.data);
}

CP_TEST(without_accounts_a_session_is_refused)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "wait", 0);
    struct state before;
    struct cp_session *session;
    struct cp_error err = {0};

    attach();
    cp_accounts_set(false);
    before = state_now();
    check_refused(cp_session_start(&session, &option, 1, &err), -EINVAL, &err, "ccounts", &before);
    CHECK_EQ(memory.size, 0);
    free(memory.data);
}

/* The recording keeps accounts, and with them the waits. */
CP_TEST(a_session_records_all_waits_if_accounts_are_switched_off_meanwhile)
{
    const char *path = file_in_dir("off.pb.gz");
    const struct cp_profiling_option option = cp_option_event(cp_writer_path(path), "wait", 1);
    struct cp_account account = {.size = sizeof account};
    struct cp_session *session;
    struct cp_error err = {0};
    struct cp_g g;

    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    cp_accounts_set(false);
    play_on_one_m();
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    CHECK(cp_session_warning(session, 0) == NULL);
    cp_session_close(session);
    CHECK_PPROF(path, "-symbolize=none -top -cum -sample_index=waits -focus=wait_here",
                "Showing nodes accounting for 30, 100% of 30 total", " wait_here\n");
    CHECK_PPROF(path, "-comments", "samples: 30 # ", "limits: none");
    cp_g_init(&g, NULL, NULL, NULL);
    CHECK_EQ(cp_g_stats(&g, &account), -ENODATA); /* accounts have ended with the recording */
    cp_g_fini(&g);
}

/* A profile without samples says why, and accounts are no reason. */
CP_TEST(an_empty_profile_of_waits_does_not_blame_accounts)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "wait", 0);
    struct cp_session *session;
    struct cp_error err = {0};

    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    cp_accounts_set(false);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    CHECK_CONTAINS(cp_session_warning(session, 0), "the period of 1000000 ns");
    cp_session_close(session);
    free(memory.data);
}

CP_TEST(bad_options_of_waits_are_refused)
{
    struct cp_cpu_profile_config config = {.size = sizeof config};
    struct cp_memory memory = {0};
    struct cp_profiling_option bad[] = {
        cp_option_event(cp_writer_memory(&memory), "wait:u", 0),
        cp_option_event(cp_writer_memory(&memory), "wait", UINT64_MAX),
        cp_option_config(cp_writer_memory(&memory), "lock", &config),
        cp_option_event(cp_writer_memory(&memory), "wait", 1),
        cp_option_event(cp_writer_memory(&memory), "timer", 0),
    };
    static const char *const said[] = {"suffix", "too large", "period of 0", "does not know: 0x2",
                                       "is no wait"};
    struct cp_session *session;
    struct cp_error err = {0};
    struct state before;

    attach();
    before = state_now();
    bad[3].flags = CP_OPTION_CONTENTIONS << 1;
    bad[4].flags = CP_OPTION_CONTENTIONS;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check_refused(cp_session_start(&session, &bad[i], 1, &err), -EINVAL, &err, said[i], &before);
    CHECK_EQ(memory.size, 0);
}

/* The recording of the other part has ended, too: there is room for as many as there were. */
CP_TEST(a_refused_event_ends_the_recordings)
{
    const struct cp_cpu_profile_config bad = {.size = sizeof bad}; /* without a rate */
    struct cp_memory memory[2] = {{0}};
    const struct cp_profiling_option options[] = {
        cp_option_event(cp_writer_memory(&memory[0]), "wait", 1),
        cp_option_config(cp_writer_memory(&memory[1]), "timer", &bad),
    };
    struct cp_session *session;
    struct cp_error err = {0};

    for (int i = 0; i < 20; i++)
        CHECK_EQ(cp_session_start(&session, options, 2, &err), -EINVAL);
    CHECKF(cp_session_start(&session, options, 1, &err) == 0, "%s", err.message);
    cp_session_close(session);
    CHECK_EQ(memory[0].size, 0);
}

/* Neither is there an event of the kernel's that a watch could count. */
CP_TEST(watches_do_not_count_waits)
{
    const struct cp_watch_options options = {.size = sizeof options, .name = "w", .quantities = "lock"};
    struct cp_watch *watch;
    struct cp_error err = {0};

    CHECK_EQ(cp_watch_open(&watch, &options, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "The event lock cannot be counted");
}
