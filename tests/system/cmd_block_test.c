/* `counterpoint block`: what it reads and prints, and how it goes on where it was interrupted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/profile_tools.h"

/* Runs the command with arguments, in the test's directory. Returns what it prints, errors included. */
static char *block(int *status, const char *arguments)
{
    return test_command(status, "cd %s && %s/bin/counterpoint block %s 2>&1", test_dir(), test_build_dir(),
                        arguments);
}

static void need_blocks(void)
{
    int status;
    char *text = block(&status, "4801c0");

    if (status == 1)
        SKIP("blocks cannot be measured here: %s", text);
    free(text);
}

static void check_block(int expected, const char *arguments, const char *part)
{
    int status;
    char *text = block(&status, arguments);

    CHECKF(status == expected, "%s: %d: %s", arguments, status, text);
    CHECK_CONTAINS(text, part);
    free(text);
}

/* ---- Input ----------------------------------------------------------------------------------- */

CP_TEST(bad_usage_is_refused_in_words)
{
    static const char *const usages[][2] = {
        {"", "Which block?"},
        {"4801c", "\"4801c\" is no block"},
        {"48 zz", "\"zz\" is no block"},
        {"--file none.csv", "none.csv cannot be opened: No such file"},
        {"--file /dev/null", "/dev/null has no blocks"},
        {"--file /dev/null 4801c0", "Which block?"},
        {"--asm 'foo'", "no such instruction"},
        {"--asm '# nothing'", "no instruction"},
        {"--cores 0 4801c0", "--cores takes a number"},
        {"--cores x 4801c0", "--cores takes a number"},
        {"--json -o x 4801c0", "-o FILE writes CSV"},
        {"--neither 4801c0", "--help"},
        {"-o /nowhere/x 4801c0", "/nowhere/x cannot be written"},
    };

    for (size_t i = 0; i < sizeof usages / sizeof usages[0]; i++)
        check_block(2, usages[i][0], usages[i][1]);
}

/* As in the published sets: the digits, and how often the block was seen. */
CP_TEST(files_have_a_block_a_line)
{
    int status;
    char *text;

    need_blocks();
    free(test_command(NULL, "cd %s && printf '4801c0,0.5\\n\\n0f05\\r\\n4829C0,1' > blocks.csv", test_dir()));
    text = block(&status, "--csv --file blocks.csv | cut -d, -f1,6,7");
    CHECK_STR(text, "block,instructions,bytes\n4801c0,1,3\n0f05,0,0\n4829C0,1,3\n");
    free(text);
    check_block(0, "--file - < blocks.csv", "3 blocks: ");
    free(test_command(NULL, "cd %s && printf '4801c0\\nxyz\\n' > bad.csv", test_dir()));
    check_block(2, "--file bad.csv", "bad.csv:2: \"xyz\" is no block");
}

CP_TEST(assembly_is_taken_in_both_syntaxes)
{
    static const char *const texts[] = {"add rax, rax; mov rbx, [rax + 8]",
                                        "addq %rax, %rax; movq 8(%rax), %rbx"};

    need_blocks();
    for (size_t i = 0; i < 2; i++) {
        char *text, arguments[120];
        int status;

        snprintf(arguments, sizeof arguments, "--csv --asm '%s' | tail -n 1 | cut -d, -f1,6", texts[i]);
        text = block(&status, arguments);
        CHECK_STR(text, "4801c0488b5808,2\n");
        free(text);
    }
}

/* The command itself has functions. */
CP_TEST(blocks_are_found_in_files)
{
    char *text, arguments[200];
    int status;

    need_blocks();
    snprintf(arguments, sizeof arguments, "--csv %s/bin/counterpoint:main", test_build_dir());
    text = block(&status, arguments);
    CHECK(status <= 1);
    CHECK(strstr(text, "no symbol") == NULL);
    CHECK(strchr(strchr(text, '\n') + 1, '\n') != NULL); /* a block, at least */
    free(text);
    free(test_command(
        NULL,
        "cd %s && printf 'f: .globl f; .type f,@function; add %%%%rax,%%%%rax; 1: dec %%%%rcx; jnz 1b; ret; "
        ".size f,.-f' | gcc -c -x assembler - -o f.o && ld -shared f.o -o f.so",
        test_dir()));
    text = block(&status, "--csv f.so:f | tail -n +2 | cut -d, -f1");
    CHECK_STR(text, "4801c0\n48ffc975fb\nc3\n");
    free(text);
    text = block(&status,
                 "--csv f.so:0x$(nm f.so | awk '$3 == \"f\" { print $1 }') | tail -n +2 | cut -d, -f1,8");
    CHECK_STR(text, "4801c048ffc975fb,1\n");
    free(text);
    check_block(2, "f.so:g", "f.so has no symbol of a function g");
    check_block(2, "f.so:0x10", "f.so has no code at 0x10");
    check_block(2, "none.so:f", "none.so cannot be opened");
    check_block(2, "/dev/null:f", "/dev/null is no object file");
}

