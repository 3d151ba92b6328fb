/* Measures blocks: see block.h. */
#include "block.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alike.h"
#include "image.h"
#include "runtime/base/fail.h"
#include "trace.h"

/* All copies together, in bytes: more than the core decodes ahead, and less than the cache for instructions.
 */
#define COPIES_BYTES 24576u
/* Fewer copies than this begin and end more than they repeat. */
#define LEAST_COPIES 8u
#define PRESET_RUNS 20u
/* Two timings differ if they do by more than this part. */
#define DIFFERENCE 0.05

struct cp_block {
    struct cp__host host;
    enum cp_block_clock clock;
    unsigned runs;
    struct cp__code code;
    struct cp__trace trace;
    uint8_t bytes[CP__IMAGE_SIZE];
};

/* ---- Mapping --------------------------------------------------------------------------------- */

/* Whether the copies have been run through: by the harness's int3. Flags that a block has set raise SIGTRAP,
 * too. */
static bool is_at_end(const struct cp__stop *stop)
{
    return !stop->has_ended && stop->signal == SIGTRAP && stop->code == SI_KERNEL;
}

static void say_where(const struct cp__image *image, const struct cp__stop *stop, char *detail, size_t size)
{
    snprintf(detail, size, "at byte %u", (unsigned)((stop->at - image->first_copy) % image->code->length));
}

static bool is_reserved(uint64_t address)
{
    return (address >= CP__SAVED && address < CP__RESERVED_END) ||
           (address >= CP__STUB && address < CP__IMAGE + CP__IMAGE_SIZE);
}

static void explain_stop(const struct cp__image *image, const struct cp__stop *stop,
                         struct cp_block_result *result)
{
    static const enum cp_block_status of_signal[] = {[SIGSEGV] = CP_BLOCK_BAD_ADDRESS,
                                                     [SIGILL] = CP_BLOCK_ILLEGAL,
                                                     [SIGFPE] = CP_BLOCK_ARITHMETIC,
                                                     [SIGPROF] = CP_BLOCK_ENDLESS};
    const size_t n = sizeof of_signal / sizeof of_signal[0];

    result->status = (size_t)stop->signal < n ? of_signal[stop->signal] : CP_BLOCK_MEASURED;
    if (result->status == CP_BLOCK_MEASURED)
        result->status = CP_BLOCK_ENDED;
    else if (result->status == CP_BLOCK_BAD_ADDRESS && stop->code == SI_KERNEL)
        result->status = CP_BLOCK_PROTECTION;
    else if (result->status == CP_BLOCK_BAD_ADDRESS && is_reserved(stop->address))
        result->status = CP_BLOCK_OWN_MEMORY;
    if (result->status == CP_BLOCK_BAD_ADDRESS || result->status == CP_BLOCK_OWN_MEMORY)
        snprintf(result->detail, sizeof result->detail, "%#llx", (unsigned long long)stop->address);
    else if (result->status == CP_BLOCK_ENDED)
        snprintf(result->detail, sizeof result->detail, "signal %d", stop->signal);
    else
        say_where(image, stop, result->detail, sizeof result->detail);
}

/* Runs the copies in a new guest until something stops it. */
static int run_mapped(struct cp_block *block, const struct cp__image *image, struct cp__stop *stop)
{
    const pid_t guest = cp__guest_start(&block->host);
    int result;

    if (guest < 0)
        return (int)guest;
    cp__traced_run(guest, image->start, stop);
    result = is_at_end(stop) ? cp__guest_bare(guest) : -ESRCH;
    if (result == 0)
        result = cp__guest_confine(guest);
    if (result == 0)
        cp__traced_run(guest, image->first_copy, stop);
    cp__guest_end(guest, NULL);
    return result;
}

/* Maps each page that the copies touch, and begins anew each time. */
static int map_touched(struct cp_block *block, struct cp__image *image, struct cp_block_result *result)
{
    struct cp__stop stop;
    int error;

    image->purpose = CP__IMAGE_MAPPING;
    error = cp__image_write(image, &block->host);
    while (error == 0) {
        error = run_mapped(block, image, &stop);
        if (error < 0 || is_at_end(&stop))
            break;
        if (stop.signal != SIGSEGV || stop.code != SEGV_MAPERR || !cp__host_may_map(stop.address)) {
            explain_stop(image, &stop, result);
            break;
        }
        error = cp__host_map(&block->host, stop.address);
    }
    result->pages = block->host.pages;
    if (error != -ENOSPC)
        return error;
    result->status = CP_BLOCK_MANY_PAGES;
    return 0;
}

