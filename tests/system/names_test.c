/*
 * Names of C++ functions that have no linkage name in the debug information: gcc writes none for functions of
 * internal linkage, as "(anonymous namespace)::Json::parse" is. At each byte of code, the outermost function
 * has the name that llvm-symbolizer finds in the symbol table, and inlined ones have scopes and parameters.
 */
#include "tests/support/name_tools.h"

/* Returns this library's answers, after they were compared. */
static char *compare_names(const char *compile)
{
    struct target *target;
    char *ours, *copy, *theirs;

    if (!is_there("llvm-symbolizer-14") || !is_there("clang++-14"))
        SKIP("There is no clang-14 or no llvm-symbolizer-14 here (packages clang-14, llvm-14).");
    target = build_target(compile);
    ours = name_all(target);
    copy = strdup(ours);
    theirs = ask(llvm_names, target->path, target->addresses, target->n);
    check_names(compile, copy, theirs);
    printf("%s: %zu addresses\n", compile, target->n);
    free(copy);
    free(theirs);
    free(target);
    return ours;
}

/* Counts the lines that are the name. */
static unsigned n_named(const char *text, const char *name)
{
    const size_t size = strlen(name);
    unsigned n = 0;

    for (const char *at = text; (at = strstr(at, name)) != NULL; at += size)
        n += (at == text || at[-1] == '\n') && at[size] == '\n';
    return n;
}

static void check_there(const char *text, const char *const *names, size_t n, bool is_there)
{
    for (size_t i = 0; i < n; i++)
        CHECKF((n_named(text, names[i]) > 0) == is_there, "%s in:\n%s", names[i], text);
}

#define APP "app::(anonymous namespace)::"

CP_TEST(functions_of_internal_linkage_have_the_names_of_their_symbols, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char *const compiles[] = {"g++ -x c++ -O0 -g", "g++ -x c++ -O2 -g",
                                           "g++ -x c++ -O3 -g -gdwarf-4", "clang++-14 -x c++ -O0 -g",
                                           "clang++-14 -x c++ -O2 -g"};
    static const char *const names[] = {"(anonymous namespace)::Json::parse(unsigned int) const",
                                        "(anonymous namespace)::Xml::parse(unsigned int) const",
                                        "(anonymous namespace)::Xml::operator+(unsigned int) const",
                                        "(anonymous namespace)::Json::~Json()",
                                        APP "Widget::outer(unsigned int) const",
                                        "unsigned int app::(anonymous namespace)::repeat<long, 3>(long)",
                                        APP "both(unsigned int)",
                                        "app::exported(unsigned int)::Local::run(unsigned int)",
                                        "app::exported(int)",
                                        "plain",
                                        "main"};

    for (size_t i = 0; i < sizeof compiles / sizeof compiles[0]; i++) {
        char *text = compare_names(compiles[i]);

        check_there(text, names, sizeof names / sizeof names[0] - 1, true);
        free(text);
    }
}

#define OVERLOADS(name)                                                                                      \
    APP name "(int)", APP name "(double const&)", APP name "(" APP "Mode)",                                  \
        APP name "(unsigned int (*)(unsigned int), char const*, unsigned long)",                             \
        APP name "(" APP "Widget const* const*, short, ...)"

CP_TEST(inlined_functions_have_their_scopes, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char *const names[] = {"(anonymous namespace)::Json::skip(unsigned int) const",
                                        "(anonymous namespace)::Xml::skip(unsigned int) const",
                                        APP "both(unsigned int)" /* also compiled on its own */};
    static const char *const bare[] = {"skip", "operator()", APP "both", "parse"};
    char *text = compare_names("g++ -x c++ -O2 -g");

    check_there(text, names, sizeof names / sizeof names[0], true);
    check_there(text, bare, sizeof bare / sizeof bare[0], false);
    CHECK_CONTAINS(text, "\n" APP "Widget::outer(unsigned int) const::{lambda at 73:");
    CHECK_CONTAINS(text, "\n" APP "Widget::outer(unsigned int) const::{lambda at 74:");
    free(text);
}

