/*
 * Records of perf_event_open(2), as bytes: nothing here knows of an M. What a record means to the thread that
 * caused it is for whoever reads it: see engine/ring_linux.c.
 */
#ifndef COUNTERPOINT_RUNTIME_PERF_RECORD_H
#define COUNTERPOINT_RUNTIME_PERF_RECORD_H

#include "perf_linux.h"

/* Where the parts of a sample's record are, in words from the record's header on; 0: the record does not have
 * that part. The kernel writes the parts in this order. */
struct cp__record_layout {
    uint8_t ip;
    uint8_t addr;
    uint8_t count; /* struct cp__count */
    uint8_t chain; /* the number of entries, then the entries */
};

/* Returns where the parts of a record are, if cp__perf_sample_attr_from_handler() asks for them. */
struct cp__record_layout cp__record_layout_from_handler(const struct cp_cpu_profile_config *config);

#endif
