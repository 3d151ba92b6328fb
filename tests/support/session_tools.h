/* Takes profiles of known work, and reads them. */
#ifndef COUNTERPOINT_TESTS_SESSION_TOOLS_H
#define COUNTERPOINT_TESTS_SESSION_TOOLS_H

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "pprof.h"
#include "test.h"
#include "tests/support/sim/sim.h"

static volatile unsigned long sink;

/* On the simulated kernel, too. */
__attribute__((noinline, unused)) static void burn_here(long ns)
{
    uint64_t end;

    if (sim_is_on()) {
        SIM_RUN((uint64_t)ns);
        return;
    }
    end = cpu_ns() + (uint64_t)ns;
    do {
        for (unsigned i = 0; i < 10000; i++)
            sink += i;
    } while (cpu_ns() < end);
}

static inline void attach(void)
{
    struct cp_error err;
    struct cp_m *m;

    CHECKF(cp_m_attach(&m, &err) == 0, "%s", err.message);
}

static inline const char *file_in_dir(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    return path;
}

/* Returns what go tool pprof prints about a file; the caller frees the text. */
static inline char *pprof(const char *arguments, const char *path)
{
    return test_command(NULL, "cd %s && PPROF_TMPDIR=%s HOME=%s go tool pprof %s %s 2>&1", test_dir(),
                        test_dir(), test_dir(), arguments, path);
}

static inline void check_names_burn(const char *path)
{
    char *top = pprof("-top", path);

    CHECK_CONTAINS(top, "burn_here");
    free(top);
}

/* Checks that a profile of the simulated kernel has exactly so many samples, all of them in burn_here()
 * itself. */
static inline void check_burnt(const char *path, int samples)
{
    char *top = pprof("-symbolize=none -top -sample_index=samples", path);
    char expected[100];

    snprintf(expected, sizeof expected, "%10d   100%%   100%% %10d   100%%  burn_here\n", samples, samples);
    CHECK_CONTAINS(top, expected);
    free(top);
}

static inline void save(const struct cp_memory *memory, const char *path)
{
    FILE *file = fopen(path, "w");

    CHECK(file != NULL);
    CHECK_EQ(fwrite(memory->data, 1, memory->size, file), memory->size);
    CHECK_EQ(fclose(file), 0);
}

/* How many samples a profile of profile_to() has on the simulated kernel. */
enum { PROFILED = 500 };

static inline void profile_to(struct cp_writer w)
{
    struct cp_error err;

    CHECKF(cp_start_cpu_profile_with_config(&err, cp_option_event(w, "taskClock", test_period(100000, 1))) ==
               0,
           "%s", err.message);
    burn_here(50000000);
    CHECKF(cp_stop_cpu_profile(&err) == 0, "%s", err.message);
}

static inline int open_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* What must be unchanged after a start that was refused. */
struct state {
    int descriptors;
    struct sigaction action;
};

static inline struct state state_now(void)
{
    struct state state = {.descriptors = open_descriptors()};

    sigaction(SIGPROF, NULL, &state.action);
    return state;
}

static inline void check_refused(int result, int code, const struct cp_error *err, const char *part,
                                 const struct state *before)
{
    struct state now = state_now();

    CHECKF(result == code, "%d (%s)", result, err->message);
    CHECK_EQ(err->code, code);
    CHECK_CONTAINS(err->message, part);
    CHECK(err->message[strlen(err->message) - 1] == '.');
    CHECK_EQ(now.descriptors, before->descriptors);
    CHECK(now.action.sa_handler == before->action.sa_handler);
    CHECK(cp_default_session() == NULL);
}

#endif
