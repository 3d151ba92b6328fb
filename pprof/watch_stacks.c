/* The profile of where the rounds of a watch began. The watch is locked only while its stacks are copied;
 * names are looked up afterwards. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/fail.h"
#include "runtime/label.h"
#include "runtime/watch/recorder.h"
#include "session.h"
#include "writer.h"

#define SIDE_KEY "side"

_Static_assert(CP_WATCH_QUANTITIES <= CP__MAX_FURTHER, "a profile has room for all quantities");

/* A copy of what rounds have in common that began with one stack. */
struct begin {
    struct cp__watch_stack stack; /* without frames, and with a reference of its own to the labels */
    size_t first;                 /* index of its first frame in copied_begins.frames */
};

struct copied_begins {
    const struct cp_watch *watch; /* NULL: the one that has the name */
    const char *name;
    enum cp_profile_form form;
    struct cp__watch_quantity quantities[CP_WATCH_QUANTITIES];
    size_t n_quantities;
    struct begin *begins;
    size_t n, capacity;
    uintptr_t *frames;
    size_t n_frames, frames_capacity;
};

/* ---- Copying --------------------------------------------------------------------------------- */

/* Called while the watch is locked. */
static int copy_begin(void *context, const struct cp__watch_stack *stack)
{
    struct copied_begins *c = context;

    if (CP__RESERVE(c->begins, c->capacity, c->n + 1) < 0 ||
        CP__RESERVE(c->frames, c->frames_capacity, c->n_frames + stack->depth) < 0)
        return -ENOMEM;
    memcpy(c->frames + c->n_frames, stack->frames, stack->depth * sizeof *c->frames);
    c->begins[c->n] = (struct begin){.stack = *stack, .first = c->n_frames};
    cp_labels_ref(stack->labels);
    c->n_frames += stack->depth;
    c->n++;
    return 0;
}

static int copy_watch(struct copied_begins *c, const struct cp_watch *watch, struct cp_error *err)
{
    int result = cp__watch_each_stack(watch, copy_begin, c);

    if (result == -EINVAL)
        return cp__error(err, result,
                         "The watch \"%s\" does not know where its rounds began. Open it with has_stacks set "
                         "in struct cp_watch_options.",
                         watch->entry.name);
    if (result < 0)
        return cp__error(err, result, "There is not enough memory to copy the stacks of a watch.");
    c->n_quantities = watch->n_quantities;
    memcpy(c->quantities, watch->quantities, sizeof c->quantities);
    return 0;
}

/* A watch that is found by its name may be closed at any time, but not while the registry is locked. */
static int copy_named(struct copied_begins *c, struct cp_error *err)
{
    const struct cp__watch_entry *entry = cp__registry_hold_named(c->name);
    int result;

    if (entry == NULL)
        result = cp__error(err, -ENOENT, "There is no open watch named \"%s\".", c->name);
    else if (entry->fill != cp__watch_fill)
        result =
            cp__error(err, -EINVAL, "The watch \"%s\" is for keys, which begin in no stack of a G.", c->name);
    else
        result = copy_watch(c, entry->watch, err);
    cp__registry_let_go();
    return result;
}

/* ---- Folding --------------------------------------------------------------------------------- */

static bool is_added_up(const struct cp__watch_quantity *quantity)
{
    return strcmp(quantity->unit, "ratio") != 0;
}

/* Adds a copy to the profile. Rounds in which their G has called fork() have a label that tells the side. */
static int fold_begin(const struct copied_begins *c, const struct begin *begin, struct cp__profile *profile)
{
    static const char *const sides[] = {[CP_WATCH_PARENT] = "parent", [CP_WATCH_CHILD] = "child"};
    uint64_t values[CP_WATCH_QUANTITIES];
    struct cp_labels *labels = NULL;
    struct cp_sample sample = {
        .weight = begin->stack.rounds, .depth = begin->stack.depth, .frames = c->frames + begin->first};
    size_t n = 0;
    int result;

    for (size_t i = 0; i < c->n_quantities; i++)
        if (is_added_up(&c->quantities[i]))
            values[n++] = begin->stack.values[i];
    if (begin->stack.side == CP_WATCH_UNFORKED)
        labels = cp_labels_ref(begin->stack.labels);
    else if (cp__labels_with(begin->stack.labels, SIDE_KEY, sides[begin->stack.side], &labels) < 0)
        return -ENOMEM;
    sample.labels = labels;
    result = cp__profile_add_values(profile, &sample, values);
    cp_labels_unref(labels);
    return result;
}

static int new_begins_profile(const struct copied_begins *c, struct cp__profile **profile)
{
    struct cp__value_type further[CP_WATCH_QUANTITIES];
    size_t n = 0;

    for (size_t i = 0; i < c->n_quantities; i++)
        if (is_added_up(&c->quantities[i]))
            further[n++] = (struct cp__value_type){
                c->quantities[i].name, strcmp(c->quantities[i].unit, "ns") == 0 ? "nanoseconds" : "count"};
    return cp__profile_new_with(profile, further, n);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static int write_begins(const struct copied_begins *c, struct cp__profile *profile, struct cp_writer *w,
                        struct cp_error *err)
{
    const struct cp__profile_meta meta = {.is_count = true,
                                          .shows_further = true,
                                          .sample_type = "rounds",
                                          .sample_unit = "count",
                                          .period = 1,
                                          .time_ns = cp__clock_ns(CLOCK_REALTIME),
                                          .is_text = c->form == CP_FORM_TEXT};
    int result = 0;

    for (size_t i = 0; i < c->n && result == 0; i++)
        result = fold_begin(c, &c->begins[i], profile);
    if (result < 0)
        return cp__error(err, result, "There is not enough memory to list where rounds began.");
    result = cp__profile_resolve_all(profile, err);
    return result < 0 ? result : cp__report_to(profile, &meta, w, err);
}

static int make_begins(const void *what, struct cp_writer *w, struct cp_error *err)
{
    struct copied_begins c = *(const struct copied_begins *)what;
    struct cp__profile *profile = NULL;
    int result = c.watch != NULL ? copy_watch(&c, c.watch, err) : copy_named(&c, err);

    if (result == 0 && new_begins_profile(&c, &profile) < 0)
        result = cp__error(err, -ENOMEM, "There is not enough memory to list where rounds began.");
    if (result == 0)
        result = write_begins(&c, profile, w, err);
    cp__profile_free(profile);
    for (size_t i = 0; i < c.n; i++)
        cp_labels_unref(c.begins[i].stack.labels);
    free(c.begins);
    free(c.frames);
    return result;
}

static int write_watch(const struct copied_begins *c, struct cp_writer w, struct cp_error *err)
{
    if (c->form != CP_FORM_PPROF && c->form != CP_FORM_TEXT)
        return cp__error(err, -EINVAL,
                         "The profile of a watch has no form %d. Use CP_FORM_PPROF or CP_FORM_TEXT.",
                         (int)c->form);
    if (c->watch == NULL && c->name == NULL)
        return cp__error(err, -EINVAL, "No watch was given, perhaps because it could not be opened.");
    return cp__write_elsewhere(w, make_begins, c, err);
}

int cp_watch_write_profile(const struct cp_watch *watch, struct cp_writer w, enum cp_profile_form form,
                           struct cp_error *err)
{
    return write_watch(&(struct copied_begins){.watch = watch, .form = form}, w, err);
}

int cp_watch_write_profile_of(const char *name, struct cp_writer w, enum cp_profile_form form,
                              struct cp_error *err)
{
    return write_watch(&(struct copied_begins){.name = name, .form = form}, w, err);
}
