/* The names that processes leave for later: `counterpoint run` adds them at its end, and `counterpoint
 * report` to those of processes that still run then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/target_tools.h"

/* Each process of the program leaves names for later. */
static void need_named_target(void)
{
    build_stranger("target", "run_target.c");
}

#define HERE(command) here(NULL, command)

/* Returns what a command prints in the test's directory. */
static char *here(int *status, const char *command)
{
    return test_command(status, "cd %s && export PATH=%s/bin:$PATH PPROF_TMPDIR=. HOME=. && %s", test_dir(),
                        test_build_dir(), command);
}

static void check_here(const char *command, const char *part)
{
    char *out = HERE(command);

    CHECKF(strstr(out, part) != NULL, "no \"%s\" in what '%s' prints:\n%.3000s", part, command, out);
    free(out);
}

CP_TEST(run_adds_names_at_its_end)
{
    need_named_target();
    free(HERE("counterpoint run -e taskClock:1000000 -o out -- ./target children > /dev/null 2> said"));
    check_here("cat said", " work");
    check_here("go tool pprof -symbolize=none -top out/target.*.pb.gz 2>&1", " work");
    check_here("go tool pprof -symbolize=none -top out/target.*.pb.gz 2>&1", " main");
    free(HERE("for f in out/*; do go tool pprof -comments $f || exit; done > comments; "
              "! grep names_later comments"));
    free(HERE("! ls out | grep -v '[.]pb[.]gz$'")); /* no temporary file */
}

CP_TEST(a_named_file_has_the_rights_of_the_old_one)
{
    need_named_target();
    free(HERE("umask 027 && counterpoint run -e taskClock:1000000 -o rights -- ./target return 2>&1"));
    check_here("stat -c %a rights/target.*.pb.gz", "640\n");
}

CP_TEST(report_shows_names_that_were_left)
{
    need_named_target();
    free(test_command(NULL,
                      "cd %s && LD_PRELOAD=%s/lib/libcounterpoint-preload.so CP_CPUPROFILE=left.pb.gz "
                      "CP_CPUPROFILE_EVENT=taskClock:1ms CP_CPUPROFILE_NAMES=later ./target return",
                      test_dir(), test_build_dir()));
    check_here("go tool pprof -comments left.pb.gz", "names_later: ");
    free(HERE("go tool pprof -symbolize=none -raw left.pb.gz > raw && ! grep ' work ' raw"));
    check_here("counterpoint report left.pb.gz", " work");
    check_here("counterpoint report left.pb.gz left.pb.gz", " work");
    check_here("go tool pprof -top left.pb.gz 2>&1", " work"); /* finds the file itself */
}

/* A program that is replaced during the run, with another build id, is told and not misread. */
CP_TEST(a_program_that_is_replaced_meanwhile)
{
    need_named_target();
    free(HERE("mkdir -p swap && cp target swap/target && "
              "printf '#!/bin/sh\\n./swap/target return\\ngcc -O2 -x c -o swap/new - <<END\\n"
              "int main(void) { return 0; }\\nEND\\nmv swap/new swap/target\\n' > swap.sh && "
              "counterpoint run -e taskClock:1000000 -o swapped -- sh swap.sh 2> said"));
    check_here("for f in swapped/target.*; do go tool pprof -comments $f; done",
               "swap/target # has code without names, or without lines: another file has");
    check_here("go tool pprof -symbolize=none -top swapped/target.*.pb.gz 2>&1", "[target]");
}

CP_TEST(a_file_that_cannot_be_replaced_keeps_its_addresses)
{
    char *out;

    need_named_target();
    if (getuid() == 0 && access("/usr/bin/setpriv", X_OK) != 0)
        SKIP("root may write everywhere");
    out = here(NULL, "printf '#!/bin/sh\\n./target return\\nchmod 500 kept\\n' > keep.sh && chmod 777 . && "
                     "mkdir kept && chmod 777 kept && if [ $(id -u) = 0 ]; then chown 65534 kept; "
                     "pre='setpriv --reuid=65534 --clear-groups --bounding-set=-all --inh-caps=-all'; fi; "
                     "$pre counterpoint run -e taskClock:1000000 -o kept -- sh keep.sh 2>&1; chmod 700 kept");
    CHECK_CONTAINS(out, "has addresses instead of names");
    CHECK_CONTAINS(out, " work");
    free(out);
    check_here("for f in kept/target.*; do go tool pprof -comments $f; done", "names_later: ");
}

CP_TEST(a_wrong_choice_of_names_is_told)
{
    char *out;

    need_named_target();
    out = test_command(NULL,
                       "cd %s && LD_PRELOAD=%s/lib/libcounterpoint-preload.so CP_CPUPROFILE=y.pb.gz "
                       "CP_CPUPROFILE_NAMES=now ./target return 2>&1",
                       test_dir(), test_build_dir());
    CHECK_CONTAINS(out, "CP_CPUPROFILE_NAMES must be \"later\"");
    free(out);
}