/* ---- Tracing --------------------------------------------------------------------------------- */

static int trace_accesses(struct cp_block *block, const struct cp__image *image,
                          struct cp_block_result *result)
{
    struct cp__judge judge;
    const int error = cp__trace_run(&block->trace, image, &block->host, &judge, &result->traced);

    result->accesses = judge.accesses;
    result->unaligned = judge.unaligned;
    result->crossings = judge.crossings;
    result->may_alias = judge.may_alias;
    return error;
}

/* Maps all that the copies touch to so many physical pages, and traces the accesses. */
static int prepare_pages(struct cp_block *block, struct cp__image *image, unsigned physical,
                         struct cp_block_result *result)
{
    int error;

    cp__apart_choose(&block->trace.apart, physical);
    error = cp__host_clear(&block->host, &block->trace.apart);
    result->status = CP_BLOCK_MEASURED;
    result->detail[0] = '\0';
    result->physical = physical;
    if (error == 0)
        error = map_touched(block, image, result);
    if (error == 0 && result->status == CP_BLOCK_MEASURED)
        error = trace_accesses(block, image, result);
    return error;
}

/* ---- Timing ---------------------------------------------------------------------------------- */

/* What a run has brought, in cycles. */
struct run {
    struct cp__alike whole, half;
    unsigned switches;
};

/* Most clocks tick in steps. */
static uint64_t step_of(const uint64_t stamps[][2], uint64_t step)
{
    for (unsigned i = 0; i < CP__ALL_TIMINGS; i++) {
        uint64_t a = stamps[i][1] - stamps[i][0];

        while (a != 0) {
            const uint64_t rest = step % a;

            step = a;
            a = rest;
        }
    }
    return step;
}

/* Returns how many cycles a tick is; 0: that cannot be told, because the speed of the core changes. */
static double cycles_of_tick(const struct cp_block *block, const struct cp__saved *saved, uint64_t step)
{
    double times[2][CP__ALL_TIMINGS / 2];
    struct cp__alike alike[2];

    if (block->clock != CP_BLOCK_CLOCK_TSC)
        return 1;
    for (unsigned i = 0; i < CP__ALL_TIMINGS; i++)
        times[i % 2][i / 2] = (double)(saved->calibrations[i][1] - saved->calibrations[i][0]);
    for (unsigned i = 0; i < 2; i++) {
        alike[i] = cp__alike_find(times[i], CP__ALL_TIMINGS / 2, (double)step);
        if (alike[i].n < CP__ALL_TIMINGS / 4)
            return 0;
    }
    return CP__CALIBRATION_ADDS / (alike[1].time - alike[0].time);
}

static void judge_run(const struct cp_block *block, const struct cp__saved *saved, struct run *run)
{
    const uint64_t step = step_of(saved->timings, step_of(saved->calibrations, 0));
    const double cycles = cycles_of_tick(block, saved, step);
    double times[CP__ALL_TIMINGS];

    if (cycles == 0)
        return;
    for (unsigned i = 0; i < CP__ALL_TIMINGS; i++)
        times[i] = (double)(saved->timings[i][1] - saved->timings[i][0]) * cycles;
    run->whole = cp__alike_find(times + CP__WARM_TIMINGS, CP__TIMINGS, (double)step * cycles);
    run->half =
        cp__alike_find(times + CP__ALL_TIMINGS / 2 + CP__WARM_TIMINGS, CP__TIMINGS, (double)step * cycles);
}

/* Times the copies in a new guest. */
static int time_copies(struct cp_block *block, const struct cp__image *image, struct run *run,
                       struct cp_block_result *result)
{
    const pid_t guest = cp__guest_start(&block->host);
    struct cp__saved saved;
    struct cp__stop stop;
    struct rusage usage;
    int error;

