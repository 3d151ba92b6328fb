/*
 * Inlined functions: at each byte of code of a set of programs, this library finds what both addr2line and
 * llvm-symbolizer find. The programs have no symbol tables, so that all names come from the debug
 * information: with symbols, both tools name some functions by the symbol of another one.
 *
 * These tools, of binutils 2.40 and LLVM 14, have flaws:
 *
 *     addr2line         does not read range lists by their index, which clang writes in DWARF 5: it misses
 *                       inlined functions in several parts, and credits their code to the function around
 *                       them
 *     both              do not read all split debug information: addr2line reads none, and llvm-symbolizer
 *                       finds no inlined functions in gcc's C at -O1. So a program with split debug
 *                       information is compared with the same program without: the code of both is the same,
 *                       byte by byte.
 */
#include "tests/support/symbol_tools.h"

/* A sanitizer looks at how the library reads, for which some of the addresses are enough. */
enum { MAX_ADDRESSES = 10000, STEP = TEST_ASAN || TEST_TSAN ? 16 : 1 };

/* What a tool says about one address, up to its answer for the next address, to which *at moves. */
struct answer {
    const char *text;
    size_t size;
};

static struct answer next_answer(const char **at)
{
    const char *next = strstr(*at, "\n0x");
    struct answer answer = {*at, next == NULL ? strlen(*at) : (size_t)(next + 1 - *at)};

    *at += answer.size;
    return answer;
}

