/*
 * counterpoint/runtime.h: the profiler core, for programs that schedule threads of control.
 *
 * An M is an OS thread that the runtime knows. A G is a green thread. cp_execute() is the scheduling point,
 * where an M says which G it runs next. The words, the types and the calls are those of the Go proposal
 * "hardware performance counters for CPU profiling" (golang.org/issue/36821), section 4.2. A plain pthread
 * program attaches its threads with cp_m_attach() and needs no G.
 *
 * Errors: calls that can fail return 0 or a negative errno value. If a person must act on the reason, the
 * call also fills a struct cp_error, which may be NULL. Threads and signals: unless a comment says otherwise,
 * every call may be made from any thread, and none from a signal handler.
 */
#ifndef COUNTERPOINT_RUNTIME_H
#define COUNTERPOINT_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "account.h"
#include "atomic.h"
#include "error.h"
#include "event.h"
#include "version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Labels ---------------------------------------------------------------------------------- */

/* An immutable set of key/value strings. Gs and samples share it by reference count. */
struct cp_labels;

/*
 * Sets a label of the G that runs on the calling M, or of the thread itself if the M runs no G. Later samples
 * carry the label, and so do the Gs that this G starts from then on. A NULL value removes the key. Keys that
 * begin with "pprof::" are reserved. Returns 0; -EINVAL for a bad key; -ENOMEM; -ESRCH if the calling thread
 * is no M.
 */
int cp_label_set(const char *key, const char *value);

/* A key and its value. */
struct cp_label {
    const char *key;
    const char *value;
};

/* The labels before cp_label_begin(); opaque. */
struct cp_label_scope {
    struct cp_g *g;
    struct cp_labels *outer;
    int error; /* what cp_label_set() would have returned */
    uint64_t reserved[2];
};
/* Sets a label until cp_label_end() on the same G. Scopes nest. */
struct cp_label_scope cp_label_begin(const char *key, const char *value);
/* Sets n labels, all or none, until cp_label_end(). Of a key that comes twice the last value counts. */
struct cp_label_scope cp_labels_begin(const struct cp_label *labels, size_t n);
/* Ends what cp_label_begin() or cp_labels_begin() has begun. */
void cp_label_end(struct cp_label_scope *scope);
/* Sets a label for the rest of the enclosing block. */
#define CP_LABEL_SCOPE(key, value)                                                                           \
    struct cp_label_scope CP_LABEL_NAME(cp_label_scope_, __LINE__)                                           \
        __attribute__((cleanup(cp_label_end), unused)) = cp_label_begin((key), (value))
#define CP_LABEL_NAME(a, b) CP_LABEL_NAME_(a, b)
#define CP_LABEL_NAME_(a, b) a##b

/* Returns the value of a label of the G that runs on the calling M, or of the thread itself if none runs.
 * NULL if there is no such label, or the thread is no M. The string lives until the labels change. */
const char *cp_label_get(const char *key);

/* The number of labels, and the i-th label's key and value, in order of keys; NULL if there is no i-th. The
 * strings live as long as the set. */
size_t cp_labels_count(const struct cp_labels *labels);
const char *cp_labels_key(const struct cp_labels *labels, size_t i);
const char *cp_labels_value(const struct cp_labels *labels, size_t i);
/* Add a reference, and remove one. NULL is the empty set. */
struct cp_labels *cp_labels_ref(struct cp_labels *labels);
void cp_labels_unref(struct cp_labels *labels);

/* ---- Gs and Ms ------------------------------------------------------------------------------- */

/*
 * What the profiler knows of a green thread. An embedder places the struct in an object of its own and fills
 * it with cp_g_init(). The signal handler of the M that runs the G reads the struct, so while a G runs, only
 * the G itself may change it.
 */
