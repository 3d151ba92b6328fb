/*
 * Events by the names of the processors' manuals, through libpfm4: "MEM_LOAD_RETIRED:L3_MISS". An event's
 * name may be followed by unit masks and modifiers of that event, and preceded by the PMU if necessary:
 * "skl::".
 */
#include "pfm.h"

#include <errno.h>
#include <inttypes.h>
#include <perfmon/pfmlib_perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "atomic.h"
#include "runtime/base/fail.h"
#include "runtime/base/lock.h"

/* ---- libpfm4 --------------------------------------------------------------------------------- */

/* libpfm4 has state of its own and promises nothing about threads. libpfm4 changes that state only while it
 * is being initialised. */
static struct cp__lock lock = CP__LOCK_INIT(CP__RANK_PFM);
/* under lock; a child of a fork reads it without */
static enum { NOT_YET, INITIALISING, INITIALISED, TORN } state;
/* the result of pfm_initialize(); under lock */
static pfm_err_t initialised;

pfm_err_t cp__pfm_lock(void)
{
    cp__lock(&lock);
    if (state == NOT_YET) {
        /* release, both: a child of a fork that comes meanwhile sees these stores in this order (see fork.c).
         * They pair with the acquire in cp__pfm_forget(). */
        cp_store_release(&state, INITIALISING);
        initialised = pfm_initialize();
        cp_store_release(&state, INITIALISED);
    }
    return state == TORN ? PFM_ERR_NOINIT : initialised;
}

void cp__pfm_unlock(void)
{
    cp__unlock(&lock);
}

/* If the fork interrupted pfm_initialize(), a second call of pfm_initialize() would not begin anew. So the
 * child never calls libpfm4. */
void cp__pfm_forget(void)
{
    cp__lock_reset(&lock);
    if (cp_load_acquire(&state) == INITIALISING) /* pairs with the releases in cp__pfm_lock() */
        cp_store_relaxed(&state, TORN);          /* relaxed: this is the only thread */
}

void cp__pfm_describe(char *text, size_t size)
{
    pfm_pmu_info_t info = {.size = sizeof info};
    size_t used = 0;

    snprintf(text, size, "libpfm4, which does not know this processor,");
    if (cp__pfm_lock() == PFM_SUCCESS) {
        for (pfm_pmu_t pmu = PFM_PMU_NONE; pmu < PFM_PMU_MAX; pmu++) {
            if (pfm_get_pmu_info(pmu, &info) == PFM_SUCCESS && info.is_present &&
                info.type == PFM_PMU_TYPE_CORE && used + 64 < size)
                used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "libpfm4 for ",
                                         info.name);
        }
    }
    cp__pfm_unlock();
}

struct answer {
    struct perf_event_attr attr;
    char *full; /* the complete name, with everything that the question left out; release it with free() */
    int cpu;
};

/* Asks libpfm4 for a name, under the lock. A mode counts only if the name says so. */
static pfm_err_t ask(const char *name, struct answer *answer)
{
    pfm_perf_encode_arg_t question = {
        .attr = &answer->attr, .fstr = &answer->full, .size = sizeof question, .cpu = -1};
    pfm_err_t result;

    *answer = (struct answer){.full = NULL};
    result = pfm_get_os_event_encoding(name, 0, PFM_OS_PERF_EVENT_EXT, &question);
    answer->cpu = question.cpu;
    return result;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Returns the part of a complete name after the PMU's, "clx::". */
static const char *event_part(const char *full)
{
    const char *colons = strstr(full, "::");

    return colons == NULL ? full : colons + 2;
}

/* Returns whether a modifier says how to sample, and not what. */
static bool is_sampling(const char *part)
{
    static const char *const names[] = {"period", "freq", "excl", "mg", "mh", "cpu", "pinned", "hw_smpl"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i]);

        if (strncmp(part, names[i], n) == 0 && (part[n] == '=' || part[n] == '\0'))
            return true;
    }
    return false;
}

/* Returns whether a part of a complete name carries information that spec stores nowhere else. */
static bool is_kept(const char *part, size_t n)
{
    return strncmp(part, "u=", 2) != 0 && strncmp(part, "k=", 2) != 0 && strncmp(part, "h=", 2) != 0 &&
           (n != 1 || strchr("ukh", part[0]) == NULL) && strncmp(part, "precise=", strlen("precise=")) != 0 &&
           !is_sampling(part) && (n < 2 || strncmp(part + n - 2, "=0", 2) != 0);
}

/* Writes a complete name to base, without parts that are at their defaults or that spec stores elsewhere. So
 * each event has one name, however it was written. Returns false if the name is too long. */
static bool shorten(const char *full, char *base)
{
    size_t size = sizeof((struct cp_event_spec *)NULL)->name;
    const char *at = event_part(full);
    size_t used = (size_t)(at - full);

    if (used >= size)
        return false;
    memcpy(base, full, used);
    for (bool is_first = true; *at != '\0'; is_first = false) {
        size_t n = strcspn(at, ":");

        if (is_first || is_kept(at, n)) {
            if (used + n + 1 >= size)
                return false;
            used += (size_t)snprintf(base + used, size - used, "%s%.*s", is_first ? "" : ":", (int)n, at);
        }
        at += n + (at[n] == ':');
    }
    return true;
}

