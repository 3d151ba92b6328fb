/*
 * counterpoint/pprof.h: CPU profiles in pprof's format, by any of the events of runtime.h.
 *
 *     struct cp_profiling_option option = cp_option_event(cp_writer_path("cpu.pb.gz"), "taskClock", 1000000);
 *     struct cp_error err;
 *
 *     if (cp_start_cpu_profile_with_config(&err, option) < 0)
 *         fprintf(stderr, "%s\n", err.message);
 *     ...
 *     if (cp_stop_cpu_profile(&err) < 0)
 *         fprintf(stderr, "%s\n", err.message);
 *
 * The calls that make options are those of the Go proposal (golang.org/issue/36821, section 4.3). A thread
 * is profiled if it is an M (cp_m_attach() in runtime.h).
 *
 * Errors: calls return 0 or a negative errno value, with the reason in a struct cp_error, which may be NULL.
 * Threads and signals: every call may be made from any thread, but none from a signal handler.
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

/* Where a profile goes. One of the constructors below makes the struct, which is passed by value. What it
 * refers to must live until the session has been stopped. */
struct cp_writer {
    const struct cp_writer_ops *ops;
    ssize_t (*write)(void *context, const void *data, size_t size);
    void *context;
    int fd;
    int directory_fd;
    struct {
        dev_t device;
        ino_t inode;
    } file, directory; /* identity of what the descriptors were opened for */
    bool created;      /* the writer has created the file, which has no profile yet */
    off_t start;       /* where the attempt to write began; -1: the attempt cannot be undone */
    uint64_t taken;    /* bytes written in that attempt */
    int spoilt;        /* the error of an attempt of which a part stayed; 0: none */
    uint64_t reserved[4];
};

/* Takes up to size bytes. Returns how many bytes it took, at least 1, or a negative errno value. */
typedef ssize_t cp_write_fn(void *context, const void *data, size_t size);

/* Writes to a callback, which a thread of the session calls while the stopping call waits. The callback may
 * use other sessions; a call for the same session, or for the default session while that is written, would
 * wait for ever. If the callback ends its thread, the profile counts as not written: -ECANCELED. */
struct cp_writer cp_writer_callback(cp_write_fn *write, void *context);
/* Writes to a file, which is created (mode 0666 minus the umask) or replaced. The file is opened when the
 * session starts, so a path that cannot be written is an error of the start; an existing file keeps its
 * contents until there is a profile to write. A relative path is relative to the working directory at the
 * start. If the session is closed without having written a profile, a file that the writer has created is
 * removed, if it is still there. The string must live until the session is closed. */
struct cp_writer cp_writer_path(const char *path);
/* Writes to a stream, which is flushed before and after the profile, and stays open. A failed attempt is
 * undone. If that is impossible, because the stream cannot be rewound or appends, the writer refuses the
 * profile from then on, so that it never follows a part of itself; cp_session_write() can write it
 * elsewhere. */
struct cp_writer cp_writer_file(FILE *file);
/* Writes to a descriptor, which stays open. If the descriptor does not block, a full pipe is an error. A
 * pipe without a reader gives -EPIPE and no SIGPIPE. A failed attempt is undone; what is in a pipe stays
 * there, and the writer then refuses the profile as a stream does. */
struct cp_writer cp_writer_fd(int fd);

/* A buffer that grows. The caller sets it to zero before use, and frees data afterwards. */
struct cp_memory {
    unsigned char *data;
    size_t size;
    size_t capacity;
    uint64_t reserved[1];
};
/* Writes to a buffer in memory. */
struct cp_writer cp_writer_memory(struct cp_memory *memory);

/* ---- Options --------------------------------------------------------------------------------- */

/* The proposal's ProfilingOption: an event, and where its profile goes. */
struct cp_profiling_option {
    struct cp_writer writer;
    const char *name;   /* the event's name; NULL: raw_event */
    uint64_t raw_event; /* set by cp_cpu_raw_event() */
    uint64_t period;
    const struct cp_cpu_profile_config *config; /* set by cp_option_config(); NULL: period counts */
    enum cp_engine engine;                      /* AUTO: the config's; not for the timer */
    uint64_t flags;                             /* a set of CP_OPTION_ bits */
    uint64_t reserved[2];
};
/* For waits: the profile has the types of Go's block and mutex profiles, "contentions" instead of "waits",
 * and the period 1. */
