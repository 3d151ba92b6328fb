/* See trace.h. */
#include "trace.h"

#include <errno.h>
#include <signal.h>

/* What an image has besides copies, at most. */
#define HARNESS_BYTES 1024u

void cp__trace_begin(struct cp__trace *trace, const struct cp__code *code)
{
    cp__apart_begin(&trace->apart);
    trace->is_complete = cp__operands_find(&trace->operands, code, CP__NOMINAL);
}

static unsigned fit_copies(const struct cp__trace *trace, const struct cp__image *image)
{
    const struct cp__operands *operands = &trace->operands;
    unsigned copies = (CP__IMAGE_SIZE - HARNESS_BYTES) / (image->code->length + operands->extra);

    if (!trace->is_complete)
        return 0;
    if (operands->slots > 0 && CP__LOG_SIZE / 8 / operands->slots < copies)
        copies = CP__LOG_SIZE / 8 / operands->slots;
    return copies < image->copies ? copies : image->copies;
}

static bool is_trap(const struct cp__stop *stop)
{
    return !stop->has_ended && stop->signal == SIGTRAP;
}

/* Runs the guest from the harness to the first copy, and from there to the end. Stores whether it came to its
 * end, and what it has logged. */
static int run_traced(pid_t guest, const struct cp__image *image, struct cp__trace *trace, bool *has_ended)
{
    struct cp__stop stop;
    int error;

    cp__traced_run(guest, image->start, &stop);
    if (!is_trap(&stop))
        return -ESRCH;
    error = cp__guest_confine(guest);
    if (error < 0)
        return error;
    cp__traced_run(guest, image->first_copy, &stop);
    *has_ended = is_trap(&stop);
    if (*has_ended &&
        !cp__guest_read(guest, CP__LOG, trace->log, (size_t)trace->operands.slots * image->copies * 8))
        return -ESRCH;
    return 0;
}

int cp__trace_run(struct cp__trace *trace, const struct cp__image *image, const struct cp__host *host,
                  struct cp__judge *judge, unsigned *copies)
{
    struct cp__image traced = *image;
    bool has_ended = false;
    pid_t guest;
    int error;

    cp__judge_begin(judge, &trace->apart);
    *copies = 0;
    traced.purpose = CP__IMAGE_TRACING;
    traced.operands = &trace->operands;
    traced.copies = fit_copies(trace, image);
    if (traced.copies == 0)
        return 0;
    if (trace->operands.n == 0) {
        *copies = traced.copies;
        return 0;
    }
    error = cp__image_write(&traced, host);
    if (error < 0)
        return error;
    guest = cp__guest_start(host);
    if (guest < 0)
        return (int)guest;
    error = run_traced(guest, &traced, trace, &has_ended);
    cp__guest_end(guest, NULL);
    if (error < 0 || !has_ended)
        return error;
    *copies = traced.copies;
    cp__operands_judge(&trace->operands, trace->log, traced.copies, judge);
    return 0;
}