static bool is_same_attr(const struct perf_event_attr *a, const struct perf_event_attr *b)
{
    return a->type == b->type && a->config == b->config && a->config1 == b->config1 &&
           a->config2 == b->config2;
}

/*
 * Makes base the name of the answer's event, under the lock. libpfm4 sometimes fills in defaults that it does
 * not spell or encode as it would if they were given (skl::OFFCORE_RESPONSE_0, the threshold of
 * skl::MEM_TRANS_RETIRED). So the function asks libpfm4 for the name that libpfm4 answered, and that second
 * answer counts. If libpfm4 does not accept its own name (skl::OFFCORE_RESPONSE_0:SNP_NONE), the words of the
 * question stay. Returns false if base is too long.
 */
static bool settle(const char *name, struct answer *answer, char *base)
{
    char asked[512];
    struct answer again;
    bool fits = shorten(answer->full, base);

    if (!fits)
        return false;
    if (ask(base, &again) == PFM_SUCCESS) {
        answer->attr.config = again.attr.config;
        answer->attr.config1 = again.attr.config1;
        answer->attr.config2 = again.attr.config2;
        fits = shorten(again.full, base);
    } else {
        snprintf(asked, sizeof asked, "%.*s%s", (int)(event_part(answer->full) - answer->full), answer->full,
                 event_part(name));
        fits = shorten(asked, base);
    }
    free(again.full);
    return fits;
}

/* Returns whether a name without a PMU stands for an event of this library's tables, as BRANCHES does, which
 * the processor knc has, too. */
static bool is_in_table(const char *event)
{
    struct cp_event_spec other = {.event = CP_CPUPROF_NAMED};
    char word[sizeof other.name];
    size_t n = strcspn(event, ":");

    if (n >= sizeof word || (event[n] == ':' && !cp__event_is_suffix(event + n + 1)))
        return false;
    snprintf(word, sizeof word, "%.*s", (int)n, event);
    return cp__event_parse_table(word, &other, NULL) != -ENOENT;
}

