/*
 * What the files of the simulated kernel share. Its state is in memory that processes share across fork(),
 * because events are shared so, too. Everything in it is protected by its lock, except what says
 * otherwise.
 *
 *     state.c    the memory, the lock, the threads
 *     events.c   perf_event_open(2) and what is done to an event
 *     pmu.c      which events the PMU has
 *     rings.c    records
 *     time.c     what happens on a thread, and which events and timers overflow meanwhile
 *     signals.c  the signals that overflows send
 *     timers.c   timers and CPU clocks of threads
 *     calls.c    the calls that are replaced, and which of them fail
 */
#ifndef COUNTERPOINT_TESTS_SIM_KERNEL_H
#define COUNTERPOINT_TESTS_SIM_KERNEL_H

#include <linux/perf_event.h>
#include <signal.h>
#include <time.h>

#include "sim.h"

enum { SIM_OWN = -1, SIM_GONE = -2 };
enum { SIM_EVENTS = 4096, SIM_TIMERS = 1024, SIM_THREADS = 8192 };

/* An event, whose descriptor is a memory file. Event i is unused if is_used is false. */
struct sim_event {
    bool is_used;
    bool is_closed; /* the descriptor is closed, and the event lives on with its ring */
    bool is_enabled, is_throttled, is_async;
    bool is_silent; /* it delivers no sample */
    enum sim_what what;
    unsigned kind; /* of core that it counts on; 0: any */
    pid_t pid;     /* of the process that has opened it */
    pid_t tid;     /* the thread that it counts on */
    pid_t opener;  /* the thread that has opened it, whose prctl(2) switches it off and on */
    pid_t owner;   /* the thread that its signals go to */
    int fd, sig;
    uint64_t id;   /* the number of the memory file */
    uint64_t born; /* compared with that of threads: an inherited event counts on those born later */
    struct perf_event_attr attr;
    uint64_t period;
    int64_t to_go; /* until the next overflow */
    uint64_t count, time_enabled, time_running, lost;
    uint64_t limit;      /* how many overflows PERF_EVENT_IOC_REFRESH has left; 0: there is no limit */
    uint64_t tick;       /* in which its last overflow was ... */
    uint64_t interrupts; /* ... and how many there were in that tick */
    int output;          /* the event whose ring it writes to, SIM_OWN or SIM_GONE */
    char *page;          /* its ring, in the memory of process pid; NULL: none */
    uint64_t ring_size;  /* of the ring's data, in bytes */
    uint64_t ring_lost;  /* how many records found no room since the last one that did */
};

/* A timer on a thread's CPU clock. The machine's kernel has a timer of the same number, which is never
 * armed. */
struct sim_timer {
    bool is_used, is_armed;
    pid_t pid, tid;
    int id, sig;
    uint64_t value; /* for the handler */
    uint64_t at, interval;
    uint64_t expired; /* how many expiries no signal has told of */
};

struct sim_thread {
    pid_t tid, pid; /* tid 0: unused */
    bool is_stopped;
    enum sim_what mode; /* SIM_KERNEL_TIME and SIM_CALL are modes; any other is user mode */
    uint64_t ns;        /* its CPU time */
    uint64_t ended_ns;  /* that of earlier threads of its process with the same number */
    uint64_t switches, faults;
    uint64_t born;
};

struct sim_state {
    struct sim_switches switches; /* not protected: see sim.h */
    int lock;                     /* atomic: the thread that has the lock; 0: none */
    int n_events, n_timers;       /* those behind are unused */
    struct sim_opened {
        int n;
        struct perf_event_attr last; /* that was asked for */
    } opened, opened_pmu;            /* all events, and those of the PMU */
    uint64_t births;
    uint64_t passed;  /* atomic: the CPU time of all threads */
    uint64_t rings;   /* the bytes of all rings */
    long fail_number; /* see sim_fail() */
    int fail_at, fail_error, failed;
    bool fail_stays;
    struct sim_event events[SIM_EVENTS];
    struct sim_timer timers[SIM_TIMERS];
    struct sim_thread threads[SIM_THREADS];
};
extern struct sim_state *sim_state; /* NULL: the machine's kernel is not replaced */

/* ---- state.c --------------------------------------------------------------------------------- */

/* The machine's system call: its result, or a negative errno value. */
long sim_raw(long number, long a, long b, long c, long d, long e, long f);
/* Returns the same as the C library's function would. */
long sim_or_errno(long result);
pid_t sim_pid(void);
pid_t sim_tid(void);

