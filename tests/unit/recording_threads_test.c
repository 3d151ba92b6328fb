/* Recordings of waits, and threads: those that wait themselves, those that end waits, those that come and go,
 * and those that start and end recordings meanwhile. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/g_account.h"
#include "runtime/wait/hooks.h"
#include "sched.h"
#include "tests/support/gs.h"
#include "tests/support/recordings.h"
#include "tests/support/stopwatch.h"

static uintptr_t called_from; /* where the last call of a function that notes it returned to */
#define NOTE_CALL() (called_from = (uintptr_t)__builtin_return_address(0))

static void run_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* ---- Threads that wait themselves ------------------------------------------------------------ */

static int lock_word;
static uintptr_t noted; /* where the call returns by which a wait was told */

__attribute__((noinline)) static void wait_in_place(int n)
{
    NOTE_CALL();
    for (volatile int i = 0; i < n; i++) {
        cp_wait_begin(CP_WAIT_LOCK, &lock_word);
        cp_wait_begin(CP_WAIT_IO, NULL); /* the outer one counts */
        cp_wait_end();
        cp_wait_end();
    }
}

static void *wait_as_m(void *n)
{
    const struct cp__m *m = (struct cp__m *)attach_m();

    CHECK_EQ(cp_label_set("k", "of the thread"), 0);
    wait_in_place(*(const int *)n);
    noted = ((const struct cp__account *)m->self.account)->parked.pc;
    return NULL; /* the M detaches at the thread's end */
}

CP_TEST(a_thread_tells_of_its_own_waits)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    struct cp__recording *locks = start_recording(CP__WAIT_EVENT_LOCK, 1);
    struct sought waits;
    int n = 9;

    run_thread(wait_as_m, &n);
    waits = seek(recording, CP_WAIT_LOCK, called_from, "of the thread");
    CHECK_EQ(waits.sampled, n);
    CHECK_EQ(waits.records, 1);
    CHECK_EQ(waits.place, 1);
    CHECK_EQ(waits.frames[0], noted - 1); /* in the call, in wait_in_place() */
    CHECK_EQ(waits.flags, 0);
    CHECK(waits.object == &lock_word);
    CHECK_EQ(seek_all(recording).sampled, n);
    CHECK_EQ(seek_all(locks).sampled, 0);
    cp__recording_free(locks);
    cp__recording_free(recording);
}

static void *wait_too_shortly(void *unused)
{
    struct cp_account account = {.size = sizeof account};

    attach_m();
    for (int i = 0; i < 4; i++) {
        cp_wait_begin_accounted(CP_WAIT_IO, NULL);
        cp__wait_end_if(i % 2 == 0 ? UINT64_MAX : 0);
    }
    CHECK_EQ(cp_g_stats(cp_g_self(), &account), 0);
    CHECK_EQ(account.waits[CP_WAIT_IO], 2);
    CHECK_EQ(account.running_ns + account.waiting_ns, account.lifetime_ns);
    return unused;
}

CP_TEST(a_wait_that_is_too_short_is_none)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);

    run_thread(wait_too_shortly, NULL);
    CHECK_EQ(seek_all(recording).sampled, 2);
    cp__recording_free(recording);
}

static void *wait_as_nobody(void *n)
{
    wait_in_place(*(const int *)n);
    return NULL;
}

CP_TEST(waits_of_a_thread_that_is_no_m_are_in_no_recording)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    int n = 3;

    run_thread(wait_as_nobody, &n);
    CHECK_EQ(seek_all(recording).sampled, 0);
    cp__recording_free(recording);
}

/* ---- Ms that come and go --------------------------------------------------------------------- */

static unsigned count_sums(const struct cp__recording *recording)
{
    unsigned n = 0;

    for (const struct cp__wait_sums *sums = recording->sums; sums != NULL; sums = sums->next)
        n++;
    return n;
}