static bool is_same(struct answer a, struct answer b)
{
    return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

static unsigned n_lines(struct answer answer)
{
    unsigned n = 0;

    for (size_t i = 0; i < answer.size; i++)
        n += answer.text[i] == '\n';
    return n;
}

/* Whether addr2line does not know the answer, for the reason given above. */
static bool is_known_difference(const char *compile, struct answer addr2line, struct answer llvm)
{
    return strstr(compile, "clang") != NULL && strstr(compile, "-gdwarf-5") != NULL &&
           n_lines(addr2line) < n_lines(llvm);
}

static void check_answers(const char *compile, const char *ours, const char *addr2line, const char *llvm)
{
    unsigned n = 0, n_differences = 0;

    while (*llvm != '\0') {
        const struct answer a = next_answer(&ours), b = next_answer(&addr2line), c = next_answer(&llvm);
        const bool is_different = !is_same(b, c);

        n++;
        n_differences += is_different;
        if (!is_same(a, c) || (is_different && !is_known_difference(compile, b, c)))
            TEST_FAIL("%s:\nours:\n%.*s\naddr2line:\n%.*s\nllvm-symbolizer:\n%.*s", compile, (int)a.size,
                      a.text, (int)b.size, b.text, (int)c.size, c.text);
    }
    CHECK_STR(ours, "");
    CHECK_STR(addr2line, "");
    printf("%s: %u addresses; addr2line and llvm-symbolizer differ at %u\n", compile, n, n_differences);
}

struct program {
    uint64_t addresses[MAX_ADDRESSES];
    size_t n;
    char *answers; /* this library's answers */
};

static void build_program(const char *compile, const char *name)
{
    free(test_command(NULL, "cd %s && %s -o %s %s && objcopy -O binary -j .text %s %s.text", test_dir(),
                      compile, name, test_source("inline_target.c"), name, name));
}

/* Leaves the program "whole" and its answers "whole.text" in the test's directory. */
static void check_whole(const char *compile, struct program *program)
{
    char path[256], *addr2line, *llvm;
    unsigned inlined;

    build_program(compile, "whole");
    snprintf(path, sizeof path, "%s/whole", test_dir());
    program->n = list_functions(path, program->addresses, MAX_ADDRESSES, STEP);
    free(test_command(NULL, "objcopy --strip-all --keep-section='.debug*' %s", path));
    program->answers = look_up(path, program->addresses, program->n, &inlined);
    CHECKF(inlined > 100 / STEP, "%u", inlined);
    addr2line = ask("addr2line -a -f -i -s", path, program->addresses, program->n);
    llvm = ask("llvm-symbolizer-14 --output-style=GNU --no-demangle -a -f -i --basenames", path,
               program->addresses, program->n);
    check_answers(compile, program->answers, addr2line, llvm);
    free(addr2line);
    free(llvm);
}

/* Checks that the library finds the same in the program with split debug information. */
static void check_split(const char *compile, const struct program *whole)
{
    char path[256], *answers;
    unsigned inlined;

    build_program(compile, "split");
    free(test_command(NULL, "cd %s && cmp whole.text split.text", test_dir()));
    snprintf(path, sizeof path, "%s/split", test_dir());
    free(test_command(NULL, "objcopy --strip-all --keep-section='.debug*' %s", path));
    answers = look_up(path, whole->addresses, whole->n, &inlined);
    check_equal(answers, whole->answers);
    free(answers);
}

/* Checks both versions of DWARF, split and not. */
static void check_level(const char *compiler, unsigned level)
{
    static const char *const formats[] = {"-gdwarf-4", "-gdwarf-5"};
    struct program *program = malloc(sizeof *program);
    char compile[128], split[160];

    if (!is_there("llvm-symbolizer-14") || !is_there("clang++-14"))
        SKIP("There is no clang-14 or no llvm-symbolizer-14 here (packages clang-14, llvm-14).");
    for (unsigned i = 0; i < 2; i++) {
        snprintf(compile, sizeof compile, "%s -O%u -g %s", compiler, level, formats[i]);
        snprintf(split, sizeof split, "%s -gsplit-dwarf", compile);
        check_whole(compile, program);
        check_split(split, program);
        free(program->answers);
    }
    free(program);
}

#define LEVEL(test, compiler, level)                                                                         \
    CP_TEST(test, .timeout_s = 60 * TEST_SLOWDOWN)                                                           \
    {                                                                                                        \
        check_level(compiler, level);                                                                        \
    }

LEVEL(inlining_by_gcc_in_c_at_0_is_known, "gcc -x c", 0)
LEVEL(inlining_by_gcc_in_c_at_1_is_known, "gcc -x c", 1)
LEVEL(inlining_by_gcc_in_c_at_2_is_known, "gcc -x c", 2)
LEVEL(inlining_by_gcc_in_c_at_3_is_known, "gcc -x c", 3)
LEVEL(inlining_by_gcc_in_cxx_at_0_is_known, "g++ -x c++", 0)
LEVEL(inlining_by_gcc_in_cxx_at_1_is_known, "g++ -x c++", 1)
LEVEL(inlining_by_gcc_in_cxx_at_2_is_known, "g++ -x c++", 2)
LEVEL(inlining_by_gcc_in_cxx_at_3_is_known, "g++ -x c++", 3)
LEVEL(inlining_by_clang_in_c_at_0_is_known, "clang-14 -x c", 0)
LEVEL(inlining_by_clang_in_c_at_1_is_known, "clang-14 -x c", 1)
LEVEL(inlining_by_clang_in_c_at_2_is_known, "clang-14 -x c", 2)
LEVEL(inlining_by_clang_in_c_at_3_is_known, "clang-14 -x c", 3)
LEVEL(inlining_by_clang_in_cxx_at_0_is_known, "clang++-14 -x c++", 0)
LEVEL(inlining_by_clang_in_cxx_at_1_is_known, "clang++-14 -x c++", 1)
LEVEL(inlining_by_clang_in_cxx_at_2_is_known, "clang++-14 -x c++", 2)
LEVEL(inlining_by_clang_in_cxx_at_3_is_known, "clang++-14 -x c++", 3)

/* ---- Functions that want to be taken for their callers --------------------------------------- */

static const char artificial[] =
    "extern volatile unsigned sink;\n"
    "static inline __attribute__((always_inline)) void inner(void)\n"
    "{\n"
    "    sink = 1;\n" /* line 4 */
    "}\n"
    "static inline __attribute__((always_inline, artificial)) void wrapper(void)\n"
    "{\n"
    "    sink = 2;\n" /* line 8 */
    "    inner();\n"
    "}\n"
    "void outer(void)\n"
    "{\n"
    "    wrapper();\n" /* line 13 */
    "}\n"
    "volatile unsigned sink;\n"
    "void other(void)\n" /* there are enough addresses */
    "{\n"
    "    sink += sink * sink + sink * sink * sink + sink / (sink + 1) - sink % (sink + 2);\n"
    "    sink += sink * sink + sink * sink * sink + sink / (sink + 1) - sink % (sink + 2);\n"
    "}\n"
    "int main(void)\n"
    "{\n"
    "    outer();\n"
    "    return 0;\n"
    "}\n";

/* Their code is their callers', in the line of the call. What is inlined into them keeps its name. */
static void check_artificial(const char *compile)
{
    struct program *program = malloc(sizeof *program);
    unsigned inlined;
    char path[256];

    printf("%s\n", compile);
    test_write_file("artificial.c", artificial);
    free(test_command(NULL, "cd %s && %s -o artificial artificial.c", test_dir(), compile));
    snprintf(path, sizeof path, "%s/artificial", test_dir());
    program->n = list_functions(path, program->addresses, MAX_ADDRESSES, 1);
    program->answers = look_up(path, program->addresses, program->n, &inlined);
    CHECK_CONTAINS(program->answers, "inner\nartificial.c:4\nouter\nartificial.c:13\n");
    CHECK_CONTAINS(program->answers, "\nouter\nartificial.c:13\n0x");
    CHECKF(strstr(program->answers, "wrapper") == NULL, "%s", program->answers);
    CHECKF(strstr(program->answers, "artificial.c:8\n") == NULL, "%s", program->answers);
    free(program->answers);
    free(program);
}

CP_TEST(artificial_functions_are_their_callers)
{
    check_artificial("gcc -O1 -g");
    check_artificial("gcc -O0 -g -gdwarf-4");
    if (is_there("clang-14"))
        check_artificial("clang-14 -O1 -g");
}
