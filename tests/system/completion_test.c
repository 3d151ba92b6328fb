/* What shells complete after "counterpoint", by the files in cmd/completion/. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A counterpoint whose commands take values and programs. */
static const char stand_in[] = "#!/bin/sh\n"
                               "case \"$*\" in\n"
                               "--help) cat << 'end'\n"
                               "usage: counterpoint COMMAND [ARGUMENT...]\n\n"
                               "Commands:\n"
                               "  events    the events\n"
                               "  watch     runs a program\n\n"
                               "'counterpoint COMMAND --help' describes a command.\n"
                               "end\n"
                               ";;\n"
                               "'watch --help') cat << 'end'\n"
                               "usage: counterpoint watch [OPTION...] [--] PROGRAM [ARGUMENT...]\n\n"
                               "  -e, --event EVENT   the event\n"
                               "  --output=FILE       where the profile goes\n"
                               "  --quiet             says less\n"
                               "end\n"
                               ";;\n"
                               "'events --names') printf '%s\\n' cpuClock cycles msr:tsc:one msr:tsc:two ;;\n"
                               "esac\n";

/* Completes a line, and returns what may stand at its end, a line each. As readline does, bash gets ":" and
 * "=" as words of their own. */
static char *complete(const char *line)
{
    return test_command(NULL,
                        "LC_ALL=C PATH=%s/bin:$PATH bash -c '"
                        ". /usr/share/bash-completion/bash_completion\n"
                        ". cmd/completion/counterpoint.bash\n"
                        "compopt() { :; }\n" /* which is for readline alone */
                        "cd %s && COMP_LINE=\"$1\" COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9\n"
                        "COMP_WORDS=($(printf %%s \"$1\" | sed \"s/[:=]/ & /g\"))\n"
                        "[[ $1 != *[\\ :] ]] || COMP_WORDS+=(\"\")\n"
                        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                        "_counterpoint counterpoint \"${COMP_WORDS[-1]}\" \"${COMP_WORDS[-2]}\"\n"
                        "printf \"%%s\\n\" \"${COMPREPLY[@]}\" | sort -u' bash '%s'",
                        test_dir(), test_dir(), line);
}

static void check_completion(const char *line, const char *expected)
{
    char *completed = complete(line);

    CHECKF(strcmp(completed, expected) == 0, "\"%s\" becomes:\n%s", line, completed);
    free(completed);
}

static void take_program(const char *source)
{
    if (access("/usr/share/bash-completion/bash_completion", R_OK) != 0)
        SKIP("bash-completion is not here");
    free(test_command(NULL, "mkdir -p %s/bin", test_dir()));
    if (source != NULL)
        test_write_file("bin/counterpoint", source);
    else
        free(test_command(NULL, "cp %s/bin/counterpoint %s/bin", test_build_dir(), test_dir()));
    free(test_command(NULL, "chmod 755 %s/bin/counterpoint", test_dir()));
}

CP_TEST(bash_completes_commands_options_and_events)
{
    take_program(NULL);
    char *text = complete("counterpoint ");
    CHECK_CONTAINS(text, "--help\n--version\n");
    CHECK_CONTAINS(text, "\nevents\n");
    free(text);
    check_completion("counterpoint ev", "events\n");
    check_completion("counterpoint events --", "--help\n--json\n--names\n");
    check_completion("counterpoint events cpu", "cpuClock\ncpuMigrations\n");
    check_completion("counterpoint events LLC-load-m", "LLC-load-misses\n");
}

CP_TEST(bash_completes_functions_options_and_their_program)
{
    take_program(NULL);
    check_completion("counterpoint watch --fu", "--function\n");
    check_completion("counterpoint watch -e cpuTime,pageF", "cpuTime,pageFaults\n");
    check_completion("counterpoint watch --function work --json counterpoint ev", "events\n");
}

CP_TEST(bash_completes_what_the_help_says_of_a_command)
{
    take_program(stand_in);
    check_completion("counterpoint w", "watch\n");
    check_completion("counterpoint watch --", "--event\n--help\n--output=\n--quiet\n");
    check_completion("counterpoint watch -e cy", "cycles\n");
    check_completion("counterpoint watch --event cpuClock,cy", "cpuClock,cycles\n");
    check_completion("counterpoint watch --event msr:t", "tsc:one\ntsc:two\n");
    test_write_file("some.pb.gz", "");
    check_completion("counterpoint watch --output=so", "some.pb.gz\n");
}

