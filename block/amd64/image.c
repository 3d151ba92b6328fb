/* See block/image.h. */
#include "block/image.h"

#include <cpuid.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "block/harness.h"

/* The copies begin a line of the cache. */
#define ALIGNMENT 64u

_Static_assert(offsetof(struct cp__saved, end) == CP__SAVED_END, "layout.h");
_Static_assert(offsetof(struct cp__saved, half) == CP__SAVED_HALF, "layout.h");
_Static_assert(offsetof(struct cp__saved, page_words) == CP__SAVED_PAGE_WORDS, "layout.h");
_Static_assert(offsetof(struct cp__saved, head) == CP__SAVED_HEAD, "layout.h");
_Static_assert(offsetof(struct cp__saved, entry) == CP__SAVED_ENTRY, "layout.h");
_Static_assert(offsetof(struct cp__saved, short_entry) == CP__SAVED_SHORT_ENTRY, "layout.h");
_Static_assert(offsetof(struct cp__saved, xstate_mask) == CP__SAVED_XSTATE_MASK, "layout.h");
_Static_assert(offsetof(struct cp__saved, begin) == CP__SAVED_BEGIN, "layout.h");
_Static_assert(offsetof(struct cp__saved, flags) == CP__SAVED_FLAGS, "layout.h");
_Static_assert(offsetof(struct cp__saved, registers) == CP__SAVED_REGISTERS, "layout.h");
_Static_assert(offsetof(struct cp__saved, calibrations) == CP__SAVED_CALIBRATIONS, "layout.h");
_Static_assert(offsetof(struct cp__saved, timings) == CP__SAVED_TIMINGS, "layout.h");
_Static_assert(offsetof(struct cp__saved, xstate) == CP__SAVED_XSTATE, "layout.h");
_Static_assert(sizeof(struct cp__saved) <= CP__SAVED_SIZE, "layout.h");

/* ---- The extended state ---------------------------------------------------------------------- */

/* Components of the state, by their numbers in XCR0. */
enum { X87 = 0, SSE = 1, AVX = 2, OPMASK = 5, ZMM_HI256 = 6, HI16_ZMM = 7 };
#define COMPONENTS (1u << X87 | 1u << SSE | 1u << AVX | 1u << OPMASK | 1u << ZMM_HI256 | 1u << HI16_ZMM)
/* All exceptions are masked. */
#define MXCSR 0x1f80u
/* Subnormal numbers count as 0 (FTZ and DAZ). */
#define MXCSR_WITHOUT_SUBNORMALS 0x8040u

static uint64_t components_here(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0)
        return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return a & COMPONENTS;
}

static void fill_words(uint8_t *to, size_t size, uint64_t word)
{
    for (size_t i = 0; i < size; i += sizeof word)
        memcpy(to + i, &word, sizeof word);
}

/* Fills a component that lies where the processor says. */
static void fill_component(uint8_t *state, uint64_t mask, unsigned component, uint64_t word)
{
    unsigned size, offset, c, d;

    if ((mask >> component & 1) != 0 && __get_cpuid_count(0xd, component, &size, &offset, &c, &d) &&
        offset + size <= sizeof((struct cp__saved *)0)->xstate)
        fill_words(state + offset, size, word);
}

/* Four of the eight registers of the x87 are full, so that others can be pushed and these be popped. */
static void fill_x87(uint8_t *state)
{
    static const uint8_t one[10] = {0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f};
    const uint16_t control = 0x37f;

    memcpy(state, &control, sizeof control);
    state[4] = 0x0f; /* the tags: which are full */
    for (unsigned i = 0; i < 4; i++)
        memcpy(state + 32 + 16 * i, one, sizeof one);
}

static void fill_xstate(struct cp__saved *saved, bool has_subnormals)
{
    const uint32_t mxcsr = MXCSR | (has_subnormals ? 0 : MXCSR_WITHOUT_SUBNORMALS);
    uint8_t *state = saved->xstate;

    saved->xstate_mask = components_here();
    fill_x87(state);
    memcpy(state + 24, &mxcsr, sizeof mxcsr);
    fill_words(state + 160, (size_t)16 * 16, CP__WORD);
    memcpy(state + 512, &saved->xstate_mask, sizeof saved->xstate_mask);
    fill_component(state, saved->xstate_mask, AVX, CP__WORD);
    fill_component(state, saved->xstate_mask, OPMASK, ~(uint64_t)0);
    fill_component(state, saved->xstate_mask, ZMM_HI256, CP__WORD);
    fill_component(state, saved->xstate_mask, HI16_ZMM, CP__WORD);
}

