/*
 * A profile as text, in the form that net/http/pprof gives its profiles with debug=1:
 *
 *     # comments
 *     NAME profile: total SAMPLES
 *     SAMPLES @ 0xADDRESS 0xADDRESS ...
 *     # labels: {"key":"value"}
 *     #	0xADDRESS	function	file:line
 *
 *     --- Memory map: ---
 *
 * Readers take each address for a return address, so each is one past the instruction that is meant. They
 * skip lines that begin with "#", and know no sample without an address: what has a name only stands in
 * such lines.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile_data.h"
#include "runtime/error.h"
#include "writer.h"

struct sink {
    struct cp_writer *w;
    int error; /* the first */
};

static ssize_t sink_write(void *cookie, const char *data, size_t size)
{
    struct sink *sink = cookie;

    if (sink->error == 0)
        sink->error = cp__write_all(sink->w, data, size);
    return sink->error == 0 ? (ssize_t)size : 0;
}

/* ---- A stack --------------------------------------------------------------------------------- */

static void print_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < ' ' || *text == 0x7f)
            fprintf(out, "\\u%04x", *text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

static void print_labels(FILE *out, const struct cp__profile *p, const struct cp__stack *stack)
{
    const struct cp_labels *labels;
    size_t i;

    if (stack->labels == 0)
        return;
    labels = p->label_sets[stack->labels - 1].labels;
    for (i = 0; i < cp_labels_count(labels); i++) {
        fputs(i == 0 ? "# labels: {" : ", ", out);
        print_quoted(out, cp_labels_key(labels, i));
        fputc(':', out);
        print_quoted(out, cp_labels_value(labels, i));
    }
    fputs("}\n", out);
}

static const char *string(const struct cp__profile *p, uint32_t number)
{
    return number != 0 ? cp__strings_get(&p->strings, number) : "?";
}

/* What was inlined has a line of its own. */
static void print_frame(FILE *out, const struct cp__profile *p, const struct cp__frame *frame)
{
    const struct cp__line *line;
    uint32_t i;

    if (frame->name != 0) {
        fprintf(out, "#\t%s\n", p->names[frame->name - 1]);
        return;
    }
    if (frame->n_lines == 0)
        fprintf(out, "#\t%#" PRIx64 "\n", frame->address + 1);
    for (i = 0; i < frame->n_lines; i++) {
        line = &p->lines[frame->first_line + i];
        fprintf(out, "#\t%#" PRIx64 "\t%s", frame->address + 1, string(p, p->functions[line->function].name));
        if (p->functions[line->function].file != 0)
            fprintf(out, "\t%s:%" PRIu32, string(p, p->functions[line->function].file), line->line);
        fputc('\n', out);
    }
}

static const struct cp__frame *frame_of(const struct cp__profile *p, const struct cp__stack *stack,
                                        uint32_t i)
{
    return &p->frames[p->stack_frames[stack->first + i]];
}

static void print_stack(FILE *out, const struct cp__profile *p, const struct cp__stack *stack)
{
    bool has_address = false;
    uint32_t i;

    for (i = 0; i < stack->depth; i++) {
        if (frame_of(p, stack, i)->name != 0)
            continue;
        if (!has_address)
            fprintf(out, "%" PRIu64 " @", stack->weight);
        fprintf(out, " %#" PRIx64, frame_of(p, stack, i)->address + 1);
        has_address = true;
    }
    if (!has_address)
        fprintf(out, "# %" PRIu64, stack->weight);
    fputc('\n', out);
    print_labels(out, p, stack);
    for (i = 0; i < stack->depth; i++)
        print_frame(out, p, frame_of(p, stack, i));
    fputc('\n', out);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    const struct cp__stack *a = *(const struct cp__stack *const *)left;
    const struct cp__stack *b = *(const struct cp__stack *const *)right;

    if (a->weight != b->weight)
        return a->weight < b->weight ? 1 : -1;
    return a < b ? -1 : a > b;
}

static void print_head(FILE *out, const struct cp__profile *p, const struct cp__profile_meta *meta)
{
    bool is_time = strcmp(meta->sample_unit, "nanoseconds") == 0;
    uint64_t total = 0;
    size_t i;

    for (i = 0; i < meta->n_comments; i++)
        fprintf(out, "# %s\n", meta->comments[i]);
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
        fprintf(out, "%" PRIx64 "-%" PRIx64 " r-xp %08" PRIx64 " 00:00 0 %s\n", mapping->start,
                mapping->limit, mapping->offset, mapping->file);
    }
}

static int print(FILE *out, const struct cp__profile *p, const struct cp__profile_meta *meta)
{
    const struct cp__stack **sorted = malloc((p->n_stacks + 1) * sizeof *sorted);
    size_t i;

    if (sorted == NULL)
        return -ENOMEM;
    for (i = 0; i < p->n_stacks; i++)
        sorted[i] = &p->stacks[i];
    qsort(sorted, p->n_stacks, sizeof(*sorted), compare);
    print_head(out, p, meta);
    for (i = 0; i < p->n_stacks; i++)
        print_stack(out, p, sorted[i]);
    print_map(out, p);
    free(sorted);
    return 0;
}

int cp__profile_print(const struct cp__profile *p, const struct cp__profile_meta *meta, struct cp_writer *w,
                      struct cp_error *err)
{
    struct sink sink = {.w = w};
    FILE *out = fopencookie(&sink, "w", (cookie_io_functions_t){.write = sink_write});
    int result = -ENOMEM;

    if (out != NULL) {
        result = print(out, p, meta);
        if (fclose(out) != 0 && result == 0)
            result = sink.error != 0 ? sink.error : -EIO;
    }
    if (result == 0)
        result = sink.error;
    if (result < 0)
        cp__error(err, result, "The profile could not be written to the %s: %s.", w->ops->what,
                  strerror(-result));
    return result;
}