CP_TEST(bash_completes_the_program_behind_the_options)
{
    take_program(stand_in);
    check_completion("counterpoint watch --event cycles --quiet counterp", "counterpoint\n");
    check_completion("counterpoint watch -- counterpoint ev", "events\n");
    check_completion("counterpoint watch --output=x counterpoint events cpu", "cpuClock\n");
    check_completion("counterpoint watch -e msr:tsc:one counterpoint events cpu", "cpuClock\n");
}

/* Returns whether the shell is here, with a directory that has the stand-in for the program. */
static void need(const char *shell)
{
    int status;

    take_program(stand_in);
    free(test_command(&status, "command -v %s", shell));
    if (status != 0)
        SKIP("%s is not here", shell);
}

CP_TEST(fish_completes_the_same)
{
    need("fish");
    char *text = test_command(NULL,
                              "export HOME=%s PATH=%s/bin:$PATH; tree=$PWD; cd %s\n"
                              "fish -c \"source $tree/cmd/completion/counterpoint.fish\n"
                              "complete -C 'counterpoint w'; complete -C 'counterpoint watch --q'\n"
                              "complete -C 'counterpoint watch -e cy'\n"
                              "complete -C 'counterpoint events msr:tsc:o'\n"
                              "complete -C 'counterpoint watch --event cpuClock,cy'\n"
                              "complete -C 'counterpoint watch counterpoint ev'\"",
                              test_dir(), test_dir(), test_dir());
    CHECK_STR(text, "watch\truns a program\n--quiet\tsays less\ncycles\nmsr:tsc:one\ncpuClock,cycles\n"
                    "events\tthe events\n");
    free(text);
}

/* The functions of zsh's that show completions say what they are given. */
CP_TEST(zsh_completes_the_same)
{
    need("zsh");
    test_write_file("try.zsh", "compadd() { print -r -- $@ }\n"
                               "compset() { }\n"
                               "_describe() { print -r -- ${(P)2} }\n"
                               "_files() { print files }\n"
                               "_normal() { print -r -- program $CURRENT: $words }\n"
                               "complete() {\n"
                               "    words=(\"$@\"); CURRENT=$#words; PREFIX=$words[-1]\n"
                               "    . cmd/completion/_counterpoint\n"
                               "}\n"
                               "complete counterpoint w\n"
                               "complete counterpoint watch --\n"
                               "complete counterpoint events c\n"
                               "complete counterpoint watch -e c\n"
                               "complete counterpoint watch --output so\n"
                               "complete counterpoint watch -e cycles --quiet ls -\n");
    char *text = test_command(NULL, "PATH=%s/bin:$PATH zsh -f %s/try.zsh", test_dir(), test_dir());
    CHECK_STR(text,
              "events:the events watch:runs a program\n-- --help --version\n"
              "--event:EVENT   the event -e:EVENT   the event --output:=FILE       where the profile goes "
              "--quiet:says less\n"
              "-- cpuClock cycles msr:tsc:one msr:tsc:two\n"
              "-- cpuClock cycles msr:tsc:one msr:tsc:two\n"
              "files\n"
              "program 2: ls -\n");
    free(text);
}

/* ---- What they read -------------------------------------------------------------------------- */

CP_TEST(names_of_events_are_listed_a_line_each)
{
    char *text = test_command(NULL, "%s/bin/counterpoint events --names", test_build_dir());
    CHECK_CONTAINS(text, "timer\n");
    CHECK_CONTAINS(text, "\nLLC-load-misses\n");
    CHECK(strchr(text, ' ') == NULL);
    free(text);
    text = test_command(NULL, "%s/bin/counterpoint events --names 'CPU*k'", test_build_dir());
    CHECK_STR(text, "cpuClock\n");
    free(text);
    text = test_command(NULL, "%s/bin/counterpoint events --names software", test_build_dir());
    CHECK_CONTAINS(text, "majorFaults\n");
    free(text);
    text =
        test_command(NULL, "%s/bin/counterpoint events --names nothing 2>&1; [ $? = 2 ]", test_build_dir());
    CHECK_CONTAINS(text, "No event matches \"nothing\".");
    free(text);
}
