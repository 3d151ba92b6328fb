/*
 * counterpoint/event.h: the events that can be sampled and counted, their names, and the configs that say
 * how.
 *
 * No function of this header keeps an event open. Errors, threads and signals: see runtime.h.
 */
#ifndef COUNTERPOINT_EVENT_H
#define COUNTERPOINT_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What can trigger samples: the proposal's constants in its order, then the kernel's software events. */
enum cp_cpu_event {
    CP_CPUPROF_OS_TIMER = 0,
    CP_CPUPROF_HW_CPU_CYCLES = 1,
    CP_CPUPROF_HW_INSTRUCTIONS = 2,
    CP_CPUPROF_HW_CACHE_REFERENCES = 3,
    CP_CPUPROF_HW_CACHE_MISSES = 4,
    CP_CPUPROF_HW_BRANCH_INSTRUCTIONS = 5,
    CP_CPUPROF_HW_BRANCH_MISSES = 6,
    CP_CPUPROF_HW_RAW = 7,
    /* with the engine signal, samples interrupt waits in system calls if kernel mode counts */
    CP_CPUPROF_SW_TASK_CLOCK = 8,
    CP_CPUPROF_SW_CPU_CLOCK = 9,
    CP_CPUPROF_SW_PAGE_FAULTS = 10,
    /* with the engine signal, a sample interrupts the sleep that begins with the switch (EINTR) */
    CP_CPUPROF_SW_CONTEXT_SWITCHES = 11,
    CP_CPUPROF_SW_CPU_MIGRATIONS = 12,
    CP_CPUPROF_NAMED = 13, /* any other event that perf_event_open(2) knows, by its encoding */
    /* What Gs and threads wait for, as the runtime tells it (account.h). Sessions (pprof.h) record these
     * events, and no slot samples them. */
    CP_CPUPROF_WAIT = 14,       /* waits, with the stack of the G that waited */
    CP_CPUPROF_RUNNABLE = 15,   /* times in which a G was ready to run and had no M */
    CP_CPUPROF_LOCK = 16,       /* waits, with the stack of whoever ended them */
    CP_CPUPROF_WALL = 17,       /* what Gs do, whatever it is: they run, could run, or wait */
    CP_CPUPROF_EVENT_COUNT = 18 /* the number of events in this header; a later version has more */
};
/* How many events run at once in one process, the proposal's EV_MAX. No event's number depends on it. */
#define CP_EV_MAX 8

/* How close the sampled program counter must be to the instruction that overflowed the counter. */
enum cp_profile_pc_precision {
    CP_CPUPROF_IP_ARBITRARY_SKID = 0,
    CP_CPUPROF_IP_CONSTANT_SKID = 1,
    CP_CPUPROF_IP_SUGGEST_NO_SKID = 2,
    CP_CPUPROF_IP_NO_SKID = 3,
};

/* What perf_event_open(2) is asked for: the members of perf_event_attr that have the same names. */
struct cp_event_encoding {
    uint32_t type;
    uint32_t bp_type; /* a watchpoint's HW_BREAKPOINT_...; else 0 */
    uint64_t config;
    uint64_t config1; /* a watchpoint's address */
    uint64_t config2; /* a watchpoint's length */
    uint64_t reserved[3];
};

/*
 * How the samples of an event of perf_event_open(2) get out of a thread:
 *
 *     trap     by a synchronous SIGTRAP, which the kernel raises when the thread returns to user mode. No
 *              system call of the program is cut short (EINTR). Needs Linux 6.1 or later, and a process that
 *              neither a debugger nor valgrind runs.
 *     signal   by SIGPROF, as the samples of the timer always do
 *
 * AUTO is what the environment variable CP_ENGINE names, and without that variable trap. If traps are not to
 * be had, AUTO becomes signal, and the profile says why; a start that demands traps is refused.
 */
enum cp_engine {
    CP_ENGINE_AUTO = 0,
    CP_ENGINE_TRAP = 1,
    CP_ENGINE_SIGNAL = 2,
};