    if (guest < 0)
        return (int)guest;
    error = cp__guest_confine(guest);
    if (error == 0)
        cp__traced_run(guest, image->start, &stop);
    if (error == 0 && is_at_end(&stop) && !cp__guest_read(guest, CP__SAVED, &saved, sizeof saved))
        error = -ESRCH;
    cp__guest_end(guest, &usage);
    if (error < 0)
        return error;
    if (!is_at_end(&stop))
        explain_stop(image, &stop, result);
    else if (saved.index != CP__ALL_TIMINGS)
        result->status = CP_BLOCK_OWN_MEMORY;
    else
        judge_run(block, &saved, run);
    run->switches = (unsigned)usage.ru_nivcsw;
    return 0;
}

/* The copies of the first half cost what all cost more than the second half does. */
static void tell_run(const struct run *run, const struct cp__image *image, struct cp_block_result *result)
{
    const unsigned half = image->copies / 2;

    result->cycles = (run->whole.time - run->half.time) / half;
    result->spread = result->cycles > 0 ? (run->whole.spread + run->half.spread) / half / result->cycles : 0;
    result->copies[0] = image->copies - half;
    result->copies[1] = image->copies;
    result->alike[0] = run->half.n;
    result->alike[1] = run->whole.n;
    result->switches = run->switches;
}

static bool is_enough(const struct run *run)
{
    return run->whole.n >= CP__TIMINGS / 2 && run->half.n >= CP__TIMINGS / 2 &&
           run->whole.time > run->half.time;
}

static bool is_better(const struct run *run, const struct cp_block_result *result)
{
    return run->whole.n + run->half.n > result->alike[0] + result->alike[1];
}

static int time_runs(struct cp_block *block, struct cp__image *image, struct cp_block_result *result)
{
    int error;

    image->purpose = CP__IMAGE_TIMING;
    error = cp__image_write(image, &block->host);
    result->status = CP_BLOCK_NOT_REPRODUCIBLE;
    while (error == 0 && result->status == CP_BLOCK_NOT_REPRODUCIBLE && result->runs < block->runs) {
        struct run run = {.switches = 0};

        error = time_copies(block, image, &run, result);
        result->runs++;
        if (error < 0 || result->status != CP_BLOCK_NOT_REPRODUCIBLE)
            break;
        if (is_better(&run, result))
            tell_run(&run, image, result);
        if (is_enough(&run))
            result->status = CP_BLOCK_MEASURED;
    }
    return error;
}

/* Times the copies again with subnormal numbers as what they are. */
static int time_subnormals(struct cp_block *block, struct cp__image *image, struct cp_block_result *result)
{
    struct cp_block_result again = *result;
    int error;

    again.runs = again.alike[0] = again.alike[1] = 0;
    image->has_subnormals = true;
    error = time_runs(block, image, &again);
    image->has_subnormals = false;
    if (error < 0 || again.status != CP_BLOCK_MEASURED)
        return error;
    result->subnormal_cycles = again.cycles;
    result->subnormal =
        again.cycles > result->cycles * (1 + DIFFERENCE) || again.cycles < result->cycles * (1 - DIFFERENCE);
    return 0;
}

static int time_block(struct cp_block *block, struct cp__image *image, struct cp_block_result *result)
{
    int error = 0;

    result->runs = 0;
    if (result->status == CP_BLOCK_MEASURED)
        error = time_runs(block, image, result);
    if (error == 0 && result->status == CP_BLOCK_MEASURED && block->code.has_floats)
        error = time_subnormals(block, image, result);
    return error;
}

/* ---- More physical pages --------------------------------------------------------------------- */

/* A load that does not have to wait any more makes a block no slower by itself. */
static bool is_truer(const struct cp_block_result *apart, const struct cp_block_result *together)
{
    if (apart->status != CP_BLOCK_MEASURED || together->status != CP_BLOCK_MEASURED)
        return apart->status == CP_BLOCK_MEASURED;
    if (!apart->may_alias)
        return apart->cycles <= together->cycles * (1 + DIFFERENCE);
    return apart->cycles < together->cycles;
}

static void choose_result(struct cp_block_result *result, const struct cp_block_result *apart)
{
    const struct cp_block_result together = *result;
    const bool are_both = apart->status == CP_BLOCK_MEASURED && together.status == CP_BLOCK_MEASURED;

    if (is_truer(apart, &together)) {
        *result = *apart;
        result->other_cycles = are_both ? together.cycles : 0;
    } else {
        result->other_cycles = are_both ? apart->cycles : 0;
    }
}

