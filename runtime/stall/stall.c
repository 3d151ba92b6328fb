/* What programs see of stalls. */
#include "stall.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "places.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_child.h"
#include "runtime/base/lock.h"
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
 * There is one search, and one thread that looks. The program has it by cp_stalls_start(), and others join.
 *
 *   the program  joined  the search
 *   no           0       does not run
 *   no           more    runs, and reports to nobody
 *   yes          any     runs as the program has said
 *
 * When the program begins, the search begins anew, whoever has joined it. When the program ends, the search
 * goes on for those who have. If the thread could not be started anew, they have joined what does not run.
 */
static struct {
    struct cp__lock lock;
    bool is_programs;
    unsigned joined;
    pthread_t thread; /* if is_running */
} search = {.lock = CP__LOCK_INIT(CP__RANK_STALL_SEARCH)};

static uint32_t is_running;   /* shared, atomic; written under the lock */
static uint64_t threshold_ns; /* shared, atomic: of the last start; 0: there was none */
static struct cp__watcher watcher;
static _Thread_local bool is_watcher; /* the calling thread is the one that looks */

/* Who has it may read and change callback and log of the watcher's options. */
static pthread_mutex_t reporting = PTHREAD_MUTEX_INITIALIZER;

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
    pthread_mutex_lock(&reporting);
    if (may && of->options.log != NULL)
        cp_stall_print(of->options.log, stall);
    if (may && of->options.callback != NULL)
        of->options.callback(of->options.context, stall);
    pthread_mutex_unlock(&reporting);
}

/* Waits for a callback that runs. */
static void report_to_nobody(void)
{
    pthread_mutex_lock(&reporting);
    watcher.options.callback = NULL;
    watcher.options.log = NULL;
    pthread_mutex_unlock(&reporting);
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

/* Refuses what cannot work at this moment. */
static int check_moment(struct cp_error *err)
{
    if (is_watcher)
        return cp__error(
            err, -EDEADLK,
            "The callback of cp_stalls_start() cannot have stalls looked for: its thread looks.");
    cp__prepare();
    if ((cp_load_relaxed(&cp_accounting) & CP__ACCOUNTING_ON) == 0) /* relaxed: a switch of the program's */
        return cp__error(err, -ENODATA,
                         "Stalls are found by the accounts of Gs, which the program has switched off: call "
                         "cp_accounts_set(true) before.");
    cp__ticks_measure();
    cp__code_update();
    return 0;
}

static void *watch_ms(void *arg)
{
    is_watcher = true;
    cp__watcher_run(arg);
    return NULL;
}

static void *run_watcher(void *arg)
{
    return cp__thread_own(watch_ms, arg);
}

/* Under the lock. Forgets what was found. */
static int start_watcher(const struct cp_stall_options *options, struct cp_error *err)
{
    int result = cp__disposition_hold(err);

    if (result < 0)
        return result;
    cp__places_clear();
    watcher = (struct cp__watcher){.options = *options};
    result = cp__thread_start(&search.thread, CP__DEEP_STACK, run_watcher, &watcher);
    if (result < 0) {
        cp__disposition_drop();
        return cp__error(err, result, "There can be no thread that looks for stalls: %s.", strerror(-result));
    }
    cp_store_relaxed(&threshold_ns, options->threshold_ns); /* relaxed, both: numbers of their own */
    cp_store_relaxed(&is_running, 1u);
    return 0;
}

/* Under the lock: is_running is read by its writers. */
static void stop_watcher(void)
{
    if (is_running == 0)
        return;
    cp_store_release(&watcher.is_stopping, 1u); /* pairs with the acquire in cp__watcher_run() */
    cp__os_futex_wake_from_handler(&watcher.is_stopping);
    pthread_join(search.thread, NULL);
    cp__disposition_drop();
    cp_store_relaxed(&is_running, 0u); /* relaxed: a number of its own */
}

/* Under the lock. */
static int start_for_program(const struct cp_stall_options *options, struct cp_error *err)
{
    int result;

    if (search.is_programs)
        return cp__error(err, -EBUSY, "Stalls are looked for already: call cp_stalls_stop() before.");
    stop_watcher();
    result = start_watcher(options, err);
    search.is_programs = result == 0;
    return result;
}

int cp_stalls_start(const struct cp_stall_options *from, struct cp_error *err)
{
    struct cp_stall_options options;
    int result = check_options(from, &options, err);

    if (result == 0)
        result = check_moment(err);
    if (result < 0)
        return result;
    cp__lock(&search.lock);
    result = start_for_program(&options, err);
    cp__unlock(&search.lock);
    return result;
}

int cp_stalls_stop(void)
{
    int result = 0;

    if (is_watcher)
        return -EDEADLK;
    cp__lock(&search.lock);
    if (!search.is_programs)
        result = -ESRCH;
    else if (search.joined > 0)
        report_to_nobody();
    else
        stop_watcher();
    search.is_programs = false;
    cp__unlock(&search.lock);
    return result;
}

/* ---- Joining --------------------------------------------------------------------------------- */

/* Under the lock. A threshold of 0 is any. */
static int join_search(uint64_t wanted_ns, const struct cp_stall_options *options, struct cp_error *err)
{
    if (is_running == 0) /* written under the lock */
        return start_watcher(options, err);
    if (wanted_ns == 0 || wanted_ns == threshold_ns)
        return 0;
    return cp__error(
        err, -EBUSY,
        "Stalls are looked for already, with a threshold of %llu us: leave the threshold out, or "
        "wait until that has ended.",
        (unsigned long long)(threshold_ns / 1000));
}

int cp_stalls_join(uint64_t wanted_ns, uint64_t *number, struct cp_error *err)
{
    const struct cp_stall_options wanted = {.size = sizeof wanted, .threshold_ns = wanted_ns};
    struct cp_stalls_stats stats = {.size = sizeof stats};
    struct cp_stall_options options;
    int result = check_options(&wanted, &options, err);

    if (result == 0)
        result = check_moment(err);
    if (result < 0)
        return result;
    cp__lock(&search.lock);
    result = join_search(wanted_ns, &options, err);
    search.joined += result == 0;
    cp__places_sum(&stats);
    cp__unlock(&search.lock);
    if (result == 0)
        *number = stats.search;
    return result;
}

int cp_stalls_leave(void)
{
    int result = 0;

    if (is_watcher)
        return -EDEADLK;
    cp__lock(&search.lock);
    if (search.joined == 0)
        result = -ESRCH;
    else if (--search.joined == 0 && !search.is_programs)
        stop_watcher();
    cp__unlock(&search.lock);
    return result;
}

/* ---- Reading --------------------------------------------------------------------------------- */

int cp_stalls_stats(struct cp_stalls_stats *stats)
{
    /* relaxed, both: numbers of their own */
    struct cp_stalls_stats read = {.threshold_ns = cp_load_relaxed(&threshold_ns),
                                   .is_running = cp_load_relaxed(&is_running)};
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
    cp__lock_reset(&search.lock);
    pthread_mutex_init(&reporting, NULL);
    search.is_programs = is_watcher = false; /* a callback may fork */
    search.joined = 0;
    cp_store_relaxed(&is_running, 0u); /* relaxed, both: this is the only thread */
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
