/* Where the parts of a sample are: perf_event_open(2) defines it. */
#include "record.h"

/* The kernel writes the parts in this order. */
struct cp__record_layout cp__record_layout_from_handler(uint64_t sample_type)
{
    struct cp__record_layout layout = {.has_registers = (sample_type & PERF_SAMPLE_REGS_USER) != 0};
    uint8_t at = 2; /* header, identifier */

    if ((sample_type & PERF_SAMPLE_IP) != 0)
        layout.ip = at++;
    if ((sample_type & PERF_SAMPLE_ADDR) != 0)
        layout.addr = at++;
    if ((sample_type & PERF_SAMPLE_READ) != 0) {
        layout.count = at;
        at = (uint8_t)(at + (cp__perf_has_lost_count ? 4 : 3));
    }
    layout.fixed = at;
    if ((sample_type & PERF_SAMPLE_CALLCHAIN) != 0)
        layout.chain = at;
    return layout;
}
