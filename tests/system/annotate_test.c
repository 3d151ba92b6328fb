/* `counterpoint annotate` with a program whose loops are slower than they must be: see
 * tests/support/blocks_target.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/profile_text.h"
#include "tests/support/target_tools.h"
#include "tests/support/test.h"

/* Runs the command in the test's directory. Returns what it prints, errors included. */
static char *annotate(int *status, const char *arguments)
{
    return test_command(status, "cd %s && %s/bin/counterpoint annotate %s 2>&1", test_dir(), test_build_dir(),
                        arguments);
}

static void check_annotate(int expected, const char *arguments, const char *part)
{
    int status;
    char *text = annotate(&status, arguments);

    CHECKF(status == expected, "annotate %s: %d:\n%s", arguments, status, text);
    CHECK_CONTAINS(text, part);
    free(text);
}

/* That the block is not reproducible, on a busy machine, is no reason to skip. */
static void need_measuring(void)
{
    int status;
    char *text = test_command(&status, "%s/bin/counterpoint block 4801c0 2>&1", test_build_dir());

    if (status == 1 && strncmp(text, "counterpoint: ", strlen("counterpoint: ")) == 0)
        SKIP("blocks cannot be measured here: %s", text);
    free(text);
}

/* Profiles the program while it calls the function, into FUNCTION.pb.gz, or skips if nothing can be
 * measured. */
static void make_profile_of(const char *function, const char *event, int ms)
{
    need_measuring();
    build_stranger("target", "blocks_target.c");
    free(test_command(NULL,
                      "cd %s && %s/bin/counterpoint run -e %s -o out -- ./target %s %d "
                      "> said 2>&1 && mv out/*.pb.gz %s.pb.gz",
                      test_dir(), test_build_dir(), event, function, ms, function));
}

static void make_blocks_profile(const char *function)
{
    make_profile_of(function, "taskClock:1ms", 400);
}

/* ---- Words ----------------------------------------------------------------------------------- */

CP_TEST(a_false_dependence_is_the_first_line)
{
    make_blocks_profile("false_dependence");
    check_annotate(0, "-n 1 false_dependence.pb.gz", "             dependency: ");
    check_annotate(0, "-n 1 false_dependence.pb.gz", "cycles for 5 instructions, at best");
    check_annotate(0, "-n 1 false_dependence.pb.gz", "no ratio: a loop of one block");
}

CP_TEST(a_dependence_through_memory_is_the_first_line)
{
    make_blocks_profile("through_memory");
    check_annotate(0, "-n 1 through_memory.pb.gz", "             dependency: ");
    check_annotate(0, "-n 1 through_memory.pb.gz", "through memory: it loads from where it stores");
}

/* The other blocks of the loop tell how often it has run. */
CP_TEST(a_loop_that_misses_the_cache_is_the_first_line)
{
    char *text;

    make_blocks_profile("cache_misses");
    check_annotate(0, "-n 1 cache_misses.pb.gz", "             hypothesis: cache");
    text =
        annotate(NULL, "--csv cache_misses.pb.gz | sort -t, -k4nr | awk -F, 'NR == 1 { print ($8 > 1.5) }'");
    CHECK_STR(text, "1\n");
    free(text);
}

/* ---- Which function, and what is said of it -------------------------------------------------- */

CP_TEST(the_hottest_function_is_taken_if_none_is_named)
{
    make_blocks_profile("through_memory");
    check_annotate(0, "through_memory.pb.gz", "through_memory in ");
    check_annotate(0, "through_memory.pb.gz through_memory", "through_memory in ");
    check_annotate(0, "through_memory.pb.gz '^through'", "through_memory in ");
    check_annotate(0, "through_memory.pb.gz main", "main in ");
    check_annotate(0, "through_memory.pb.gz", "blocks_target.c:");
    check_annotate(1, "through_memory.pb.gz false_dependence", "matches \"false_dependence\" has samples");
}

/* ---- Frequencies ----------------------------------------------------------------------------- */

/* As much comes in as goes out, also into and out of the function. */
CP_TEST(frequencies_follow_the_flow)
{
    char *text;

    make_blocks_profile("cache_misses");
    text =
        annotate(NULL, "--csv cache_misses.pb.gz | awk -F, 'NR > 1 { n++; if ($5 < -0.001 || $5 > 1) bad++; "
                       "if (NR == 2) first = $5; last = $5 } "
                       "END { print (n > 3), (bad + 0), (first - last < 0.01 && last - first < 0.01) }'");
    CHECK_STR(text, "1 0 1\n");
    free(text);
}

/* Tells for the blocks that have a hundred samples how many percent their parts of all such frequencies
 * differ from what callgrind has counted at their first instructions. Its lines are "ADDRESS LINE COUNT",
 * with addresses that may be relative; the line behind "calls=" is about what was called. */