/* ---- Output ---------------------------------------------------------------------------------- */

CP_TEST(json_is_read_by_jq)
{
    int status;
    char *text;

    need_blocks();
    text = block(&status,
                 "--json 0f05 4801c0 4801c075f8 | jq -c '.[] | [.block, .instructions, .branch, .detail, "
                 "(.status == \"refused\"), has(\"cycles\")]'");
    CHECK_STR(text, "[\"0f05\",0,false,\"syscall, at byte 0\",true,false]\n"
                    "[\"4801c0\",1,false,\"\",false,true]\n"
                    "[\"4801c075f8\",1,true,\"\",false,true]\n");
    free(text);
}

/* In a region of its own for each block; one that llvm-mca does not know has no figure, and the others have.
 */
CP_TEST(models_stand_beside)
{
    int status;
    char *text;

    need_blocks();
    if (system("command -v llvm-mca > /dev/null") != 0)
        SKIP("llvm-mca is not here");
    text = block(
        &status,
        "--model --json 4801c0 06 0f01f9 480fafc0 | jq -c '.[] | [.block, (.model != null and .model > 0)]'");
    CHECK_CONTAINS(text, "[\"4801c0\",true]\n[\"06\",false]\n");
    CHECK_CONTAINS(text, "[\"480fafc0\",true]\n");
    free(text);
}

/* Of 1000 blocks of the published set (tests/support/bhive), the first 150. Nearly all of them run, which
 * needs the pages that they touch. How many are reproducible depends on who else uses the machine. */
CP_TEST(blocks_of_programs_run)
{
    int status, run;
    char *text;

    need_blocks();
    free(test_command(NULL, "head -n 150 %s > %s/blocks.csv", test_source("bhive/blocks.csv"), test_dir()));
    text = block(&status, "--file blocks.csv --csv | grep -cE ',(measured|not reproducible),'");
    run = atoi(text);
    printf("%d of 150\n", run);
    CHECK(run >= 140 && run < 150);
    free(text);
}

/* mov rax, [rdi+62] goes from one line of the cache into the next; so do all of its copies. */
CP_TEST(marks_tell_what_may_falsify_a_result)
{
    int status;
    char *text;

    need_blocks();
    check_block(0, "--help", "MARKS");
    text = block(&status, "488b473e 4801c0 | awk 'NR <= 3 { print $6 }'");
    CHECK_STR(text, "MARKS\nCU\n-\n");
    free(text);
    text =
        block(&status, "--csv 488b473e | awk -F, '{ print $15, $20, $16 == $17, $17 == $18, $18 == $19 }'");
    CHECK_STR(text, "physical may_alias 0 0 0\n1 0 1 1 1\n");
    free(text);
    text = block(&status, "--json 488b473e | jq -c '.[] | [.physical, .may_alias, .accesses == .traced, "
                          ".unaligned == .traced, .crossings == .traced]'");
    CHECK_STR(text, "[1,false,true,true,true]\n");
    free(text);
}

CP_TEST(nothing_measured_is_no)
{
    need_blocks();
    check_block(1, "0f05 ebfe90", "2 blocks: 1 branch inside (50.00 %) 1 refused (50.00 %)");
}

/* ---- Interrupted runs ------------------------------------------------------------------------ */

/* A file that ends in the middle of a line has been interrupted there. */
CP_TEST(an_interrupted_run_is_gone_on_with)
{
    int status;
    char *text;

    need_blocks();
    free(test_command(NULL, "cd %s && printf '0f05\\n06\\nebfe90\\n' > blocks.csv", test_dir()));
    free(block(&status, "--file blocks.csv -o out.csv"));
    CHECK_EQ(status, 1);
    free(test_command(
        NULL,
        "cd %s && cp out.csv whole.csv && head -c -10 whole.csv > out.csv && sed -i s/syscall/kept/ out.csv",
        test_dir()));
    free(block(&status, "--file blocks.csv -o out.csv"));
    text = test_command(
        NULL, "cd %s && sed s/kept/syscall/ out.csv | cmp - whole.csv && grep -c kept out.csv", test_dir());
    CHECK_STR(text, "1\n");
    free(text);
    check_block(0, "--file blocks.csv -o out.csv", ""); /* nothing is left to do */
}

CP_TEST(a_file_of_others_stays_as_it_is)
{
    char *text;

    need_blocks();
    free(test_command(NULL, "cd %s && echo mine > mine.csv", test_dir()));
    check_block(2, "-o mine.csv 4801c0", "mine.csv is there already");
    free(test_command(NULL, "cd %s && %s/bin/counterpoint block 0f05 -o other.csv; cp other.csv other.bak",
                      test_dir(), test_build_dir()));
    check_block(2, "-o other.csv 06", "other.csv is there already");
    text = test_command(NULL, "cd %s && cat mine.csv && cmp other.csv other.bak", test_dir());
    CHECK_STR(text, "mine\n");
    free(text);
}
