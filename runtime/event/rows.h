/*
 * Events: the tables of those that have a row, and the parts of the grammar by which cp_event_parse() reads
 * names, for the runtime's own files.
 */
#ifndef COUNTERPOINT_RUNTIME_EVENT_ROWS_H
#define COUNTERPOINT_RUNTIME_EVENT_ROWS_H

#include "event.h"

#define CP__NS_PER_SECOND ((uint64_t)1000000000)

/* ---- The table ------------------------------------------------------------------------------- */

/* Whether an event is useful if only user mode counts. */
enum cp__kernel_mode {
    CP__KERNEL_NEVER,     /* counts user mode unless the config says otherwise */
    CP__KERNEL_PREFERRED, /* counts kernel mode too if the system allows it */
    CP__KERNEL_REQUIRED,  /* happens in kernel mode only */
};

struct cp__event {
    const char *name;
    const char *alias;       /* perf's name; NULL: the same name, or none */
    const char *other;       /* a third spelling; NULL: none */
    const char *description; /* what the event counts, as a phrase */
    enum cp_event_kind kind;
    uint32_t perf_type; /* PERF_TYPE_... */
    uint64_t perf_config;
    uint64_t preset_period;
    uint64_t min_period;
    enum cp__kernel_mode kernel_mode;
};

/*
 * Returns row i of the table, from 0; NULL past the last row. The rows of enum cp_cpu_event come first, in
 * its order. Two of them, CP_CPUPROF_HW_RAW and CP_CPUPROF_NAMED, stand for many events, and their names are
 * not parsed. Then come the events that are CP_CPUPROF_NAMED but have a name of their own.
 */
const struct cp__event *cp__event_row(size_t i);

/* Returns the row of an event; NULL if there is no such event. For CP_CPUPROF_NAMED, the result is the row
 * with that encoding, or else a row for the encoding's type, which has no name, type and config of its
 * own. */
const struct cp__event *cp__event(enum cp_cpu_event event, const struct cp_event_encoding *encoding);
static inline const struct cp__event *cp__config_event(enum cp_cpu_event event,
                                                       const struct cp_cpu_profile_config *config)
{
    return cp__event(event, &config->encoding);
}

/* The name of a request's event, for messages. */
struct cp__event_text {
    char text[sizeof((struct cp_event_spec *)NULL)->name];
};
struct cp__event_text cp__request_name(const struct cp_slot_request *request);

/* Makes and checks the request for an event with the config of cp_cpu_profile_config_init(), at the preset
 * period, or at a period of 1 if there is no preset. request->name points into spec. */
int cp__spec_request(const struct cp_event_spec *spec, struct cp_slot_request *request, struct cp_error *err);

/* Copies a caller's array of n requests, whose configs may have the size of an older or a newer library. */
int cp__requests_take(struct cp_slot_request *to, const struct cp_slot_request *from, size_t n,
                      struct cp_error *err);

/* Checks whether a config can run at all. Returns -EINVAL and the reason if not. */
int cp__request_check(const struct cp_slot_request *request, struct cp_error *err);

/* Sets the config's encoding, by which perf_event_open(2) is asked for the event, whatever the event is. */
void cp__request_encode(struct cp_slot_request *request);

/* Returns whether perf_event_paranoid and this process's capabilities let events count in kernel mode. */
bool cp__event_may_count_kernel(void);

/* Returns whether name is one of the row's spellings. */
bool cp__event_is_called(const struct cp__event *row, const char *name);

/* Returns whether the period of such events is in ns. */
static inline bool cp__event_kind_is_time(enum cp_event_kind kind)
{
    return kind == CP_EVENT_TIMER || kind == CP_EVENT_CLOCK || kind == CP_EVENT_WAIT;
}

/* Returns whether perf_event_open(2) knows such events. */
static inline bool cp__event_kind_is_perf(enum cp_event_kind kind)
{
    return kind != CP_EVENT_TIMER && kind != CP_EVENT_WAIT;
}

/* Returns whether row i stands for many events. */
static inline bool cp__event_is_many(size_t i)
{
    return i == CP_CPUPROF_HW_RAW || i == CP_CPUPROF_NAMED;
}