struct cp_g {
    uint64_t id;        /* unique in the process, from 1 */
    uint64_t parent_id; /* the G that created this one; 0: a plain thread did */
    uintptr_t stack_lo; /* the lowest address of the G's stack */
    /* The end of the G's stack, where its first frame begins. Unwinding reads nothing outside the stack, and
     * marks call chains that do not reach the end as incomplete. */
    uintptr_t stack_hi;
    struct cp_labels *labels;
    void *rounds;  /* the library's: the rounds of watches (watch.h) that the G has begun; NULL at first */
    void *counts;  /* the library's: what is counted for these rounds; NULL: nothing */
    void *account; /* the library's: where the G's time goes (account.h); NULL: it is not kept */
    void *reserved[1]; /* the library's; NULL at first */
};

/* Gives g a new id, the bounds of its stack, and the labels and the id of its parent (NULL: none). */
void cp_g_init(struct cp_g *g, void *stack_lo, void *stack_hi, const struct cp_g *parent);
/* Releases what g refers to. No M may run g any more. */
void cp_g_fini(struct cp_g *g);
/* Returns the labels of g with a reference that the caller releases; NULL if g has none. g may run on another
 * thread meanwhile: lists of Gs use this call. The memory of g must stay valid, but may become another G. The
 * system must have membarrier(2). */
struct cp_labels *cp_g_labels(struct cp_g *g);

/* The part of an M that cp_execute() uses; the rest is private. The M's thread owns it. */
struct cp_m {
    struct cp_g *g;      /* the G that runs here; NULL: the thread itself */
    uint64_t generation; /* the value of cp_generation when this M last looked at the slots */
    void *counts;        /* what is counted for the G that runs here, or for the thread; NULL: nothing */
    void *own_counts;    /* the same for the thread itself, while it runs or not */
    uint64_t left_at;    /* the library's: when the M left a G; 0: cp_execute() reads the clock */
    bool goes_on;        /* the library's: left_at is the time at which the M takes the next G */
};

/* Changes whenever the contents of the slots change. Embedders only read it. */
extern uint64_t cp_generation;

/*
 * Makes the calling thread an M; if the thread is an M already, *m is that M. From then on the thread is
 * profiled whenever profiling runs. The thread gets an alternate signal stack if it has none of at least 32
 * KiB. If samples come by traps here (enum cp_engine), SIGTRAP is unblocked until the thread detaches or
 * executes another program, so that a thread that blocks all signals can be sampled; SIGTRAPs of the
 * program's that would not have come to the thread are sent to the process again. SIGPROF stays as it is: if
 * the thread has it blocked, the ticks of the timer are late. An M detaches by itself when its thread exits.
 * Returns 0; -ENOMEM; -EAGAIN if the program has used up its keys for thread-specific data
 * (pthread_key_create(3)); or the error of sigaltstack() or mmap(). If a running session cannot be armed on
 * this M, the call succeeds and the profile counts the M as refused.
 */
int cp_m_attach(struct cp_m **m, struct cp_error *err);
/*
 * Ends what cp_m_attach() began; m must be the calling thread's. The profiles keep what was sampled on the M.
 * A thread must detach before execve(), or call cp_before_exec().
 */
void cp_m_detach(struct cp_m *m);
/*
 * End the sampling of the calling thread for execve(), and begin it again if execve() has failed. A signal
 * or trap that is raised during execve() is still pending when the new program runs, and would end
 * that program. So a thread that is an M calls cp_before_exec() before execve() and its like. From then on
 * the thread is not sampled. If execve() fails, cp_after_exec() has the thread sampled again.
 * Neither call changes errno. Both do nothing on a thread that is no M, and in a child of vfork(). Other
 * threads need not do anything.
 */
void cp_before_exec(void);
void cp_after_exec(void);
/* Executes a program: calls execve() between these two. Returns -1 with the errno of execve() if that
 * fails. */
int cp_execve(const char *path, char *const argv[], char *const envp[]);
/* Returns the calling thread's M; NULL if the thread is no M. May be called in a signal handler. */
struct cp_m *cp_m_self(void);
/* Returns the G that runs on the calling M, or the G that stands for the thread itself; NULL if the thread is
 * no M. */
