/*
 * counterpoint/runtime.h: the profiler core, for whoever schedules threads of control.
 *
 * An M is an OS thread that the runtime knows; a G is a green thread; cp_execute() is the scheduling point,
 * where an M says which G it runs next. The words, the types and the calls are those of the Go proposal
 * "hardware performance counters for CPU profiling" (golang.org/issue/36821), section 4.2. A plain pthread
 * program attaches its threads with cp_m_attach() and never mentions a G.
 *
 * Errors: calls that can fail return 0 or a negative errno value. Those whose reason a person must act on
 * also fill a struct cp_error, which may be NULL. Threads and signals: every call may be made from any
 * thread, none from a signal handler, unless said otherwise.
 */
#ifndef COUNTERPOINT_RUNTIME_H
#define COUNTERPOINT_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atomic.h"
#include "error.h"
#include "event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Labels ---------------------------------------------------------------------------------- */

/* An immutable set of key/value strings, shared by reference count between Gs and samples. */
struct cp_labels;

/*
 * Sets a label of the G that runs on the calling M (of the thread itself, where it runs none): later samples
 * carry it, and so do the Gs that it starts from then on. A NULL value takes the key away. Keys that begin
 * with "pprof::" are reserved. -EINVAL for a bad key, -ENOMEM, -ESRCH where the calling thread is no M.
 */
int cp_label_set(const char *key, const char *value);

/* The labels before a scope was entered; opaque. */
struct cp_label_scope {
    struct cp_g *g;
    struct cp_labels *outer;
    int error; /* what cp_label_set() would have returned */
};
/* Sets a label until cp_label_end(), on the same G; scopes nest. */
struct cp_label_scope cp_label_begin(const char *key, const char *value);
void cp_label_end(struct cp_label_scope *scope);
/* A label for the rest of the enclosing block. */
#define CP_LABEL_SCOPE(key, value)                                                                           \
    struct cp_label_scope CP_LABEL_NAME(cp_label_scope_, __LINE__)                                           \
        __attribute__((cleanup(cp_label_end), unused)) = cp_label_begin((key), (value))
#define CP_LABEL_NAME(a, b) CP_LABEL_NAME_(a, b)
#define CP_LABEL_NAME_(a, b) a##b

/* The labels in order of key: the number of them, and the i-th. The strings live as long as the set. */
size_t cp_labels_count(const struct cp_labels *labels);
const char *cp_labels_key(const struct cp_labels *labels, size_t i);
const char *cp_labels_value(const struct cp_labels *labels, size_t i);
/* One reference more, one fewer; NULL is the empty set. Not in a signal handler. */
struct cp_labels *cp_labels_ref(struct cp_labels *labels);
void cp_labels_unref(struct cp_labels *labels);

/* ---- Gs and Ms ------------------------------------------------------------------------------- */

/*
 * What the profiler knows of a green thread. An embedder places it in an object of its own and fills it with
 * cp_g_init(). The signal handler of the M that runs the G reads it: while a G runs, only the G itself may
 * change it.
 */
struct cp_g {
    uint64_t id;        /* unique in the process, from 1 */
    uint64_t parent_id; /* the G that created it; 0 where a plain thread did */
    uintptr_t stack_lo; /* lowest address of its stack */
    uintptr_t stack_hi; /* one past the highest, where its first frame begins: unwinding reads nothing
                         * outside, and marks stacks that do not lead up to there as incomplete */
    struct cp_labels *labels;
};

/* Gives g an id, its stack's bounds, and the labels and id of the parent (NULL: none). */
void cp_g_init(struct cp_g *g, void *stack_lo, void *stack_hi, const struct cp_g *parent);
/* Lets go of what g refers to. It must not be any M's current G any more. */
void cp_g_fini(struct cp_g *g);
/* The labels of g, which may run on another thread meanwhile, with a reference that is the caller's: for
 * lists of Gs. NULL if g has none. The memory of g must stay, but may come to be another G's. The system must
 * have membarrier(2). */
