/* What programs see of stalls. */
#include "stall.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "places.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_child.h"
#include "runtime/base/os.h"
#include "runtime/base/sized.h"
#include "runtime/base/thread.h"
#include "runtime/disposition.h"
#include "runtime/g_account.h"
#include "runtime/prepare.h"
#include "runtime/ticks.h"
#include "runtime/unwind/code.h"
#include "watcher.h"

#define REPORTS_A_MINUTE 60u

/*
 *   state     means                                   next      who changes it
 *   IDLE      there is no thread                      BUSY      cp_stalls_start(): compare-and-swap
 *   BUSY      a thread is being started or joined     RUNNING   cp_stalls_start()
 *                                                     IDLE      it, if it fails; cp_stalls_stop()
 *   RUNNING   the thread looks                        BUSY      cp_stalls_stop(): compare-and-swap
 */
enum watcher_state { IDLE, BUSY, RUNNING };

static uint32_t watcher_state; /* shared, atomic */
static uint64_t threshold_ns;  /* shared, atomic: of the last start; 0: there was none */
static pthread_t thread;       /* of who has BUSY */
static struct cp__watcher watcher;

const char *cp_stall_kind_name(enum cp_stall_kind kind)
{
    static const char *const names[CP_STALL_KINDS] = {"computed", "waited", "not run"};

    return names[(unsigned)kind < CP_STALL_KINDS ? kind : CP_STALL_COMPUTED];
}

/* ---- Reports --------------------------------------------------------------------------------- */

static bool may_report(struct cp__watcher *of)
{
    const uint64_t now = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);

    if (now - of->minute.begun_ns >= UINT64_C(60000000000)) {
        of->minute.begun_ns = now;
        of->minute.reports = 0;
    }
    return of->minute.reports++ < of->options.reports_a_minute;
}

void cp__watcher_report(struct cp__watcher *of, const struct cp_stall *stall)
{
    const bool may = may_report(of);

    cp__places_note_report(!may);
    if (may && of->options.log != NULL)
        cp_stall_print(of->options.log, stall);
    if (may && of->options.callback != NULL)
        of->options.callback(of->options.context, stall);
}

/* ---- Starting and stopping ------------------------------------------------------------------- */

static int check_options(const struct cp_stall_options *from, struct cp_stall_options *to,
                         struct cp_error *err)
{
    int result = CP__TAKE(cp_stall_options, to, from, err);

    if (result < 0)
        return result;
    if (to->threshold_ns == 0)
        to->threshold_ns = CP_STALL_DEFAULT_NS;
    if (to->reports_a_minute == 0)
        to->reports_a_minute = REPORTS_A_MINUTE;
    if (to->threshold_ns < CP_STALL_LEAST_NS || to->threshold_ns > UINT64_C(3600000000000))
        return cp__error(err, -EINVAL,
                         "A stall cannot have a threshold of %llu ns: it is %llu ns at least, and an hour at "
                         "most.",
                         (unsigned long long)to->threshold_ns, (unsigned long long)CP_STALL_LEAST_NS);
    return 0;
}

static void *watch_ms(void *arg)
{
    cp__watcher_run(arg);
    return NULL;
}

static void *run_watcher(void *arg)
{
    return cp__thread_own(watch_ms, arg);
}

/* With BUSY. */
static int start_watcher(const struct cp_stall_options *options, struct cp_error *err)
{
    int result = cp__disposition_hold(err);

    if (result < 0)
        return result;
    cp__places_clear();
    watcher = (struct cp__watcher){.options = *options};
    result = cp__thread_start(&thread, CP__DEEP_STACK, run_watcher, &watcher);
    if (result < 0) {
        cp__disposition_drop();
        return cp__error(err, result, "There can be no thread that looks for stalls: %s.", strerror(-result));
    }
    cp_store_relaxed(&threshold_ns, options->threshold_ns); /* relaxed: a number of its own */
    return 0;
}

int cp_stalls_start(const struct cp_stall_options *from, struct cp_error *err)
{
    struct cp_stall_options options;
    uint32_t is = IDLE;
    int result = check_options(from, &options, err);

    if (result < 0)
        return result;
    cp__prepare();
    if ((cp_load_relaxed(&cp_accounting) & CP__ACCOUNTING_ON) == 0) /* relaxed: a switch of the program's */
        return cp__error(err, -ENODATA,
                         "Stalls are found by the accounts of Gs, which the program has switched off: call "
                         "cp_accounts_set(true) before.");
    if (!cp_compare_exchange(&watcher_state, &is, BUSY))
        return cp__error(err, -EBUSY, "Stalls are looked for already: call cp_stalls_stop() before.");
    cp__ticks_measure();
    cp__code_update();
    result = start_watcher(&options, err);
    /* release: pairs with the exchanges of the state */
    cp_store_release(&watcher_state, (uint32_t)(result < 0 ? IDLE : RUNNING));
    return result;
}

int cp_stalls_stop(void)
{
    uint32_t is = RUNNING;

    /* relaxed: the thread itself sees RUNNING, and its own id */
    if (cp_load_relaxed(&watcher_state) == RUNNING && pthread_equal(pthread_self(), thread))
        return -EDEADLK;
    if (!cp_compare_exchange(&watcher_state, &is, BUSY))
        return -ESRCH;
    cp_store_release(&watcher.is_stopping, 1u); /* pairs with the acquire in cp__watcher_run() */
    cp__os_futex_wake_from_handler(&watcher.is_stopping);
    pthread_join(thread, NULL);
    cp__disposition_drop();
    cp_store_release(&watcher_state, IDLE); /* pairs with the exchanges of the state */
    return 0;
}

int cp_stalls_stats(struct cp_stalls_stats *stats)
{
    /* relaxed, both: numbers of their own */
    struct cp_stalls_stats read = {.threshold_ns = cp_load_relaxed(&threshold_ns),
                                   .is_running = cp_load_relaxed(&watcher_state) == RUNNING};
    int result = cp__struct_check(stats, "struct cp_stalls_stats", NULL);

    if (result < 0)
        return result;
    cp__places_sum(&read);
    return CP__GIVE(cp_stalls_stats, stats, &read, NULL);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static void forget_watcher(void)
{
    cp__fork_child_resets();
    cp_store_relaxed(&watcher_state, IDLE); /* relaxed, both: this is the only thread */
    cp_store_relaxed(&threshold_ns, 0);
    cp__places_forget();
    for (struct cp__m *m = cp__ms; m != NULL; m = m->next)
        m->stint = (struct cp__stint){.account = NULL};
    cp__fork_child_has_reset();
}

__attribute__((constructor)) static void register_for_forks(void)
{
    pthread_atfork(NULL, NULL, forget_watcher);
}
