/* The endpoint's profile of where the rounds of a watch began. */
#include "tests/support/http_tools.h"
#include "tests/support/stopwatch.h"

static struct cp_watch *watch;

__attribute__((noinline)) static void serve_round(void)
{
    CP_WATCH_SCOPE(watch);
    __asm__ volatile("");
}

static void serve_rounds(int n)
{
    for (volatile int i = 0; i < n; i++) /* volatile: one call, and not several */
        serve_round();
}

static void open_for_stacks(const char *name)
{
    const struct cp_watch_options options = {.size = sizeof options, .name = name, .has_stacks = true};

    watch = open_watch_of(&options);
}

/* The name needs an escape. */
CP_TEST(a_watch_is_asked_for_by_its_name)
{
    struct cp_http *http = start_http(NULL);
    struct cp_m *m = attach_m();
    char url[200], *top;

    open_for_stacks("a b&c");
    serve_rounds(12);
    check_answer(http, "\"$base/watch?name=a+b%26c&debug=1\"", 200,
                 "\nContent-Type: text/plain; charset=utf-8\n", "rounds profile: total 12\n12 @ 0x",
                 "\tserve_round+0x", NULL);
    check_answer(http, "-o /dev/null -D - \"$base/watch?name=a%20b%26c\"", 200,
                 "\nContent-Disposition: attachment; filename=\"watch\"\n", NULL);
    snprintf(url, sizeof url, "'http://%s" PPROF "/watch?name=a+b%%26c'", cp_http_address(http));
    top = pprof("-top -sample_index=rounds", url);
    CHECK_CONTAINS(top, "Type: rounds");
    CHECK_CONTAINS(top, "        12   100%   100%         12   100%  serve_round\n");
    free(top);
    top = pprof("-top", url);
    CHECK_CONTAINS(top, "Type: time");
    free(top);
    cp_watch_close(watch);
    cp_m_detach(m);
    cp_http_stop(http);
}

CP_TEST(rounds_of_some_seconds_are_a_difference)
{
    struct cp_http *http = start_http(NULL);
    struct cp_m *m = attach_m();

    open_for_stacks("serve");
    serve_rounds(12);
    check_answer(http, "-o /dev/null -D - \"$base/watch?name=serve&seconds=1\"", 200,
                 "\nContent-Disposition: attachment; filename=\"watch-delta\"\n", NULL);
    check_answer(http, "\"$base/watch?name=serve&seconds=1&debug=1\"", 400, "debug=1 asks for text", NULL);
    cp_watch_close(watch);
    cp_m_detach(m);
    cp_http_stop(http);
}

CP_TEST(what_is_no_watch_with_stacks_is_refused)
{
    struct cp_http *http = start_http(NULL);
    char arguments[200] = "\"$base/watch?name=";

    watch = open_watch("plain", NULL);
    check_answer(http, "$base/watch", 400, "Which watch? Ask for watch?name=NAME", NULL);
    check_answer(http, "\"$base/watch?name=none\"", 404, "There is no open watch named \"none\".", NULL);
    check_answer(http, "\"$base/watch?name=plain\"", 400, "Open it with has_stacks set", NULL);
    memset(arguments + strlen(arguments), 'x', 64);
    strcat(arguments, "\"");
    check_answer(http, arguments, 400, "The value of name is too long: 63 characters at most.", NULL);
    check_answer(http, "$base/", 200, "watch?name=", NULL);
    cp_watch_close(watch);
    cp_http_stop(http);
}
