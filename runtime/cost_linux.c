#include <stdio.h>

#include "cost.h"

/* Assumed if the kernel does not tell the processor's frequency. It is higher than that of most processors:
 * a period that is refused without need does less harm than one that is too short. */
#define GUESSED_HZ 5000000000u

/* A number from a file of one line, or from the first line that begins with a word; 0: there is none. */
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
    uint64_t hz = cp_load_relaxed(&known); /* relaxed: a number of its own */
    double found;

    if (hz != 0)
        return hz;
    found = 1e3 * read_file_number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "%lf");
    if (found == 0)
        found = 1e6 * read_file_number("/proc/cpuinfo", "cpu MHz : %lf");
    hz = found < 1e8 ? GUESSED_HZ : (uint64_t)found;
    cp_store_relaxed(&known, hz); /* relaxed: a number of its own */
    return hz;
}