/* The proposal's cpuProfileConfig, with additions. The runtime copies the configs that it is given. */
struct cp_cpu_profile_config {
    size_t size;        /* sizeof(struct cp_cpu_profile_config) as the caller compiled it */
    uint64_t hz;        /* samples per second of CPU time, 1 to 1 000 000; CP_CPUPROF_OS_TIMER only */
    uint64_t period;    /* events between two samples, ns for clocks; not for CP_CPUPROF_OS_TIMER */
    uint64_t raw_event; /* the processor's own event number; CP_CPUPROF_HW_RAW only */
    enum cp_profile_pc_precision precise_ip;
    bool is_sample_ip_included;        /* does the kernel's record contain the program counter? */
    bool is_sample_addr_included;      /* does the record contain the address of the data? */
    bool is_kernel_included;           /* do events in kernel mode count? */
    bool is_hv_included;               /* do events in the hypervisor count? */
    bool is_idle_included;             /* do events of the idle task count? */
    bool is_sample_callchain_included; /* does the record contain a call chain? */
    bool is_callchain_kernel_included; /* does the chain contain kernel frames? */
    bool is_callchain_user_included;   /* does the chain contain user frames? */
    /* The proposal's twelve fields end here. */
    bool is_user_excluded;             /* do events in user mode not count? */
    struct cp_event_encoding encoding; /* CP_CPUPROF_NAMED only */
    enum cp_engine engine;             /* not for CP_CPUPROF_OS_TIMER */
};

/* The kind of an event decides what its samples are worth and when the event can run. */
enum cp_event_kind {
    CP_EVENT_TIMER = 0, /* a POSIX timer on each M's CPU clock; period in ns */
    /* a clock of the kernel; period in ns. This kind and those below use perf_event_open(2), up to WAIT. */
    CP_EVENT_CLOCK = 1,
    CP_EVENT_SOFTWARE = 2,   /* a software event of the kernel; period in events, also for the kinds below */
    CP_EVENT_HARDWARE = 3,   /* a PMU event */
    CP_EVENT_TRACEPOINT = 4, /* a place in the kernel's code */
    CP_EVENT_WATCHPOINT = 5, /* an access to an address, noticed by the processor's debug registers */
    CP_EVENT_WAIT = 6,       /* a wait that the runtime tells of; period in ns waited */
};

/* The modes that an event's suffix names. They replace the modes of the event's kind. */
#define CP_EVENT_USER 1u   /* ":u" */
#define CP_EVENT_KERNEL 2u /* ":k"; the samples contain kernel frames too */
#define CP_EVENT_HV 4u     /* ":h" */

/* The event for which a name stands. */
struct cp_event_spec {
    size_t size; /* sizeof(struct cp_event_spec) as the caller compiled it */
    enum cp_cpu_event event;
    enum cp_event_kind kind;
    uint64_t raw_event;                /* CP_CPUPROF_HW_RAW only */
    struct cp_event_encoding encoding; /* CP_CPUPROF_NAMED only */
    uint64_t preset_period;            /* the period that 0 means; 0: the event has no sensible preset */
    unsigned modes;                    /* a set of CP_EVENT_USER, _KERNEL and _HV; 0: the modes of the kind */
    enum cp_profile_pc_precision precise_ip;
    char name[160]; /* the name in profiles: "r1c2:u" for a raw event in user mode */
};

/*
 * Finds the event for which a name stands, and fills *spec, whose size the caller has set:
 *
 *     timer, cycles, taskClock, majorFaults, ...  a name of this library's own, or perf's spelling of it
 *     wait, runnable, lock, wall                  what Gs and threads wait for, and what they do
 *     rHEX                                        the processor's own event number
 *     LLC-load-misses, dTLB-stores, ...           a hardware cache event, in perf's spelling
 *     PMU/TERM[=N],.../                           terms of a PMU, as the kernel describes them
 *     MEM_LOAD_RETIRED:L3_MISS, pfm:NAME          an event that libpfm4 has for this processor
 *     tracepoint:SYSTEM:NAME, SYSTEM:NAME         a place in the kernel's code, if tracefs can be read
 *     mem:ADDRESS[/LEN][:rwx]                     accesses to an address; by default rw of 4 bytes
 *
 * Every name except those of the timer and of waits may end in a suffix of perf's modifiers: u, k and h say
 * which modes count; p, pp and ppp set precise_ip ("cycles:upp", "cpu/event=0x3c,inv/u"). spec->name is the
 * same for all spellings of an event. Returns 0; -EINVAL if the name makes no sense; -ENOENT if this machine
 * knows no such name; -EACCES if this user may not look the name up; -ENODEV if tracefs is not mounted;
 * -ENAMETOOLONG.
 */
int cp_event_parse(const char *name, struct cp_event_spec *spec, struct cp_error *err);

/*
 * Returns the next name of a list that has commas between names, such as a flag's value. The function writes
 * a zero over the comma after the name, as strsep(3) does, and moves *list past the comma. At the last name,
 * *list becomes NULL; if *list is NULL, the function returns NULL. A comma between the slashes of
 * "cpu/event=0x3c,inv/" separates terms, not names. A name may be "", which cp_event_parse() refuses.
 */
