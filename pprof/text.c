/*
 * A profile as text, in the form that net/http/pprof gives its profiles with debug=1:
 *
 *     # comments
 *     NAME profile: total SAMPLES
 *     SAMPLES @ 0xADDRESS 0xADDRESS ...
 *     # labels: {"key":"value"}
 *     # watches: {"name of a watch":duration of its round in ns, or null}
 *     # values: VALUE TYPE/UNIT, VALUE TYPE/UNIT ...
 *     #	0xADDRESS	function+0xOFFSET	file:line
 *     #	0xADDRESS	[module]+0xOFFSET-IN-ITS-FILE
 *
 *     --- Memory map: ---
 *
 * Profiles of waits have the form of Go's own, with the time waited in ns before the number of waits:
 *
 *     --- contention:
 *     cycles/second=1000000000
 *     # comments
 *     NS WAITS @ 0xADDRESS 0xADDRESS ...
 *     # labels, and the frames as above
 *
 * Readers take each address for a return address, so each printed address is the instruction's plus 1.
 * Readers skip lines that begin with "#", and know no samples without an address; so a frame that is only a
 * name appears in such lines alone, and so does one of another process, which the memory map does not have.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile_data.h"
#include "rounds.h"
#include "runtime/base/text.h"
#include "writer.h"

/* ---- A stack --------------------------------------------------------------------------------- */

void cp__print_labels(FILE *out, const struct cp_labels *labels)
{
    const size_t n = cp_labels_count(labels);
    size_t i;

    for (i = 0; i < n; i++) {
        fputs(i == 0 ? "# labels: {" : ", ", out);
        cp__json_string(out, cp_labels_key(labels, i));
        fputc(':', out);
        cp__json_string(out, cp_labels_value(labels, i));
    }
    if (n > 0)
        fputs("}\n", out);
}

void cp__print_module(FILE *out, const struct cp__profile *p, const struct cp__frame *frame)
{
    const char *file = frame->mapping == 0 ? "unknown code" : p->mappings.items[frame->mapping - 1].file;
    const char *slash = strrchr(file, '/');
    const char *name = slash != NULL ? slash + 1 : file;

    fprintf(out, name[0] == '[' ? "%s" : "[%s]", name); /* the kernel's are in brackets already */
}

/* Returns where the frame's return address is in the file of its module; if it is in none, the address. */
static uint64_t module_offset(const struct cp__profile *p, const struct cp__frame *frame)
{
    const struct cp__mapping *mapping;

    if (frame->mapping == 0)
        return frame->address + 1;
    mapping = &p->mappings.items[frame->mapping - 1];
    return frame->address + 1 - mapping->start + mapping->offset;
}

/* Prints a function of a frame. */
static void print_profile_line(FILE *out, const struct cp__profile *p, const struct cp__frame *frame,
                               const struct cp__line *line)
{
    const struct cp__function *function = &p->functions[line->function];

    fprintf(out, "#\t%#" PRIx64 "\t", frame->address + 1);
    if (function->name != 0)
        fprintf(out, "%s+%#" PRIx64, cp__profile_string(p, function->name), cp__frame_offset(frame));
    else
        cp__print_module(out, p, frame);
    fprintf(out, "\t%s:%" PRIu32 "\n", cp__profile_string(p, function->file), line->line);
}

/* Prints a frame. Each inlined function has a line of its own. */
static void print_profile_frame(FILE *out, const struct cp__profile *p, const struct cp__frame *frame)
{
    if (frame->name != 0) {
        fprintf(out, "#\t%s\n", p->names[frame->name - 1]);
        return;
    }
    if (frame->n_lines == 0) {
        fprintf(out, "#\t%#" PRIx64 "\t", frame->address + 1);
        cp__print_module(out, p, frame);
        fprintf(out, "+%#" PRIx64 "\n", module_offset(p, frame));
    }
    for (uint32_t i = 0; i < frame->n_lines; i++)
        print_profile_line(out, p, frame, &p->lines[frame->first_line + i]);
}

static const struct cp__frame *frame_of(const struct cp__profile *p, const struct cp__profile_stack *stack,
                                        uint32_t i)
{
    return &p->frames[p->stack_frames[stack->first + i]];
}

/* Prints the values of stack i beside its weight, if there are any. */
static void print_values(FILE *out, const struct cp__profile *p, size_t i)
{
    for (size_t j = 0; j < p->n_further; j++)
        fprintf(out, "%s%" PRIu64 " %s/%s", j == 0 ? "# values: " : ", ", cp__stack_values(p, i)[j],
                p->further[j].type, p->further[j].unit);
    if (p->n_further > 0)
        fputc('\n', out);
}

