#include "cost.h"
#include "runtime/base/sysctl_linux.h"

/* The guess if the kernel does not tell the frequency. The guess is higher than most processors' frequency,
 * because a period that is refused without need does less harm than a period that is too short. */
#define GUESSED_HZ 5000000000u

uint64_t cp__os_highest_hz(void)
{
    static uint64_t known;                 /* shared, atomic */
    uint64_t hz = cp_load_relaxed(&known); /* relaxed: nothing else depends on the number */
    double found;

    if (hz != 0)
        return hz;
    found = 1e3 * cp__file_number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "%lf", 0);
    if (found == 0)
        found = 1e6 * cp__file_number("/proc/cpuinfo", "cpu MHz : %lf", 0);
    hz = found < 1e8 ? GUESSED_HZ : (uint64_t)found;
    cp_store_relaxed(&known, hz); /* relaxed: nothing else depends on the number */
    return hz;
}
