/*
 * counterpoint/event.h: the events that can be sampled and counted, their names, and the configs that say
 * how.
 *
 * Nothing here opens an event. Errors, threads and signals are as runtime.h says.
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
    CP_CPUPROF_OS_TIMER,
    CP_CPUPROF_FIRST_EVENT = CP_CPUPROF_OS_TIMER,
    CP_CPUPROF_HW_CPU_CYCLES,
    CP_CPUPROF_FIRST_PMU_EVENT = CP_CPUPROF_HW_CPU_CYCLES,
    CP_CPUPROF_HW_INSTRUCTIONS,
    CP_CPUPROF_HW_CACHE_REFERENCES,
    CP_CPUPROF_HW_CACHE_MISSES,
    CP_CPUPROF_HW_BRANCH_INSTRUCTIONS,
    CP_CPUPROF_HW_BRANCH_MISSES,
    CP_CPUPROF_HW_RAW,
    CP_CPUPROF_EVENTS_MAX, /* how many events run at once in one process, the proposal's EV_MAX */
    CP_CPUPROF_LAST_EVENT = CP_CPUPROF_EVENTS_MAX - 1,
    CP_CPUPROF_SW_TASK_CLOCK = CP_CPUPROF_EVENTS_MAX, /* in kernel mode, too, its samples cut waits short */
    CP_CPUPROF_SW_CPU_CLOCK,
    CP_CPUPROF_SW_PAGE_FAULTS,
    CP_CPUPROF_SW_CONTEXT_SWITCHES, /* a sampled switch cuts the sleep short that it begins (EINTR) */
    CP_CPUPROF_SW_CPU_MIGRATIONS,
    CP_CPUPROF_NAMED, /* any other that perf_event_open(2) knows, by its encoding */
    CP_CPUPROF_EVENT_COUNT
};
#define CP_EV_MAX CP_CPUPROF_EVENTS_MAX

/* How near the sampled program counter must be to the instruction that overflowed the counter. */
enum cp_profile_pc_precision {
    CP_CPUPROF_IP_ARBITRARY_SKID,
    CP_CPUPROF_IP_CONSTANT_SKID,
    CP_CPUPROF_IP_SUGGEST_NO_SKID,
    CP_CPUPROF_IP_NO_SKID,
};

/* How perf_event_open(2) is asked for an event: the members of perf_event_attr of the same names. */
struct cp_event_encoding {
    uint32_t type;
    uint32_t bp_type; /* a watchpoint's HW_BREAKPOINT_...; else 0 */
    uint64_t config;
    uint64_t config1; /* a watchpoint's address */
    uint64_t config2; /* a watchpoint's length */
    uint64_t reserved[3];
};

/* The proposal's cpuProfileConfig, and what it has no words for. The runtime copies what it is given. */
struct cp_cpu_profile_config {
    size_t size;        /* sizeof(struct cp_cpu_profile_config) as the caller compiled it */
    uint64_t hz;        /* samples a second of CPU time; CP_CPUPROF_OS_TIMER only, 1 to 1 000 000 */
    uint64_t period;    /* events between two samples, ns for the clocks; every event but the timer */
    uint64_t raw_event; /* the processor's own event number; CP_CPUPROF_HW_RAW only */
    enum cp_profile_pc_precision precise_ip;
    bool is_sample_ip_included;        /* should the kernel's record hold the program counter? */
    bool is_sample_addr_included;      /* should it hold the data address involved? */
    bool is_kernel_included;           /* should events in kernel mode count? */
    bool is_hv_included;               /* should events in the hypervisor count? */
    bool is_idle_included;             /* should events of the idle task count? */
    bool is_sample_callchain_included; /* should the record hold a call chain? */
    bool is_callchain_kernel_included; /* should the chain hold kernel frames? */
    bool is_callchain_user_included;   /* should the chain hold user frames? */
    /* beyond the proposal's twelve */
    bool is_user_excluded;             /* should events in user mode not count? */
    struct cp_event_encoding encoding; /* CP_CPUPROF_NAMED only */
};

/* How samples of an event are valued and when it can run. */
enum cp_event_kind {
    CP_EVENT_TIMER,      /* a POSIX timer on each M's CPU clock; period in ns */
    CP_EVENT_CLOCK,      /* a kernel clock through perf_event_open, as all that follow; period in ns */
    CP_EVENT_SOFTWARE,   /* a kernel software event; period in events, as of all that follow */
    CP_EVENT_HARDWARE,   /* a PMU event */
    CP_EVENT_TRACEPOINT, /* a place in the kernel's code */
    CP_EVENT_WATCHPOINT, /* an access to an address, by the processor's debug registers */
};

/* The modes that an event's suffix names: what counts instead of what its kind would. */
#define CP_EVENT_USER 1u   /* ":u" */
#define CP_EVENT_KERNEL 2u /* ":k"; its samples carry kernel frames too */
#define CP_EVENT_HV 4u     /* ":h" */