struct cp_labels *cp_g_labels(struct cp_g *g);

/* The part of an M that cp_execute() touches; the rest is private. Owned by the M's thread. */
struct cp_m {
    struct cp_g *g;      /* the G that runs here; NULL: the thread itself */
    uint64_t generation; /* of the slots, when this M last looked at them */
};

/* Moves whenever what the slots hold changes. Read-only to embedders. */
extern uint64_t cp_generation;

/*
 * Makes the calling thread an M (its second call returns the M it already is). From then on it is profiled
 * whenever profiling runs. The thread gets an alternate signal stack where it has none of 32 KiB or more. An
 * M detaches by itself when its thread exits. -ENOMEM, -EAGAIN if the program has used up its keys for
 * thread-specific data (pthread_key_create(3)), or what sigaltstack or mmap said. A session that cannot be
 * armed on this M is no error here: the profile counts the M as refused.
 */
int cp_m_attach(struct cp_m **m, struct cp_error *err);
/*
 * Ends that; m must be the calling thread's. What was sampled on it stays in the profiles. A thread does it
 * before execve(): a SIGPROF that is raised in that call is pending still when the new program runs, and ends
 * it. (Children of fork(), vfork() and posix_spawn() are not profiled, and may do as they please.)
 */
void cp_m_detach(struct cp_m *m);
/* The calling thread's M, NULL where it has none. May be called in a signal handler. */
struct cp_m *cp_m_self(void);
/* The G that runs on the calling M, or the one that stands for its thread; NULL where the thread is no M. */
struct cp_g *cp_g_self(void);

/* For cp_execute() only: looks at the slots and reconfigures the M's handles. */
void cp_execute_slow(struct cp_m *m);

/*
 * The scheduling point, the proposal's execute(): m, the calling thread's, is about to run g (NULL: its own
 * code). Call it on the M's stack, before switching to g's. With nothing changed it costs a store, a load and
 * a compare.
 */
static inline void cp_execute(struct cp_m *m, struct cp_g *g)
{
    cp_store_relaxed(&m->g, g); /* relaxed: read by this thread's own signal handler only */
    cp_fence_signal();
    /* acquire: pairs with the release of whoever changed the slots; what they hold is visible after it */
    if (__builtin_expect(cp_load_acquire(&cp_generation) != m->generation, 0))
        cp_execute_slow(m);
}

/* ---- Profiling, the proposal's calls --------------------------------------------------------- */

/*
 * The proposal's runtime_pprof_setCPUProfileConfig: starts sampling by event, or with config NULL stops it.
 * One config an event at a time; a second start of a running event replaces it. Samples are read with
 * cp_cpu_profile_read(). Errors as cp_slots_start().
 */
int cp_set_cpu_profile_config(enum cp_cpu_event event, const struct cp_cpu_profile_config *config,
                              struct cp_error *err);
/* The legacy SetCPUProfileRate: the OS timer at hz samples a second of CPU time, 0 stops. */
int cp_set_cpu_profile_rate(int hz, struct cp_error *err);

/* One sample, as its reader sees it; valid during the call only. */
struct cp_sample {
    uint64_t weight; /* how many periods it stands for; at least 1 */
    uint64_t g_id;   /* 0: the M itself */
    struct cp_labels *labels;
    unsigned flags;          /* CP_SAMPLE_... */
    unsigned depth;          /* number of frames; 0 only where flags says why */
    unsigned kernel_depth;   /* so many of them, at the beginning, are the kernel's */
    const uintptr_t *frames; /* innermost first. The kernel's: [0] an instruction, then return addresses;
                              * the program's: the interrupted instruction, then return addresses */
    uint64_t ip;   /* the instruction that caused it, by the precise_ip that was reached; 0: none asked for */
    uint64_t addr; /* the data address involved; 0: none asked for, or none known */
};
#define CP_SAMPLE_TRUNCATED 1u  /* more frames than CP_MAX_FRAMES */
#define CP_SAMPLE_FOREIGN_SP 2u /* the stack pointer was in no stack that the M knows: frames[0] only */
#define CP_SAMPLE_LATE 4u /* taken when the program had gone on, since it had SIGPROF blocked; see below */
#define CP_SAMPLE_INCOMPLETE 8u /* the chain of frames broke off: code without frame pointers */
#define CP_SAMPLE_STALLED                                                                                    \
    16u /* periods of a clock that passed while the machine under it stood still: no                         \
         * time of the program's, whatever its clock says */
