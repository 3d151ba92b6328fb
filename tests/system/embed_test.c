/* Runtimes of others that tell the profiler of their waits: examples/embed/. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "account.h"
#include "tests/support/gs.h"

#define THOUSANDTH 0.001
#define SLEEP (20 * MS)

/* ---- Programs -------------------------------------------------------------------------------- */

struct runtime {
    const char *header;
    const char *compile; /* the compiler, and options for the runtime */
    const char *source;
    const char *libraries;
};

static const struct runtime boost = {"boost/fiber/type.hpp", "g++ -x c++ -std=c++11", "boost_fiber.cpp",
                                     "-lboost_fiber -lboost_context"};
static const struct runtime state_threads = {"st.h", "gcc -std=gnu11 -DST_SWITCH_CB", "state_threads.c",
                                             "-lst"};

/* Puts the headers where they are once they are installed. */
static void install_headers(void)
{
    free(test_command(NULL,
                      "mkdir %s/counterpoint && cp runtime/account.h runtime/runtime.h runtime/base/atomic.h "
                      "runtime/base/error.h runtime/base/version.h runtime/event/event.h %s/counterpoint",
                      test_dir(), test_dir()));
}

/* Builds the program and returns what it prints, which the caller frees. */
static char *run_program(const struct runtime *runtime)
{
    char *said;
    int status;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("the library has a sanitizer, and the program has none");
    free(test_command(&status, "echo '#include <%s>' | %s -E - > %s/preprocessed 2>&1", runtime->header,
                      runtime->compile, test_dir()));
    if (status != 0)
        SKIP("there is no <%s> here", runtime->header);
    install_headers();
    free(test_command(NULL,
                      "%s -Wall -Wextra -Werror -O1 -I %s examples/embed/%s -x none "
                      "%s/lib/libcounterpoint.a -lprotobuf-c -lz -ldw -lelf -lpfm -liberty -ldl -lrt "
                      "-pthread %s -o %s/program",
                      runtime->compile, test_dir(), runtime->source, test_build_dir(), runtime->libraries,
                      test_dir()));
    said = test_command(NULL, "%s/program", test_dir());
    printf("%s", said);
    return said;
}

/* Telling of waits takes less than 20 lines, of which each has a mark. */
static void check_lines(const struct runtime *runtime)
{
    char *count = test_command(NULL, "grep -c '/\\* waits' examples/embed/%s", runtime->source);

    CHECK(atoi(count) > 0);
    CHECKF(atoi(count) < 20, "%s lines", count);
    free(count);
}

/* ---- Accounts -------------------------------------------------------------------------------- */

/* Returns the number that follows the last " + TERM " or "= TERM " of the line; 0 if there is none. */
static double term(const char *line, const char *name)
{
    const size_t length = strcspn(line, "\n");
    char text[40];
    const char *at;

    snprintf(text, sizeof text, " %s ", name);
    at = strstr(line, text);
    return at != NULL && at < line + length ? strtod(at + strlen(text), NULL) : 0;
}

/* Returns the line of the G of that name, after having checked that its parts add up. */
static const char *account_of(const char *said, const char *name)
{
    double lifetime, least, most, sum;
    char begin[40];
    const char *line;

    snprintf(begin, sizeof begin, "%s: ", name);
    for (line = said; strncmp(line, begin, strlen(begin)) != 0; line++) {
        line = strchr(line, '\n');
        CHECKF(line != NULL, "there is no %s", name);
    }
    CHECK_EQ(sscanf(line + strlen(begin), "%lf (%lf to %lf)", &lifetime, &least, &most), 3);
    sum = term(line, "running") + term(line, "runnable");
    for (int reason = 0; reason < CP_WAIT_REASONS; reason++)
        sum += term(line, cp_wait_reason_name((enum cp_wait_reason)reason));
    CHECKF(sum >= lifetime * (1 - THOUSANDTH) && sum <= lifetime * (1 + THOUSANDTH), "%s: %.0f", name, sum);
    CHECKF(lifetime >= least * (1 - THOUSANDTH) && lifetime <= most * (1 + THOUSANDTH), "%s", name);
    return line;
}

/* Checks that the G has waited for a sleep's time for that reason, and for no other one. */
static void check_wait(const char *said, const char *name, enum cp_wait_reason reason)
{
    const char *line = account_of(said, name);

    for (int other = 0; other < CP_WAIT_REASONS; other++) {
        const double waited = term(line, cp_wait_reason_name((enum cp_wait_reason)other));

        if (other == (int)reason)
            CHECKF(waited >= SLEEP * (1 - THOUSANDTH), "%s: %.0f", name, waited);
        else
            CHECKF(waited == 0, "%s: %.0f for %s", name, waited, cp_wait_reason_name(other));
    }
}

static void check_yields(const char *said)
{
    const char *line = account_of(said, "yielder");

    for (int reason = 0; reason < CP_WAIT_REASONS; reason++)
        CHECK_EQ(term(line, cp_wait_reason_name((enum cp_wait_reason)reason)), 0);
    CHECK(term(line, "runnable") > 0);
}

CP_TEST(boost_fiber_tells_of_waits)
{
    char *said = run_program(&boost);

    check_lines(&boost);
    check_wait(said, "sleeper", CP_WAIT_SLEEP);
    check_wait(said, "owner", CP_WAIT_SLEEP);
    check_wait(said, "waiter", CP_WAIT_LOCK);
    check_wait(said, "sender", CP_WAIT_CHANNEL_SEND);
    /* what nobody has told of is a wait, too */
    CHECK(term(account_of(said, "receiver"), cp_wait_reason_name(CP_WAIT_OTHER)) > 0);
    check_yields(said);
    free(said);
}

CP_TEST(state_threads_tells_of_waits)
{
    char *said = run_program(&state_threads);

    check_lines(&state_threads);
    check_wait(said, "sleeper", CP_WAIT_SLEEP);
    check_wait(said, "owner", CP_WAIT_SLEEP);
    check_wait(said, "waiter", CP_WAIT_LOCK);
    check_wait(said, "second waiter", CP_WAIT_LOCK);
    check_wait(said, "signalled", CP_WAIT_CONDITION);
    check_wait(said, "signaller", CP_WAIT_SLEEP);
    check_yields(said);
    free(said);
}
