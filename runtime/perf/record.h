/*
 * Records of perf_event_open(2), as bytes: nothing here knows of an M. What a record means to the thread that
 * caused it is for whoever reads it: see engine/ring_linux.c.
 */
#ifndef COUNTERPOINT_RUNTIME_PERF_RECORD_H
#define COUNTERPOINT_RUNTIME_PERF_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "perf_linux.h"

/* A part of a ring's data: the bytes from position at up to position end, as the kernel counts them. Records
 * are whole words, so none of them is torn at the end of the data. */
struct cp__records {
    const uint64_t *words; /* the data */
    size_t n_words;        /* of the data; a power of 2 */
    uint64_t at;
    uint64_t end;
};

/* What all records have. */
struct cp__record {
    const uint64_t *words; /* the ring's data */
    size_t mask;           /* of a word's number in the data */
    uint64_t first;        /* the number of the record's first word, before the mask */
    uint64_t position;     /* of the record's first byte, as the kernel counts bytes */
    size_t n_words;
    uint32_t type; /* PERF_RECORD_... */
    uint16_t misc;
    /* Of a SAMPLE, LOST, THROTTLE or UNTHROTTLE record: the event that it names; else 0. */
    uint64_t id;
};

/* Where the parts of an event's samples are, in words from the header on; 0: the samples lack that part. What
 * follows the chain, which has any length, are the registers. */
struct cp__record_layout {
    uint8_t ip;
    uint8_t addr;
    uint8_t count;
    uint8_t chain; /* the number of entries, then the entries */
    uint8_t fixed; /* the number of words before chain and registers */
    bool has_registers;
};

/* What each SAMPLE record has. */
struct cp__record_sample {
    struct cp__count count;
    size_t chain; /* the word with which the chain's entries begin */
    size_t n_chain;
    bool has_user_pc; /* the next two are known: where the program was in user mode */
    uintptr_t user_sp;
    uintptr_t user_pc;
};

/* Returns word number i of a record. A number beyond the record's end gives a word of the ring. */
static inline uint64_t cp__record_word_from_handler(const struct cp__record *record, size_t i)
{
    return record->words[(record->first + i) & record->mask];
}
/* Returns the layout of the samples of an event that was opened with this sample_type by
 * cp__perf_sample_attr_from_handler(). */
struct cp__record_layout cp__record_layout_from_handler(uint64_t sample_type);
/* Returns whether the records have fields of their own besides count and place; is_precise: the address is
 * one. */
static inline bool cp__record_has_detail(const struct cp__record_layout *layout, bool is_precise)
{
    return layout->addr != 0 || layout->chain != 0 || (is_precise && layout->ip != 0);
}
/* Returns the word of a part that has one; 0 if the samples lack that part. */
static inline uint64_t cp__record_part_from_handler(const struct cp__record *record, uint8_t part)
{
    return part != 0 ? cp__record_word_from_handler(record, part) : 0;
}
/* Return how many records a LOST record tells of, and the time in ns of a THROTTLE or UNTHROTTLE record. */
static inline uint64_t cp__record_lost_from_handler(const struct cp__record *record)
{
    return cp__record_word_from_handler(record, 2);
}
static inline uint64_t cp__record_time_from_handler(const struct cp__record *record)
{
    return cp__record_word_from_handler(record, 1);
}

/* ---- Decoding, in the header because the handler does it for each record ---- */

/* The words of LOST, THROTTLE and UNTHROTTLE records. With attr.sample_id_all others would follow. */
#define CP__RECORD_LOST_WORDS 3
#define CP__RECORD_THROTTLE_WORDS 4

/* Returns the number of the word that names the record's event; 0: none does. */
static inline size_t cp__record_id_word(const struct cp__record *record)
{
    switch (record->type) {
    case PERF_RECORD_SAMPLE: /* PERF_SAMPLE_IDENTIFIER comes first */
        return record->n_words > 1 ? 1 : 0;
    case PERF_RECORD_LOST: /* id, how many */
        return record->n_words >= CP__RECORD_LOST_WORDS ? 1 : 0;
    case PERF_RECORD_THROTTLE:
    case PERF_RECORD_UNTHROTTLE: /* time, id, stream id */
        return record->n_words >= CP__RECORD_THROTTLE_WORDS ? 2 : 0;
    default:
        return 0;
    }
}

/* Reads the next record. Returns false if there is none: at the end, or if the bytes from at on are no
 * record. The record is valid while the ring's data are. */
static inline bool cp__record_next_from_handler(struct cp__records *records, struct cp__record *record)
{
    struct perf_event_header header;
    uint64_t word;
    size_t id;

    /* more than the data has: the program has written over the position up to which the kernel has written */
    if (records->at == records->end || records->end - records->at > records->n_words * sizeof word)
        return false;
    record->words = records->words;
    record->mask = records->n_words - 1;
    record->position = records->at;
    record->first = records->at / sizeof word;
    word = cp__record_word_from_handler(record, 0);
    memcpy(&header, &word, sizeof header);
    if (header.size < sizeof header || header.size % sizeof word != 0 ||
        header.size > records->end - records->at)
        return false;
    record->n_words = header.size / sizeof word;
    record->type = header.type;
    record->misc = header.misc;
    id = cp__record_id_word(record);
    record->id = id != 0 ? cp__record_word_from_handler(record, id) : 0;
    records->at += header.size;
    return true;
}

/* Reads a SAMPLE record. Returns false if the record's length is not what its parts have. The
 * registers are those of CP__PERF_REGS. */
static inline bool cp__record_sample_from_handler(const struct cp__record *record,
                                                  const struct cp__record_layout *layout,
                                                  struct cp__record_sample *sample)
{
    size_t at = layout->fixed, count = layout->count;

    sample->count.value = count != 0 ? cp__record_word_from_handler(record, count) : 0;
    sample->count.time_enabled = count != 0 ? cp__record_word_from_handler(record, count + 1) : 0;
    sample->count.time_running = count != 0 ? cp__record_word_from_handler(record, count + 2) : 0;
    sample->count.lost =
        count != 0 && cp__perf_has_lost_count ? cp__record_word_from_handler(record, count + 3) : 0;
    sample->n_chain = sample->chain = 0;
    sample->has_user_pc = false;
    sample->user_sp = sample->user_pc = 0;
    if (layout->chain != 0) {
        sample->n_chain = cp__record_word_from_handler(record, at);
        sample->chain = at + 1;
        if (sample->n_chain > record->n_words)
            return false;
        at += 1 + sample->n_chain;
    }
    if (layout->has_registers && cp__record_word_from_handler(record, at++) != PERF_SAMPLE_REGS_ABI_NONE) {
        sample->has_user_pc = true;
        sample->user_sp = (uintptr_t)cp__record_word_from_handler(record, at++);
        sample->user_pc = (uintptr_t)cp__record_word_from_handler(record, at++);
    }
    return at == record->n_words;
}

#endif
