/* "counterpoint report --lines": source lines and instructions with their values, beside those of go tool
 * pprof and objdump. The samples are made up, at instructions of a program that is compiled here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/profile_text.h"
#include "tests/support/test.h"

/* ---- What is profiled ------------------------------------------------------------------------ */

static const char source[] = "static inline __attribute__((always_inline)) long mix(long x)\n"
                             "{\n"
                             "    return x * 31 + 7;\n"
                             "}\n"
                             "__attribute__((noinline)) long spin(long n)\n"
                             "{\n"
                             "    long x = n;\n"
                             "    for (long i = 0; i < n; i++)\n"
                             "        x ^= mix(x);\n"
                             "    return x;\n"
                             "}\n"
                             "__attribute__((noinline)) long again(long depth)\n"
                             "{\n"
                             "    if (depth == 0)\n"
                             "        return spin(9);\n"
                             "    return again(depth - 1) + 1;\n"
                             "}\n"
                             "int main(void)\n"
                             "{\n"
                             "    return (int)(spin(8) + again(3));\n"
                             "}\n";

/* Prints the text of a profile of the program $1, loaded $2 above the addresses that it has in its file. The
 * samples: 30 in spin, 50 in mix, which is inlined in it, and 20 in the third level of again. */
static const char script[] =
    "at() {\n" /* FUNCTION N: the address of its N-th instruction */
    "    objdump -d --no-show-raw-insn prog | awk -v f=\"<$1>:\" -v n=$2 '$2 == f { on = 1; next }\n"
    "        NF == 0 { on = 0 } on && --n == 0 { sub(\":\", \"\", $1); print $1 }'\n"
    "}\n"
    "at_line() { echo \"line { function_id: $1 line: $2 }\"; }\n"
    "location() { echo \"location { id: $1 mapping_id: 1 address: $((0x$(at $2 $3) + base)) $4 }\"; }\n"
    "base=$2\n"
    "id=$(readelf -n $1 2> /dev/null | sed -n 's/ *Build ID: *//p')\n"
    "set -- $1 $(readelf -lW $1 | awk '$1 == \"LOAD\" && $7 == \"R\" && $8 == \"E\" { print $2, $3, $5 }')\n"
    "cat << END\n"
    "sample_type { type: 1 unit: 2 }\n"
    "sample { location_id: 1 location_id: 5 value: 30 }\n"
    "sample { location_id: 2 location_id: 5 value: 50 }\n"
    "sample { location_id: 3 location_id: 4 location_id: 4 location_id: 6 value: 20 }\n"
    "mapping { id: 1 memory_start: $(($3 / 4096 * 4096 + base)) file_offset: $(($2 / 4096 * 4096))\n"
    "    memory_limit: $((($3 + $4 + 4095) / 4096 * 4096 + base)) filename: 3 build_id: 4\n"
    "    has_functions: true has_filenames: true has_line_numbers: true has_inline_frames: true }\n"
    "function { id: 1 name: 5 filename: 9 start_line: 1 }\n"
    "function { id: 2 name: 6 filename: 9 start_line: 5 }\n"
    "function { id: 3 name: 7 filename: 9 start_line: 12 }\n"
    "function { id: 4 name: 8 filename: 9 }\n"
    "string_table: '' string_table: 'samples' string_table: 'count' string_table: '$PWD/$1' string_table: "
    "'$id'\n"
    "string_table: 'mix' string_table: 'spin' string_table: 'again' string_table: 'main' string_table: "
    "'prog.c'\n"
    "time_nanos: ${time:-0}\n"
    "END\n"
    "location 1 spin 2 \"$(at_line 2 8)\"\n"
    "location 2 spin 4 \"$(at_line 1 3) $(at_line 2 9)\"\n"
    "location 3 again 1 \"$(at_line 3 14)\"\n"
    "location 4 again 3 \"$(at_line 3 16)\"\n"
    "location 5 main 2 \"$(at_line 4 20)\"\n"
    "location 6 main 3 \"$(at_line 4 20)\"\n";

#define PIE "-pie"
#define PIE_BASE "0x555555554000"