/* Removes the PMU's name from base if the same event is found without it. Under the lock. */
static void drop_pmu(const struct answer *answer, char *base)
{
    const char *event = event_part(base);
    struct answer other;

    if (is_in_table(event))
        return;
    if (ask(event, &other) == PFM_SUCCESS && is_same_attr(&answer->attr, &other.attr))
        memmove(base, event, strlen(event) + 1);
    free(other.full);
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Lists the unit masks and modifiers of the event with which a name begins, for a message. Returns false if
 * libpfm4 has no such event. Under the lock. */
static bool list_attributes(const char *name, char *list, size_t size)
{
    const char *event = event_part(name);
    char base[128];
    pfm_event_attr_info_t attribute = {.size = sizeof attribute};
    pfm_event_info_t info = {.size = sizeof info};
    size_t used = 0;
    int index;

    snprintf(list, size, "nothing");
    snprintf(base, sizeof base, "%.*s", (int)(event - name + (long)strcspn(event, ":")), name);
    index = pfm_find_event(base);
    if (index < 0 || pfm_get_event_info(index, PFM_OS_PERF_EVENT_EXT, &info) != PFM_SUCCESS)
        return false;
    for (int i = 0; i < info.nattrs; i++) {
        if (pfm_get_event_attr_info(index, i, PFM_OS_PERF_EVENT_EXT, &attribute) == PFM_SUCCESS &&
            !is_sampling(attribute.name) && used + strlen(attribute.name) + 3 <= size)
            used += (size_t)snprintf(list + used, size - used, "%s%s", used > 0 ? ", " : "", attribute.name);
    }
    return true;
}

/* Explains why libpfm4 does not accept a name. */
static int refuse_pfm(pfm_err_t error, const char *name, struct cp_error *err)
{
    char list[240];

    if (error == PFM_SUCCESS || !list_attributes(name, list, sizeof list))
        return cp__error(err, -ENOENT,
                         "libpfm4 has no event \"%.60s\" for this processor. \"counterpoint events\" lists "
                         "the events that libpfm4 has.",
                         name);
    return cp__error(
        err, -EINVAL,
        "libpfm4 refuses \"%.60s\": %s. The event's name can be followed by these, with colons between: %s.",
        name, pfm_strerror(error), list);
}

/* Returns whether the name asks for something that is no part of an event. */
static bool says_how_to_sample(const struct answer *answer)
{
    const struct perf_event_attr *attr = &answer->attr;

    return answer->cpu != -1 || attr->sample_period != 0 || attr->freq != 0 || attr->pinned != 0 ||
           attr->exclusive != 0 || attr->exclude_host != 0 || strstr(answer->full, ":mg=1") != NULL ||
           strstr(answer->full, ":hw_smpl=1") != NULL;
}

/* Fills spec with the event of an answer. */
static int take_pfm_answer(const struct answer *answer, const char *base, struct cp_event_spec *spec)
{
    const struct perf_event_attr *attr = &answer->attr;
    const struct cp_event_encoding encoding = {.type = attr->type,
                                               .bp_type = attr->bp_type,
                                               .config = attr->config,
                                               .config1 = attr->config1,
                                               .config2 = attr->config2};

    if (!cp__event_take_encoding(spec, attr->type, attr->config)) {
        cp__event_take_named(spec, &encoding);
        snprintf(spec->name, sizeof spec->name, "%s", base);
        if (spec->kind == CP_EVENT_HARDWARE && strstr(base, "MISS") != NULL)
            spec->preset_period = 10000;
    }
    spec->modes = (strstr(answer->full, ":u=1") != NULL ? CP_EVENT_USER : 0) |
                  (strstr(answer->full, ":k=1") != NULL ? CP_EVENT_KERNEL : 0) |
                  (strstr(answer->full, ":h=1") != NULL ? CP_EVENT_HV : 0);
    spec->precise_ip = (enum cp_profile_pc_precision)attr->precise_ip;
    return 0;
}

/* Finds one name as libpfm4 spells it. Under the lock. */
static int find_pfm(const char *name, struct cp_event_spec *spec, struct cp_error *err)
{
    struct answer answer;
    char base[sizeof spec->name];
    pfm_err_t error = ask(name, &answer);
    int result = 0;

    if (error != PFM_SUCCESS || strncmp(answer.full, "perf_raw:", strlen("perf_raw:")) == 0) {
        result = refuse_pfm(error, name, err); /* this library has its own rHEX */
    } else if (says_how_to_sample(&answer)) {
        result = cp__error(err, -EINVAL,
                           "The event \"%.60s\" has a modifier that says how to sample, not what. Remove the "
                           "modifier; the period is given beside the event's name.",
                           name);
    } else if (!settle(name, &answer, base)) {
        result =
            cp__error(err, -ENAMETOOLONG,
                      "The event \"%.40s...\" has a name of more than %zu characters. Give its numbers: type "
                      "%u, config=0x%" PRIx64 ",config1=0x%" PRIx64 ".",
                      name, sizeof base - 1, answer.attr.type, (uint64_t)answer.attr.config,
                      (uint64_t)answer.attr.config1);
    } else {
        drop_pmu(&answer, base);
        result = take_pfm_answer(&answer, base, spec);
    }
    free(answer.full);
    return result;
}

/* If a name ends in modifiers of perf's that libpfm4 does not have, such as ":upp", returns where the
 * modifiers begin; else NULL. */
static const char *suffix_of(const char *name)
{
    const char *colon = strrchr(name, ':');

    if (colon == NULL || colon[1] == '\0' || colon[1 + strspn(colon + 1, "ukhp")] != '\0')
        return NULL;
    return colon + 1;
}

/* Finds a name that may end in perf's modifiers. libpfm4 is asked for the whole name first, because its own
 * modifiers may look like perf's. */
static int find_with_suffix(const char *name, struct cp_event_spec *spec, struct cp_error *err)
{
    const char *suffix = NULL;
    char base[256];
    int result = find_pfm(name, spec, NULL);

    if (result < 0) {
        suffix = suffix_of(name);
        if (suffix == NULL || (size_t)(suffix - name) > sizeof base)
            return find_pfm(name, spec, err);
        snprintf(base, sizeof base, "%.*s", (int)(suffix - name - 1), name);
        if (find_pfm(base, spec, NULL) < 0)
            return find_pfm(name, spec, err); /* the suffix is not the mistake */
    }
    snprintf(base, sizeof base, "%s", spec->name);
    return cp__event_take_suffix(spec, base, ":", suffix, err);
}

/* Explains to any name why libpfm4 cannot be asked at all. Under the lock. */
static int refuse_all(const char *name, pfm_err_t error, struct cp_error *err)
{
    if (state == TORN)
        return cp__error(
            err, -ENOENT,
            "The event \"%.60s\" cannot be looked up: this process was forked while another thread was "
            "initialising libpfm4, which is not usable here. Look an event up before fork(), or give the "
            "event's number: rHEX, or cpu/event=N,umask=N/.",
            name);
    return cp__error(err, -ENOENT,
                     "The event \"%.60s\" cannot be looked up: libpfm4 does not know this processor (%s), as "
                     "in some virtual machines. Give the event's number: rHEX, or cpu/event=N,umask=N/.",
                     name, pfm_strerror(error));
}

int cp__event_parse_pfm(const char *name, struct cp_event_spec *spec, struct cp_error *err)
{
    pfm_err_t error = cp__pfm_lock();
    int result;

    if (error == PFM_SUCCESS)
        result = find_with_suffix(name, spec, err);
    else
        result = refuse_all(name, error, err);
    cp__pfm_unlock();
    return result;
}