CP_TEST(ms_take_over_what_others_have_left)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    int n = 9;

    for (int i = 0; i < 20; i++)
        run_thread(wait_as_m, &n);
    CHECK_EQ(count_sums(recording), 1);
    CHECK_EQ(seek_all(recording).sampled, 20 * n);
    cp__recording_stop(recording);
    run_thread(wait_as_m, &n);
    CHECK_EQ(seek_all(recording).sampled, 20 * n);
    cp__recording_free(recording);
}

/* An M keeps no hold of a recording that is gone. */
CP_TEST(an_m_outlives_recordings)
{
    struct cp_m *m = attach_m();

    for (int i = 0; i < 20; i++) {
        struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);

        wait_in_place(2);
        CHECK_EQ(seek_all(recording).sampled, 2);
        if (i % 2 == 0)
            cp__recording_stop(recording);
        cp__recording_free(recording);
        wait_in_place(1);
    }
    cp_m_detach(m);
}

/* ---- Threads that end waits ------------------------------------------------------------------ */

static struct cp_g *parked; /* atomic */

static void parks_for_thread(void *arg)
{
    (void)arg;
    cp_store_release(&parked, cp_sched_self()); /* pairs with the acquire in ready_as_nobody() */
    cp_park();
}

__attribute__((noinline)) static void release_from_outside(struct cp_g *g)
{
    NOTE_CALL();
    cp_ready(g);
    __asm__ volatile("");
}

static void *ready_as_nobody(void *arg)
{
    struct cp_account account = {.size = sizeof account};
    struct cp_g *g;

    while ((g = cp_load_acquire(&parked)) == NULL)
        sched_yield();
    do { /* until the G has left its M */
        CHECK_EQ(cp_g_stats(g, &account), 0);
        sched_yield();
    } while (account.waiting_ns == 0);
    release_from_outside(g);
    return arg;
}

CP_TEST(a_thread_that_is_no_m_is_credited_with_waits)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_LOCK, 1);
    struct sought released;
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, ready_as_nobody, NULL), 0);
    run(1, parks_for_thread, NULL);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    released = seek(recording, CP_WAIT_PARK, called_from, NULL);
    CHECK_EQ(released.sampled, 1);
    CHECK_EQ(seek_all(recording).sampled, 1);
    cp__recording_free(recording);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static void in_child(struct cp__recording *of_parent)
{
    struct cp__recording *own;

    wait_in_place(1);
    if (seek_all(of_parent).records != 0)
        _exit(1);
    if (cp_accounting != 1)
        _exit(2);
    own = start_recording(CP__WAIT_EVENT_WAIT, 1);
    wait_in_place(3);
    if (seek_all(own).sampled != 3 || seek_all(of_parent).sampled != 0)
        _exit(3);
    cp__recording_stop(of_parent);
    cp__recording_free(of_parent);
    wait_in_place(1);
    if (seek_all(own).sampled != 4)
        _exit(4);
    cp__recording_free(own);
    _exit(0);
}

CP_TEST(a_child_of_a_fork_has_no_recording)
{
    struct cp_m *m = attach_m();
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    int status;
    pid_t child;

    wait_in_place(2);
    child = fork();
    if (child == 0)
        in_child(recording);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECKF(status == 0, "%#x", (unsigned)status);
    wait_in_place(2);
    CHECK_EQ(seek_all(recording).sampled, 4);
    cp__recording_free(recording);
    cp_m_detach(m);
}

/* ---- Starts and ends while Gs switch --------------------------------------------------------- */

static struct cp_chan *chans[2];
static unsigned is_over; /* atomic */

static void passes_on(void *arg)
{
    const int way = *(const int *)arg;
    int value;

    while (cp_chan_recv(chans[way], &value) == 0 && value > 0) {
        CP_LABEL_SCOPE("way", way == 0 ? "there" : "back");
        value--;
        if (cp_chan_send(chans[1 - way], &value) != 0)
            break;
    }
    cp_chan_close(chans[0]);
    cp_chan_close(chans[1]);
}