#define CP_OPTION_CONTENTIONS 1u

/* Samples by the CPU timer of each M, 100 per second of CPU time. */
struct cp_profiling_option cp_os_timer(struct cp_writer w);
/* Samples by an event of the PMU: one sample every "period" events. A period of 0 takes the preset. */
struct cp_profiling_option cp_cpu_cycles(struct cp_writer w, uint64_t period);
struct cp_profiling_option cp_cpu_instructions(struct cp_writer w, uint64_t period);
struct cp_profiling_option cp_cpu_cache_references(struct cp_writer w, uint64_t period);
struct cp_profiling_option cp_cpu_cache_misses(struct cp_writer w, uint64_t period);
struct cp_profiling_option cp_cpu_branch_instructions(struct cp_writer w, uint64_t period);
struct cp_profiling_option cp_cpu_branch_misses(struct cp_writer w, uint64_t period);
/* Samples by the event that has this number in the processor's manual. */
struct cp_profiling_option cp_cpu_raw_event(struct cp_writer w, uint64_t period, uint64_t hex);
/* Samples by any event that cp_event_parse() knows. The period is in events, or in ns for "timer" and the
 * clocks. The name must live until the start has returned. */
struct cp_profiling_option cp_option_event(struct cp_writer w, const char *name, uint64_t period);
/* Samples by an event with a config that cp_cpu_profile_config_init() made for it and that the caller has
 * changed, for instance to include kernel frames or data addresses. The event comes from the name,
 * everything else from the config. The start checks and copies the config, which must live until then. */
struct cp_profiling_option cp_option_config(struct cp_writer w, const char *name,
                                            const struct cp_cpu_profile_config *config);

/* ---- The default session, the proposal's API ------------------------------------------------- */

/* The same as cp_start_cpu_profile_with_config(err, cp_os_timer(w)). */
int cp_start_cpu_profile(struct cp_writer w, struct cp_error *err);

/*
 * Starts one profile for each option; either all start or none does:
 *
 *     cp_start_cpu_profile_with_config(&err, cp_cpu_cycles(w1, 0), cp_cpu_cache_misses(w2, 0));
 *
 * A macro in C, a function template in C++ (since C++11). With several options, the environment must have
 * CP_PPROF_ENABLE_MULTIPLE_CPU_PROFILES=true, or the call returns -EPERM. Returns -EBUSY if the default
 * session already runs; otherwise what cp_session_start() returns.
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
 * Stops the default session, and writes each event's profile to its writer. Returns -ESRCH if no default
 * session runs. If a writer fails, its error is returned, the other profiles are still written, and the
 * profile is kept: call again to retry, or see cp_default_session().
 */
int cp_stop_cpu_profile(struct cp_error *err);

/* Returns the default session, for the cp_session_*() calls, while it runs or holds a profile that was not
 * written; else NULL. */
struct cp_session *cp_default_session(void);

/* ---- Sessions -------------------------------------------------------------------------------- */

/* Profiling from one start to its stop. Sessions are independent of each other, as long as slots (CP_EV_MAX)
 * are free. */
struct cp_session;

/*
 * Starts a session. Events and writers must be different. If the call fails, nothing was armed and no file
 * was changed. Returns -EINVAL for an unknown event, a bad period, an event or writer given twice, or none
 * or too many options; -EBUSY if no slot is free; the error of opening a path; or what cp_slots_start()
 * returns.
 */
int cp_session_start(struct cp_session **session, const struct cp_profiling_option *options, size_t n,
                     struct cp_error *err);
