/* Profiles of stalls: where Gs held their M for too long. */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "profile_data.h"
#include "runtime/base/fail.h"
#include "runtime/label.h"
#include "runtime/stall/lack.h"
#include "session.h"
#include "stall.h"
#include "writer.h"

static const struct cp__value_type stalled_type = {"delay", "nanoseconds"};

/* ---- Labels ---------------------------------------------------------------------------------- */

/* Replaces *labels, a set of the caller's own, by one that has this label, too. */
static int add_own_label(struct cp_labels **labels, const char *key, const char *value)
{
    struct cp_labels *more;
    int result = cp__labels_with(*labels, key, value, &more);

    if (result < 0)
        return result;
    cp_labels_unref(*labels);
    *labels = more;
    return 0;
}

/* Stores the labels of the G with the stall's kind, and what it waited for, as a set of the caller's own. */
static int label_stall(const struct cp_stall *stall, struct cp_labels **labels)
{
    const bool has_reason = stall->kind == CP_STALL_WAITED && stall->reason != CP_WAIT_OTHER;
    int result;

    *labels = cp_labels_ref(stall->labels);
    result = add_own_label(labels, "stall", cp_stall_kind_name(stall->kind));
    if (result == 0 && has_reason)
        result = add_own_label(labels, "reason", cp_wait_reason_name(stall->reason));
    if (result < 0)
        cp_labels_unref(*labels);
    return result;
}

/* ---- The profile ----------------------------------------------------------------------------- */

/* What a call writes. */
struct stall_listing {
    enum cp_profile_form form;
    struct cp__profile *profile;
};

/* A stall without a stack has a name in place of one. */
static int add_without_stack(struct cp__profile *profile, const struct cp_stall *stall)
{
    const char *lack = cp__stall_lack(stall->kind);
    char name[160] = "[not run: the system ran something else]";

    if (lack != NULL)
        snprintf(name, sizeof name, "[no stack: %s]", lack);
    return cp__profile_add_named_values(profile, name, stall->count, &stall->total_ns);
}

static int fold_stall(void *context, const struct cp_stall *stall)
{
    const struct stall_listing *l = context;
    struct cp_sample sample = {
        .weight = stall->count, .flags = stall->flags, .depth = stall->depth, .frames = stall->frames};
    int result;

    if (stall->depth == 0)
        return add_without_stack(l->profile, stall);
    sample.ip = stall->frames[0];
    result = label_stall(stall, &sample.labels);
    if (result < 0)
        return result;
    result = cp__profile_add_values(l->profile, &sample, &stall->total_ns);
    cp_labels_unref(sample.labels);
    return result;
}

static int write_stalls(const struct stall_listing *l, struct cp_writer *w, struct cp_error *err)
{
    const struct cp__profile_meta meta = {.is_count = true,
                                          .sample_type = "stalls",
                                          .sample_unit = "count",
                                          .period = 1,
                                          .shows_further = true,
                                          .time_ns = cp__clock_ns(CLOCK_REALTIME),
                                          .is_text = l->form != CP_FORM_PPROF,
                                          .contention = "contention"};

    return cp__report_to(l->profile, &meta, w, err);
}

static int make_stalls(const void *what, struct cp_writer *w, struct cp_error *err)
{
    struct stall_listing l = *(const struct stall_listing *)what;
    int result = cp__profile_new_with(&l.profile, &stalled_type, 1);

    if (result == 0)
        result = cp_stalls_each(fold_stall, &l);
    if (result < 0)
        cp__error(err, result, "There is not enough memory for a list of stalls.");
    if (result == 0)
        result = cp__profile_resolve_all(l.profile, err);
    if (result == 0)
        result = write_stalls(&l, w, err);
    cp__profile_free(l.profile);
    return result;
}

int cp_stalls_profile(struct cp_writer w, enum cp_profile_form form, struct cp_error *err)
{
    const struct stall_listing empty = {.form = form};

    if ((unsigned)form > CP_FORM_STATES)
        return cp__error(err, -EINVAL, "The list of stalls has no form %d. Use one of enum cp_profile_form.",
                         (int)form);
    return cp__write_elsewhere(w, make_stalls, &empty, err);
}