static void play(void *balls)
{
    static const int ways[] = {0, 1, 0, 1, 0, 1, 0, 1};

    for (unsigned i = 0; i < 8; i++)
        go(passes_on, (void *)(uintptr_t)&ways[i]);
    for (int i = 0; i < 4; i++) {
        if (cp_chan_send(chans[0], balls) != 0)
            break;
    }
}

static void *start_and_end(void *arg)
{
    unsigned n = 0;

    /* relaxed: nothing else is read */
    for (; cp_load_relaxed(&is_over) == 0; n++) {
        struct cp__recording *recording = start_recording((enum cp__wait_event)(n % 3), 1 + n % 5 * 1000);

        sched_yield();
        seek(recording, CP_WAIT_REASONS, 0, NULL);
        if (n % 2 == 0) {
            cp__recording_stop(recording);
            seek_all(recording);
        }
        cp__recording_free(recording);
    }
    return arg;
}

/* So do Ms. */
static void *attach_and_detach(void *arg)
{
    while (cp_load_relaxed(&is_over) == 0) { /* relaxed: as above */
        struct cp_m *m = attach_m();

        wait_in_place(3);
        cp_m_detach(m);
    }
    return arg;
}

CP_TEST(recordings_come_and_go_while_gs_switch)
{
    pthread_t threads[3];
    int balls = 20000 / TEST_SLOWDOWN;

    chans[0] = cp_chan_new(sizeof(int), 2);
    chans[1] = cp_chan_new(sizeof(int), 2);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, i < 2 ? start_and_end : attach_and_detach, NULL), 0);
    run(4, play, &balls);
    cp_store_relaxed(&is_over, 1u); /* relaxed: as above */
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    cp_chan_free(chans[0]);
    cp_chan_free(chans[1]);
}

/* ---- A hook that is under way ---------------------------------------------------------------- */

/* An M is in a hook until the semaphore is posted. */
struct stuck {
    sem_t is_in, may_leave;
};

static void *stay_in_hook(void *arg)
{
    struct stuck *stuck = arg;
    struct cp_m *m = attach_m();
    struct cp__wait_m *own;

    wait_in_place(1);
    own = ((struct cp__m *)m)->wait;
    /* release, both: as begin_hook(), hooks.c, and end_hook(), hooks.c, do */
    cp_store_release(&own->runs, own->runs + 1);
    sem_post(&stuck->is_in);
    sem_wait(&stuck->may_leave);
    cp_store_release(&own->runs, own->runs + 1);
    return NULL;
}

CP_TEST(memory_that_a_hook_may_use_is_not_freed)
{
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1234);
    struct stuck stuck;
    pthread_t thread;

    CHECK_EQ(sem_init(&stuck.is_in, 0, 0), 0);
    CHECK_EQ(sem_init(&stuck.may_leave, 0, 0), 0);
    CHECK_EQ(pthread_create(&thread, NULL, stay_in_hook, &stuck), 0);
    CHECK_EQ(sem_wait(&stuck.is_in), 0);
    CHECK(!cp__wait_hooks_are_out());
    cp__recording_free(recording);
    CHECK_EQ(recording->period, 1234); /* a sanitizer looks whether it is there, and free() writes there */
    sem_post(&stuck.may_leave);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(cp__wait_hooks_are_out());
    cp__recording_free(start_recording(CP__WAIT_EVENT_WAIT, 1)); /* frees the first one, too */
}

/* What an M does in a hook, as an allocator that tells of its locks, is the library's own. */
CP_TEST(a_hook_within_a_hook_records_nothing)
{
    struct cp_m *m = attach_m();
    struct cp__recording *recording = start_recording(CP__WAIT_EVENT_WAIT, 1);
    struct cp__wait_m *own;

    wait_in_place(1);
    own = ((struct cp__m *)m)->wait;
    own->runs++;
    wait_in_place(5);
    own->runs++;
    wait_in_place(1);
    CHECK_EQ(seek_all(recording).sampled, 2);
    cp__recording_free(recording);
    cp_m_detach(m);
}
