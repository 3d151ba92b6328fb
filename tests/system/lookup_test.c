/* What monitoring programs ask for besides profiles: names of addresses, which threads are Ms, how many
 * samples were taken, and a profile as text. */
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/session_tools.h"

/* ---- Addresses ------------------------------------------------------------------------------- */

struct names {
    char text[4][64];
};

static int take_name(void *context, size_t i, const char *function)
{
    struct names *names = context;

    snprintf(names->text[i], sizeof names->text[i], "%s", function);
    return 0;
}

static int end_at_once(void *calls, size_t i, const char *function)
{
    (void)i;
    (void)function;
    ++*(int *)calls;
    return -ECANCELED;
}

CP_TEST(addresses_have_names_whatever_their_order)
{
    struct names names = {0};
    const uintptr_t addresses[] = {(uintptr_t)pthread_create, (uintptr_t)burn_here + 1, 1,
                                   (uintptr_t)take_name};
    int calls = 0;

    CHECK_EQ(cp_symbol_each(addresses, 4, take_name, &names), 0);
    CHECK_STR(names.text[1], "burn_here");
    CHECK_STR(names.text[2], "");
    CHECK_STR(names.text[3], "take_name");
    CHECK_EQ(cp_symbol_each(addresses, 0, take_name, &names), 0);
    CHECK_EQ(cp_symbol_each(addresses, 4, end_at_once, &calls), -ECANCELED);
    CHECK_EQ(calls, 1);
    if (!TEST_ASAN && !TEST_TSAN) /* a sanitizer has a function of its own there */
        CHECK_CONTAINS(names.text[0], "pthread_create");
}

/* ---- Threads --------------------------------------------------------------------------------- */

static pthread_barrier_t barrier;

__attribute__((noinline)) static void attach_worker(void)
{
    attach();
    __asm__ volatile("");
}

static void *worker(void *arg)
{
    pthread_setname_np(pthread_self(), "a \"worker\" \xc3\xa9\xc3"); /* the last character is cut short */
    attach_worker();
    *(pid_t *)arg = (pid_t)syscall(SYS_gettid);
    pthread_barrier_wait(&barrier); /* the thread has attached */
    pthread_barrier_wait(&barrier); /* the test has looked at the thread */
    return NULL;
}

static void with_worker(void (*look)(pid_t tid))
{
    pthread_t thread;
    pid_t tid;

    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, worker, &tid);
    pthread_barrier_wait(&barrier);
    look(tid);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
}

static void look_at_text(pid_t tid)
{
    struct cp_memory text = {0};
    char thread[64];

    CHECK_EQ(cp_thread_profile(cp_writer_memory(&text), CP_FORM_TEXT, NULL), 0);
    save(&text, file_in_dir("threads.txt"));
    free(text.data);
    char *shown = test_command(NULL, "cat %s", file_in_dir("threads.txt"));
    snprintf(thread, sizeof thread, "# labels: {\"thread\":\"a \\\"worker\\\" \xc3\xa9\\ufffd/%d\"}\n",
             (int)tid);
    CHECK_CONTAINS(shown, "threadcreate profile: total 2\n1 @ 0x");
    CHECK_CONTAINS(shown, thread);
    CHECK_CONTAINS(shown, "attach_worker");
    free(shown);
}

CP_TEST(the_threads_that_are_Ms_are_listed_as_text)
{
    attach();
    with_worker(look_at_text);
}

static void look_at_profile(pid_t tid)
{
    struct cp_memory memory = {0};
    char thread[64];

    CHECK_EQ(cp_thread_profile(cp_writer_memory(&memory), CP_FORM_PPROF, NULL), 0);
    save(&memory, file_in_dir("threads.pb.gz"));
    free(memory.data);
    char *top = pprof("-top -sample_index=threadcreate", file_in_dir("threads.pb.gz"));
    CHECK_CONTAINS(top, "Type: threadcreate");
    CHECK_CONTAINS(top, "attach_worker");
    free(top);
    char *raw = pprof("-raw", file_in_dir("threads.pb.gz"));
    CHECK_CONTAINS(raw, "Samples:\nthreadcreate/count");
    free(raw);
    char *tags = pprof("-tags", file_in_dir("threads.pb.gz"));
    snprintf(thread, sizeof thread, "a \"worker\" \xc3\xa9?/%d", (int)tid);
    CHECK_CONTAINS(tags, thread);
    free(tags);
}

CP_TEST(the_threads_that_are_Ms_are_a_profile)
{
    with_worker(look_at_profile);
}

static void nothing(pid_t tid)
{
    (void)tid;
}

static int count_m(void *context, const struct cp_m_info *m)
{
    (void)m;
    ++*(unsigned *)context;
    return 0;
}

static int end_with_first(void *context, const struct cp_m_info *m)
{
    CHECK_EQ(m->size, sizeof *m);
    ++*(unsigned *)context;
    return 17;
}