char *cp_event_next(char **list);

/*
 * Takes the period off a name that ends in one, and stores it; stores 0, which means the event's preset, if
 * the name ends in none. The period stands last, after a suffix:
 *
 *     pageFaults:100, sched:sched_switch:1, taskClock:uk:100000, cpu/event=0x3c/u:1000, mem:0x601040:1
 *     taskClock:1ms, wait:10us
 *                         the period of a clock, of the timer and of waits is in ns, or has one of the units
 *                         ns, us, ms, s
 *
 * So a period is what follows the last colon, if that consists of decimal digits and a unit only; a
 * watchpoint's address, "mem:4096", is none. Everything else stays, for cp_event_parse() to read or refuse.
 * The function checks nothing else of the name, unless the period has a unit, which only a time may have.
 * Returns 0; -EINVAL if the name ends in a colon, or the period is 0 or more than INT64_MAX; if there is a
 * unit, also what cp_event_parse() returns. On failure, name and *period are unchanged.
 */
int cp_event_take_period(char *name, uint64_t *period, struct cp_error *err);

/* An event of a list. The strings are valid only during the call that receives them. */
struct cp_event_info {
    size_t size;             /* sizeof(struct cp_event_info) as the library was compiled */
    const char *name;        /* a name that cp_event_parse() accepts */
    const char *alias;       /* perf's name, if perf has another one; NULL: none */
    const char *group;       /* a word, the heading of the event; see below */
    const char *description; /* what the event counts, as a phrase; NULL: unknown */
};
typedef int cp_event_each_fn(void *context, const struct cp_event_info *info);
/*
 * Calls fn for every event that can be enumerated, group by group:
 *
 *     presets              the events of enum cp_cpu_event
 *     waits                what Gs and threads wait for
 *     software, hardware   the other events with names of this library's own
 *     cache                hardware cache events
 *     msr, armv8_pmuv3     a PMU's events, by the kernel's names
 *     skl, arm_n1          a PMU's events, by libpfm4's names, if libpfm4 knows the processor
 *     uncore               events of the PMUs that count for the whole machine, by the kernel's names
 *     tracepoints          if tracefs can be read
 *
 * cp_event_probe() tells whether an event of the list works here. If fn returns another value than 0, the
 * list ends and the call returns that value.
 */
int cp_event_each(cp_event_each_fn *fn, void *context);
/* Tells what perf_event_open(2) is asked for, whatever the event's name is. Returns -EINVAL for the timer and
 * for waits, which are no events of perf_event_open(2). */
int cp_event_encode(const struct cp_event_spec *spec, struct cp_event_encoding *encoding);

/* Returns "trap" or "signal"; NULL for AUTO and for a number that is no engine's. The string is never
 * freed. */
const char *cp_engine_name(enum cp_engine engine);
/* Finds the engine with that name; "auto" is AUTO. Returns 0, or -EINVAL and a sentence. */
int cp_engine_parse(const char *name, enum cp_engine *engine, struct cp_error *err);

/* Returns the name of an event, such as "cacheMisses"; "raw" for CP_CPUPROF_HW_RAW, "named" for
 * CP_CPUPROF_NAMED; NULL from CP_CPUPROF_EVENT_COUNT on. The string is never freed. */
const char *cp_event_name(enum cp_cpu_event event);

/*
 * Fills *config, whose size the caller has set, with the config that cp_event_*() and the pprof layer use.
 * PMU events count user mode only. Clocks and software events also count kernel mode, if perf_event_paranoid
 * lets this process, so that the time inside system calls counts. (With the engine signal, the signals of a
 * clock then interrupt waits in system calls: EINTR. If is_kernel_included is false, they do not.) A period
 * of 0 means the preset. Returns -EINVAL if the event has no preset or the period makes no sense.
 */
int cp_cpu_profile_config_init(struct cp_cpu_profile_config *config, const struct cp_event_spec *spec,
                               uint64_t period, struct cp_error *err);

/* An event to start, and its config. In an array of requests, each request follows the end of the previous
 * one's config, and the config's size tells where that is. So all configs of an array have one size. */
struct cp_slot_request {
    enum cp_cpu_event event;
    const char *name; /* the name in messages; NULL: the event's own name */
    uint64_t reserved[2];
    struct cp_cpu_profile_config config; /* the last member, also in later versions */
};

#ifdef __cplusplus
}
#endif
#endif
