/* Profiles of a program that makes code, and names the code for perf. */
#include <unistd.h>

#include "tests/support/session_tools.h"

#include "tests/support/jit_tools.h"

/* Profiles code that the program has made. The caller frees the path. */
static const char *profile_made(made_code *code)
{
    struct cp_error err;
    const char *path = file_in_dir("made.pb.gz");

    attach();
    CHECKF(cp_start_cpu_profile_with_config(&err,
                                            cp_option_event(cp_writer_path(path), "taskClock", 1000000)) == 0,
           "%s", err.message);
    code(burn_here, 50000000);
    CHECKF(cp_stop_cpu_profile(&err) == 0, "%s", err.message);
    return path;
}

SIM_TEST(code_that_a_program_makes_has_the_names_of_its_map)
{
    made_code *code = make_code();
    char *text;

    write_jit_map(code, "Made::code");
    cp_symbol_use_jit(true);
    text = pprof("-peek burn_here", profile_made(code));
    CHECK_CONTAINS(text, "50ms   100% |   Made::code\n");
    CHECK(strstr(text, "no such file") == NULL);
    free(text);
    text = pprof("-comments", file_in_dir("made.pb.gz"));
    CHECK(strstr(text, "symbols_missing") == NULL);
    free(text);
}

/* Nobody has asked for the file, which may be another's. */
SIM_TEST(maps_are_not_read_unasked)
{
    made_code *code = make_code();
    char *text;

    write_jit_map(code, "Made::code");
    text = pprof("-traces", profile_made(code));
    CHECK(strstr(text, "Made::code") == NULL);
    free(text);
    text = pprof("-comments", file_in_dir("made.pb.gz"));
    CHECK_CONTAINS(text, "symbols_missing: [anon]");
    free(text);
}