SIM_TEST(threads_that_ended_are_not_listed)
{
    struct cp_runtime_stats stats = {.size = sizeof stats};
    unsigned listed = 0;

    CHECK_EQ(cp_set_cpu_profile_rate(100, NULL), 0); /* keeps an M until its samples have been read */
    with_worker(nothing);
    cp_m_each(count_m, &listed);
    CHECK_EQ(listed, 0);
    cp_runtime_stats(&stats);
    CHECK_EQ(stats.ms, 0);
    attach();
    CHECK_EQ(cp_m_each(count_m, &listed), 0);
    CHECK_EQ(listed, 1);
    CHECK_EQ(cp_m_each(end_with_first, &listed), 17);
    CHECK_EQ(listed, 2);
    cp_runtime_stats(&stats);
    CHECK_EQ(stats.ms, 1);
}

static ssize_t refuse(void *context, const void *data, size_t size)
{
    (void)context, (void)data, (void)size;
    return -ENOSPC;
}

CP_TEST(a_list_of_threads_that_cannot_be_written_says_so)
{
    struct cp_error err;

    for (enum cp_profile_form form = CP_FORM_PPROF; form <= CP_FORM_TEXT; form++) {
        attach();
        CHECK_EQ(cp_thread_profile(cp_writer_callback(refuse, NULL), form, &err), -ENOSPC);
        CHECK_CONTAINS(err.message, "No space left on device");
    }
}

/* ---- A profile as text ----------------------------------------------------------------------- */

static struct cp_session *stopped_session(struct cp_memory *memory)
{
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(memory), "taskClock", 100000);
    struct cp_session *session;
    struct cp_error err;

    attach();
    cp_label_set("role", "tester");
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    CHECK_EQ(cp_session_write_text(session, 0, cp_writer_memory(memory), &err), -EBUSY);
    burn_here(100000000);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    return session;
}

SIM_TEST(a_profile_as_text_has_names_for_people_and_addresses_for_tools)
{
    struct cp_memory memory = {0};
    struct cp_session *session = stopped_session(&memory);

    memory.size = 0;
    CHECK_EQ(cp_session_write_text(session, 0, cp_writer_memory(&memory), NULL), 0);
    CHECK_EQ(cp_session_write_text(session, 1, cp_writer_memory(&memory), NULL), -EINVAL);
    cp_session_close(session);
    save(&memory, file_in_dir("profile.txt"));
    free(memory.data);
    char *text = test_command(NULL, "cat %s", file_in_dir("profile.txt"));
    CHECK_CONTAINS(text, "# a sample stands for 100000 ns\nsamples profile: total 1000\n");
    CHECK_CONTAINS(text, "# labels: {\"role\":\"tester\"}\n");
    CHECK_CONTAINS(text, "\tburn_here+0x");
    CHECK_CONTAINS(text, "session_tools.h:");
    CHECK_CONTAINS(text, "--- Memory map: ---\n");
    free(text);
    /* Readers of the text take addresses and mappings from it, and the names from the program's file. */
    check_names_burn(file_in_dir("profile.txt"));
}

/* ---- Counters -------------------------------------------------------------------------------- */

SIM_TEST(counters_outlive_their_sessions)
{
    struct cp_memory memory = {0};
    struct cp_runtime_stats before = {.size = sizeof before}, stats = {.size = sizeof stats};
    struct cp_slot_stats of_session = {.size = sizeof of_session}, totals = {.size = sizeof totals};
    struct cp_session *session;
    uint64_t counted = 0;

    sim->clock_ns = 1000; /* between the two readings of a handler that is timed */
    cp_runtime_stats(&before);
    cp_slots_totals(&totals);
    CHECK_EQ(totals.samples, 0);
    for (uint64_t n = 1; n <= 2; n++, before = stats) {
        session = stopped_session(&memory);
        cp_session_stats(session, 0, &of_session);
        cp_runtime_stats(&stats);
        CHECK_EQ(of_session.samples, 1000);
        CHECK(of_session.count >= 100000000);
        cp_slots_totals(&totals);
        CHECK_EQ(totals.samples, 1000 * n);
        CHECK_EQ(totals.signals, 1000 * n);
        counted += of_session.count;
        CHECK_EQ(totals.count, counted);
        CHECK_EQ(totals.ms, n);
        CHECK(stats.handler_ns > before.handler_ns);
        CHECK_EQ(stats.slots, 0);
        cp_session_close(session);
    }
    free(memory.data);
    cp_m_detach(cp_m_self());
    cp_runtime_stats(&stats);
    CHECK_EQ(stats.ms, 0);
    CHECK_EQ(stats.handler_ns, before.handler_ns);
}

SIM_TEST(counters_rise_while_a_session_runs)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option = cp_option_event(cp_writer_memory(&memory), "taskClock", 100000);
    struct cp_runtime_stats stats = {.size = sizeof stats};
    struct cp_slot_stats totals = {.size = sizeof totals};
    struct cp_session *session;

    attach();
    CHECK_EQ(cp_session_start(&session, &option, 1, NULL), 0);
    burn_here(50000000);
    cp_runtime_stats(&stats);
    cp_slots_totals(&totals);
    CHECK_EQ(stats.slots, 1);
    CHECK_EQ(totals.samples, 500);
    burn_here(50000000);
    cp_slots_totals(&totals);
    CHECK_EQ(totals.samples, 1000);
    cp_session_close(session);
    free(memory.data);
}
