/*
 * counterpoint/pprof.h: CPU profiles in pprof's format, by any of the events of runtime.h.
 *
 *     struct cp_profiling_option option = cp_event(cp_writer_path("cpu.pb.gz"), "taskClock", 1000000);
 *     struct cp_error err;
 *
 *     if (cp_start_cpu_profile_with_config(&err, option) < 0)
 *         fprintf(stderr, "%s\n", err.message);
 *     ...
 *     if (cp_stop_cpu_profile(&err) < 0)
 *         fprintf(stderr, "%s\n", err.message);
 *
 * The option calls are those of the Go proposal (golang.org/issue/36821, section 4.3). Threads are profiled
 * once they are Ms (cp_m_attach in runtime.h).
 *
 * Errors: 0 or a negative errno value, with the reason in a struct cp_error, which may be NULL.
 * Every call may be made from any thread, none from a signal handler.
 */
#ifndef COUNTERPOINT_PPROF_H
#define COUNTERPOINT_PPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Writers --------------------------------------------------------------------------------- */

/* Where a profile goes; made by one of the constructors below and passed by value. What it refers to must
 * live until the session has been stopped. */
struct cp_writer {
    const struct cp_writer_ops *ops;
    ssize_t (*write)(void *context, const void *data, size_t size);
    void *context;
    int fd;
    int directory_fd;
    struct {
        dev_t device;
        ino_t inode;
    } file, directory; /* what the descriptors were opened for */
    bool created;      /* a file that was not there before, and that has no profile yet */
    off_t start;       /* where the attempt to write began; -1: nothing can be taken back from there */
    uint64_t taken;    /* in that attempt */
    int spoilt;        /* the error of an attempt of which a part stayed; 0: none */
};

/* Takes up to size bytes and returns how many it took, at least 1, or a negative errno value. */
typedef ssize_t cp_write_fn(void *context, const void *data, size_t size);

/* A callback, called from the session's profile-writer thread while cp_*_stop*() waits for it. It may use
 * other sessions; a call for the same one, or for the default session while that is written, would wait for
 * ever. A callback that ends its thread has not written the profile: -ECANCELED. */
struct cp_writer cp_writer_callback(cp_write_fn *write, void *context);
/* A file, created (mode 0666 less the umask) or replaced. It is opened when the session starts, so that a
 * path that cannot be written is an error there, and keeps its old contents until there is a profile to
 * write. A relative path is one of the directory that is the working directory at the start. A file that was
 * created is removed again when the session is closed without a profile in it, if it is still there. The
 * string must live until the session is closed. */
struct cp_writer cp_writer_path(const char *path);
/* A stream, flushed before and after, and left open. What an attempt that failed wrote is taken back. If it
 * cannot be, as the stream cannot be rewound or appends, the profile is refused there from then on, so that
 * it does not stand behind a part of itself: it can be written elsewhere with cp_session_write(). */
struct cp_writer cp_writer_file(FILE *file);
/* A descriptor, left open. One that does not block: a full pipe is an error. A pipe without a reader is
 * -EPIPE, and no SIGPIPE. What an attempt that failed wrote is taken back; what is in a pipe stays, and the
 * profile is refused there from then on, as it is by streams. */
struct cp_writer cp_writer_fd(int fd);

/* A growing buffer; zero it before use, free() data afterwards. */
struct cp_memory {
    unsigned char *data;
    size_t size;
    size_t capacity;
};
struct cp_writer cp_writer_memory(struct cp_memory *memory);

/* ---- Options --------------------------------------------------------------------------------- */

/* The proposal's ProfilingOption: one event, and where its profile goes. */
struct cp_profiling_option {
    struct cp_writer writer;
    const char *name;   /* of the event; NULL: raw_event */
    uint64_t raw_event; /* cp_cpu_raw_event() */
    uint64_t period;
    const struct cp_cpu_profile_config *config; /* cp_event_with_config(); NULL: by period */
};

/* Samples by each M's CPU timer, 100 a second of CPU time. */
struct cp_profiling_option cp_os_timer(struct cp_writer w);
/* Samples by an event of the PMU, one every period events; 0 takes the preset. */
struct cp_profiling_option cp_cpu_cycles(struct cp_writer w, uint64_t period);
struct cp_profiling_option cp_cpu_instructions(struct cp_writer w, uint64_t period);
struct cp_profiling_option cp_cpu_cache_references(struct cp_writer w, uint64_t period);
struct cp_profiling_option cp_cpu_cache_misses(struct cp_writer w, uint64_t period);
struct cp_profiling_option cp_cpu_branch_instructions(struct cp_writer w, uint64_t period);
struct cp_profiling_option cp_cpu_branch_misses(struct cp_writer w, uint64_t period);
/* Samples by the event that the processor's manual gives this number. */
struct cp_profiling_option cp_cpu_raw_event(struct cp_writer w, uint64_t period, uint64_t hex);
/* Samples by any event by name, as cp_event_parse() reads it; period in events, or ns for "timer" and the
 * clocks. The name must live until the start has returned. */
