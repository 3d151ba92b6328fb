/*
 * Where all Gs of the scheduler are. First each is copied while it cannot run, as short as possible: what is
 * known of it and the addresses on its stack; all else, names above all, is found out afterwards.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profile_data.h"
#include "runtime/error.h"
#include "runtime/sched.h"
#include "session.h"
#include "writer.h"

struct seen {
    struct cp_sched_g g;
    size_t first; /* number in frames */
    uint32_t depth;
};

struct listing {
    struct cp__profile *profile;
    cp_unwind_fn *unwind;
    struct seen *gs;
    size_t n, capacity;
    uintptr_t *frames; /* return addresses */
    size_t n_frames, frames_capacity;
    FILE *out;
};

/* ---- Stacks ---------------------------------------------------------------------------------- */

unsigned cp_unwind_frame_pointers(const struct cp_sched_g *g, uintptr_t *frames, unsigned max)
{
#if defined(__x86_64__)
    const uintptr_t pc = (uintptr_t)g->context->uc_mcontext.gregs[REG_RIP];
    uintptr_t fp = (uintptr_t)g->context->uc_mcontext.gregs[REG_RBP];
    uintptr_t lowest = (uintptr_t)g->context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    const uintptr_t pc = g->context->uc_mcontext.pc;
    uintptr_t fp = g->context->uc_mcontext.regs[29];
    uintptr_t lowest = g->context->uc_mcontext.sp;
#else
    return 0;
#endif
    unsigned n = 0;

    if (max > 0)
        frames[n++] = pc;
    while (n > 0 && n < max && fp >= lowest && fp % sizeof fp == 0 && fp < g->stack_hi &&
           g->stack_hi - fp >= 2 * sizeof fp) {
        const uintptr_t *record = (const uintptr_t *)fp; /* the caller's, and where it goes on */

        if (record[1] == 0)
            break;
        frames[n++] = record[1];
        lowest = fp + 2 * sizeof fp;
        fp = record[0];
    }
    return n;
}

/* What a G that has not begun will do is its stack. */
static void add_entry(struct seen *seen, uintptr_t *frames)
{
    if (seen->depth > 1 || seen->g.entry == NULL)
        return;
    memmove(frames + 1, frames, seen->depth * sizeof *frames);
    frames[0] = (uintptr_t)seen->g.entry + 1; /* as if it were a return address */
    seen->depth++;
}

static int see(void *context, const struct cp_sched_g *g)
{
    struct listing *l = context;
    struct seen *seen;
    uintptr_t *frames;

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

/* Into the profile; the frames' addresses there are those of calls. */
static int fold(struct listing *l)
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

        frames[0]--; /* a sample's innermost frame is an instruction */
        sample.ip = frames[0];
        result = cp__profile_add(l->profile, &sample);
        frames[0]++;
        if (result < 0)
            return result;
    }
    return 0;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static const char *string_of(const struct cp__profile *p, uint32_t number)
{
    const char *text = cp__strings_get(&p->strings, number);

    return text[0] == '\0' ? "?" : text;
}

static void put_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(out, "\\x%02x", (unsigned char)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

static void put_labels(FILE *out, const struct cp_labels *labels)
{
    size_t n = cp_labels_count(labels);

    if (n == 0)
        return;
    fputs("# labels: {", out);
    for (size_t i = 0; i < n; i++) {
        fputs(i > 0 ? ", " : "", out);
        put_quoted(out, cp_labels_key(labels, i));
        fputc(':', out);
        put_quoted(out, cp_labels_value(labels, i));
    }
    fputs("}\n", out);
}

/* A frame's functions: those that are inlined there, then the one that they are inlined in. */
typedef void put_line_fn(FILE *out, const char *function, const char *file, unsigned line, uint64_t address,
                         uint64_t offset);

static void put_frame(const struct listing *l, const struct cp__frame *frame, put_line_fn *put)
{
    const struct cp__profile *p = l->profile;
    uint64_t address = frame->address + 1;

    if (frame->n_lines == 0)
        put(l->out, NULL, "?", 0, address, 0);
    for (uint32_t i = 0; i < frame->n_lines; i++) {
        const struct cp__line *line = &p->lines[frame->first_line + i];
        const struct cp__function *function = &p->functions[line->function];

        put(l->out, string_of(p, function->name), string_of(p, function->file), line->line, address,
            frame->entry != 0 ? address - frame->entry : 0);
    }
}

static void put_count_line(FILE *out, const char *function, const char *file, unsigned line, uint64_t address,
                           uint64_t offset)
{
    if (function == NULL)
        fprintf(out, "#\t%#" PRIx64 "\n", address);
    else
        fprintf(out, "#\t%#" PRIx64 "\t%s+%#" PRIx64 "\t%s:%u\n", address, function, offset, file, line);
}

static int by_weight(const void *a, const void *b)
{
    const struct cp__stack *x = *(const struct cp__stack *const *)a, *y = *(const struct cp__stack *const *)b;

    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight) : (x > y) - (x < y);
}

