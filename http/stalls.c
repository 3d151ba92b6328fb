#include "stalls.h"

#include <inttypes.h>

#include "stall.h"

void cp__http_print_stalls(FILE *out)
{
    struct cp_stalls_stats stats = {.size = sizeof stats};

    if (cp_stalls_stats(&stats) < 0 || stats.threshold_ns == 0)
        return;
    fputs("# HELP counterpoint_stalls_total Times that a G held its thread for longer than the threshold.\n"
          "# TYPE counterpoint_stalls_total counter\n",
          out);
    for (unsigned kind = 0; kind < CP_STALL_KINDS; kind++)
        fprintf(out, "counterpoint_stalls_total{kind=\"%s\"} %" PRIu64 "\n",
                cp_stall_kind_name((enum cp_stall_kind)kind), stats.stalls[kind]);
    fputs("# HELP counterpoint_stall_seconds_total How long these stalls have lasted.\n"
          "# TYPE counterpoint_stall_seconds_total counter\n",
          out);
    for (unsigned kind = 0; kind < CP_STALL_KINDS; kind++)
        fprintf(out, "counterpoint_stall_seconds_total{kind=\"%s\"} %" PRIu64 ".%09" PRIu64 "\n",
                cp_stall_kind_name((enum cp_stall_kind)kind), stats.ns[kind] / 1000000000,
                stats.ns[kind] % 1000000000);
}