struct cp_g *cp_g_self(void);

/* For the calls below only. The first one looks at the slots and reconfigures the M's handles. The second one
 * is all of cp_execute() if something is counted for a round of a watch in the G that ran, or in g; the third
 * one if there are accounts. */
void cp_execute_slow(struct cp_m *m);
void cp_execute_counted(struct cp_m *m, struct cp_g *g);
void cp_execute_accounted(struct cp_m *m, struct cp_g *g);
void cp_g_park_accounted(struct cp_g *g, enum cp_wait_reason reason, const void *object);
void cp_g_yield_accounted(struct cp_g *g);
void cp_g_park_accounted_at(struct cp_g *g, enum cp_wait_reason reason, const void *object, uintptr_t pc,
                            uintptr_t sp, uintptr_t fp);
void cp_g_ready_accounted(struct cp_g *g);

/* For cp_execute() only: all of it, if nothing is counted for watches and there are no accounts. */
static inline void cp_execute_uncounted(struct cp_m *m, struct cp_g *g)
{
    cp_store_relaxed(&m->g,
                     g); /* relaxed: this thread's handler reads it, and other threads only compare it */
    cp_fence_signal();
    /* acquire: pairs with the release of the thread that changed the slots, so the slots' new contents are
     * visible. relaxed: that thread may bring the M in line, too, and an old value only costs a look. */
    if (__builtin_expect(cp_load_acquire(&cp_generation) != cp_load_relaxed(&m->generation), 0))
        cp_execute_slow(m);
}

/* Not 0: there are accounts. Embedders need not look at it. */
extern uint32_t cp_accounting;

/*
 * The scheduling point, the proposal's execute(): m, which must be the calling thread's, is about to run g
 * (NULL: its own code). Call it on the M's stack, before the switch to g's stack. If nothing has changed, and
 * accounts are off, the call costs a store, four loads and five compares; an account costs the reading of a
 * clock. If m is NULL, as on a thread that was never attached, the call does nothing.
 */
static inline void cp_execute(struct cp_m *m, struct cp_g *g)
{
    if (__builtin_expect(m == NULL, 0))
        return;
    if (__builtin_expect(m->counts != NULL || (g != NULL ? g->counts : m->own_counts) != NULL, 0))
        cp_execute_counted(m, g);
    else if (cp_load_relaxed(&cp_accounting) != 0) /* relaxed: a switch may be seen late */
        cp_execute_accounted(m, g);
    else
        cp_execute_uncounted(m, g);
}

/* cp_execute() for an M that has left another G by cp_execute(m, NULL) and has done nothing since but choose
 * the next one: the clock is not read a second time, and the time for choosing is g's. */
static inline void cp_execute_next(struct cp_m *m, struct cp_g *g)
{
    if (__builtin_expect(m == NULL, 0))
        return;
    m->goes_on = true;
    cp_execute(m, g);
}

/*
 * Tells that g, which the calling thread runs, is about to give its M up until somebody makes it ready, why,
 * and for what: object is the address of the lock, the channel and so on, or another number that tells one
 * from the other, or NULL. Call it on g's stack, in a function that returns only when g runs again: stacks of
 * waits begin with that function. If the G does not wait after all, what it tells next counts.
 */
static inline __attribute__((always_inline, artificial)) void
cp_g_park(struct cp_g *g, enum cp_wait_reason reason, const void *object)
{
    if (cp_load_relaxed(&cp_accounting) != 0) /* relaxed: as in cp_execute() */
        cp_g_park_accounted(g, reason, object);
}

/* Tells that g, which the calling thread runs, is about to give its M up and could go on at once. Without
 * this call, nobody knows where g stands until it runs again. What cp_g_park() says of its caller holds here,
 * too. */
static inline __attribute__((always_inline, artificial)) void cp_g_yield(struct cp_g *g)
{
    if (cp_load_relaxed(&cp_accounting) != 0) /* relaxed: as in cp_execute() */
        cp_g_yield_accounted(g);
}

