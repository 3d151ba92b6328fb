/* Profiles itself to memory, with a thread that it has attached and a green thread. Prints the version. */
#include <counterpoint/counter.h>
#include <counterpoint/pprof.h>
#include <counterpoint/sched.h>
#include <stdio.h>
#include <stdlib.h>

static void run(void *arg)
{
    *(int *)arg = cp_g_self() != NULL;
}

int main(void)
{
    struct cp_memory profile = {0};
    struct cp_error err = {0};
    int ran = 0;

    if (cp_start_cpu_profile(cp_writer_memory(&profile), &err) < 0 ||
        cp_sched_run(NULL, run, &ran, &err) < 0 || cp_stop_cpu_profile(&err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    if (!ran || profile.size == 0 || cp_version() < CP_VERSION_NUMBER)
        return fputs("There is no profile, or an old library.\n", stderr), 1;
    free(profile.data);
    puts("core " CP_VERSION);
    return 0;
}
