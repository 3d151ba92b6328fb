/* What a run of a block's copies consists of, in the memory of a host: code, and what that code reads. */
#ifndef COUNTERPOINT_BLOCK_IMAGE_H
#define COUNTERPOINT_BLOCK_IMAGE_H

#include "code.h"
#include "layout.h"
#include "operands.h"
#include "process.h"

/* What the harness reads and writes at CP__SAVED. layout.h has the offsets. */
struct cp__saved {
    uint32_t index, end; /* of timings: the next one, and how many there are */
    uint32_t half;       /* from this one on, only the second half of the copies runs */
    uint32_t page_words; /* of all physical pages, 64 bits each */
    uint64_t head, entry, short_entry;
    uint64_t xstate_mask;
    uint64_t begin; /* the clock before the block */
    uint64_t flags;
    uint64_t registers[16] __attribute__((aligned(128)));
    uint64_t calibrations[CP__ALL_TIMINGS][2] __attribute__((aligned(256))); /* begin and end of each */
    uint64_t timings[CP__ALL_TIMINGS][2] __attribute__((aligned(1024)));
    uint8_t xstate[4096] __attribute__((aligned(2048)));
};

/* Where the block stands in what is relative to its place: not where its copies are, so that none of these is
 * read or written. */
#define CP__NOMINAL (CP__IMAGE + 0x1000000)

/* What a run is for. The first two stop before the first copy and behind the last one. */
enum cp__image_purpose {
    CP__IMAGE_MAPPING, /* finds the pages that are touched */
    CP__IMAGE_TRACING, /* logs all accesses */
    CP__IMAGE_TIMING
};

/* A run to be made. */
struct cp__image {
    const struct cp__code *code;
    unsigned copies;
    enum cp__image_purpose purpose;
    bool has_subnormals;                 /* these count as what they are; otherwise as 0 */
    const struct cp__operands *operands; /* if it is traced */
    enum cp_block_clock clock;
    uint8_t *bytes;      /* CP__IMAGE_SIZE, to put the code together in */
    uint64_t start;      /* where a guest begins */
    uint64_t first_copy; /* where the copies do */
};

/* Writes the image into the host, and sets its addresses. Returns 0; -ERANGE: what is relative to the block's
 * place is out of reach; -ESRCH: the host is no more. */
int cp__image_write(struct cp__image *image, const struct cp__host *host);

/* Returns whether the clock can be read here. */
bool cp__clock_works(enum cp_block_clock clock);

#endif