/* A late sample's frames are the kernel's and the interrupted instruction, without callers; a timer's has
 * none. */
#define CP_MAX_FRAMES 256

typedef void cp_sample_fn(void *context, const struct cp_sample *sample);

/* Hands over what was sampled for an event that cp_set_cpu_profile_config() started, since the last call,
 * also after its stop; the number of samples, or -ESRCH where it never ran. */
int cp_cpu_profile_read(enum cp_cpu_event event, cp_sample_fn *fn, void *context);

/* ---- Profiling, slots: what sessions stand on ------------------------------------------------ */

/* Whether the event can be sampled by on the calling thread, with the config that
 * cp_cpu_profile_config_init() makes: 0, or what cp_slots_start() would return and say. Nothing is left
 * running. What a refusal has for a reason is in err->reason, in at most 33 characters. */
int cp_event_probe(const struct cp_event_spec *spec, struct cp_error *err);

/*
 * What a sample of an event of perf_event_open(2) costs the thread that it interrupts on this machine, in ns
 * of its CPU time: the interrupt, the signal and the handler. The cost is measured once in a process, by this
 * call or by the first start of any event but the timer, on a thread of its own: that takes 20 to 40 ms, and
 * up to 0.6 s on a busy machine, and whoever asks meanwhile waits for the result. 0, and the reason in err,
 * if the cost cannot be measured: then no start is refused for it. If the attempt took time and found nothing
 * (-ENODATA), the next one is made 10 s later at the earliest.
 */
uint64_t cp_sample_cost_ns(struct cp_error *err);

/*
 * Starts n events, one to CP_EV_MAX, all or none. slots[i] is the place of requests[i]. Before anything is
 * armed, each event is opened on the calling thread, so that what the system refuses is refused here: -EINVAL
 * bad config; -EBUSY no slot free; -ENOENT, -ENODEV, -EOPNOTSUPP no such event here; -ENODATA the event
 * opens, but does not count here: a watched word was written, or instructions ran, and the count stayed at 0;
 * -EACCES, -EPERM not allowed; -EMFILE, -ENFILE, -ENOMEM no descriptors, no ring memory.
 * -EINVAL, too, if the events could take more than half of a CPU beside those that run: the clocks by their
 * periods, cycles and instructions by their periods and the processor's highest frequency, each sample at
 * cp_sample_cost_ns().
 * Ms arm themselves at their next scheduling point; those that reach none are kicked by cp_slots_read()'s
 * caller.
 */
int cp_slots_start(const struct cp_slot_request *requests, size_t n, int *slots, struct cp_error *err);

/*
 * Hands what Ms have sampled for a slot to fn; the number of samples. One thread at a time for a slot. It
 * also stops events that take more than half of an M's CPU time (ms_overloaded), and kicks Ms that run but
 * have not looked at the slots since they last changed, so call it at least every 100 ms.
 */
int cp_slots_read(int slot, cp_sample_fn *fn, void *context);

/*
 * For the thread that reads: waits until a sample buffer has become half full, or cp_slots_wake() was called,
 * since token was taken, or timeout_ms have passed. Take the token before reading.
 */
uint32_t cp_slots_token(void);
void cp_slots_wait(uint32_t token, int timeout_ms);
void cp_slots_wake(void);

