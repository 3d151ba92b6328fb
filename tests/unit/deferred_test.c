/*
 * Programs that are built with ThreadSanitizer, played here: it keeps signals back, and calls their handlers
 * in functions of the C library that it replaces, whatever the thread blocks. So a handler may run in the
 * midst of what the library does with its signals blocked. There it must find nothing that is unmapped,
 * closed or freed already. The tests go further, and call the handler before and after each system call of
 * the library's.
 */
#include "tests/support/burn.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "runtime/base/os.h"
#include "runtime/m.h"

/* ---- A signal that was kept back ------------------------------------------------------------- */

static _Thread_local bool plays; /* the handler is called on this thread */
static _Thread_local int calls;  /* how often it was */

/* Calls the handler of SIGPROF as ThreadSanitizer does: not by the kernel, on the stack that the thread runs
 * on. The signal is one of an event's that the M does not know any more. */
static void call_handler(void)
{
    siginfo_t info = {.si_signo = SIGPROF, .si_code = POLL_IN, .si_fd = -1};
    struct sigaction action;
    ucontext_t context;

    CHECK_EQ(sigaction(SIGPROF, NULL, &action), 0);
    if ((action.sa_flags & SA_SIGINFO) == 0)
        return;
    calls++;
    getcontext(&context);
    action.sa_sigaction(SIGPROF, &info, &context);
}

/* If nobody has the claim, the handler itself does what the section is about to do. */
static void deliver(void)
{
    const struct cp__m *m = cp__m_current;

    if (!plays || (m != NULL && cp_load_relaxed(&m->claim) == CP__CLAIM_NONE)) /* relaxed: of this thread */
        return;
    plays = false;
    call_handler();
    plays = true;
}

static long hand_on_and_deliver(long number, const long arguments[6])
{
    long result;

    deliver();
    result = sim_hand_on(number, arguments);
    deliver();
    return result;
}

/* ---- What a handler can see ------------------------------------------------------------------ */

/* Records wait in the ring, because SIGPROF is blocked. */
static void leave_records(void)
{
    const uint64_t sigprof = (uint64_t)1 << (SIGPROF - 1);

    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &sigprof, NULL, sizeof sigprof);
    burn_a(3 * MS);
}

/* The thread is interrupted all the while that its detach takes. */
static void body_detaches(struct worker *worker)
{
    (void)worker;
    burn_a(3 * MS);
    leave_records();
    plays = true;
}

/* Checks that each period is a sample, once. */
static void check_figures(const struct profile *profile)
{
    for (size_t i = 0; i < profile->n; i++) {
        CHECK_EQ(profile->seen[i].weight, profile->stats[i].samples);
        CHECK_EQ(profile->stats[i].dropped + profile->stats[i].lost, 0);
        if (profile->is_clock[i])
            CHECK_EQ(profile->stats[i].samples, 6);
    }
}

/* An event by SIGPROF, one that pauses, one without a ring of its own, and a timer. */
static size_t make_requests(struct cp_slot_request requests[3])
{
    requests[0] = signal_request("taskClock", MS);
    requests[1] = signal_request("pageFaults", 1);
    requests[2] = request("timer", 4 * MS);
    return 3;
}

static void play_sanitizer(bool does)
{
    sim_defer(does ? deliver : NULL);
    sim_hook(does ? hand_on_and_deliver : sim_hand_on);
}

SIM_TEST(a_detach_forgets_first_what_it_closes)
{
    struct cp_slot_request requests[3];
    struct profile profile = {.n = 0};
    struct worker worker;

    play_sanitizer(true);
    start_unread(&profile, requests, make_requests(requests));
    run_attached(&worker, body_detaches, NULL);
    play_sanitizer(false);
    stop_profile(&profile);
    check_figures(&profile);
}

/* Checks that no handler has asked for an event after the library has closed it: it would take the event for
 * one that the program has closed. */
static void check_unasked(const struct cp__m *m, const struct profile *profile)
{
    for (size_t i = 0; i < profile->n; i++)
        CHECK_EQ(cp_load_relaxed(&m->stats[profile->slots[i]].closed), 0); /* relaxed: of this thread */
}

SIM_TEST(a_stop_forgets_first_what_it_closes)
{
    struct cp_slot_request requests[3];
    struct profile profile = {.n = 0};
    struct cp_m *m;

    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    play_sanitizer(true);
    start_unread(&profile, requests, make_requests(requests));
    burn_a(3 * MS);
    leave_records();
    plays = true;
    stop_profile(&profile);
    plays = false;
    play_sanitizer(false);
    CHECK(calls > 10);
    check_figures(&profile);
    check_unasked((struct cp__m *)m, &profile);
    cp_m_detach(m);
}

/* Each call that arming takes fails, one after the other, so that what is open already is closed at once. */
static void check_refused(long number, int n)
{
    struct cp_slot_request wanted = signal_request("pageFaults", 1);
    struct profile profile = {.n = 0};
    struct cp_m *m;

    start_unread(&profile, &wanted, 1);
    sim_fail(number, n, EPERM, false);
    plays = true;
    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    plays = false;
    CHECK_EQ(sim_failed(), 1);
    sim_fail(SIM_NONE, 0, 0, false);
    stop_profile(&profile);
    CHECK_EQ(profile.seen[0].weight, profile.stats[0].samples);
    check_unasked((struct cp__m *)m, &profile);
    cp_m_detach(m);
}

SIM_TEST(a_refused_event_is_forgotten_first)
{
    play_sanitizer(true);
    for (int n = 1; n <= 2; n++) { /* the event, and the ring's; and then output, and a limit */
        check_refused(SYS_perf_event_open, n);
        check_refused(SYS_ioctl, n);
    }
    for (int n = 1; n <= 3; n++)
        check_refused(SYS_fcntl, n);
    check_refused(SYS_mmap, 1);
    play_sanitizer(false);
}

/* ---- What was kept back comes before a section begins ---------------------------------------- */

static struct {
    struct cp__m *m;
    bool is_kept;
    uint32_t claim; /* the M's when the signal came */
    uint32_t life;
} kept;

static void deliver_what_is_kept(void)
{
    if (!kept.is_kept || !cp__os_has_own_signal(cp__os_blocked_of(cp__os_tid())))
        return;
    kept.is_kept = false;
    kept.claim = cp_load_relaxed(&kept.m->claim);
    kept.life = cp_load_relaxed(&kept.m->life);
    call_handler();
}

SIM_TEST(what_was_kept_back_comes_before_anything_changes)
{
    struct cp_slot_request wanted = signal_request("taskClock", MS);
    struct profile profile = {.n = 0};
    struct cp_m *m;

    CHECK_EQ(cp_m_attach(&m, NULL), 0);
    kept.m = (struct cp__m *)m;
    start_unread(&profile, &wanted, 1);
    burn_a(3 * MS);
    sim_defer(deliver_what_is_kept);
    kept.is_kept = true;
    stop_profile(&profile);
    CHECK(!kept.is_kept);
    CHECK_EQ(kept.claim, CP__CLAIM_NONE);
    CHECK_EQ(profile.seen[0].weight, 3);

    start_unread(&profile, &wanted, 1);
    kept.is_kept = true;
    cp_m_detach(m);
    sim_defer(NULL);
    CHECK(!kept.is_kept);
    CHECK_EQ(kept.claim, CP__CLAIM_NONE);
    CHECK_EQ(kept.life, CP__M_LIVE);
    stop_profile(&profile);
}
