/*
 * Lists where all Gs of the scheduler are. Each G is first copied while it cannot run, in as little time as
 * possible: its figures, and the addresses on its stack. Everything else, above all the names, is looked up
 * afterwards.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arch/arch.h"
#include "profile_data.h"
#include "runtime/base/fail.h"
#include "runtime/label.h"
#include "sched.h"
#include "session.h"
#include "writer.h"

/* A copy of a G. */
struct seen {
    struct cp_g_info g;
    size_t first; /* index of its first frame in listing.frames */
    uint32_t depth;
};

/* The context of a listing. */
struct listing {
    enum cp_profile_form form;
    uint64_t least_ns; /* Gs that have waited for less are left out; 0: none is */
    cp_unwind_fn *unwind;
    struct cp__profile *profile;
    struct seen *gs;
    size_t n, capacity;
    uintptr_t *frames; /* return addresses */
    size_t n_frames, frames_capacity;
    FILE *out;
};

/* ---- Stacks ---------------------------------------------------------------------------------- */

unsigned cp_unwind_frame_pointers(const struct cp_g_info *g, uintptr_t *frames, unsigned max)
{
    const struct cp__registers regs = cp__registers_from_handler(g->context);
    uintptr_t fp = regs.fp, lowest = regs.sp;
    unsigned n = 0;

    if (max > 0)
        frames[n++] = regs.pc;
    while (n > 0 && n < max && fp >= lowest && fp % sizeof fp == 0 && fp < g->stack_hi &&
           g->stack_hi - fp >= 2 * sizeof fp) {
        const uintptr_t *record =
            (const uintptr_t *)fp; /* the caller's frame pointer, and the return address */

        if (record[1] == 0)
            break;
        frames[n++] = cp__code_address_from_handler(record[1]);
        lowest = fp + 2 * sizeof fp;
        fp = record[0];
    }
    return n;
}

/* Gives a G that has not begun a stack: the function that it will call. */
static void add_entry(struct seen *seen, uintptr_t *frames)
{
    if (seen->depth > 1 || seen->g.entry == NULL)
        return;
    memmove(frames + 1, frames, seen->depth * sizeof *frames);
    frames[0] = (uintptr_t)seen->g.entry + 1; /* stored like a return address */
    seen->depth++;
}

/* Called for each G while it cannot run: copies it. */
static int see(void *context, const struct cp_g_info *g)
{
    struct listing *l = context;
    struct seen *seen;
    uintptr_t *frames;

    if (g->waited_ns < l->least_ns)
        return 0;
    if (CP__RESERVE(l->gs, l->capacity, l->n + 1) < 0 ||
        CP__RESERVE(l->frames, l->frames_capacity, l->n_frames + CP_MAX_FRAMES + 1) < 0)
        return -ENOMEM;
    frames = l->frames + l->n_frames;
    seen = &l->gs[l->n++];
    *seen = (struct seen){.g = *g, .first = l->n_frames};
    seen->g.labels = cp_labels_ref(g->labels);
    if (g->context != NULL)
        seen->depth = l->unwind(g, frames, CP_MAX_FRAMES - 1);
    add_entry(seen, frames);
    l->n_frames += seen->depth;
    return 0;
}

/* Stores the labels of a G with what it waits for, as a set of the caller's own. */
static int label_wait(const struct cp_g_info *g, struct cp_labels **labels)
{
    struct cp_labels *with_reason;
    char object[24];
    int result = cp__labels_with(g->labels, "reason", g->state, &with_reason);

    if (result < 0 || g->object == NULL) {
        *labels = with_reason;
        return result;
    }
    snprintf(object, sizeof object, "%#" PRIxPTR, (uintptr_t)g->object);
    result = cp__labels_with(with_reason, "object", object, labels);
    cp_labels_unref(with_reason);
    return result;
}

/* Adds a G that has waited for long: with how long that is, what for, and, outside of its first function, the
 * call that has started it. */
static int fold_waiting(struct listing *l, const struct seen *seen, struct cp_sample *sample)
{
    uintptr_t frames[CP_MAX_FRAMES + 1];
    int result = label_wait(&seen->g, &sample->labels);

    if (result < 0)
        return result;
    memcpy(frames, sample->frames, sample->depth * sizeof *frames);
    if (seen->g.created_at != 0)
        frames[sample->depth++] = seen->g.created_at;
    sample->frames = frames;
    result = cp__profile_add_values(l->profile, sample, &seen->g.waited_ns);
    cp_labels_unref(sample->labels);
    return result;
}

/* Adds the Gs to the profile. Frames in a profile have the addresses of the calls, not the return
 * addresses. */