/* Stops n slots, disables their events on threads that run, and waits until every such M has let go, for 2 s
 * at most; Ms that sleep let go at their next sample or scheduling point. What was sampled can still be
 * read. */
void cp_slots_stop(const int *slots, size_t n);

/* Frees n stopped slots; what was not read is gone. */
void cp_slots_release(const int *slots, size_t n);

/* What happened in a slot since its start, summed over all Ms. */
struct cp_slot_stats {
    size_t size;           /* sizeof(struct cp_slot_stats) as the caller compiled it */
    uint64_t samples;      /* periods recorded, the sum of all weights */
    uint64_t signals;      /* signals that brought them */
    uint64_t dropped;      /* periods lost because a sample buffer was full */
    uint64_t lost;         /* records lost because the ring was full, or signals where there is no ring */
    uint64_t late;         /* periods of CP_SAMPLE_LATE samples; counted in samples */
    uint64_t truncated;    /* samples of more than CP_MAX_FRAMES frames */
    uint64_t incomplete;   /* samples whose stack broke off before its first frame */
    uint64_t throttled;    /* times the kernel throttled the event */
    uint64_t throttled_ns; /* of time_running, what passed meanwhile: it has no samples */
    uint64_t overruns;     /* periods of a timer or clock folded into a later sample; counted in samples */
    uint64_t stalled;      /* of them, those of CP_SAMPLE_STALLED samples */
    uint64_t count; /* the event's own count (ns for clocks); CPU ns for the timer. A PMU's event counts
                            * nothing while it is throttled */
    uint64_t overloaded_ns; /* CPU time of Ms whose event was stopped because samples took more than half of
                             * it; it has no samples */
    uint64_t time_enabled;  /* ns; with time_running tells how long the event shared a counter */
    uint64_t time_running;  /* ns */
    uint64_t foreign;       /* SIGPROFs on Ms from elsewhere, while this slot ran */
    uint32_t ms;            /* Ms that were armed */
    uint32_t ms_ringless;   /* of them without a perf ring: a signal is a sample */
    uint32_t ms_refused;    /* Ms that the system refused */
    uint32_t ms_overloaded; /* Ms whose event was stopped because samples took more than half of their time */
    int refused_errno;      /* the negative errno of the last refusal */
    uint32_t precise_ip;    /* the level reached, at most the config's */
    bool handler_replaced;  /* at its stop somebody else's SIGPROF handler stood in place of this library's */
};
/* Fills *stats, whose size is set. -EINVAL if there is no such slot, or the size is not set. */
int cp_slots_stats(int slot, struct cp_slot_stats *stats);
/* The same, summed over all slots that were ever started: counters that only rise, in which an M counts once
 * for each event that it was armed for. */
int cp_slots_totals(struct cp_slot_stats *stats);

/* What the profiler does in this process, for monitoring. */
struct cp_runtime_stats {
    size_t size;         /* sizeof(struct cp_runtime_stats) as the caller compiled it */
    uint64_t handler_ns; /* time that Ms have spent in the signal handler, less its pausing of events */
    uint32_t ms;         /* threads that are Ms */
    uint32_t slots;      /* slots in use, of CP_EV_MAX */
};
/* Fills *stats, whose size is set. -EINVAL if it is not. */
int cp_runtime_stats(struct cp_runtime_stats *stats);

/* An M, as a list shows it; valid during the call only. */
struct cp_m_info {
    int tid;                 /* gettid(2)'s */
    unsigned depth;          /* number of frames */
    const uintptr_t *frames; /* from where it was attached: return addresses, innermost first */
};
typedef void cp_m_list_fn(void *context, const struct cp_m_info *info);
/* Hands every M to fn, newest first. */
void cp_m_list(cp_m_list_fn *fn, void *context);

#ifdef __cplusplus
}
#endif
#endif