/* The place of a lambda is all that is known of one that was only inlined. */
CP_TEST(inlined_functions_have_the_names_of_their_copies, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char name[] = APP "use_twice(unsigned int)::{lambda(unsigned int)#1}::operator()(unsigned "
                                   "int) const";
    char *text = compare_names("g++ -x c++ -O2 -g");

    CHECK(n_named(text, name) > 0);
    CHECK(strstr(text, APP "use_twice(unsigned int)::{lambda at ") == NULL);
    free(text);
}

/* Whether there are two lambdas at different places behind a text. */
static bool has_two(const char *text, const char *before)
{
    const char *first = strstr(text, before), *second = first;

    while (second != NULL && strncmp(first, second, strcspn(first, "}")) == 0)
        second = strstr(second + 1, before);
    return second != NULL;
}

CP_TEST(inlined_functions_of_one_name_are_told_apart, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char *const names[] = {OVERLOADS("convert"), OVERLOADS("take")};
    char *text = compare_names("g++ -x c++ -O2 -g");

    check_there(text, names, sizeof names / sizeof names[0], true);
    CHECK(has_two(text, "\n" APP "pair(unsigned int)::{lambda at "));
    CHECK(has_two(text, "\nunsigned int " APP "apply<" APP "pair(unsigned int)::{lambda at "));
    free(text);
}

/* gcc 12 says C++14 of later versions, too; later compilers have numbers for these. */
CP_TEST(later_versions_of_cxx_have_scopes)
{
    static const char *const names[] = {"(anonymous namespace)::Json::skip(unsigned int) const",
                                        "(anonymous namespace)::Json::parse(unsigned int) const"};
    static const char compile[] = "as() { g++ -x c++ -O2 -g -dA -S -o $2.s $3 && sed -i "
                                  "'/byte.*DW_AT_language/s/0x[0-9a-f]*/%s/' $2.s && "
                                  "grep -q 'byte.*%s.*DW_AT_language' $2.s && g++ -o $2 $2.s; }; as";
    static const char *const languages[] = {"0x2b", "0x2c"};
    char line[512];

    for (size_t i = 0; i < 2; i++) {
        struct target *target;
        char *text;

        snprintf(line, sizeof line, compile, languages[i], languages[i]);
        target = build_target(line);
        text = name_all(target);
        check_there(text, names, 2, true);
        free(text);
        free(target);
    }
}

/* A linker may fold functions of equal code into one, whose symbol is then that of any of them. */
CP_TEST(a_symbol_of_another_function_gives_no_name)
{
    struct target *target = build_target("g++ -x c++ -O2 -g");
    char *text;

    free(test_command(
        NULL, "objcopy --redefine-sym _ZNK12_GLOBAL__N_14Json5parseEj=_ZNK12_GLOBAL__N_14Yaml4readEj %s",
        target->path));
    text = name_all(target);
    CHECK(strstr(text, "Yaml") == NULL);
    CHECK(n_named(text, "(anonymous namespace)::Json::parse(unsigned int) const") > 0);
    free(text);
    free(target);
}

/* Debug information alone gives the names that demanglers make of symbols, but tells a lambda by its place
 * and not by a number. */
CP_TEST(names_of_debug_information_are_those_of_the_linker, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char *const compiles[] = {"g++ -x c++ -O0 -g", "g++ -x c++ -O2 -g -gdwarf-4"};

    for (size_t i = 0; i < sizeof compiles / sizeof compiles[0]; i++) {
        struct target *target = build_target(compiles[i]);
        char *whole = name_all(target), *stripped, *a, *b, *at_a = whole, *at_b;
        unsigned n = 0;

        free(test_command(NULL, "objcopy --strip-all --keep-section='.debug*' %s", target->path));
        at_b = stripped = name_all(target);
        while ((a = strsep(&at_a, "\n")) != NULL && (b = strsep(&at_b, "\n")) != NULL) {
            CHECKF(strcmp(a, b) == 0 || (strstr(a, "{lambda(") != NULL && strstr(b, "{lambda at ") != NULL),
                   "%s:\nwith symbols: %s\nwithout:      %s", compiles[i], a, b);
            n += strstr(b, "(anonymous namespace)::") == b;
        }
        CHECK(at_a == NULL && at_b == NULL && n > 100);
        free(whole);
        free(stripped);
        free(target);
    }
}