struct cp_profiling_option cp_event(struct cp_writer w, const char *name, uint64_t period);
/* The same with a config that cp_cpu_profile_config_init() made for that event and the caller changed: with
 * kernel frames or data addresses, for instance. The event is the name's, all else is the config's; the start
 * checks and copies it, so that it must live until then. */
struct cp_profiling_option cp_event_with_config(struct cp_writer w, const char *name,
                                                const struct cp_cpu_profile_config *config);

/* ---- The default session, the proposal's API ------------------------------------------------- */

/* cp_start_cpu_profile_with_config(err, cp_os_timer(w)). */
int cp_start_cpu_profile(struct cp_writer w, struct cp_error *err);

/*
 * Starts one profile for each option, all or none:
 *
 *     cp_start_cpu_profile_with_config(&err, cp_cpu_cycles(w1, 0), cp_cpu_cache_misses(w2, 0));
 *
 * A macro in C, a function template in C++ (11 and up). More than one option needs
 * CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES=true in the environment (else -EPERM). -EBUSY where the default
 * session runs already; otherwise as cp_session_start().
 */
#ifndef __cplusplus
#define cp_start_cpu_profile_with_config(err, ...)                                                           \
    cp_start_cpu_profile_with_options((const struct cp_profiling_option[]){__VA_ARGS__},                     \
                                      sizeof((const struct cp_profiling_option[]){__VA_ARGS__}) /            \
                                          sizeof(struct cp_profiling_option),                                \
                                      (err))
#endif
int cp_start_cpu_profile_with_options(const struct cp_profiling_option *options, size_t n,
                                      struct cp_error *err);

/*
 * Stops it and writes each event's profile to its writer. -ESRCH where none runs. Where a writer fails, its
 * error is returned, the others are still written, and the profile is kept: call again to retry, or see
 * cp_default_session().
 */
int cp_stop_cpu_profile(struct cp_error *err);

/* The default session while it runs or holds an unwritten profile, for the cp_session_*() calls; else NULL.
 */
struct cp_session *cp_default_session(void);

/* ---- Sessions -------------------------------------------------------------------------------- */

/* One start and stop of profiling. Sessions are independent of each other as long as slots (CP_EV_MAX) are
 * free. */
struct cp_session;

/*
 * Starts a session. Events and writers must differ from one another. When it fails nothing has been armed and
 * no file has changed: -EINVAL unknown event, bad period, repeated event or writer, none or too many options;
 * -EBUSY no slot free; what opening a path said; what cp_slots_start() returns.
 */
int cp_session_start(struct cp_session **session, const struct cp_profiling_option *options, size_t n,
                     struct cp_error *err);
/*
 * Ends the sampling (once) and writes nothing, for a program that chooses when symbols are read, which takes
 * a CPU's time. The samples and the duration of the profiles end here, and the slots are free for others. The
 * profiles stay in memory until cp_session_stop() or cp_session_write() writes them or cp_session_close()
 * drops them. A session that has ended stays as it is. Any number of threads may call it, beside
 * cp_session_stop() too; it waits for another thread that ends or writes the session. -ECHILD as
 * cp_session_stop().
 */
int cp_session_halt(struct cp_session *session, struct cp_error *err);
/* Ends the sampling, unless it has ended, and writes each profile that is not written yet, to its own writer.
 * Returns the first error, with the profile kept: call again to retry, or cp_session_write() elsewhere.
 * Without memory for functions' names, some 64 MiB, a profile is written with addresses only and says so;
 * cp_session_write() may find the names later. -ECHILD in a child of the process that started the session;
 * there it can only be closed. */
int cp_session_stop(struct cp_session *session, struct cp_error *err);
/* Writes the profile of option i of a stopped session to another writer, any number of times. -EBUSY where
 * the session still runs, -EINVAL where there is no option i. */
int cp_session_write(struct cp_session *session, size_t i, struct cp_writer w, struct cp_error *err);
/* What happened to option i so far; see cp_slots_stats(), runtime.h. */
int cp_session_stats(struct cp_session *session, size_t i, struct cp_slot_stats *stats);
/* What may be wrong with option i, in sentences that live as long as the session and stand in the profile,
 * too: the period of a clock that asks for more samples than the kernel allows
 * (kernel.perf_event_max_sample_rate). NULL where nothing is, or there is no option i. */
const char *cp_session_warning(const struct cp_session *session, size_t i);
/* The same as text, for people: stacks with the most samples first, in the form of net/http/pprof's debug=1,
 * which pprof tools read too (addresses, and the memory map; no labels). The profile does not count as
 * written then: who looks at a profile that is kept may still want it. */