static void put_stack(const struct listing *l, const struct cp__stack *stack)
{
    const struct cp__profile *p = l->profile;
    const uint32_t *numbers = p->stack_frames + stack->first;

    fprintf(l->out, "%" PRIu64 " @", stack->weight);
    for (uint32_t i = 0; i < stack->depth; i++)
        if (p->frames[numbers[i]].name == 0)
            fprintf(l->out, " %#" PRIx64, p->frames[numbers[i]].address + 1);
    fputc('\n', l->out);
    if (stack->labels != 0)
        put_labels(l->out, p->label_sets[stack->labels - 1].labels);
    for (uint32_t i = 0; i < stack->depth; i++) {
        const struct cp__frame *frame = &p->frames[numbers[i]];

        if (frame->name == 0)
            put_frame(l, frame, put_count_line);
        else
            fprintf(l->out, "#\t%s\n", p->names[frame->name - 1]);
    }
    fputc('\n', l->out);
}

/* debug=1: each stack once, the most frequent first. */
static int put_counts(struct listing *l)
{
    const struct cp__profile *p = l->profile;
    const struct cp__stack **sorted = malloc((p->n_stacks + 1) * sizeof *sorted);

    if (sorted == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < p->n_stacks; i++)
        sorted[i] = &p->stacks[i];
    qsort(sorted, p->n_stacks, sizeof *sorted, by_weight);
    fprintf(l->out, "goroutine profile: total %zu\n", l->n);
    for (size_t i = 0; i < p->n_stacks; i++)
        put_stack(l, sorted[i]);
    free(sorted);
    return 0;
}

static void put_trace_line(FILE *out, const char *function, const char *file, unsigned line, uint64_t address,
                           uint64_t offset)
{
    if (function == NULL)
        fprintf(out, "%#" PRIx64 "()\n\t?\n", address);
    else
        fprintf(out, "%s(...)\n\t%s:%u +%#" PRIx64 "\n", function, file, line, offset);
}

static void put_created_line(FILE *out, const char *function, const char *file, unsigned line,
                             uint64_t address, uint64_t offset)
{
    if (function == NULL)
        fprintf(out, "%#" PRIx64, address);
    else
        fprintf(out, "%s", function);
    (void)file;
    (void)line;
    (void)offset;
}

static void put_created_place(FILE *out, const char *function, const char *file, unsigned line,
                              uint64_t address, uint64_t offset)
{
    (void)function;
    (void)address;
    fprintf(out, "\t%s:%u +%#" PRIx64 "\n", file, line, offset);
}

/* Of a frame, only the innermost function, where the call stands. */
static void put_creator(const struct listing *l, const struct cp_sched_g *g)
{
    const struct cp__frame *found =
        g->created_at == 0 ? NULL : cp__profile_find(l->profile, g->created_at - 1);
    struct cp__frame frame;

    if (found == NULL)
        return;
    frame = *found;
    frame.n_lines = frame.n_lines > 0;
    fputs("created by ", l->out);
    put_frame(l, &frame, put_created_line);
    if (g->parent_id != 0)
        fprintf(l->out, " in goroutine %" PRIu64, g->parent_id);
    fputc('\n', l->out);
    put_frame(l, &frame, put_created_place);
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
        put_frame(l, cp__profile_find(l->profile, l->frames[seen->first + i] - 1), put_trace_line);
    put_creator(l, &seen->g);
    put_labels(l->out, seen->g.labels);
    fputc('\n', l->out);
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const struct seen *)a)->g.id, y = ((const struct seen *)b)->g.id;

    return (x > y) - (x < y);
}