/* Prints the number of a stack's line, or its two numbers. */
static void print_weight(FILE *out, const struct cp__profile *p, const struct cp__profile_stack *stack,
                         const struct cp__profile_meta *meta)
{
    if (meta->contention != NULL)
        fprintf(out, "%" PRIu64 " ", cp__stack_values(p, (size_t)(stack - p->stacks))[0]);
    fprintf(out, "%" PRIu64, stack->weight);
}

/* Prints a stack with its weight, its addresses, its labels, its further values and its frames. */
static void print_stack(FILE *out, const struct cp__profile *p, const struct cp__profile_stack *stack,
                        const struct cp__profile_meta *meta)
{
    bool has_address = false;
    uint32_t i;

    for (i = 0; i < stack->depth; i++) {
        if (frame_of(p, stack, i)->name != 0 || cp__frame_process(p, frame_of(p, stack, i)) != 0)
            continue;
        if (!has_address) {
            print_weight(out, p, stack, meta);
            fputs(" @", out);
        }
        fprintf(out, " %#" PRIx64, frame_of(p, stack, i)->address + 1);
        has_address = true;
    }
    if (!has_address) {
        fputs("# ", out);
        print_weight(out, p, stack, meta);
    }
    fputc('\n', out);
    if (stack->labels != 0)
        cp__print_labels(out, p->label_sets[stack->labels - 1].labels);
    cp__profile_rounds_print(out, p, stack->rounds);
    if (meta->contention == NULL)
        print_values(out, p, (size_t)(stack - p->stacks));
    for (i = 0; i < stack->depth; i++)
        print_profile_frame(out, p, frame_of(p, stack, i));
    fputc('\n', out);
}

/* ---- The whole text -------------------------------------------------------------------------- */

/* A stack, and what the stacks are sorted by. */
struct sorted {
    const struct cp__profile_stack *stack;
    uint64_t by;
};

/* The heaviest stack comes first. */
static int compare_stacks(const void *left, const void *right)
{
    const struct sorted *a = left, *b = right;

    if (a->by != b->by)
        return a->by < b->by ? 1 : -1;
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

static void print_comments(FILE *out, const struct cp__profile_meta *meta)
{
    for (size_t i = 0; i < meta->n_comments; i++)
        fprintf(out, "# %s\n", meta->comments[i]);
}

static void print_head(FILE *out, const struct cp__profile *p, const struct cp__profile_meta *meta)
{
    bool is_time = strcmp(meta->sample_unit, "nanoseconds") == 0;
    uint64_t total = 0;
    size_t i;

    if (meta->contention != NULL) {
        fprintf(out, "--- %s:\ncycles/second=1000000000\n", meta->contention);
        print_comments(out, meta);
        return;
    }
    print_comments(out, meta);
    if (meta->period > 1)
        fprintf(out, "# a sample stands for %" PRIu64 " %s\n", meta->period, is_time ? "ns" : "events");
    for (i = 0; i < p->n_stacks; i++)
        total += p->stacks[i].weight;
    fprintf(out, "%s profile: total %" PRIu64 "\n", is_time ? "samples" : meta->sample_type, total);
}

static void print_map(FILE *out, const struct cp__profile *p)
{
    const struct cp__mapping *mapping;
    size_t i;

    fputs("--- Memory map: ---\n", out);
    for (i = 0; i < p->mappings.n; i++) {
        mapping = &p->mappings.items[i];
        if (mapping->process != 0 || mapping->file == NULL) /* of another process, or forgotten */
            continue;
        fprintf(out, "%" PRIx64 "-%" PRIx64 " r-xp %08" PRIx64 " 00:00 0 %s\n", mapping->start,
                mapping->limit, mapping->offset, mapping->file);
    }
}

struct text {
    const struct cp__profile *profile;
    const struct cp__profile_meta *meta;
};

static int print_profile(const void *what, FILE *out)
{
    const struct text *text = what;
    const struct cp__profile *p = text->profile;
    struct sorted *sorted = malloc((p->n_stacks + 1) * sizeof *sorted);
    size_t i;

    if (sorted == NULL)
        return -ENOMEM;
    for (i = 0; i < p->n_stacks; i++)
        sorted[i] = (struct sorted){&p->stacks[i], text->meta->contention != NULL ? cp__stack_values(p, i)[0]
                                                                                  : p->stacks[i].weight};
    qsort(sorted, p->n_stacks, sizeof(*sorted), compare_stacks);
    print_head(out, p, text->meta);
    for (i = 0; i < p->n_stacks; i++)
        print_stack(out, p, sorted[i].stack, text->meta);
    print_map(out, p);
    free(sorted);
    return 0;
}

int cp__profile_print(const struct cp__profile *p, const struct cp__profile_meta *meta, struct cp_writer *w)
{
    return cp__write_text(w, print_profile, &(struct text){p, meta});
}
