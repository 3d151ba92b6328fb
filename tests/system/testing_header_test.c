/* testing.h with the compilers of users: its macros are C and C++, cause no warning, and mean the same in
 * both. */
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char program[] = "#include \"testing/testing.h\"\n"
                              "static const struct row { const char *name; int in, out; } rows[] = {\n"
                              "    {\"two\", 2, 4}, {\"three\", 3, 10}};\n"
                              "CP_TEST(plain)\n"
                              "{\n"
                              "    if (!cp_t_name(t))\n"
                              "        cp_t_fatal(t, \"It has no name.\");\n"
                              "}\n"
                              "CP_TEST(hangs, .timeout_s = 0.5)\n"
                              "{\n"
                              "    for (volatile int i = 0; !i || cp_t_failed(t);)\n"
                              "        ;\n"
                              "}\n"
                              "CP_TEST_TABLE(square, rows)\n"
                              "{\n"
                              "    if (row->in * row->in != row->out)\n"
                              "        cp_t_error(t, \"%d became %d\", row->in, row->out);\n"
                              "}\n"
                              "CP_TEST_TABLE(hanging_square, rows, .timeout_s = 0.5)\n"
                              "{\n"
                              "    for (volatile int i = 0; !i || row->in == 0;)\n"
                              "        ;\n"
                              "}\n"
                              "CP_BENCHMARK(loop)\n"
                              "{\n"
                              "    for (; cp_bench_next(b);)\n"
                              "        ;\n"
                              "}\n"
                              "CP_TEST_MAIN()\n";

/* Compiles the program in the test's directory. The headers are in several directories of the tree, which an
 * installation has in one. */
static void compile(const char *compiler)
{
    test_write_file("program.c", program);
    free(test_command(NULL,
                      "%s -I. $(find runtime -type d -printf '-iquote %%p ') -Wall -Wextra -Wpedantic "
                      "-Werror -c %s/program.c -o %s/program.o",
                      compiler, test_dir(), test_dir()));
}

CP_TEST(it_is_c_without_a_warning)
{
    static const char *const compilers[] = {"gcc -std=c99",      "gcc -std=c11",      "gcc -std=c2x",
                                            "clang-14 -std=c99", "clang-14 -std=c11", "clang-14 -std=c2x"};
    for (size_t i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++)
        compile(compilers[i]);
}

CP_TEST(it_is_cpp_without_a_warning)
{
    static const char *const compilers[] = {"g++ -x c++ -std=c++11",      "g++ -x c++ -std=c++17",
                                            "g++ -x c++ -std=c++20",      "clang-14 -x c++ -std=c++11",
                                            "clang-14 -x c++ -std=c++17", "clang-14 -x c++ -std=c++20"};
    for (size_t i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++)
        compile(compilers[i]);
}

CP_TEST(it_means_the_same_in_cpp)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("the library has a sanitizer in it");
    const char *dir = test_dir(), *build = test_build_dir();
    int status;
    compile("g++ -x c++ -std=c++17 -g");
    char *output = test_command(&status,
                                "cd %s && g++ program.o -o program -L%s/lib -lcounterpoint-testing "
                                "-lcounterpoint && LD_LIBRARY_PATH=%s/lib ./program -bench . -benchtime 5x "
                                "-v",
                                dir, build, build);
    CHECKF(status == 1, "%d: %s", status, output);
    CHECK_CONTAINS(output, "--- PASS: Test_plain (");
    char *hang = strstr(output, "panic: the test timed out after 0.5 s\n");
    CHECKF(hang && strstr(hang + 1, "panic: the test timed out after 0.5 s\n"), "%s", output);
    CHECK_CONTAINS(output, "--- FAIL: Test_hangs (");
    CHECK_CONTAINS(output, "    --- PASS: Test_square/two (");
    CHECK_CONTAINS(output, "    --- FAIL: Test_square/three (");
    CHECK_CONTAINS(output, ": 3 became 10\n");
    CHECK_CONTAINS(output, "--- FAIL: Test_hanging_square (");
    free(output);
    free(test_command(NULL, "cd %s && LD_LIBRARY_PATH=%s/lib ./program -run '^$' -bench loop -benchtime 5x",
                      dir, build));
}