/* Measures again what may have waited for a store to another page only because both share a physical one:
 * with two, and if that changes nothing, with four. Some processors are slower then, as they are with any two
 * addresses that differ in their page only: so a result that is not faster says nothing. What a block loads
 * may be something else with more pages, and not all blocks can run so. */
static int try_apart(struct cp_block *block, struct cp__image *image, struct cp_block_result *result)
{
    struct cp_block_result apart = *result;
    unsigned physical = 1;
    int error;

    apart.subnormal = false;
    apart.cycles = apart.subnormal_cycles = 0;
    apart.alike[0] = apart.alike[1] = 0;
    do {
        physical *= 2;
        error = prepare_pages(block, image, physical, &apart);
    } while (error == 0 && apart.status == CP_BLOCK_MEASURED && apart.may_alias &&
             physical < CP__PHYSICAL_PAGES);
    if (error == 0)
        error = time_block(block, image, &apart);
    if (error == 0)
        choose_result(result, &apart);
    return error;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static unsigned copies_of(const struct cp__code *code)
{
    const unsigned copies = COPIES_BYTES / code->length / 2 * 2;

    return copies < 2 ? 2 : copies;
}

static bool has_run_through(const struct cp_block_result *result)
{
    return result->status == CP_BLOCK_MEASURED || result->status == CP_BLOCK_NOT_REPRODUCIBLE;
}

static int try_copies(struct cp_block *block, struct cp__image *image, struct cp_block_result *result)
{
    int error = prepare_pages(block, image, 1, result);

    if (error == 0)
        error = time_block(block, image, result);
    if (error == 0 && result->may_alias && has_run_through(result))
        error = try_apart(block, image, result);
    return error;
}

/* Fewer copies touch fewer pages and take less time. */
static bool is_for_fewer(const struct cp_block_result *result)
{
    return result->status == CP_BLOCK_MANY_PAGES || result->status == CP_BLOCK_ENDLESS;
}

static int measure_code(struct cp_block *block, struct cp_block_result *result)
{
    struct cp__image image = {.code = &block->code, .clock = block->clock, .bytes = block->bytes};
    unsigned copies = copies_of(&block->code);
    int error;

    cp__trace_begin(&block->trace, &block->code);
    do {
        image.copies = copies;
        error = try_copies(block, &image, result);
        copies = copies / 8 * 2;
    } while (error == 0 && is_for_fewer(result) && copies >= LEAST_COPIES);
    if (error != -ERANGE)
        return error;
    result->status = CP_BLOCK_BAD_ADDRESS;
    return 0;
}

int cp_block_measure(struct cp_block *block, const void *code, size_t size, struct cp_block_result *result,
                     struct cp_error *err)
{
    struct cp_block_result made = {.clock = block->clock};
    const size_t room = result->size;
    int error = 0;

    if (room < sizeof result->size)
        return cp__error(err, -EINVAL, "A result must have its size set before a block is measured.");
    made.size = room;
    made.status = cp__code_decode(&block->code, code, size, made.detail, sizeof made.detail);
    made.instructions = block->code.instructions;
    made.length = block->code.length;
    made.has_branch = block->code.has_branch;
    if (made.status == CP_BLOCK_MEASURED)
        error = measure_code(block, &made);
    memcpy(result, &made, room < sizeof made ? room : sizeof made);
    if (error < 0)
        return cp__error(err, error, "The process in which blocks run is gone, or does nothing any more: %s.",
                         strerror(-error));
    return 0;
}

int cp_block_open(struct cp_block **block, const struct cp_block_options *options, struct cp_error *err)
{
    struct cp_block *made = calloc(1, sizeof *made);
    int result;

    if (made == NULL)
        return cp__error(err, -ENOMEM, "There is not enough memory to measure blocks.");
    made->runs = options != NULL && options->runs != 0 ? options->runs : PRESET_RUNS;
    made->clock = cp__clock_works(CP_BLOCK_CLOCK_RDPRU) ? CP_BLOCK_CLOCK_RDPRU : CP_BLOCK_CLOCK_TSC;
    result = cp__host_open(&made->host, err);
    if (result < 0) {
        free(made);
        return result;
    }
    *block = made;
    return 0;
}

void cp_block_close(struct cp_block *block)
{
    if (block == NULL)
        return;
    cp__host_close(&block->host);
    free(block);
}