/* ---- Hardware cache events ------------------------------------------------------------------- */

/* One of perf's cache events. The list leaves out combinations that make no sense. */
struct cp__cache_event {
    char name[32]; /* perf's name, such as "LLC-load-misses" */
    uint64_t config;
    uint64_t preset_period;
};
/* Describes the i-th cache event, from 0. Returns false past the last one. */
bool cp__cache_event(size_t i, struct cp__cache_event *event);
/* Fills spec with the cache event that has this config. Returns false if there is none. */
bool cp__event_take_cache(struct cp_event_spec *spec, uint64_t config);

/* ---- The grammar's parts --------------------------------------------------------------------- */

/* Fills spec with the event of row i. */
void cp__event_take_row(struct cp_event_spec *spec, size_t i);
/* Fills spec with the row or the cache event that has an encoding. Returns false if there is none. */
bool cp__event_take_encoding(struct cp_event_spec *spec, uint32_t type, uint64_t config);
/* Fills spec with a CP_CPUPROF_NAMED event of this encoding. Kind and preset are those of the encoding's
 * type. */
void cp__event_take_named(struct cp_event_spec *spec, const struct cp_event_encoding *encoding);

/* Completes spec by perf's modifiers, such as "upp". base is the event's name without modifiers. The function
 * sets spec's modes and precise_ip, and its name: base, mark, and the modifiers in a fixed order. A suffix of
 * NULL means that there is none; "" is refused. */
int cp__event_take_suffix(struct cp_event_spec *spec, const char *base, const char *mark, const char *suffix,
                          struct cp_error *err);
/* Returns whether a text consists of perf's modifiers only, also of modifiers that are refused. */
bool cp__event_is_suffix(const char *text);
/* Writes a name of spec's size. Returns false if the name is too long. */
bool cp__event_print(char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Each of the following functions reads one form of name. It returns 0 and fills spec, or returns a negative
 * errno value and the reason. */

/* Parses "LLC-load-misses" and similar names, without a suffix. Returns -ENOENT, without a message, if the
 * name names no cache; -EINVAL if the combination makes no sense. */
int cp__event_parse_cache(const char *name, struct cp_event_spec *spec, struct cp_error *err);
/* Finds a name, without a suffix, in this library's tables. Returns -ENOENT, without a message, if no table
 * has the name. */
int cp__event_parse_table(const char *base, struct cp_event_spec *spec, struct cp_error *err);

/* Parses "mem:ADDRESS[/LEN][:rwx][:SUFFIX]". */
int cp__event_parse_watch(const char *text, struct cp_event_spec *spec, struct cp_error *err);

/* The folder in which the kernel describes PMUs. */
extern const char cp__pmus[];
/* Parses "PMU/TERM[=VALUE],.../[SUFFIX]", by the PMUs that a directory describes. Returns -ENOENT if the
 * machine has no such PMU, or the PMU no such term. */
int cp__event_parse_pmu(const char *directory, const char *text, struct cp_event_spec *spec,
                        struct cp_error *err);

/* Parses a name that libpfm4 knows, such as "skl::MEM_LOAD_RETIRED:L3_MISS:u". Returns -ENOENT if libpfm4 has
 * no such event for this processor. */
int cp__event_parse_pfm(const char *name, struct cp_event_spec *spec, struct cp_error *err);
/* Writes which processors' names libpfm4 was asked for, as a phrase for a message. */
void cp__pfm_describe(char *text, size_t size);
/* Resets the state in the child of a fork: libpfm4 is usable unless another thread was initialising it. */
void cp__pfm_forget(void);

/* The places at which tracefs may be mounted, the usual place first; NULL ends the list. */
extern const char *const cp__tracefs[];
/* Finds "SYSTEM:NAME[:SUFFIX]" in the tracefs that is mounted at one of the places. Fills spec without the
 * suffix; *suffix is NULL if there is none. Returns -ENODEV if tracefs is not mounted, -ENOENT if tracefs has
 * no such tracepoint, -EACCES if this user may not read tracefs. */
int cp__event_find_tracepoint(const char *const *tracefs, const char *text, struct cp_event_spec *spec,
                              const char **suffix, struct cp_error *err);

#endif
