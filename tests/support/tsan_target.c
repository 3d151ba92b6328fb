/* A program that takes a profile of itself and ends with 0. A test builds it with a sanitizer. */
#include "pprof.h"

#include <stdio.h>
#include <time.h>

#define MS 1000000

static volatile unsigned long sink;

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static void burn(uint64_t ns)
{
    for (uint64_t end = cpu_ns() + ns; cpu_ns() < end;)
        for (unsigned i = 0; i < 20000; i++)
            sink += i;
}

int main(int argc, char **argv)
{
    struct cp_error err;
    struct cp_m *m;

    if (argc != 3 || cp_m_attach(&m, &err) < 0)
        return 2;
    for (int i = 0; i < 3; i++) {
        if (cp_start_cpu_profile_with_config(
                &err, cp_option_event(cp_writer_path(argv[1]), argv[2], (uint64_t)10 * MS)) < 0)
            return fprintf(stderr, "%s\n", err.message), 3;
        burn((uint64_t)100 * MS);
        if (cp_stop_cpu_profile(&err) < 0)
            return fprintf(stderr, "%s\n", err.message), 4;
    }
    cp_m_detach(m);
    return 0;
}