static const char compare_script[] =
    "open my $counts, '<', $ARGV[0] or die;\n"
    "my ($last, $is_call, %count) = (0, 0);\n"
    "while (<$counts>) {\n"
    "    if (/^calls=/) { $is_call = 1; next }\n"
    "    my ($at, $n) = /^(0x[0-9a-f]+|[+-]\\d+|\\*) \\S+ (\\d+)$/ or next;\n"
    "    $last = $at eq '*' ? $last : $at =~ /^0x/ ? hex $at : $last + $at;\n"
    "    $count{$last} += $n unless $is_call;\n"
    "    $is_call = 0;\n"
    "}\n"
    "my (@rows, $said, $counted);\n"
    "while (<STDIN>) {\n"
    "    my @row = split /,/;\n"
    "    next unless $row[0] =~ /^0x/ and $row[3] >= 100;\n"
    "    $said += $row[4];\n"
    "    $counted += $count{hex $row[0]} or die \"$row[0] was not counted\\n\";\n"
    "    push @rows, \\@row;\n"
    "}\n"
    "my $worst = 0;\n"
    "for my $row (@rows) {\n"
    "    my $error = 100 * ($row->[4] / $said / ($count{hex $row->[0]} / $counted) - 1);\n"
    "    printf STDERR \"%s %.4f %+.2f %%\\n\", $row->[0], $row->[4], $error;\n"
    "    $worst = abs $error if $worst < abs $error;\n"
    "}\n"
    "printf \"%d %d\\n\", scalar @rows, $worst < 25;\n";

/* Blocks of which none hides behind another one. One goes 3 of 4 times this way, and 1 of 4 times that
 * way. */
CP_TEST(frequencies_are_those_that_callgrind_counts)
{
    int status;
    char *text;

    free(test_command(&status, "valgrind --version 2> /dev/null"));
    if (status != 0)
        SKIP("valgrind is not installed");
    make_profile_of("two_ways", "taskClock:250us", 1000);
    test_write_file("compare.pl", compare_script);
    free(test_command(NULL,
                      "cd %s && valgrind --tool=callgrind --dump-instr=yes --callgrind-out-file=counts "
                      "./target two_ways 500 > said 2>&1",
                      test_dir()));
    text = annotate(NULL, "--csv two_ways.pb.gz two_ways | perl compare.pl counts");
    CHECKF(strstr(text, "\n3 1\n") != NULL, "%s", text);
    free(text);
}

/* Prints the text of a profile with cycles and instructions, as of perf: 900 samples of 1000 cycles and 60 of
 * 1000 instructions are at the first of the 6 instructions of the loop of false_dependence. */
static const char counted_script[] =
    "at=$(objdump -d --no-show-raw-insn target | awk '/<false_dependence>:/ { on = 1 } on && /cvtsi2sd/ { "
    "sub(\":\", "
    "\"\", $1); print $1; exit }')\n"
    "id=$(readelf -n target | sed -n 's/ *Build ID: *//p')\n"
    "set -- $(readelf -lW target | awk '$1 == \"LOAD\" && $7 == \"R\" && $8 == \"E\" { print $2, $3, $5 }')\n"
    "cat << END\n"
    "sample_type { type: 1 unit: 2 } sample_type { type: 3 unit: 2 } sample_type { type: 4 unit: 2 }\n"
    "sample { location_id: 1 value: 900 value: 900000 value: 0 }\n"
    "sample { location_id: 1 value: 60 value: 0 value: 60000 }\n"
    "mapping { id: 1 memory_start: $(($2)) file_offset: $(($1)) memory_limit: $(($2 + $3)) filename: 5\n"
    "    build_id: 6 has_functions: true }\n"
    "function { id: 1 name: 7 }\n"
    "location { id: 1 mapping_id: 1 address: $((0x$at)) line { function_id: 1 } }\n"
    "string_table: '' string_table: 'samples' string_table: 'count' string_table: 'cycles:u'\n"
    "string_table: 'instructions:u' string_table: '$PWD/target' string_table: '$id'\n"
    "string_table: 'false_dependence'\n"
    "END\n";

/* 60000 instructions are 10000 executions, of 90 cycles each: so even a loop of one block has a ratio. */
CP_TEST(instructions_tell_how_often_a_block_has_run)
{
    char *text;

    need_measuring();
    build_stranger("target", "blocks_target.c");
    test_write_file("counted.sh", counted_script);
    text = test_command(NULL, "cd %s && sh counted.sh", test_dir());
    encode_profile("counted.pb", text);
    free(text);
    text = annotate(NULL, "--event cycles:u --csv counted.pb | awk -F, '$4 > 0 && $1 ~ /0x/ "
                          "{ printf \"%s %d %d %d\\n\", $4, $5, $6, ($8 > 4 && $8 < 30) }'");
    CHECK_STR(text, "900 10000 90 1\n");
    free(text);
    check_annotate(0, "--event cycles:u counted.pb", "FREQUENCY is executions, by the instructions");
}

CP_TEST(another_build_is_not_annotated)
{
    make_blocks_profile("through_memory");
    free(test_command(NULL, "cd %s && rm target && gcc -D_GNU_SOURCE -O2 -g %s -o target", test_dir(),
                      test_source("blocks_target.c")));
    check_annotate(1, "through_memory.pb.gz through_memory", "another build");
}

/* ---- Usage ----------------------------------------------------------------------------------- */

CP_TEST(bad_usage_of_annotate_is_refused_in_words)
{
    static const char *const usages[][2] = {
        {"", "takes the file of a profile"},   {"a b c", "takes the file of a profile"},
        {"-n 0 x.pb.gz", "-n takes a number"}, {"-n x x.pb.gz", "-n takes a number"},
        {"--none x.pb.gz", "--help"},          {"none.pb.gz", "none.pb.gz cannot be read: No such file"},
    };

    for (size_t i = 0; i < sizeof usages / sizeof usages[0]; i++)
        check_annotate(2, usages[i][0], usages[i][1]);
    test_write_file("damaged.pb.gz", "no profile");
    check_annotate(3, "damaged.pb.gz", "damaged.pb.gz");
    check_annotate(0, "--help", "usage: counterpoint annotate");
}