/*
 * Does what cp_g_park() does, from a function that the runtime calls on g's stack just before g gives its M
 * up, and that returns before: a hook of a runtime that is not to be changed. Stacks of waits begin with the
 * hook's caller, which returns only when g runs again.
 */
static inline __attribute__((always_inline, artificial)) void
cp_g_park_in_hook(struct cp_g *g, enum cp_wait_reason reason, const void *object)
{
    if (cp_load_relaxed(&cp_accounting) != 0) /* relaxed: as in cp_execute() */
        cp_g_park_accounted_at(g, reason, object, (uintptr_t)__builtin_return_address(0),
                               (uintptr_t)__builtin_dwarf_cfa(), *(uintptr_t *)__builtin_frame_address(0));
}

/*
 * Tells that the wait of g is over: g can run, and waits for an M from now on. The thread that takes g out of
 * its wait calls this after g has left its M, and before another M can find g. On a G's or a thread's stack,
 * which tells who has ended the wait. A G that yields is ready without it.
 */
static inline __attribute__((always_inline, artificial)) void cp_g_ready(struct cp_g *g)
{
    if (cp_load_relaxed(&cp_accounting) != 0) { /* relaxed: as in cp_execute() */
        cp_g_ready_accounted(g);
        __asm__ volatile(
            ""); /* no jump may replace the call: the caller's frame tells who has ended the wait */
    }
}

/*
 * Tell that the calling thread begins to wait without giving its M up, as in a system call or for a mutex of
 * pthreads, and that the wait has ended. The wait is that of the G that runs here, or of the thread itself.
 * Call both in one function: stacks of waits begin with it. Waits do not nest: the inner pair does nothing.
 * On a thread that is no M, both do nothing. Neither changes errno.
 */
void cp_wait_begin_accounted(enum cp_wait_reason reason, const void *object);
void cp_wait_end_accounted(void);
static inline __attribute__((always_inline, artificial)) void cp_wait_begin(enum cp_wait_reason reason,
                                                                            const void *object)
{
    if (cp_load_relaxed(&cp_accounting) != 0) /* relaxed: as in cp_execute() */
        cp_wait_begin_accounted(reason, object);
}
static inline __attribute__((always_inline)) void cp_wait_end(void)
{
    if (cp_load_relaxed(&cp_accounting) != 0) { /* relaxed: as in cp_execute() */
        cp_wait_end_accounted();
        __asm__ volatile(""); /* as in cp_g_ready(): the frame that cp_wait_begin() noted is still there */
    }
}

/* ---- Profiling, the proposal's calls --------------------------------------------------------- */

/*
 * Starts sampling by event, the proposal's runtime_pprof_setCPUProfileConfig; a NULL config stops it. Each
 * event has one config at a time: a second start of a running event replaces its config.
 * cp_cpu_profile_read() reads the samples. Errors: see cp_slots_start(). A stop returns -ETIMEDOUT if a
 * thread still holds the event after 2 s, and err names the thread; the event has stopped all the same.
 */
int cp_set_cpu_profile_config(enum cp_cpu_event event, const struct cp_cpu_profile_config *config,
                              struct cp_error *err);
/* Starts the OS timer at hz samples per second of CPU time, the legacy SetCPUProfileRate; 0 stops it. */
int cp_set_cpu_profile_rate(int hz, struct cp_error *err);

