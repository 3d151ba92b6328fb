/* Pairs entries and returns. See rounds.h. */
#include "rounds.h"

#include <errno.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/table.h"

/* As many returns of one thread the kernel notices at once. */
#define MOST_RETURNS 64

/* A function that a thread is in. */
struct watch_entry {
    uint32_t function;
    enum cp_watch_side side;
    bool is_lost;
    uint64_t sp;
    uint64_t time;
    uint64_t counts[WATCH_COUNTS];
};

struct watch_thread {
    pid_t tid; /* the key; it stands first */
    pid_t pid;
    struct watch_entry *entries; /* the innermost one last */
    size_t n, capacity;
    uint64_t counts[WATCH_COUNTS];
};

struct watch_rounds {
    void *threads; /* a tree of struct watch_thread, for tsearch() */
    struct cp_watch_snapshot *snapshot;
    size_t n_counts;
    uint64_t (*cpus)[WATCH_COUNTS]; /* what each CPU had counted at its last record */
    unsigned n_cpus;
    uint64_t lost_until; /* no entry before is trusted */
    uint64_t lost_records;
};

/* ---- Threads --------------------------------------------------------------------------------- */

static int compare_tids(const void *a, const void *b)
{
    const pid_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static struct watch_thread *find_thread(const struct watch_rounds *rounds, pid_t tid)
{
    struct watch_thread *const *found = tfind(&tid, &rounds->threads, compare_tids);

    return found == NULL ? NULL : *found;
}

static struct watch_thread *add_followed(struct watch_rounds *rounds, pid_t pid, pid_t tid)
{
    struct watch_thread *thread = find_thread(rounds, tid);

    if (thread != NULL)
        return thread;
    thread = calloc(1, sizeof *thread);
    if (thread == NULL)
        return NULL;
    thread->tid = tid;
    thread->pid = pid;
    if (tsearch(thread, &rounds->threads, compare_tids) != NULL)
        return thread;
    free(thread);
    return NULL;
}

/* Returns the thread of a record. If the record of its start was lost, its process is known by its first
 * thread. NULL: it is not followed. */
static struct watch_thread *thread_of(struct watch_rounds *rounds, const struct watch_record *record)
{
    struct watch_thread *thread = find_thread(rounds, record->tid), *first;

    if (thread != NULL)
        return thread;
    first = find_thread(rounds, record->pid);
    return first == NULL || first->pid != record->pid ? NULL : add_followed(rounds, record->pid, record->tid);
}

static void free_thread(void *node)
{
    struct watch_thread *thread = node;

    free(thread->entries);
    free(thread);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static struct cp_watch_state *state_of_function(struct watch_rounds *rounds, uint32_t function)
{
    return &rounds->snapshot->watches[function].state;
}

/* Ends the entries from number `from` on without a value. Of a child's side nothing is told, because the
 * parent's side is there. */
static void drop_entries(struct watch_rounds *rounds, struct watch_thread *thread, size_t from)
{
    for (size_t i = from; i < thread->n; i++) {
        struct cp_watch_state *state = state_of_function(rounds, thread->entries[i].function);

        if (thread->entries[i].is_lost)
            state->lost++;
        else if (thread->entries[i].side != CP_WATCH_CHILD)
            state->dropped++;
    }
    if (from < thread->n)
        thread->n = from;
}

/* Ends the entries whose frames are gone, and those that more share a frame than the kernel notices. */
static void drop_left(struct watch_rounds *rounds, struct watch_thread *thread, uint64_t sp)
{
    struct watch_entry *entries = thread->entries;
    size_t n = thread->n;

    while (n > 0 && entries[n - 1].sp < sp)
        n--;
    drop_entries(rounds, thread, n);
    if (n >= MOST_RETURNS && entries[n - MOST_RETURNS].sp == sp) {
        const size_t oldest = n - MOST_RETURNS;

        if (entries[oldest].is_lost)
            state_of_function(rounds, entries[oldest].function)->lost++;
        else
            state_of_function(rounds, entries[oldest].function)->dropped++;
        memmove(entries + oldest, entries + oldest + 1, (MOST_RETURNS - 1) * sizeof *entries);
        thread->n--;
    }
}

static int begin_round(struct watch_rounds *rounds, struct watch_thread *thread,
                       const struct watch_record *record)
{
    struct watch_entry *entry;

    drop_left(rounds, thread, record->sp);
    if (CP__RESERVE(thread->entries, thread->capacity, thread->n + 1) < 0) {
        state_of_function(rounds, record->function)->lost++;
        return -ENOMEM;
    }
    entry = &thread->entries[thread->n++];
    *entry = (struct watch_entry){.function = record->function,
                                  .sp = record->sp,
                                  .time = record->time,
                                  .is_lost = record->time <= rounds->lost_until};
    memcpy(entry->counts, thread->counts, sizeof entry->counts);
    return 0;
}

/* Adds a round's values to the distributions. */
static int record_round(struct watch_rounds *rounds, const struct watch_thread *thread,
                        const struct watch_entry *entry, uint64_t time)
{
    struct cp__snapshot_watch *watch = &rounds->snapshot->watches[entry->function];
    struct cp__snapshot_series *series = cp__snapshot_series_of(watch, NULL, entry->side);
    int result = series == NULL ? -ENOMEM : cp__histogram_record(&series->histograms[0], time - entry->time);

    for (size_t i = 0; i < rounds->n_counts && result == 0; i++)
        result = cp__histogram_record(&series->histograms[1 + i], thread->counts[i] - entry->counts[i]);
    if (result < 0)
        watch->state.lost++;
    return result;
}

/* Returns the number of the entry that a return ends; SIZE_MAX: there is none. */
static size_t find_entry(const struct watch_thread *thread, const struct watch_record *record)
{
    for (size_t i = thread->n; i-- > 0;) {
        const struct watch_entry *entry = &thread->entries[i];

        if (entry->function == record->function && entry->sp <= record->sp &&
            record->sp - entry->sp <= sizeof(void *))
            return i;
    }
    return SIZE_MAX;
}

static int end_round(struct watch_rounds *rounds, struct watch_thread *thread,
                     const struct watch_record *record)
{
    const size_t at = find_entry(thread, record);
    int result = 0;

    if (at == SIZE_MAX) {
        state_of_function(rounds, record->function)->unknown++;
        return 0;
    }
    drop_entries(rounds, thread, at + 1);
    if (thread->entries[at].is_lost)
        state_of_function(rounds, record->function)->lost++;
    else
        result = record_round(rounds, thread, &thread->entries[at], record->time);
    thread->n = at;
    return result;
}

/* ---- Other records --------------------------------------------------------------------------- */

/* What the CPU has counted since its last record belongs to the thread of this one. */
static void share_out(struct watch_rounds *rounds, struct watch_thread *thread,
                      const struct watch_record *record)
{
    uint64_t *before;

    if (record->cpu >= rounds->n_cpus)
        return;
    before = rounds->cpus[record->cpu];
    for (size_t i = 0; i < rounds->n_counts; i++) {
        if ((record->counted >> i & 1) != 0) {
            if (thread != NULL)
                thread->counts[i] += record->counts[i] - before[i];
            before[i] = record->counts[i];
        }
        if (thread != NULL)
            thread->counts[i] += record->switches >> i & 1;
    }
}

/* The child of a fork is in the functions that its parent is in. */
static int copy_entries(struct watch_thread *child, struct watch_thread *parent)
{
    if (CP__RESERVE(child->entries, child->capacity, parent->n) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < parent->n; i++) {
        child->entries[i] = parent->entries[i];
        child->entries[i].side = CP_WATCH_CHILD;
        memset(child->entries[i].counts, 0, sizeof child->entries[i].counts);
        if (parent->entries[i].side == CP_WATCH_UNFORKED)
            parent->entries[i].side = CP_WATCH_PARENT;
    }
    child->n = parent->n;
    return 0;
}

static void forget_thread(struct watch_rounds *rounds, struct watch_thread *thread)
{
    drop_entries(rounds, thread, 0);
    tdelete(thread, &rounds->threads, compare_tids);
    free_thread(thread);
}

/* If there is a thread of that number, the record of its end was lost. */
static int follow_start(struct watch_rounds *rounds, const struct watch_record *record)
{
    const struct watch_record of_parent = {.pid = record->parent_pid, .tid = record->parent_tid};
    struct watch_thread *parent = thread_of(rounds, &of_parent);
    struct watch_thread *thread = find_thread(rounds, record->tid);

    if (parent == NULL)
        return 0;
    if (thread != NULL && thread != parent)
        forget_thread(rounds, thread);
    thread = add_followed(rounds, record->pid, record->tid);
    if (thread == NULL)
        return -ENOMEM;
    return record->pid != record->parent_pid ? copy_entries(thread, parent) : 0;
}

struct thread_search {
    pid_t pid;
    struct watch_thread *found;
};

/* A twalk_r() action. */
static void look_for_process(const void *node, VISIT which, void *context)
{
    struct watch_thread *const *thread = node;
    struct thread_search *search = context;

    if ((which == postorder || which == leaf) && (*thread)->pid == search->pid)
        search->found = *thread;
}

static struct watch_thread *find_any_of_process(const struct watch_rounds *rounds, pid_t pid)
{
    struct thread_search search = {.pid = pid};

    twalk_r(rounds->threads, look_for_process, &search);
    return search.found;
}

/* Whatever thread executes a program, it is the only one from then on, and has the number of the process. */
static int follow_exec(struct watch_rounds *rounds, const struct watch_record *record)
{
    bool is_followed = false;

    for (struct watch_thread *thread; (thread = find_any_of_process(rounds, record->pid)) != NULL;) {
        forget_thread(rounds, thread);
        is_followed = true;
    }
    return is_followed && add_followed(rounds, record->pid, record->tid) == NULL ? -ENOMEM : 0;
}

/* A twalk_r() action: what the thread is in may have ended in a record that was lost. */
static void distrust_thread(const void *node, VISIT which, void *unused)
{
    struct watch_thread *const *thread = node;

    (void)unused;
    for (size_t i = 0; (which == postorder || which == leaf) && i < (*thread)->n; i++)
        (*thread)->entries[i].is_lost = true;
}

static void note_loss(struct watch_rounds *rounds, const struct watch_record *record)
{
    rounds->lost_records += record->lost;
    if (record->until > rounds->lost_until)
        rounds->lost_until = record->until;
    twalk_r(rounds->threads, distrust_thread, NULL);
}

int watch_rounds_take(struct watch_rounds *rounds, const struct watch_record *record)
{
    struct watch_thread *thread;

    if (record->kind == WATCH_LOSS) {
        note_loss(rounds, record);
        return 0;
    }
    if (record->kind == WATCH_FORK)
        return follow_start(rounds, record);
    if (record->kind == WATCH_EXEC)
        return follow_exec(rounds, record);
    thread = thread_of(rounds, record);
    share_out(rounds, record->kind == WATCH_RESUME ? NULL : thread, record);
    if (thread == NULL)
        return 0;
    switch (record->kind) {
    case WATCH_ENTRY:
        return begin_round(rounds, thread, record);
    case WATCH_RETURN:
        return end_round(rounds, thread, record);
    case WATCH_EXIT:
        forget_thread(rounds, thread);
        return 0;
    default:
        return 0;
    }
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int add_function_to_watch(struct watch_rounds *rounds, const char *name,
                                 const struct cp__watch_quantity *counts, size_t n_counts)
{
    struct cp__snapshot_watch *watch = cp__snapshot_add_watch(rounds->snapshot, name, NULL, 0);

    if (watch == NULL)
        return -ENOMEM;
    watch->quantities[0] = (struct cp__watch_quantity){.name = "time", .unit = "ns", .scale = 1};
    memcpy(watch->quantities + 1, counts, n_counts * sizeof *counts);
    watch->n_quantities = 1 + n_counts;
    return 0;
}

struct watch_rounds *watch_rounds_new(const char *const *names, size_t n,
                                      const struct cp__watch_quantity *counts, size_t n_counts,
                                      unsigned n_cpus)
{
    struct watch_rounds *rounds = calloc(1, sizeof *rounds);
    int result = 0;

    if (rounds == NULL)
        return NULL;
    rounds->n_counts = n_counts;
    rounds->n_cpus = n_cpus;
    rounds->cpus = calloc(n_cpus, sizeof *rounds->cpus);
    rounds->snapshot = cp__snapshot_new();
    if (rounds->cpus == NULL || rounds->snapshot == NULL)
        result = -ENOMEM;
    for (size_t i = 0; i < n && result == 0; i++)
        result = add_function_to_watch(rounds, names[i], counts, n_counts);
    if (result == 0)
        return rounds;
    watch_rounds_free(rounds);
    return NULL;
}

void watch_rounds_free(struct watch_rounds *rounds)
{
    if (rounds == NULL)
        return;
    tdestroy(rounds->threads, free_thread);
    cp_watch_snapshot_free(rounds->snapshot);
    free(rounds->cpus);
    free(rounds);
}

int watch_rounds_follow(struct watch_rounds *rounds, pid_t pid, pid_t tid)
{
    return add_followed(rounds, pid, tid) == NULL ? -ENOMEM : 0;
}

/* A twalk_r() action. */
static void count_open(const void *node, VISIT which, void *context)
{
    struct watch_thread *const *thread = node;
    struct watch_rounds *rounds = context;

    for (size_t i = 0; (which == postorder || which == leaf) && i < (*thread)->n; i++) {
        struct cp_watch_state *state = state_of_function(rounds, (*thread)->entries[i].function);

        if ((*thread)->entries[i].is_lost)
            state->lost++;
        else
            state->open++;
    }
}

void watch_rounds_end(struct watch_rounds *rounds)
{
    twalk_r(rounds->threads, count_open, rounds);
}

struct cp_watch_snapshot *watch_rounds_snapshot(struct watch_rounds *rounds)
{
    return rounds->snapshot;
}

uint64_t watch_rounds_lost_records(const struct watch_rounds *rounds)
{
    return rounds->lost_records;
}