static int fold_gs(struct listing *l)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct seen *seen = &l->gs[i];
        uintptr_t *frames = l->frames + seen->first;
        struct cp_sample sample = {.weight = 1,
                                   .labels = seen->g.labels,
                                   .flags = seen->g.tid != 0 ? CP__SAMPLE_RUNNING : 0,
                                   .depth = seen->depth,
                                   .frames = frames};
        int result;

        frames[0]--; /* in a sample, the innermost frame is an instruction and no return address */
        sample.ip = frames[0];
        result = l->least_ns > 0 ? fold_waiting(l, seen, &sample) : cp__profile_add(l->profile, &sample);
        frames[0]++;
        if (result < 0)
            return result;
    }
    return 0;
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* Prints file and line of the i-th function of a frame; inlined functions come before the function that they
 * are inlined in. */
static void put_place(const struct listing *l, const struct cp__frame *frame, uint32_t i)
{
    const struct cp__line *line = &l->profile->lines[frame->first_line + i];
    const char *file = cp__profile_string(l->profile, l->profile->functions[line->function].file);

    fprintf(l->out, "\t%s:%" PRIu32 " +%#" PRIx64 "\n", file, line->line, cp__frame_offset(frame));
}

static const char *g_function_of(const struct listing *l, const struct cp__frame *frame, uint32_t i)
{
    const struct cp__line *line = &l->profile->lines[frame->first_line + i];

    return cp__profile_string(l->profile, l->profile->functions[line->function].name);
}

static void put_frame(const struct listing *l, const struct cp__frame *frame)
{
    if (frame->n_lines == 0) {
        cp__print_module(l->out, l->profile, frame);
        fprintf(l->out, "(%#" PRIx64 ")\n\t?\n", frame->address + 1);
    }
    for (uint32_t i = 0; i < frame->n_lines; i++) {
        fprintf(l->out, "%s(...)\n", g_function_of(l, frame, i));
        put_place(l, frame, i);
    }
}

/* Prints who created the G: of the frame, only the innermost function, which has the call. */
static void put_creator(const struct listing *l, const struct cp_g_info *g)
{
    const struct cp__frame *frame =
        g->created_at == 0 ? NULL : cp__profile_find(l->profile, g->created_at - 1);

    if (frame == NULL)
        return;
    fputs("created by ", l->out);
    if (frame->n_lines > 0)
        fputs(g_function_of(l, frame, 0), l->out);
    else
        cp__print_module(l->out, l->profile, frame);
    if (g->parent_id != 0)
        fprintf(l->out, " in goroutine %" PRIu64, g->parent_id);
    fputc('\n', l->out);
    if (frame->n_lines > 0)
        put_place(l, frame, 0);
    else
        fputs("\t?\n", l->out);
}

/* Prints a time with three digits behind the point, or ns. */
static void put_time(FILE *out, uint64_t ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    uint64_t whole = ns, thousandths = 0;
    unsigned unit = 0;

    for (; whole >= 1000 && unit < 3; unit++) {
        thousandths = whole % 1000;
        whole /= 1000;
    }
    if (unit == 0)
        fprintf(out, "%" PRIu64 " ns", whole);
    else
        fprintf(out, "%" PRIu64 ".%03" PRIu64 " %s", whole, thousandths, units[unit]);
}

/* Prints where the G's time has gone so far, and what it waits for. */
static void put_account(const struct listing *l, const struct cp_g_info *g)
{
    if (g->running_ns + g->runnable_ns + g->waiting_ns == 0)
        return;
    fputs("# ran ", l->out);
    put_time(l->out, g->running_ns);
    fprintf(l->out, " in %" PRIu64 " switches, was runnable for ", g->switches);
    put_time(l->out, g->runnable_ns);
    fputs(", waited for ", l->out);
    put_time(l->out, g->waiting_ns);
    if (g->object != NULL && g->reason == CP_WAIT_DESCRIPTOR)
        fprintf(l->out, ", waits for descriptor %d", (int)(intptr_t)g->object);
    else if (g->object != NULL)
        fprintf(l->out, ", waits for %p", g->object);
    fputc('\n', l->out);
}