/* Blocks all signals, and returns the mask to give back. */
uint64_t sim_lock(void);
void sim_unlock(uint64_t mask);
/* For those who set the mask themselves. */
void sim_unlock_masked(void);

struct sim_thread *sim_thread(pid_t tid);
struct sim_thread *sim_self(void);
/* Makes the calling thread known with its first call, so that it is older than what is opened later. */
void sim_be_born(void);

/* Ends the process with a message: the test asked for what the simulation does not know. */
_Noreturn void sim_refuse(const char *what, uint64_t number);

/* ---- events.c -------------------------------------------------------------------------------- */

/* Returns the event of a descriptor; NULL: it is none. */
struct sim_event *sim_event(int fd);
/* Tells the id by which a descriptor names its event, also in a child whose parent has closed the event. */
bool sim_tell_id(int fd, uint64_t *id);
long sim_open_event(const long a[6]);
/* Does a call for an event. Returns its result, or a negative errno value. */
long sim_control_event(struct sim_event *event, unsigned long request, unsigned long argument);
long sim_fcntl_event(struct sim_event *event, int command, unsigned long argument);
long sim_read_event(struct sim_event *event, void *to, size_t size);
void sim_close_event(struct sim_event *event);
/* The same for all events of the process whose descriptors are in a range. */
void sim_close_events(unsigned first, unsigned last);
/* Enables or disables all events that the calling thread has opened, as prctl(2) does. */
void sim_switch_events(bool is_enabled);

/* Writes what read(2) returns of an event; returns the number of words. */
size_t sim_counts(const struct sim_event *event, uint64_t *to);
/* Returns whether the event counts on a thread, if it has a counter there. */
bool sim_counts_on(const struct sim_event *event, const struct sim_thread *thread);
/* Returns whether an event of a thread has a counter in the present tick. */
bool sim_has_counter(const struct sim_event *event, const struct sim_thread *thread);

/* ---- pmu.c ----------------------------------------------------------------------------------- */

/* Finds what an event counts; returns 0, or the kernel's refusal. */
long sim_find_what(const struct perf_event_attr *attr, struct sim_event *event);

/* ---- rings.c --------------------------------------------------------------------------------- */

void *sim_map_ring(struct sim_event *event, size_t size);
/* Takes the ring at this place away, if there is one, before it is unmapped. */
void sim_unmap_ring(const void *at);
/* Where a thread is. */
struct sim_place {
    uintptr_t pc, sp, fp;
    bool in_kernel; /* it was called from there */
};

void sim_write_sample(struct sim_event *event, const struct sim_place *place, uintptr_t address);
void sim_write_throttle(struct sim_event *event, bool begins);

/* ---- signals.c ------------------------------------------------------------------------------- */

/* Each returns the calling thread's signal, for SIM_HAPPEN(), which sets the mask, too; NULL: none is
 * sent. */
struct sim_raise *sim_raise_for_event(const struct sim_event *event, int code, uintptr_t address,
                                      uint64_t mask);
struct sim_raise *sim_raise_for_timer(struct sim_timer *timer, uint64_t mask);
/* Drops the timer's signal if it is pending, because the timer is deleted or set anew. */
void sim_drop_signal_of_timer(const struct sim_timer *timer);
/* Returns the signals of the calling thread's timers that wait behind other ones, a bit each. */
uint64_t sim_waiting_timers(void);
/* Takes the signal of a timer that waits behind another one, as rt_sigtimedwait(2) would; false: none
 * waits. */
bool sim_take_timer(uint64_t set, siginfo_t *info);
/* Sends a signal without SIM_HAPPEN(). */
void sim_send(const struct sim_raise *raise);
/* Lets ThreadSanitizer hand on the signals that it holds back. */
void sim_let_signals_in(void);

/* ---- timers.c -------------------------------------------------------------------------------- */

struct sim_timer *sim_timer(int id);
long sim_create_timer(const long a[6]);
void sim_set_timer(struct sim_timer *timer, const struct itimerspec *when);
/* Returns the timer of a thread that expires first, within *ns; *ns receives when. NULL: none does. */
struct sim_timer *sim_next_timer(const struct sim_thread *thread, uint64_t *ns);
/* Counts what has expired by now. */
void sim_expire(struct sim_timer *timer, uint64_t now);

/* Returns whether the simulation has this clock; *ns receives its time. */
bool sim_clock(clockid_t clock, uint64_t *ns);
/* CLOCK_MONOTONIC stands still on the calling thread, less what reading it takes (clock_ns), or goes on. */
void sim_wall_stands(bool stands);
uint64_t sim_wall_ns(void);

#endif