/* ---- Clocks ---------------------------------------------------------------------------------- */

bool cp__clock_works(enum cp_block_clock clock)
{
    unsigned a, b, c, d;

    if (components_here() == 0)
        return false;
    if (clock == CP_BLOCK_CLOCK_TSC)
        return true;
    return __get_cpuid(0x80000008, &a, &b, &c, &d) && (b >> 4 & 1) != 0;
}

/* ---- The image ------------------------------------------------------------------------------- */

struct part {
    const unsigned char *begin, *end;
};
#define PART(name)                                                                                           \
    {                                                                                                        \
        cp__harness_##name, cp__harness_##name##_end                                                         \
    }
struct harness {
    struct part head, tail;
};
static const struct harness mapping = {PART(map_head), PART(map_tail)};
static const struct harness timing[] = {
    [CP_BLOCK_CLOCK_TSC] = {PART(tsc_head), PART(tsc_tail)},
    [CP_BLOCK_CLOCK_RDPRU] = {PART(rdpru_head), PART(rdpru_tail)},
};

/* Code that is being put together. */
struct writing {
    uint8_t *bytes;
    size_t size;
};

static uint64_t next_place(const struct writing *writing)
{
    return CP__IMAGE + writing->size;
}

static void align(struct writing *writing)
{
    while (writing->size % ALIGNMENT != 0)
        writing->bytes[writing->size++] = 0x90; /* nop */
}

/* Returns where the part is. */
static uint64_t add_part(struct writing *writing, const struct part *part)
{
    const uint64_t place = next_place(writing);

    memcpy(writing->bytes + writing->size, part->begin, (size_t)(part->end - part->begin));
    writing->size += (size_t)(part->end - part->begin);
    return place;
}

/* Returns its bytes; 0: it reaches too far. */
static unsigned write_copy(const struct writing *writing, const struct cp__image *image, unsigned number)
{
    const uint64_t place = next_place(writing);
    uint8_t *to = writing->bytes + writing->size;

    if (image->purpose == CP__IMAGE_TRACING)
        return cp__operands_copy(image->operands, image->code, CP__NOMINAL, place, number, to);
    return cp__code_copy(image->code, CP__NOMINAL, place, to) ? image->code->length : 0;
}

static bool add_copies(struct writing *writing, const struct cp__image *image)
{
    for (unsigned i = 0; i < image->copies; i++) {
        const unsigned size = write_copy(writing, image, i);

        if (size == 0)
            return false;
        writing->size += size;
    }
    return true;
}

static void fill_saved(struct cp__saved *saved, const struct cp__image *image, const struct cp__host *host)
{
    memset(saved, 0, sizeof *saved);
    saved->end = CP__ALL_TIMINGS;
    saved->half = CP__ALL_TIMINGS / 2;
    saved->page_words = host->physical * 512;
    saved->head = image->start;
    saved->entry = image->first_copy;
    saved->short_entry = image->first_copy + (uint64_t)(image->copies / 2) * image->code->length;
    saved->flags = 0x202;
    for (unsigned i = 0; i < 16; i++)
        saved->registers[i] = CP__WORD;
    fill_xstate(saved, image->has_subnormals);
}

static bool write_code(struct cp__image *image, struct writing *writing)
{
    const struct harness *harness = image->purpose == CP__IMAGE_TIMING ? &timing[image->clock] : &mapping;

    image->start = add_part(writing, &harness->head);
    align(writing);
    image->first_copy = next_place(writing);
    if (!add_copies(writing, image))
        return false;
    add_part(writing, &harness->tail);
    return true;
}

int cp__image_write(struct cp__image *image, const struct cp__host *host)
{
    struct writing writing = {.bytes = image->bytes};
    struct cp__saved saved;

    if (!write_code(image, &writing))
        return -ERANGE;
    fill_saved(&saved, image, host);
    return cp__host_write(host, CP__IMAGE, image->bytes, writing.size) &&
                   cp__host_write(host, CP__SAVED, &saved, sizeof saved)
               ? 0
               : -ESRCH;
}