/* One sample, as its reader sees it. Valid during the call only. */
struct cp_sample {
    size_t size;     /* sizeof(struct cp_sample) as the library was compiled */
    uint64_t weight; /* how many periods the sample stands for; at least 1 */
    uint64_t g_id;   /* 0: the M itself */
    struct cp_labels *labels;
    unsigned flags;        /* a set of CP_SAMPLE_ bits */
    unsigned depth;        /* the number of frames; 0 only if flags tell why */
    unsigned kernel_depth; /* how many of the frames, at the beginning, are the kernel's */
    /* The frames, innermost first: the kernel's, an instruction and then return addresses; then the
     * program's, the interrupted instruction and then return addresses. */
    const uintptr_t *frames;
    /* the instruction that caused the sample, with the precise_ip that was reached; 0: not requested */
    uint64_t ip;
    uint64_t addr; /* the data address of the access; 0: not requested, or unknown */
    /* a stamp: equal in two samples if the dynamic linker has loaded no object between them; 0: unknown */
    uint64_t loads;
    /* Reserved: nothing tells these yet, so they are 0, which will always mean "not told". */
    uint64_t time_ns; /* when the sample was taken, by CLOCK_MONOTONIC */
    int tid;          /* the id of the thread that was sampled, as gettid(2) returns it */
    int pid;          /* the id of its process */
    /* The rounds of watches (watch.h) that were open in the G when the sample was taken, each a number that
     * the process never uses again: cp_watch_round_name() tells the watch. At most CP_SAMPLE_ROUNDS of them,
     * and none if the sample is late or stalled. */
    unsigned n_rounds;
    const uint64_t *rounds;
};
#define CP_SAMPLE_ROUNDS 8
#define CP_SAMPLE_TRUNCATED 1u /* the stack had more frames than CP_MAX_FRAMES */
/* frames may be missing: they lead to a stack that the M does not know, and not to its first function */
#define CP_SAMPLE_FOREIGN_SP 2u
#define CP_SAMPLE_LATE 4u /* taken after the program had the signal blocked and had continued; see below */
/* frames may be missing, inside the chain or at its outer end: see cp_slot_stats */
#define CP_SAMPLE_INCOMPLETE 8u
/* Periods of a clock that passed while the machine under it stood still. The program had no such time,
 * whatever its clock says. */
#define CP_SAMPLE_STALLED 16u
/* Beside CP_SAMPLE_INCOMPLETE: the chain came to code that was mapped after the profiler last looked. */
#define CP_SAMPLE_NEW_CODE 32u
/* A late sample has the kernel's frames and the interrupted instruction, without callers; a late sample of
 * the timer has no frames. */
#define CP_MAX_FRAMES 256

/* Receives a sample from the calls that read samples. */
typedef void cp_sample_fn(void *context, const struct cp_sample *sample);

/* Passes to fn what was sampled since the last call, for an event that cp_set_cpu_profile_config() started;
 * also after the event was stopped. Returns the number of samples, or -ESRCH if the event never ran. */
int cp_cpu_profile_read(enum cp_cpu_event event, cp_sample_fn *fn, void *context);

/* ---- Profiling, slots: what sessions stand on ------------------------------------------------ */

/* Finds out whether the event can be sampled on the calling thread, with the config of
 * cp_cpu_profile_config_init(). Returns 0, or the error of cp_slots_start(). Nothing stays running. Waits,
 * which sessions record everywhere, can be. err->reason has the reason of a refusal, in at most 33
 * characters. */
int cp_event_probe(const struct cp_event_spec *spec, struct cp_error *err);

/* Finds the engine that brings the samples of an event if its config has CP_ENGINE_AUTO: trap or signal. *why
 * is a phrase that says why it is not trap, or NULL; it is never freed. Returns 0, or -EINVAL if CP_ENGINE in
 * the environment names no engine. Not from a signal handler. */
int cp_engine_choose(enum cp_engine *engine, const char **why, struct cp_error *err);

/*
 * Returns what a sample of an event of perf_event_open(2) costs the interrupted thread on this machine, in ns
 * of its CPU time: the interrupt, the signal and the handler. The cost is measured on a thread of its own, by
 * this call or by the first start of any event except the timer. A start that would be refused for the cost
 * measures it again, and the least figure counts. The measurement takes some 2 ms, and up to 0.3 s on a busy
 * machine; other callers wait for the result meanwhile. Returns 0, and the reason in err, if the cost cannot
 * be measured; then starts assume CP_SAMPLE_COST_ASSUMED_NS. If an attempt took time and failed (-ENODATA),
 * the next attempt is made 10 s later at the earliest.
 */