/* Compiles the program, and makes its profile. */
static void compile_profile(const char *compiler, const char *flags, const char *base)
{
    char *text;

    test_write_file("prog.c", source);
    test_write_file("profile.sh", script);
    free(test_command(NULL, "cd %s && %s -g -O1 -Wl,--build-id=sha1 %s -o prog prog.c", test_dir(), compiler,
                      flags));
    text = test_command(NULL, "cd %s && sh profile.sh prog %s", test_dir(), base);
    encode_profile("p.pb", text);
    free(text);
}

static void make_profile(const char *flags, const char *base)
{
    compile_profile("gcc", flags, base);
}

/* Runs the command with a profile; the caller frees what it says. */
static char *list(int *status, const char *arguments)
{
    return test_command(status, "cd %s && %s/bin/counterpoint report %s p.pb 2>&1", test_dir(),
                        test_build_dir(), arguments);
}

static void check_list(const char *arguments, const char *needed)
{
    char *text = list(NULL, arguments);

    CHECK_CONTAINS(text, needed);
    free(text);
}

/* Cuts the text off before the first line that begins so. */
static char *cut_at(char *text, const char *start)
{
    char *found = strstr(text, start);

    if (found != NULL)
        *found = '\0';
    return text;
}

/* ---- Source lines ---------------------------------------------------------------------------- */

/* Checks that a function's lines are those of go tool pprof, to the letter. */
static void check_lines_of(const char *function)
{
    char arguments[100], *ours, *theirs;

    snprintf(arguments, sizeof arguments, "--lines '^%s$'", function);
    ours = list(NULL, arguments);
    theirs =
        test_command(NULL, "cd %s && HOME=%s PPROF_TMPDIR=%s go tool pprof -list '^%s$' p.pb 2> /dev/null",
                     test_dir(), test_dir(), test_dir(), function);
    CHECK_CONTAINS(theirs, "ROUTINE ===");
    cut_at(cut_at(ours, "INSTRUCTIONS"), " The function was inlined");
    CHECK_STR(ours, theirs);
    free(ours);
    free(theirs);
}

CP_TEST(lines_are_those_of_go_tool_pprof)
{
    make_profile(PIE, PIE_BASE);
    check_lines_of("spin");
    check_lines_of("mix");
    check_lines_of("main");
}

/* go tool pprof adds the lines of a function that calls itself up to more than there is. */
CP_TEST(a_function_that_calls_itself_counts_once)
{
    make_profile(PIE, PIE_BASE);
    check_list("--lines again",
               "Total: 100\n"
               "ROUTINE ======================== again in prog.c\n"
               "        20         20 (flat, cum) 20.00% of Total\n"
               "         .          .     12:__attribute__((noinline)) long again(long depth)\n"
               "         .          .     13:{\n"
               "        20         20     14:    if (depth == 0)\n"
               "         .          .     15:        return spin(9);\n"
               "         .         20     16:    return again(depth - 1) + 1;\n"
               "         .          .     17:}\n");
}

CP_TEST(the_hottest_function_stands_first)
{
    char *text, *mix, *spin, *again;

    make_profile(PIE, PIE_BASE);
    text = list(NULL, "--lines .");
    mix = strstr(text, "= mix in prog.c");
    spin = strstr(text, "= spin in prog.c");
    again = strstr(text, "= again in prog.c");
    CHECKF(mix != NULL && mix < spin && spin < again, "%s", text);
    free(text);
    text = list(NULL, "-n 1 --lines .");
    CHECK_CONTAINS(text, "= mix in prog.c");
    CHECK(strstr(text, "= spin in prog.c") == NULL);
    CHECK_CONTAINS(text, "\n3 more functions match; -n 4 shows them all.\n");
    free(text);
    text = list(NULL, "--cum -n 1 --lines 'spin|mix'");
    CHECK_CONTAINS(text, "= spin in prog.c");
    free(text);
}

