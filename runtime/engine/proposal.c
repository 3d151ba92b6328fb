/* The proposal's calls that start and stop one event at a time. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "runtime.h"
#include "runtime/base/fail.h"
#include "runtime/base/fork_child.h"
#include "runtime/base/lock.h"
#include "runtime/base/sized.h"

static struct cp__lock running_lock = CP__LOCK_INIT(CP__RANK_CONFIGS);
/* The slot of each event, counted from 1; 0: none. A stopped event's slot is kept until its samples have been
 * read. Under the lock. */
static struct {
    int slot;
    bool stopped;
} running[CP_CPUPROF_EVENT_COUNT];

/* In the child of a fork, no event runs. */
static void forget_running(void)
{
    cp__fork_child_resets();
    cp__lock_reset(&running_lock);
    memset(running, 0, sizeof running);
    cp__fork_child_has_reset();
}

__attribute__((constructor)) static void register_forgetting(void)
{
    pthread_atfork(NULL, NULL, forget_running);
}

/* Returns -ETIMEDOUT if a thread still holds the event; the event has stopped all the same. */
static int stop_event(enum cp_cpu_event event, struct cp_error *err)
{
    struct cp_slot_stats stats = {.size = sizeof stats};
    int slot = running[event].slot - 1;
    int result;

    if (running[event].slot == 0 || running[event].stopped)
        return 0;
    result = cp_slots_stop(&slot, 1);
    running[event].stopped = true;
    if (result == 0)
        return 0;
    cp_slots_stats(slot, &stats);
    return cp__error(
        err, result,
        "The event has stopped, but thread %d still holds it after 2 s (threads that do: %u), "
        "because it has SIGPROF blocked or gets no CPU. Read what was sampled; the thread's last "
        "samples may be missing. Let the thread take SIGPROF, or detach it before the stop.",
        stats.unsettled_tid, (unsigned)stats.ms_unsettled);
}

static void release_event(enum cp_cpu_event event)
{
    int slot = running[event].slot - 1;

    if (running[event].slot != 0)
        cp_slots_release(&slot, 1);
    running[event].slot = 0;
}

static int replace_event(enum cp_cpu_event event, const struct cp_cpu_profile_config *config,
                         struct cp_error *err)
{
    struct cp_slot_request request = {.event = event};
    int slot;
    int result = CP__TAKE(cp_cpu_profile_config, &request.config, config, err);

    if (result == 0)
        result = cp_slots_start(&request, 1, &slot, err);
    if (result < 0)
        return result;
    stop_event(event, NULL); /* only the new config counts: the old one's last samples are dropped */
    release_event(event);
    running[event].slot = slot + 1;
    running[event].stopped = false;
    return 0;
}

int cp_set_cpu_profile_config(enum cp_cpu_event event, const struct cp_cpu_profile_config *config,
                              struct cp_error *err)
{
    int result = 0;

    if ((unsigned)event >= CP_CPUPROF_EVENT_COUNT)
        return cp__error(err, -EINVAL, "There is no event number %d. Use one of enum cp_cpu_event, 0 to %d.",
                         (int)event, CP_CPUPROF_EVENT_COUNT - 1);
    cp__lock(&running_lock);
    if (config != NULL)
        result = replace_event(event, config, err);
    else
        result = stop_event(event, err);
    cp__unlock(&running_lock);
    return result;
}

int cp_set_cpu_profile_rate(int hz, struct cp_error *err)
{
    const struct cp_cpu_profile_config config = {.size = sizeof config, .hz = (uint64_t)hz};

    if (hz < 0)
        return cp__error(err, -EINVAL, "A rate of %d Hz makes no sense. Give 1 or more, or 0 to stop.", hz);
    return cp_set_cpu_profile_config(CP_CPUPROF_OS_TIMER, hz == 0 ? NULL : &config, err);
}

int cp_cpu_profile_read(enum cp_cpu_event event, cp_sample_fn *fn, void *context)
{
    int n = -ESRCH;

    if ((unsigned)event >= CP_CPUPROF_EVENT_COUNT)
        return n;
    cp__lock(&running_lock);
    if (running[event].slot != 0) {
        n = cp_slots_read(running[event].slot - 1, fn, context);
        if (running[event].stopped)
            release_event(event);
    }
    cp__unlock(&running_lock);
    return n;
}
