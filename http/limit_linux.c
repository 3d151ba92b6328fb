/* See events.h. */
#include <inttypes.h>
#include <stdio.h>

#include "events.h"

const char *cp__http_max_rate_file = "/proc/sys/kernel/perf_event_max_sample_rate";

uint64_t cp__http_max_rate(void)
{
    FILE *file = fopen(cp__http_max_rate_file, "re");
    uint64_t rate = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%" SCNu64, &rate) != 1)
        rate = 0;
    fclose(file);
    return rate;
}