CP_TEST(a_source_file_that_is_not_here_is_named)
{
    make_profile(PIE, PIE_BASE);
    free(test_command(NULL, "mv %s/prog.c %s/away.c", test_dir(), test_dir()));
    check_list("--lines spin",
               "        30         80 (flat, cum) 80.00% of Total\n"
               " prog.c cannot be read: No such file or directory. Only the lines with values stand here.\n"
               "        30         30      8:\n"
               "         .         50      9:\n"
               "INSTRUCTIONS");
    free(test_command(NULL, "head -n 8 %s/away.c > %s/prog.c", test_dir(), test_dir()));
    check_list("--lines spin", "\n prog.c has 8 lines only: it is not what was compiled.\n");
}

CP_TEST(a_source_file_that_has_changed_is_told)
{
    char *text;

    CHECK_EQ(setenv("time", "1600000000000000000", 1), 0);
    make_profile(PIE, PIE_BASE);
    check_list("--lines spin", " prog.c has changed since the profile was taken: lines may have moved.\n");
    free(test_command(NULL, "touch -d @1500000000 %s/prog.c", test_dir()));
    text = list(NULL, "--lines spin");
    CHECK(strstr(text, "has changed") == NULL);
    free(text);
}

/* ---- Instructions ---------------------------------------------------------------------------- */

/* Checks that each instruction of a function that objdump knows has a row, and its values. "awk" gives
 * them to the n-th instruction. Padding between functions belongs to none. */
static void check_instructions(const char *function, const char *awk)
{
    free(test_command(
        NULL,
        "cd %s && objdump -d --no-show-raw-insn prog | awk -v f='<%s>:' '$2 == f { on = 1; next }\n"
        "    NF == 0 { on = 0 } on && !/nop/ { sub(\":\", \"\", $1); flat = cum = \".\"; n++; %s; print "
        "flat, cum, $1 "
        "}' "
        "> wanted &&\n"
        "%s/bin/counterpoint report --lines '^%s$' p.pb | sed '1,/^INSTRUCTIONS/d' | tail -n +2 |\n"
        "    awk '!/nop/ { sub(\":\", \"\", $3); print $1, $2, $3 }' > got && diff wanted got",
        test_dir(), function, awk, test_build_dir(), function));
}

CP_TEST(instructions_have_their_values_wherever_the_program_was_loaded)
{
    make_profile(PIE, PIE_BASE);
    check_instructions("spin", "if (n == 2) flat = cum = 30; if (n == 4) flat = cum = 50");
    check_instructions("again", "if (n == 1) flat = cum = 20; if (n == 3) cum = 20");
    check_instructions("main", "if (n == 2) cum = 80; if (n == 3) cum = 20");
    make_profile("-no-pie", "0");
    check_instructions("spin", "if (n == 2) flat = cum = 30; if (n == 4) flat = cum = 50");
    check_list("--lines spin", "INSTRUCTIONS =================== spin in /");
    check_list("--lines spin", "/prog\n        80         80 (flat, cum) 80.00% of Total\n");
    check_list("--lines spin", " ; prog.c:9\n");
    check_list("--lines mix", " The function was inlined in spin, which has its instructions.\n");
}

/* clang writes no .debug_aranges, and the segments of lld's programs have other addresses than offsets. */
CP_TEST(programs_of_clang_and_lld_have_lines_beside_their_instructions)
{
    if (system("command -v clang-14 > /dev/null && command -v ld.lld-14 > /dev/null") != 0)
        SKIP("clang-14 or lld-14 is not here");
    compile_profile("clang-14 -Wno-unused-command-line-argument", "-fuse-ld=lld -pie", PIE_BASE);
    check_instructions("spin", "if (n == 2) flat = cum = 30; if (n == 4) flat = cum = 50");
    check_list("--lines '^spin$'", " ; prog.c:9\n");
    check_list("--lines '^again$'", " ; prog.c:16\n");
}

/* Of a program that is loaded where its file says: go tool pprof finds no other instructions. An address
 * there has six digits. */