/* debug=2: each G, the oldest first. */
static int put_each(struct listing *l)
{
    if (l->n > 0)
        qsort(l->gs, l->n, sizeof *l->gs, by_id);
    for (size_t i = 0; i < l->n; i++)
        put_g(l, &l->gs[i]);
    return 0;
}

/* ---- The whole ------------------------------------------------------------------------------- */

struct sink {
    struct cp_writer *w;
    int error;
};

static ssize_t sink_write(void *cookie, const char *data, size_t size)
{
    struct sink *sink = cookie;

    if (sink->error == 0)
        sink->error = cp__write_all(sink->w, data, size);
    return sink->error == 0 ? (ssize_t)size : 0;
}

static int put_text(struct listing *l, int (*put)(struct listing *), struct cp_writer *w,
                    struct cp_error *err)
{
    struct sink sink = {.w = w};
    int result;

    l->out = fopencookie(&sink, "w", (cookie_io_functions_t){.write = sink_write});
    result = l->out == NULL ? -ENOMEM : put(l);
    if (l->out != NULL)
        fclose(l->out);
    result = result < 0 ? result : sink.error;
    return result == 0
               ? 0
               : cp__error(err, result, "The list of Gs could not be written: %s.", strerror(-result));
}

static int put_profile(struct listing *l, struct cp_writer *w, struct cp_error *err)
{
    struct timespec now;
    struct cp__profile_meta meta = {
        .is_count = true, .sample_type = "goroutine", .sample_unit = "count", .period = 1};

    clock_gettime(CLOCK_REALTIME, &now);
    meta.time_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    return cp__profile_encode(l->profile, &meta, w, err);
}

static int put_listing(struct listing *l, unsigned debug, struct cp_writer *w, struct cp_error *err)
{
    int result = w->ops->open == NULL ? 0 : w->ops->open(w, err);

    if (result < 0)
        return result;
    result = w->ops->begin == NULL ? 0 : w->ops->begin(w);
    if (result < 0)
        return cp__error(err, result, "The list of Gs could not be written: %s.", strerror(-result));
    result = debug == 0 ? put_profile(l, w, err) : put_text(l, debug == 1 ? put_counts : put_each, w, err);
    if (w->ops->end != NULL) {
        int ended = w->ops->end(w);

        if (result == 0 && ended < 0)
            result = cp__error(err, ended, "The list of Gs could not be written: %s.", strerror(-ended));
    }
    if (w->ops->close != NULL && w->fd >= 0)
        w->ops->close(w);
    return result;
}

/* For the list of each G: creators have names, too. */
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

static int list(struct listing *l, unsigned debug, struct cp_writer *w, struct cp_error *err)
{
    struct cp__profile_findings findings;
    int result = cp_sched_each_g(see, l, err);

    if (result == 0)
        result = fold(l);
    if (result == 0 && debug >= 2)
        result = add_creators(l);
    if (result == -ENOMEM)
        return cp__error(err, result, "There is no memory for a list of %zu Gs.", l->n);
    if (result == 0)
        result = cp__profile_resolve(l->profile, &findings, err);
    return result < 0 ? result : put_listing(l, debug, w, err);
}

struct job {
    struct cp_writer w;
    unsigned debug;
    cp_unwind_fn *unwind;
    struct cp_error *err;
    int result;
};

static void *run(void *arg)
{
    struct job *job = arg;
    struct listing l = {.unwind = job->unwind != NULL ? job->unwind : cp_unwind_frame_pointers};

    job->result = cp__profile_new(&l.profile);
    if (job->result < 0)
        cp__error(job->err, job->result, "There is no memory for a list of Gs.");
    else
        job->result = list(&l, job->debug, &job->w, job->err);
    for (size_t i = 0; i < l.n; i++)
        cp_labels_unref(l.gs[i].g.labels);
    cp__profile_free(l.profile);
    free(l.gs);
    free(l.frames);
    return NULL;
}

/* On a thread of its own, because the caller may be a G: to look names up takes more stack than that has. */
int cp_goroutine_profile(struct cp_writer w, unsigned debug, cp_unwind_fn *unwind, struct cp_error *err)
{
    struct job job = {.w = w, .debug = debug, .unwind = unwind, .err = err};
    pthread_t thread;
    int result = cp__thread_start(&thread, run, &job);

    if (result < 0)
        return cp__error(err, result, "The thread that lists Gs could not be started: %s.",
                         strerror(-result));
    pthread_join(thread, NULL);
    return job.result;
}