static void put_g(const struct listing *l, const struct seen *seen)
{
    const uint64_t minutes = seen->g.waited_ns / UINT64_C(60000000000);

    fprintf(l->out, "goroutine %" PRIu64 " [%s", seen->g.id, seen->g.state);
    if (minutes > 0)
        fprintf(l->out, ", %" PRIu64 " minutes", minutes);
    fputs("]:\n", l->out);
    if (seen->g.tid != 0)
        fprintf(l->out, "\tgoroutine running on other thread (%" PRIu32 "); stack unavailable\n",
                seen->g.tid);
    for (uint32_t i = 0; seen->g.tid == 0 && i < seen->depth; i++)
        put_frame(l, cp__profile_find(l->profile, l->frames[seen->first + i] - 1));
    put_creator(l, &seen->g);
    put_account(l, &seen->g);
    if (l->least_ns > 0)
        fprintf(l->out, "# waited: %.1f s, for %p\n", (double)seen->g.waited_ns / 1e9, seen->g.object);
    cp__print_labels(l->out, seen->g.labels);
    fputc('\n', l->out);
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct seen *)a)->g.id, y = ((const struct seen *)b)->g.id;

    return (x > y) - (x < y);
}

/* Prints each G, the oldest first. */
static int put_each(const void *what, FILE *out)
{
    struct listing l = *(const struct listing *)what;

    l.out = out;
    if (l.n > 0)
        qsort(l.gs, l.n, sizeof *l.gs, by_id);
    for (size_t i = 0; i < l.n; i++)
        put_g(&l, &l.gs[i]);
    return 0;
}

/* ---- The whole list -------------------------------------------------------------------------- */

static int write_profile(const struct listing *l, struct cp_writer *w, struct cp_error *err)
{
    const struct cp__profile_meta meta = {.is_count = true,
                                          .sample_type = "goroutine",
                                          .sample_unit = "count",
                                          .period = 1,
                                          .time_ns = cp__clock_ns(CLOCK_REALTIME),
                                          .is_text = l->form == CP_FORM_TEXT};

    return cp__report_to(l->profile, &meta, w, err);
}

static int write_each(const void *what, struct cp_writer *w)
{
    return cp__write_text(w, put_each, what);
}

/* Adds the creators' addresses to the profile, so that they get names, too. */
static int add_creators(struct listing *l)
{
    for (size_t i = 0; i < l->n; i++) {
        uintptr_t call = l->gs[i].g.created_at - 1;
        struct cp_sample sample = {.weight = 1, .depth = 1, .frames = &call, .ip = call};

        if (l->gs[i].g.created_at != 0 && cp__profile_add(l->profile, &sample) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int collect_gs(struct listing *l, struct cp_error *err)
{
    int result = cp_g_each(see, l, err);

    if (result == 0)
        result = fold_gs(l);
    if (result == 0 && l->form == CP_FORM_STATES)
        result = add_creators(l);
    if (result == -ENOMEM)
        return cp__error(err, result, "There is not enough memory for a list of %zu Gs.", l->n);
    return result < 0 ? result : cp__profile_resolve_all(l->profile, err);
}

static const struct cp__value_type waited_type = {"waited", "nanoseconds"};

static int make_listing(const void *what, struct cp_writer *w, struct cp_error *err)
{
    struct listing l = *(const struct listing *)what;
    int result = cp__profile_new_with(&l.profile, &waited_type, l.least_ns > 0);

    if (result < 0)
        return cp__error(err, result, "There is not enough memory for a list of Gs.");
    result = collect_gs(&l, err);
    if (result == 0)
        result =
            l.form == CP_FORM_STATES ? cp__write_attempt(w, write_each, &l, err) : write_profile(&l, w, err);
    for (size_t i = 0; i < l.n; i++)
        cp_labels_unref(l.gs[i].g.labels);
    cp__profile_free(l.profile);
    free(l.gs);
    free(l.frames);
    return result;
}

static int write_listing(struct cp_writer w, const struct listing *empty, struct cp_error *err)
{
    if ((unsigned)empty->form > CP_FORM_STATES)
        return cp__error(err, -EINVAL, "The list of Gs has no form %d. Use one of enum cp_profile_form.",
                         (int)empty->form);
    return cp__write_elsewhere(w, make_listing, empty, err);
}

int cp_g_profile(struct cp_writer w, enum cp_profile_form form, cp_unwind_fn *unwind, struct cp_error *err)
{
    const struct listing empty = {.form = form, .unwind = unwind != NULL ? unwind : cp_unwind_frame_pointers};

    return write_listing(w, &empty, err);
}

int cp_g_leak_profile(struct cp_writer w, enum cp_profile_form form, uint64_t least_ns, cp_unwind_fn *unwind,
                      struct cp_error *err)
{
    const struct listing empty = {.form = form,
                                  .least_ns = least_ns > 0 ? least_ns : 1,
                                  .unwind = unwind != NULL ? unwind : cp_unwind_frame_pointers};

    return write_listing(w, &empty, err);
}
