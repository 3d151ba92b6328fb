/* The layout of records: perf_event_open(2) defines it, and nothing else in this library knows it. */
#include "record.h"

struct cp__record_layout cp__record_layout_from_handler(const struct cp_cpu_profile_config *config)
{
    struct cp__record_layout layout = {.ip = 0};
    uint8_t at = 2; /* header, identifier */

    if (config->is_sample_ip_included)
        layout.ip = at++;
    if (config->is_sample_addr_included)
        layout.addr = at++;
    layout.count = at;
    if (config->is_sample_callchain_included)
        layout.chain = (uint8_t)(at + (cp__perf_has_lost_count ? 4 : 3));
    return layout;
}