#define CP_SAMPLE_COST_ASSUMED_NS 100000u /* more than on any machine that was seen, except emulated ones */
uint64_t cp_sample_cost_ns(struct cp_error *err);

/*
 * Returns by how many ns it takes longer that a thread loses its CPU and gets it again, if an event of that
 * kind and period (ns; of clocks only) is armed on the thread; 0 if that is not known, because the machine
 * has no clocks or no CPU was free for the measurement; for the timer, which the kernel looks at when it
 * ticks; and for waits, of which the kernel knows nothing. A clock that expires before the kernel's next tick
 * makes the kernel set the CPU's timer at each switch, so it costs several times what others do. The first
 * call measures the costs, on threads of the library's own: that takes some 2 ms, and up to 0.3 s on a busy
 * machine. So does the first start of any event except the timer, in a process whose threads have been
 * switched very often. What events of a PMU cost is not measured: the result is that of an event that only
 * counts. Not from a signal handler.
 */
uint64_t cp_switch_cost_ns(enum cp_event_kind kind, uint64_t period);

/*
 * Starts n events, 1 to CP_EV_MAX of them: all or none. slots[i] becomes the slot of requests[i]. Before
 * anything is armed, each event is opened on the calling thread, so that the call returns what the system
 * refuses:
 *
 *     -EINVAL                        a bad config; or a wait, which a session records (pprof.h)
 *     -EBUSY                         no slot is free
 *     -ENOENT, -ENODEV, -EOPNOTSUPP  this machine has no such event
 *     -ENODATA                       the event opens but does not count here: a watched word was written, or
 *                                    instructions ran, and the count stayed at 0
 *     -EACCES, -EPERM                not allowed
 *     -EMFILE, -ENFILE, -ENOMEM      no descriptors, or no memory for the ring
 *
 * -EINVAL also if the samples of the events, with those that run already, could leave a thread no time. The
 * estimate uses the periods of clocks, the periods of cycles and instructions with the processor's highest
 * frequency, and cp_sample_cost_ns() for each sample. It also counts what the events cost at switches, by how
 * often the Ms' threads have been switched so far, if cp_switch_cost_ns() knows that.
 *
 * The call arms the events of all Ms, whether their threads run, sleep or block signals; it interrupts and
 * wakes none of them. Ms that are in their handler, or just change their events, are armed within 20 ms, or
 * by cp_slots_read().
 */
int cp_slots_start(const struct cp_slot_request *requests, size_t n, int *slots, struct cp_error *err);

/*
 * Passes to fn what Ms have sampled for a slot; returns the number of samples, or -EINVAL if there is no such
 * slot. One thread at a time may read a slot. The call also renews the limits of events whose M cannot
 * do so, stops events that leave an M no time, and restarts those that have reached their limit
 * (ms_overloaded); it arms Ms that the start could not arm; and it takes the samples of threads that
 * block their signals. So call it at least every 100 ms.
 */
int cp_slots_read(int slot, cp_sample_fn *fn, void *context);

/* Wait until there is something to read: cp_slots_wait() waits until, since the token was taken, a sample
 * buffer has become half full or cp_slots_wake() was called, or until timeout_ms have passed. Take the
 * token before reading. */
uint32_t cp_slots_token(void);
void cp_slots_wait(uint32_t token, int timeout_ms);
void cp_slots_wake(void);

/* Stops n slots, and closes their events on all threads, whether these run, sleep or block signals. If an M
 * is in its handler, or just changes its events, and gets no CPU, the call gives up after 2 s and returns
 * -ETIMEDOUT. The slots have stopped all the same, and ms_unsettled in their figures counts such Ms. What was
 * sampled can still be read. Returns -EINVAL, and stops nothing, if a number is no slot's. */
int cp_slots_stop(const int *slots, size_t n);

