#include <stdio.h>

#include "cost.h"

/* The guess if the kernel does not tell the frequency. The guess is higher than most processors' frequency,
 * because a period that is refused without need does less harm than a period that is too short. */
#define GUESSED_HZ 5000000000u

/* Returns a number from the first line of a file that has this format; 0 if no line has. */
static double read_file_number(const char *path, const char *format)
{
    FILE *file = fopen(path, "re");
    char line[256];
    double number = 0;

    if (file == NULL)
        return 0;
    while (number == 0 && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, format, &number) != 1)
            number = 0;
    }
    fclose(file);
    return number;
}

uint64_t cp__os_highest_hz(void)
{
    static uint64_t known;                 /* shared, atomic */
    uint64_t hz = cp_load_relaxed(&known); /* relaxed: nothing else depends on the number */
    double found;

    if (hz != 0)
        return hz;
    found = 1e3 * read_file_number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "%lf");
    if (found == 0)
        found = 1e6 * read_file_number("/proc/cpuinfo", "cpu MHz : %lf");
    hz = found < 1e8 ? GUESSED_HZ : (uint64_t)found;
    cp_store_relaxed(&known, hz); /* relaxed: nothing else depends on the number */
    return hz;
}