CP_TEST(instructions_are_those_of_go_tool_pprof)
{
    make_profile("-no-pie", "0");
    free(test_command(NULL,
                      "cd %s && values() {\n"
                      "    awk '$3 ~ /^[0-9a-f]+:$/ && length($3) == 7 && $1 $2 != \"..\" { print $1, $2, $3 "
                      "}' | sort; } &&\n"
                      "HOME=%s PPROF_TMPDIR=%s go tool pprof -disasm 'spin|main' p.pb 2> /dev/null | "
                      "values > theirs &&\n"
                      "%s/bin/counterpoint report --lines 'spin|main' p.pb | values > ours &&\n"
                      "cat ours && [ $(wc -l < ours) = 4 ] && diff theirs ours",
                      test_dir(), test_dir(), test_dir(), test_build_dir()));
}

CP_TEST(symbols_come_from_a_separate_debug_file)
{
    make_profile(PIE, PIE_BASE);
    free(test_command(NULL,
                      "cd %s && objcopy --only-keep-debug prog prog.debug && strip prog &&\n"
                      "objcopy --add-gnu-debuglink=prog.debug prog",
                      test_dir()));
    check_list("--lines '^spin$'", "INSTRUCTIONS =================== spin in /");
    free(test_command(NULL, "rm %s/prog.debug", test_dir()));
    check_list("--lines '^spin$'",
               "/prog has no symbol there, and no debug file of it is on this machine.\n");
}

/* Runs the command with an objdump that writes down which servers it would ask. */
CP_TEST(objdump_asks_no_server_for_debug_information)
{
    char *text;

    make_profile(PIE, PIE_BASE);
    test_write_file("objdump", "#!/bin/sh\necho \"asks ${DEBUGINFOD_URLS:-nobody}\" >&2\nexit 1\n");
    text = test_command(
        NULL,
        "cd %s && chmod 755 objdump && for cpu in x86_64 aarch64; do ln -s objdump "
        "$cpu-linux-gnu-objdump; done &&\n"
        "DEBUGINFOD_URLS=http://localhost:1 PATH=.:$PATH %s/bin/counterpoint report --lines ^spin "
        "p.pb 2>&1",
        test_dir(), test_build_dir());
    CHECK_CONTAINS(text, ": asks nobody. ");
    free(text);
}

CP_TEST(another_build_is_not_taken_for_the_one_that_ran)
{
    char *text;

    make_profile(PIE, PIE_BASE);
    free(test_command(NULL, "cd %s && gcc -g -O2 -Wl,--build-id=sha1 -o prog prog.c", test_dir()));
    text = list(NULL, "--lines '^spin$'");
    CHECK_CONTAINS(text, "/prog is another build than the one that was profiled: its build id is ");
    CHECK_CONTAINS(text, "        30         30      8:    for (long i = 0; i < n; i++)\n");
    CHECK(strstr(text, "INSTRUCTIONS") == NULL);
    free(text);
    make_profile("-pie -Wl,--build-id=none", PIE_BASE);
    check_list("--lines '^spin$'",
               " The profile or the file has no build id: nobody can tell whether this is what ran.\n");
}

/* ---- What cannot be shown -------------------------------------------------------------------- */

/* Changes the text of the profile by a program of sed. */
static void change_profile(const char *sed)
{
    char *text = test_command(NULL, "cd %s && sh profile.sh prog " PIE_BASE " | sed \"%s\"", test_dir(), sed);

    encode_profile("p.pb", text);
    free(text);
}

CP_TEST(why_there_are_no_instructions_is_said)
{
    make_profile(PIE, PIE_BASE);
    change_profile("s,'[^']*/prog','/no/prog',");
    check_list("--lines spin",
               " Instructions cannot be shown: /no/prog cannot be read: No such file or directory.\n");
    change_profile("s,'[^']*/prog','[kernel.kallsyms]',");
    check_list("--lines spin",
               " Instructions cannot be shown: they are in the kernel, whose code is in no file ");
    change_profile(
        "s,'[^']*/prog','[module]',; s,memory_start: .* file,memory_start: 0xffffffffc0000000 file,");
    check_list("--lines spin",
               " Instructions cannot be shown: they are in the kernel, whose code is in no file ");
    change_profile("s,'[^']*/prog','[vdso]',");
    check_list("--lines spin",
               " Instructions cannot be shown: they are in the vdso, which the kernel maps, ");
    change_profile("s,'[^']*/prog','//anon',");
    check_list("--lines spin",
               " Instructions cannot be shown: they are in memory that is mapped from no file");
    change_profile("s,'[^']*/prog','/etc/passwd',");
    check_list("--lines spin", "/etc/passwd is no object file, or a damaged one.\n");
    change_profile("s,mapping_id: 1,mapping_id: 0,");
    check_list("--lines spin", " Instructions cannot be shown: the profile does not say where they are.\n");
    change_profile("s,file_offset: 4096,file_offset: 40960000,");
    check_list("--lines spin", " is in no segment of /");
}