/* Frees n stopped slots. Samples that were not read are lost. Returns -EINVAL, and frees nothing, if a number
 * is no slot's. */
int cp_slots_release(const int *slots, size_t n);

/* What happened in a slot since its start, summed over all Ms. */
struct cp_slot_stats {
    size_t size;           /* sizeof(struct cp_slot_stats) as the caller compiled it */
    uint64_t samples;      /* periods that were recorded: the sum of all weights */
    uint64_t signals;      /* signals that brought the samples */
    uint64_t dropped;      /* periods lost because a sample buffer was full */
    uint64_t lost;         /* records lost because the ring was full; without a ring, lost signals */
    uint64_t late;         /* periods of CP_SAMPLE_LATE samples; included in samples */
    uint64_t truncated;    /* samples of more than CP_MAX_FRAMES frames */
    uint64_t incomplete;   /* samples whose chain is not known to have all frames */
    uint64_t throttled;    /* how often the kernel throttled the event */
    uint64_t throttled_ns; /* the part of time_running in which the event was throttled and took no samples */
    uint64_t overruns;     /* periods of a timer or clock that a later sample includes; included in samples */
    uint64_t stalled;      /* the part of overruns that CP_SAMPLE_STALLED samples have */
    /* The event's own count (ns for clocks); for the timer, CPU time in ns. An event of a PMU counts nothing
     * while it is throttled. For clocks and the timer, what a thread ran before it attached is counted, too,
     * if that is less than a period and the slot ran then. */
    uint64_t count;
    /* CPU time of Ms while their event was stopped; this time has no samples. */
    uint64_t overloaded_ns;
    /* ns; time_running / time_enabled is the share of time in which the event had a counter */
    uint64_t time_enabled;
    uint64_t time_running; /* ns */
    uint64_t foreign;      /* SIGPROFs and SIGTRAPs from elsewhere that reached Ms while this slot ran */
    uint32_t ms;           /* Ms that were armed */
    uint32_t ms_ringless;  /* the part of ms without a perf ring: each signal is a sample */
    uint32_t ms_refused;   /* Ms on which the system refused the event */
    /* Ms whose event was stopped: for good, because its samples left the thread no time, or by the kernel,
     * because it reached its limit. The kernel ends each sampling event after so many samples as come to
     * 0.4 s of nothing but samples, if neither the thread nor a reader of the slot gets to renew the limit.
     * The reader restarts such an event, with longer periods if the thread made no progress. */
    uint32_t ms_overloaded;
    int refused_errno;   /* the negative errno value of the last refusal */
    uint32_t precise_ip; /* the level that was reached, at most the config's */
    /* another handler of SIGPROF, or of SIGTRAP if the event raised traps, or none, was in place of this
     * library's when the slot was read or stopped */
    bool handler_replaced;
    /* Ms that still held the event when cp_slots_stop() gave up, and the thread id of one of them. Their last
     * samples may be missing. */
    uint32_t ms_unsettled;
    int unsettled_tid;
    enum cp_engine engine; /* how samples got out of threads; SIGNAL for the timer */
    /* why the engine was not TRAP, as a phrase that is never freed; NULL: it was TRAP, or the event is the
     * timer */
    const char *engine_reason;
    /* How much of a CPU the samples of this event and of those that ran beside it may take, in percent, by
     * cp_sample_cost_ns() at the start, and what these events take at switches, of the thread that has been
     * switched the most; 0: how often the events happen is unknown beforehand. */
    uint32_t cost_percent;
    uint32_t reserved; /* 0 */
    /* the part of incomplete whose chain came to code that was mapped after the profiler last looked */
    uint64_t new_code;
    /* samples of CP_SAMPLE_FOREIGN_SP: the program did not tell of the stack that it ran on */
    uint64_t unknown_stacks;

