/*
 * Events: the tables of those that have a row, and the parts of the grammar that cp_event_parse() reads names
 * by, for the runtime's own files.
 */
#ifndef COUNTERPOINT_RUNTIME_EVENT_ROWS_H
#define COUNTERPOINT_RUNTIME_EVENT_ROWS_H

#include "event.h"

#define CP__NS_PER_SECOND ((uint64_t)1000000000)

/* ---- The table ------------------------------------------------------------------------------- */

/* Whether an event is of use when only user mode counts. */
enum cp__kernel_mode {
    CP__KERNEL_NEVER,     /* counts user mode unless the config says otherwise */
    CP__KERNEL_PREFERRED, /* counts kernel mode too where the system lets it */
    CP__KERNEL_REQUIRED,  /* happens in kernel mode only */
};

struct cp__event {
    const char *name;
    const char *alias;       /* perf's name; NULL: the same, or none */
    const char *other;       /* a third spelling; NULL: none */
    const char *description; /* what it counts, a phrase */
    enum cp_event_kind kind;
    uint32_t perf_type; /* PERF_TYPE_... */
    uint64_t perf_config;
    uint64_t preset_period;
    uint64_t min_period;
    enum cp__kernel_mode kernel_mode;
};

/*
 * The rows one by one, from 0; NULL past the last. Those of enum cp_cpu_event come first, in its order (among
 * them CP_CPUPROF_HW_RAW and CP_CPUPROF_NAMED, which stand for many events and cannot be had by their row's
 * name), then those that are CP_CPUPROF_NAMED by a name of their own.
 */
const struct cp__event *cp__event_row(size_t i);

/* The row of an event; NULL where there is no such event. For CP_CPUPROF_NAMED the row with its encoding, or
 * else what the encoding's type says: it has no name, and its type and config are the encoding's. */
const struct cp__event *cp__event(enum cp_cpu_event event, const struct cp_event_encoding *encoding);
static inline const struct cp__event *cp__config_event(enum cp_cpu_event event,
                                                       const struct cp_cpu_profile_config *config)
{
    return cp__event(event, &config->encoding);
}

/* The name of what is asked for, for messages. */
struct cp__event_text {
    char text[sizeof((struct cp_event_spec *)NULL)->name];
};
struct cp__event_text cp__request_name(const struct cp_slot_request *request);

/* The request for an event with the config that cp_cpu_profile_config_init() makes, at the preset period or,
 * where there is none, 1; checked. Its name is spec's. */
int cp__spec_request(const struct cp_event_spec *spec, struct cp_slot_request *request, struct cp_error *err);

/* Whether a config can be run at all; -EINVAL and the reason where not. */
int cp__request_check(const struct cp_slot_request *request, struct cp_error *err);

/* Sets the config's encoding, by which perf_event_open(2) is asked for the event, whatever the event is. */
void cp__request_encode(struct cp_slot_request *request);

/* Whether perf_event_paranoid and this process's capabilities let events count in kernel mode. */
bool cp__event_may_count_kernel(void);

/* Whether one of the row's spellings is name. */
bool cp__event_is_called(const struct cp__event *row, const char *name);

/* ---- Hardware cache events ------------------------------------------------------------------- */

/* One of perf's cache events, by its number from 0, in a list without the combinations that make no sense. */
struct cp__cache_event {
    char name[32]; /* perf's: "LLC-load-misses" */
    uint64_t config;
    uint64_t preset_period;
};
/* False past the last one. */
bool cp__cache_event(size_t i, struct cp__cache_event *event);
/* The one with that config; false where there is none. */
bool cp__event_take_cache(struct cp_event_spec *spec, uint64_t config);

/* ---- The grammar's parts --------------------------------------------------------------------- */

/* Each reads one form of name: 0 and the event in spec, or a negative errno value and the reason. */

/* What a row of the table says, by its number. */
void cp__event_take_row(struct cp_event_spec *spec, size_t i);
/* The row or the cache event that has an encoding; false where there is none. */
bool cp__event_take_encoding(struct cp_event_spec *spec, uint32_t type, uint64_t config);
/* A CP_CPUPROF_NAMED event by its encoding; kind and preset are those of the encoding's type. */
void cp__event_take_named(struct cp_event_spec *spec, const struct cp_event_encoding *encoding);

/*
 * Reads perf's modifiers, such as "upp", of an event whose name without them is base, and completes spec with
 * them: its modes, its precise_ip, and its name, which is base, mark, and the modifiers in an order of their
 * own. NULL stands for no suffix, "" is refused.
 */
int cp__event_take_suffix(struct cp_event_spec *spec, const char *base, const char *mark, const char *suffix,
                          struct cp_error *err);
/* Whether a text has letters of perf's modifiers only, those that are refused among them. */
bool cp__event_is_suffix(const char *text);
/* Writes a name that may be too long for a spec's; false where it is. */
bool cp__event_print(char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "LLC-load-misses" and its like, without a suffix. -ENOENT, without a message, where the name is no cache's;
 * -EINVAL where the combination makes no sense. */
int cp__event_parse_cache(const char *name, struct cp_event_spec *spec, struct cp_error *err);

/* "mem:ADDRESS[/LEN][:rwx][:SUFFIX]". */
int cp__event_parse_watch(const char *text, struct cp_event_spec *spec, struct cp_error *err);

/* Where the kernel describes PMUs. */
extern const char cp__pmus[];
/* "PMU/TERM[=VALUE],.../[SUFFIX]", by the PMUs that are described in a directory. -ENOENT where the machine
 * has no such PMU, or that no such term. */
int cp__event_parse_pmu(const char *directory, const char *text, struct cp_event_spec *spec,
                        struct cp_error *err);

/* A name that libpfm4 knows, such as "skl::MEM_LOAD_RETIRED:L3_MISS:u". -ENOENT where it has none for this
 * processor. */
int cp__event_parse_pfm(const char *name, struct cp_event_spec *spec, struct cp_error *err);
/* For a message: which processors' names libpfm4 was asked for, a phrase. */
void cp__pfm_describe(char *text, size_t size);
/* In the child of a fork: libpfm4 is usable, unless another thread was initialising it. */
void cp__pfm_forget(void);

/* Where tracefs is mounted, the usual place first; NULL ends the list. */
extern const char *const cp__tracefs[];
/* "SYSTEM:NAME[:SUFFIX]", by the tracefs that is mounted at one of the places; fills spec but for the suffix,
 * NULL where there is none. -ENODEV where tracefs is not mounted, -ENOENT where it has no such tracepoint,
 * -EACCES where it may not be read. */
int cp__event_find_tracepoint(const char *const *tracefs, const char *text, struct cp_event_spec *spec,
                              const char **suffix, struct cp_error *err);

#endif