/* A profile may name any file. To open a FIFO waits for a writer, and a device may have bytes without end. */
CP_TEST(only_regular_files_are_read)
{
    make_profile(PIE, PIE_BASE);
    free(test_command(NULL, "cd %s && rm prog.c && mkfifo prog.c", test_dir()));
    check_list("--lines spin", "\n prog.c cannot be read: it is no regular file. Only the lines with values");
    change_profile("s,'[^']*/prog','/dev/zero',");
    check_list("--lines spin", " Instructions cannot be shown: /dev/zero is no regular file.\n");
}

/* Says that the program is for S/390, which the objdump of few machines knows. */
CP_TEST(a_program_for_another_processor_is_told)
{
    make_profile(PIE, PIE_BASE);
    free(test_command(NULL, "cd %s && printf '\\026' | dd of=prog bs=1 seek=18 conv=notrunc 2> /dev/null",
                      test_dir()));
    if (system("objdump -i | grep -q s390") == 0)
        SKIP("objdump knows the other processor");
    check_list("--lines '^spin$'",
               " Instructions of spin cannot be shown: objdump has disassembled nothing of spin in ");
}

CP_TEST(a_machine_without_objdump_is_told_what_is_missing)
{
    char *text;

    make_profile(PIE, PIE_BASE);
    text = test_command(NULL, "cd %s && PATH=/nowhere %s/bin/counterpoint report --lines spin p.pb",
                        test_dir(), test_build_dir());
    CHECK_CONTAINS(text,
                   " Instructions of spin cannot be shown: there is no program objdump, which disassembles: "
                   "install binutils.\n");
    CHECK_CONTAINS(text, "        30         30      8:    for (long i = 0; i < n; i++)\n");
    free(text);
}

CP_TEST(hot_lines_and_instructions_have_colours_on_a_terminal)
{
    char *text;

    if (system("command -v script > /dev/null") != 0)
        SKIP("script is not here");
    make_profile(PIE, PIE_BASE);
    text = test_command(NULL,
                        "cd %s && TERM=xterm NO_COLOR= PAGER=cat script -qec "
                        "\"stty cols 99 rows 99; %s/bin/counterpoint report --lines ^spin p.pb\" /dev/null",
                        test_dir(), test_build_dir());
    CHECK_CONTAINS(text, "\033[1;31m        30         30\033[0m      8:    for (long i = 0;");
    CHECK_CONTAINS(text, "\033[1;31m        50         50\033[0m       ");
    free(text);
}

CP_TEST(a_wrong_name_is_told)
{
    int status;
    char *text;

    make_profile(PIE, PIE_BASE);
    text = list(&status, "--lines nowhere");
    CHECK_EQ(status, 1);
    CHECK_STR(text, "counterpoint: No function in the profile matches \"nowhere\".\n");
    free(text);
    change_profile("/^function/d; s/ line {.*}/ }/");
    text = list(&status, "--lines spin");
    CHECK_EQ(status, 1);
    CHECK_CONTAINS(text, " matches \"spin\": it has addresses, and no names.\n");
    free(text);
    make_profile(PIE, PIE_BASE);
    text = list(&status, "--lines '('");
    CHECK_EQ(status, 2);
    CHECK_CONTAINS(text, "counterpoint: \"(\" is no regular expression: ");
    free(text);
}