int cp_session_write_text(struct cp_session *session, size_t i, struct cp_writer w, struct cp_error *err);
/* Frees the session, and what it has not written; stops it first where it runs. NULL does nothing. */
void cp_session_close(struct cp_session *session);

/* ---- Merging --------------------------------------------------------------------------------- */

/*
 * Makes one profile of several in pprof's format, of other processes for instance, as go tool pprof does with
 * those that it is given: what is equal in them is there once, addresses are those of the first profile that
 * has the mapping, durations are added up, labels are kept, and so are comments, once each. (Of more than 64
 * comments the first ones are, and one that tells how many more there were.)
 *
 *     struct cp_merge *merge = cp_merge_new();
 *     while (...)
 *         cp_merge_add(merge, data, size, &err);
 *     cp_merge_write(merge, cp_writer_path("all.pb.gz"), &err);
 *     cp_merge_free(merge);
 *
 * One thread at a time.
 */
struct cp_merge;

/* What a profile may unpack to, in bytes; reading it may take CP_MERGE_MEMORY_FACTOR times as much memory. A
 * small file of gzip's format could unpack to any size. */
#define CP_MERGE_LIMIT ((size_t)64 << 20)
#define CP_MERGE_MEMORY_FACTOR 16

/* NULL where there is no memory. */
struct cp_merge *cp_merge_new(void);
/* Adds a profile, gzipped or plain, which need not live longer. It changes nothing where it fails: -EBADMSG
 * damaged, or no profile; -EINVAL its samples are of other types than those before; -EFBIG it unpacks to more
 * than CP_MERGE_LIMIT, or takes more memory than that allows; -ENOMEM. */
int cp_merge_add(struct cp_merge *merge, const void *data, size_t size, struct cp_error *err);
/* Takes the values of a profile off those that are there, as of an earlier state of what cp_merge_add()
 * added: what is the same in both is left out, what there is less of now has values below zero, and the
 * duration is the time between the two. Returns what cp_merge_add() does. */
int cp_merge_subtract(struct cp_merge *merge, const void *data, size_t size, struct cp_error *err);
/* Writes what was added so far, any number of times. -ENODATA where that is nothing; the writer's error;
 * -ENOMEM. */
int cp_merge_write(const struct cp_merge *merge, struct cp_writer w, struct cp_error *err);
/* NULL does nothing. */
void cp_merge_free(struct cp_merge *merge);

/* ---- Beside sessions ------------------------------------------------------------------------- */

/* Writes the profile that net/http/pprof calls threadcreate: a sample for each M, with the stack that
 * attached it and a label "thread" ("NAME/TID"); is_text: as cp_session_write_text() does. The writer's
 * error, or -ENOMEM. */
int cp_thread_profile(struct cp_writer w, bool is_text, struct cp_error *err);

/* The linker's name of the function that address i, of those asked for, is an instruction of. */
typedef void cp_symbol_fn(void *context, size_t i, const char *function);
/* Looks n addresses of this process up, and of the kernel where it shows them, and calls fn for each that is
 * in a known function, in no order. It reads the objects' symbols each time, on a thread of its own. -ENOMEM,
 * or what starting that thread returned. */
int cp_symbol_lookup(const uintptr_t *addresses, size_t n, cp_symbol_fn *fn, void *context);

/* ---- Gs --------------------------------------------------------------------------------------- */

struct cp_sched_g; /* sched.h */

/* The return addresses on the stack of a G that does not run, innermost first, at most max; how many. It must
 * be quick: the G waits. */
typedef unsigned cp_unwind_fn(const struct cp_sched_g *g, uintptr_t *frames, unsigned max);
/* By frame pointers: not through code without them, and without the innermost caller where that has none. */
unsigned cp_unwind_frame_pointers(const struct cp_sched_g *g, uintptr_t *frames, unsigned max);

/*
 * Writes where all Gs of the scheduler are, while they run on: with debug 0 a profile that counts them by
 * stack and labels; with 1 the same as text; with 2 each G with its state, its stack and where it was
 * created; the formats are those of Go's /debug/pprof/goroutine. unwind finds the stacks (NULL:
 * cp_unwind_frame_pointers). A G that runs shows its first function only. It works on a thread of its own.
 * -ENOMEM; what starting that thread returned; what the writer said; else as cp_sched_each_g().
 */
int cp_goroutine_profile(struct cp_writer w, unsigned debug, cp_unwind_fn *unwind, struct cp_error *err);

#ifdef __cplusplus
}

template <typename... More>
inline int cp_start_cpu_profile_with_config(struct cp_error *err, const struct cp_profiling_option &first,
                                            const More &...more)
{
    const struct cp_profiling_option options[] = {first, more...};
    return cp_start_cpu_profile_with_options(options, 1 + sizeof...(more), err);
}
#endif
#endif