    /* What the slot should have seen, and what it has not: CPU time in ns from its start to its stop. */
    uint64_t cpu_ns;        /* of the process, by its CPU clock; 0: the system does not tell */
    uint64_t ms_ns;         /* the part of threads while they were Ms, by their CPU clocks */
    uint64_t library_ns;    /* the part of libcounterpoint's own threads */
    uint64_t unattached_ns; /* the rest: of threads while they were no Ms */
    /* The next six are parts of ms_ns. */
    uint64_t unarmed_ns; /* while they had no event: because it was refused, or before they were armed */
    uint64_t blocked_ns; /* the same with the signal blocked, and what events counted without a sample then */
    uint64_t disabled_ns; /* while the program had disabled the event: prctl(PR_TASK_PERF_EVENTS_DISABLE) */
    uint64_t closed_ns;   /* after the program had closed the event's descriptor */
    /* While the event was armed, and did not count although nobody is known to have stopped it: the kernel
     * was switching to the thread, which takes some microseconds, or the clocks disagree. */
    uint64_t uncounted_ns;
    /* What events have counted beyond the CPU time of their threads, because the clocks disagree, as they do
     * when a virtual machine's host takes CPUs away. In none of the other figures. */
    uint64_t overcounted_ns;
    /* The part of count in modes that a clock does not sample, as the kernel's. */
    uint64_t excluded_ns;
    /* Periods that the event counted and that are in no other figure: they have no sample. What a thread
     * counted before its first sample and after its last one is less than a period, and no loss. */
    uint64_t unsampled;
    uint64_t switches; /* how often threads of the process were switched off their CPU */
    /* The part of unsampled that a timer would have told at the kernel's next tick, but the thread or the
     * slot ended before. */
    uint64_t ticks_ns;
    /* Threads, as the slot was stopped: Ms that had no event for more than a hundredth of their time; Ms with
     * blocked_ns; Ms with closed_ns; and threads without an M that had CPU time in the profile or before it,
     * if unattached_ns is more than a hundredth of cpu_ns. */
    uint32_t ms_unarmed;
    uint32_t ms_blocked;
    uint32_t ms_closed;
    uint32_t threads_unattached;
};
/* Fills *stats, whose size the caller has set. Returns -EINVAL if there is no such slot, or the size was
 * never set: it covers no member, or is beyond 4096. */
int cp_slots_stats(int slot, struct cp_slot_stats *stats);
/* Fills *stats with the sums over all slots that were ever started; an M counts once for each event for
 * which it was armed. The counters only rise, but of a slot that runs it is found anew at each call what
 * is missing, and why: the figures from ms_ns to unsampled may fall. Until its next record tells, what an
 * event has counted is uncounted_ns. */
int cp_slots_totals(struct cp_slot_stats *stats);

/* What the profiler does in this process, for monitoring. */
struct cp_runtime_stats {
    size_t size; /* sizeof(struct cp_runtime_stats) as the caller compiled it */
    /* Time that Ms have spent in the signal handler, without the time for pausing events. It is an estimate:
     * one of about 16 runs is timed, and counts 200 us at most, because in a longer run the thread had no CPU
     * for a while. */
    uint64_t handler_ns;
    uint32_t ms;    /* threads that are Ms */
    uint32_t slots; /* slots in use, of CP_EV_MAX */
};
/* Fills *stats, whose size the caller has set. Returns -EINVAL if the size was never set. */
int cp_runtime_stats(struct cp_runtime_stats *stats);

/* An M of a list. Valid during the call only. */
struct cp_m_info {
    size_t size;             /* sizeof(struct cp_m_info) as the library was compiled */
    int tid;                 /* the id of the thread, as gettid(2) returns it */
    unsigned depth;          /* the number of frames */
    const uintptr_t *frames; /* the call chain of cp_m_attach(): return addresses, innermost first */
};
typedef int cp_m_each_fn(void *context, const struct cp_m_info *info);
/* Calls fn for every M, the newest first. A result of fn other than 0 ends the list and is returned. */
int cp_m_each(cp_m_each_fn *fn, void *context);

#ifdef __cplusplus
}
#endif
#endif