/* An event that a name stands for. */
struct cp_event_spec {
    size_t size; /* sizeof(struct cp_event_spec) as the caller compiled it */
    enum cp_cpu_event event;
    enum cp_event_kind kind;
    uint64_t raw_event;                /* CP_CPUPROF_HW_RAW only */
    struct cp_event_encoding encoding; /* CP_CPUPROF_NAMED only */
    uint64_t preset_period;            /* what a period of 0 stands for; 0 where there is no sensible one */
    unsigned modes;                    /* CP_EVENT_...; 0: those of its kind */
    enum cp_profile_pc_precision precise_ip;
    char name[160]; /* under which it is reported, "r1c2:u" for a raw event in user mode */
};

/*
 * Finds the event that a name stands for, and fills *spec, whose size is set:
 *
 *     timer, cycles, taskClock, majorFaults, ...  a name of this library's own, or perf's spelling of it
 *     rHEX                                        the processor's own event number
 *     LLC-load-misses, dTLB-stores, ...           a hardware cache event, as perf spells them
 *     PMU/TERM[=N],.../                           terms of a PMU, as the kernel describes them
 *     MEM_LOAD_RETIRED:L3_MISS, pfm:NAME          what libpfm4 has for this processor
 *     tracepoint:SYSTEM:NAME, SYSTEM:NAME         a place in the kernel's code, where tracefs can be read
 *     mem:ADDRESS[/LEN][:rwx]                     accesses to an address; by default rw of 4 bytes
 *
 * Every one but the timer may end in a suffix of perf's modifiers: u, k and h say which modes count, p, pp
 * and ppp set precise_ip ("cycles:upp", "cpu/event=0x3c,inv/u"). spec->name is the same for all spellings of
 * an event. -EINVAL where the name makes no sense, -ENOENT where this machine knows nothing of that name,
 * -EACCES where that may not be looked up, -ENODEV where tracefs is not mounted, -ENAMETOOLONG.
 */
int cp_event_parse(const char *name, struct cp_event_spec *spec, struct cp_error *err);

/*
 * The next name of a list with commas between, such as a flag's value: the name, which ends where its comma
 * was, with *list moved past it; NULL, and *list NULL, at the end. A comma between the slashes of
 * "cpu/event=0x3c,inv/" separates terms, not events. Names may be "", which cp_event_parse() refuses. Like
 * strsep(3), it writes into the list.
 */
char *cp_event_next(char **list);

/* What there is to sample by, as a list shows it; the strings are valid during the call only. */
struct cp_event_info {
    const char *name;        /* as cp_event_parse() takes it */
    const char *alias;       /* perf's name where it is another; NULL: none */
    const char *group;       /* a word, the heading it stands under; see below */
    const char *description; /* what it counts, a phrase; NULL: unknown */
};
typedef int cp_event_list_fn(void *context, const struct cp_event_info *info);
/*
 * Hands every event that can be enumerated to fn, group by group:
 *
 *     presets              those of enum cp_cpu_event
 *     software, hardware   the others with names of this library's own
 *     cache                hardware cache events
 *     msr, armv8_pmuv3     a PMU's events, by the kernel's names
 *     skl, arm_n1          a PMU's events, by libpfm4's names, where that knows the processor
 *     uncore               events of the PMUs that count for the whole machine, by the kernel's names
 *     tracepoints          where tracefs can be read
 *
 * Whether one works here is for cp_event_probe() to say. The list ends where fn returns other than 0, and
 * returns that.
 */
int cp_event_list(cp_event_list_fn *fn, void *context);
/* How perf_event_open(2) is asked for an event, whatever its name; -EINVAL for the timer, which is none of
 * its events. */
int cp_event_encode(const struct cp_event_spec *spec, struct cp_event_encoding *encoding);

/* The name of an event, such as "cacheMisses"; "raw" for CP_CPUPROF_HW_RAW, "named" for CP_CPUPROF_NAMED;
 * NULL past CP_CPUPROF_EVENT_COUNT. */
const char *cp_event_name(enum cp_cpu_event event);

/*
 * The config that cp_event_*() and the pprof layer use: user mode only for PMU events; for clocks and
 * software events kernel mode too, where perf_event_paranoid lets this process, so that time inside system
 * calls counts. (A clock's signals cut waits in system calls short then: EINTR. With is_kernel_included false
 * they do not.) A period of 0 takes the preset; -EINVAL where there is none or the period is absurd. It fills
 * *config, whose size is set.
 */
int cp_cpu_profile_config_init(struct cp_cpu_profile_config *config, const struct cp_event_spec *spec,
                               uint64_t period, struct cp_error *err);

/* An event to start, and how. In an array of requests the next one follows the end of the config, which the
 * config's size tells: all configs of an array have one size. */
struct cp_slot_request {
    enum cp_cpu_event event;
    const char *name; /* for messages; NULL: the event's own */
    uint64_t reserved[2];
    struct cp_cpu_profile_config config; /* stays the last member */
};

#ifdef __cplusplus
}
#endif
#endif
