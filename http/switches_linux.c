#include "switches.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "atomic.h"
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

static uint64_t switches_so_far(void)
{
    struct rusage usage = {.ru_nvcsw = 0};

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t cpu_so_far_ns(void)
{
    return (uint64_t)cp__clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* How often a process was switched in its first milliseconds says little about what it will do. */
#define YOUNG_NS 10000000000u
/* More than a switch was seen to cost, and the least share that matters. */
#define MOST_NS 20000
#define LEAST_SHARE 0.01

static double all_its_life(void)
{
    return (double)switches_so_far() /
           (double)(greater(cpu_so_far_ns(), cp__http_process_age_ns()) + YOUNG_NS);
}

/* A look takes so long, and is good for all requests of the next second. */
#define LOOK_NS 50000000
#define LOOK_LASTS_NS 1000000000u

/* Shared, atomic: how many switches there would have been in a second by the last look, and when that look
 * was; 0: there was none. If two threads look at a time, either may have its way. */
static uint64_t last_switches, last_look_ns;

static uint64_t look_for_switches(void)
{
    const uint64_t switches = switches_so_far(), cpu_ns = cpu_so_far_ns();
    const uint64_t start_ns = (uint64_t)cp__clock_ns(CLOCK_MONOTONIC);
    uint64_t ns;

    nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    ns = greater(cpu_so_far_ns() - cpu_ns, (uint64_t)cp__clock_ns(CLOCK_MONOTONIC) - start_ns);
    return ns == 0 ? 0 : (switches_so_far() - switches) * 1000000000u / ns;
}

static double at_present(void)
{
    /* pairs with the release below */
    const uint64_t at = cp_load_acquire(&last_look_ns), now = (uint64_t)cp__clock_ns(CLOCK_MONOTONIC);

    if (at == 0 || now - at >= LOOK_LASTS_NS) {
        cp_store_relaxed(&last_switches, look_for_switches()); /* relaxed, both: the time orders them */
        cp_store_release(&last_look_ns, (uint64_t)cp__clock_ns(CLOCK_MONOTONIC)); /* pairs with the acquire */
    }
    return (double)cp_load_relaxed(&last_switches) / 1e9;
}

double cp__http_switches_a_ns(void)
{
    const double always = all_its_life(), now = at_present();
    const double a_ns = always > now ? always : now;

    return a_ns * MOST_NS < LEAST_SHARE ? 0 : a_ns;
}