/*
 * Ends the sampling, once, without writing. For a program that chooses when symbols are read, because that
 * takes a whole CPU. The samples and the duration of the profiles end here, and the slots are free for
 * others. The profiles stay in memory until cp_session_stop() or cp_session_write() writes them, or
 * cp_session_close() drops them. Halting a session again changes nothing. Several threads may call this
 * function, also beside cp_session_stop(); a call waits for another thread that ends or writes the session.
 * If a thread still holds an event after 2 s, the sampling ends all the same, and the profile's comments name
 * the thread (threads_unsettled). Returns -ECHILD as cp_session_stop() does.
 */
int cp_session_halt(struct cp_session *session, struct cp_error *err);
/* Ends the sampling, unless it has ended, and writes each profile that is not yet written to its writer.
 * Returns the first error, and keeps that profile: call again to retry, or cp_session_write() to write it
 * elsewhere. If there is not enough memory for function names, about 64 MiB, a profile is written with
 * addresses only and says so; cp_session_write() may find the names later. Returns -ECHILD in a child of the
 * process that started the session; the child can only close the session. */
int cp_session_stop(struct cp_session *session, struct cp_error *err);
/* Writes the profile of option i of a stopped session to another writer, any number of times. Returns -EBUSY
 * if the session still runs, and -EINVAL if there is no option i. */
int cp_session_write(struct cp_session *session, size_t i, struct cp_writer w, struct cp_error *err);
/* Stores the figures of option i so far; see cp_slots_stats() in runtime.h. */
int cp_session_stats(struct cp_session *session, size_t i, struct cp_slot_stats *stats);
/* Returns sentences that warn about option i; the profile's comments say the same. Once the sampling has
 * ended without a sample: why the profile is empty, as with a period that is longer than what the threads had
 * of the event, and which period to take. Else: the period asks a clock for more samples than the kernel
 * allows (kernel.perf_event_max_sample_rate). They are valid as long as the session. Returns NULL if there is
 * nothing to warn of, or no option i. */
const char *cp_session_warning(const struct cp_session *session, size_t i);
/* Writes the profile as text for people: the stacks with the most samples first, in the form of
 * net/http/pprof with debug=1, which pprof tools can read, too (addresses and the memory map, without
 * labels). The profile does not count as written then, because the caller may still want it after a look. */
int cp_session_write_text(struct cp_session *session, size_t i, struct cp_writer w, struct cp_error *err);
/* Frees the session with the profiles that were not written; stops the session first if it runs. NULL does
 * nothing. */
void cp_session_close(struct cp_session *session);

/* ---- Merging --------------------------------------------------------------------------------- */

/*
 * Makes one profile of several in pprof's format, for instance those of other processes, as go tool pprof
 * does with several files: equal things are stored once, addresses are those of the first profile that has
 * the mapping, durations are added up, and labels and distinct comments are kept. (Of more than 64 comments,
 * the first ones are kept, and one more says how many were left out. That a profile is empty is told only if
 * the merged one is.)
 *
 *     struct cp_merge *merge = cp_merge_new();
 *     while (...)
 *         cp_merge_add(merge, data, size, &err);
 *     cp_merge_write(merge, cp_writer_path("all.pb.gz"), &err);
 *     cp_merge_free(merge);
 *
 * Only one thread at a time may use a merge.
 */
struct cp_merge;

/* The most bytes to which a profile may unpack, because a small gzip file could unpack to any size. Reading
 * a profile may take CP_MERGE_MEMORY_FACTOR times as much memory. */
#define CP_MERGE_LIMIT ((size_t)64 << 20)
#define CP_MERGE_MEMORY_FACTOR 16

/* Returns an empty merge, or NULL if there is no memory. */
struct cp_merge *cp_merge_new(void);
/* Adds a profile, gzipped or plain, whose data is not needed after the call. If the call fails, the merge is
 * unchanged. Returns -EBADMSG if the data is damaged or no profile; -EINVAL if its samples have other types
 * than those before; -EFBIG if it unpacks to more than CP_MERGE_LIMIT, or takes more memory than that
 * allows; -ENOMEM. */
int cp_merge_add(struct cp_merge *merge, const void *data, size_t size, struct cp_error *err);
/* Subtracts the values of a profile, an earlier state of what cp_merge_add() has added. Samples that are
 * equal in both are left out, samples that have become fewer have negative values, and the duration is the
 * time between the two. Returns what cp_merge_add() returns. */
