/* A handler of the program's that is left by siglongjmp() does not leave a section of the library's half
 * done. */
#include <setjmp.h>

#include "tests/support/burn.h"
#include "tests/support/resources.h"
#include "tests/support/stub_syscall.h"

static pid_t victim; /* the thread that gets a SIGALRM; 0: none; atomic */
static int calls;    /* how many system calls of that thread the library makes before; atomic */
static int jumps;    /* atomic */

/* Sends SIGALRM in place of a system call that comes up, which is made afterwards. */
static long stub_syscall(long number, const long arguments[6])
{
    pid_t tid = cp_load_acquire(&victim); /* pairs with the release in the test */

    if (tid != 0 && hand_on(SYS_gettid, arguments) == tid && cp_fetch_sub_acq_rel(&calls, 1) == 1) {
        cp_store_relaxed(&victim, 0); /* relaxed: this thread is the only one that looks */
        hand_on(SYS_tgkill, (const long[6]){getpid(), tid, SIGALRM});
    }
    return hand_on(number, arguments);
}

static _Thread_local sigjmp_buf place;

static void jump(int signal)
{
    (void)signal;
    cp_fetch_add_acq_rel(&jumps, 1); /* release: pairs with the acquire in await(), burn.h */
    siglongjmp(place, 1);
}

/* Looks at the slots each time, also if another thread has brought the M in line already. */
static void body_jumps(struct worker *worker)
{
    sigsetjmp(place, 1);
    while (cp_load_acquire(&worker->stop) == 0) {    /* pairs with the release in stop_worker() */
        cp_store_relaxed(&worker->m->generation, 0); /* relaxed: others store what they have found as well */
        cp_execute(worker->m, NULL);
    }
}

#define CALLS 40

/* Lets the thread jump at each of its first system calls in turn, with a profile between two jumps. If the
 * thread left a section, the stop would give up, or the detach would wait for ever. */
SIM_TEST(a_handler_that_jumps_leaves_no_section)
{
    struct worker worker;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals in its own way");
    signal(SIGALRM, jump);
    start_worker(&worker, body_jumps, NULL);
    for (int n = 1; n <= CALLS; n++) {
        struct cp_slot_request made = request("taskClock", 10 * MS);
        struct profile profile = {.n = 0};

        cp_store_relaxed(&calls, n);           /* relaxed: ordered by the release below */
        cp_store_release(&victim, worker.tid); /* pairs with the acquire in stub_syscall() */
        await(&jumps, n);
        start_unread(&profile, &made, 1);
        CHECK_EQ(cp_slots_stop(profile.slots, 1), 0);
        read_profile(&profile);
        cp_slots_release(profile.slots, 1);
    }
    stop_worker(&worker);
    CHECK_EQ(resources_now().perf_fds, 0);
}
