#include "switches.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base/clock.h"

/* The 22nd word of /proc/self/stat has when the process began, in ticks since the machine's start. The second
 * word is the name of a file, and may have anything in it. */
static uint64_t start_ns(void)
{
    FILE *file = fopen("/proc/self/stat", "re");
    unsigned long long ticks = 0;
    char text[1024];
    size_t n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    const char *at;

    if (file != NULL)
        fclose(file);
    text[n] = '\0';
    at = strrchr(text, ')');
    for (int word = 2; at != NULL && word < 22; word++)
        at = strchr(at + 1, ' ');
    if (at == NULL || sscanf(at, "%llu", &ticks) != 1)
        return UINT64_MAX;
    return ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

uint64_t cp__http_process_age_ns(void)
{
    const uint64_t start = start_ns(), now = (uint64_t)cp__clock_ns(CLOCK_BOOTTIME);

    return now > start ? now - start : 0;
}

/* How often a process was switched in its first milliseconds says little about what it will do. */
#define YOUNG_NS 10000000000u
/* More than a switch was seen to cost, and the least share that matters. */
#define MOST_NS 20000
#define LEAST_SHARE 0.01

double cp__http_switches_a_ns(void)
{
    const uint64_t cpu = (uint64_t)cp__clock_ns(CLOCK_PROCESS_CPUTIME_ID), age = cp__http_process_age_ns();
    struct rusage usage = {.ru_nvcsw = 0};
    double a_ns;

    getrusage(RUSAGE_SELF, &usage);
    a_ns = ((double)usage.ru_nvcsw + (double)usage.ru_nivcsw) / (double)((cpu > age ? cpu : age) + YOUNG_NS);
    return a_ns * MOST_NS < LEAST_SHARE ? 0 : a_ns;
}