int cp_merge_subtract(struct cp_merge *merge, const void *data, size_t size, struct cp_error *err);
/* Writes the merged profile, any number of times. Returns -ENODATA if nothing was added; the writer's error;
 * -ENOMEM. */
int cp_merge_write(const struct cp_merge *merge, struct cp_writer w, struct cp_error *err);
/* Returns a sentence that says why the merged profile is empty, as cp_session_warning() does, if all the
 * profiles are of sessions. It is valid until the merge changes. NULL: the merged profile has samples, or
 * nobody knows why it has none. */
const char *cp_merge_warning(struct cp_merge *merge);
/* Frees the merge. NULL does nothing. */
void cp_merge_free(struct cp_merge *merge);

/* ---- Beside sessions ------------------------------------------------------------------------- */

/* What a list is written as. The numbers are those of net/http/pprof's "debug". */
enum cp_profile_form {
    CP_FORM_PPROF = 0,  /* a profile in pprof's format */
    CP_FORM_TEXT = 1,   /* the same as text, as cp_session_write_text() writes it */
    CP_FORM_STATES = 2, /* Gs only: each with its state, its stack and where it was created */
};

/* Writes the profile that net/http/pprof calls threadcreate: a sample for each M, with the stack that
 * attached the M, and a label "thread" ("NAME/TID"). Returns 0, the writer's error, -ENOMEM, or
 * -EINVAL for CP_FORM_STATES. */
int cp_thread_profile(struct cp_writer w, enum cp_profile_form form, struct cp_error *err);

struct cp_watch; /* watch.h */

/*
 * Write the profile of where the rounds of a watch began, which must have been opened with has_stacks: of
 * each distinct stack of begins, with the labels that the watch tells apart, how many rounds began there and
 * have ended ("rounds"), their time ("time", in ns, which readers show first), and the sum of each further
 * quantity. Ratios are left out, because they cannot be added up. Rounds in which their G has called fork()
 * have the label "side": "parent" or "child". The second call finds the watch by its name.
 *
 * Return 0; the writer's error; -EINVAL for a watch without has_stacks, a watch for keys, and CP_FORM_STATES;
 * -ENOENT for a name that no open watch has; -ENOMEM. Only the second call may run while another thread
 * closes the watch.
 */
int cp_watch_write_profile(const struct cp_watch *watch, struct cp_writer w, enum cp_profile_form form,
                           struct cp_error *err);
int cp_watch_write_profile_of(const char *name, struct cp_writer w, enum cp_profile_form form,
                              struct cp_error *err);

/*
 * The block and mutex profiles of the process, as net/http/pprof has them: where Gs and threads have waited
 * (the event wait), and who has made others wait (the event lock), since the start of a recording that
 * belongs to no session. What is recorded can be written at any time, while it goes on.
 */
enum cp_contention { CP_CONTENTION_BLOCK = 0, CP_CONTENTION_MUTEX = 1 };

/* Begins to record, and forgets what was recorded before. All that waits for as long as the period, in ns, is
 * recorded, and what waits for a shorter time in proportion; 0: 1000000 ns. A second start with the same
 * period changes nothing. Returns 0; -EBUSY if it is recorded with another period, or too many waits are
 * recorded at once; -EINVAL if the program has switched accounts off (account.h), or for a period beyond
 * INT64_MAX; -ENOMEM. In the child of a fork nothing is recorded. */
int cp_contention_start(enum cp_contention which, uint64_t period, struct cp_error *err);
/* Ends the recording. What was recorded can still be written. */
void cp_contention_stop(enum cp_contention which);
/* Writes what was recorded since the start, with the types of Go's profiles: contentions, and delay in ns.
 * Returns 0; the writer's error; -ESRCH if nothing was ever recorded; -EINVAL for CP_FORM_STATES; -ENOMEM. */
int cp_contention_profile(enum cp_contention which, struct cp_writer w, enum cp_profile_form form,
                          struct cp_error *err);

/* Called with the linker's name of the function that contains addresses[i], which is mangled for C++ and
 * Rust; the name is valid during the call. */
