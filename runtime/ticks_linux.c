/*
 * The kernel's clock costs a call into the vDSO, which takes twice as long as the processor's own
 * instruction. If the kernel itself takes that instruction for its clock, the ticks of all CPUs agree, and go
 * on at one rate: the kernel has looked. So their rate is measured once, and needs no correction but the
 * kernel's own small ones, which are below 500 millionths.
 */
#include "ticks.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/sys_linux.h"

#define MEASURED_NS 2000000u
#define TRIALS 16

struct cp__ticks_clock cp__ticks_clock;

/* Reads both clocks at one moment: the closest of some trials. */
static void read_both(uint64_t *ticks, uint64_t *ns)
{
    uint64_t closest = UINT64_MAX;

    for (int i = 0; i < TRIALS; i++) {
        const uint64_t before = cp__ticks();
        const uint64_t now = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
        const uint64_t after = cp__ticks();

        if (after - before >= closest)
            continue;
        closest = after - before;
        *ticks = before + closest / 2;
        *ns = now;
    }
}

static bool kernel_takes_ticks(void)
{
    char name[32];
    int fd = cp__sys_open_from_handler("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    long size = fd < 0 ? -1 : cp__sys_read_from_handler(fd, name, sizeof name - 1);

    if (fd >= 0)
        cp__sys_close_from_handler(fd);
    if (size <= 0)
        return false;
    name[size] = '\0';
    return strcmp(name, CP__TICKS_CLOCK "\n") == 0;
}

static void decide_clock(void)
{
    struct cp__ticks_clock clock = {.by_ticks = true};

    if (!cp__ticks_are_steady() || !kernel_takes_ticks())
        return;
    read_both(&clock.ticks, &clock.ns);
    cp__ticks_clock = clock;
}

void cp__ticks_prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, decide_clock);
}

static void measure_rate(void)
{
    struct cp__ticks_clock *clock = &cp__ticks_clock;
    uint64_t ticks = 0, ns = 0;

    if (!clock->by_ticks)
        return;
    do {
        read_both(&ticks, &ns);
    } while (ns - clock->ns < MEASURED_NS || ticks == clock->ticks);
    clock->ns_per_tick = (uint64_t)(((unsigned __int128)(ns - clock->ns) << 32) / (ticks - clock->ticks));
}

void cp__ticks_measure(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    cp__ticks_prepare();
    pthread_once(&once, measure_rate);
}