typedef int cp_symbol_each_fn(void *context, size_t i, const char *function);
/* Looks up n addresses of this process and, if the kernel shows them, of the kernel. Calls fn() for each
 * that is in a known function, in no particular order. Reads the objects' symbols each time, on a thread of
 * its own. Returns 0, -ENOMEM, the error of starting that thread, or a result of fn() other than
 * 0, which ends the list. */
int cp_symbol_each(const uintptr_t *addresses, size_t n, cp_symbol_each_fn *fn, void *context);

/*
 * Lets this process, from now on, look for names of code that is in no file in the files that just-in-time
 * compilers write for perf: /tmp/perf-PID.map, and jitdump files, which are called "jit-PID.dump" and
 * are mapped by the process or in /tmp. Profiles and cp_symbol_each() then have these names. The files are
 * read when a profile is written or names are asked for. If code was replaced, the entry that was written
 * last counts, of a jitdump file with times the last one before the end of the profile. Off at first,
 * because /tmp is everybody's. A file is read only if it is a regular one of the effective user, which not
 * everybody may write, and not older than the process. The compiler must be told to write the file:
 * docs/embedding.md says how.
 */
void cp_symbol_use_jit(bool use);

/* ---- Gs --------------------------------------------------------------------------------------- */

struct cp_g_info; /* sched.h */

/* Stores at most max return addresses of the stack of a G that does not run, the innermost first, and
 * returns how many there are. Must be quick, because the G waits meanwhile. */
typedef unsigned cp_unwind_fn(const struct cp_g_info *g, uintptr_t *frames, unsigned max);
/* Finds stacks by frame pointers. The walk ends at code without them, and misses the caller of an innermost
 * function that has none. */
unsigned cp_unwind_frame_pointers(const struct cp_g_info *g, uintptr_t *frames, unsigned max);

/*
 * Writes where all Gs of the scheduler are, while they go on: a profile or a text that counts Gs by stack
 * and labels, or each G by itself. The formats are those of Go's /debug/pprof/goroutine. "unwind" finds the
 * stacks (NULL: cp_unwind_frame_pointers()). Of a G that runs, only its first function is shown. The call
 * works on a thread of its own. Returns -EINVAL for an unknown form, -ENOMEM, the error of starting that
 * thread, the writer's error, or what cp_g_each() returns.
 */
int cp_g_profile(struct cp_writer w, enum cp_profile_form form, cp_unwind_fn *unwind, struct cp_error *err);

/*
 * Prints what Gs ran, were runnable and waited, in the text format of Prometheus: what cp_accounts_each()
 * tells. Each label is a label of Prometheus; a key whose name would not be allowed, or would be "state",
 * "reason" or "labels", gets another name, and an empty value is "(empty)". The 100 label sets that came
 * first are shown, and all others are one, with the label labels="(other)": so a series that was there once
 * stays. Prints nothing if there are no accounts. Returns 0, or -ENOMEM and has printed nothing; what writing
 * to out brings is the caller's to look at.
 */
int cp_accounts_print(FILE *out);

/*
 * The same for the Gs that have waited for at least so many ns, and may wait for ever: each stack ends with
 * the call of cp_go() that started the G, the labels reason and object say what the G waits for, and a second
 * value is the sum of the times that the Gs have waited so far. Gs that run or are runnable are left out.
 */
int cp_g_leak_profile(struct cp_writer w, enum cp_profile_form form, uint64_t least_ns, cp_unwind_fn *unwind,
                      struct cp_error *err);

/*
 * Writes the stalls that the search which runs, or ran last, has found (stall.h), by place: how many, and for
 * how long they have lasted. The label stall says what the thread did (cp_stall_kind_name()), the label
 * reason what it waited for. Stalls that the system made, and those without a stack, have a frame that says
 * so. The call works on a thread of its own. Returns -EINVAL for an unknown form, -ENOMEM, the error of
 * starting that thread, or the writer's error.
 */
int cp_stalls_profile(struct cp_writer w, enum cp_profile_form form, struct cp_error *err);

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
