/* Names of C++ functions whose linkage names the debug information lacks, by their symbols. */
#include "tests/support/name_tools.h"

static uint64_t address_of(const char *path, const char *symbol)
{
    char *text = test_command(NULL, "nm %s | sed -n 's/ [tT] %s$//p'", path, symbol);
    uint64_t address = strtoull(text, NULL, 16);

    CHECKF(address != 0, "%s", symbol);
    free(text);
    return address;
}

/* Cuts off the last line. */
static void cut_line(char *text)
{
    text[strlen(text) - 1] = '\0';
    strrchr(text, '\n')[1] = '\0';
}

/* gcc 12 sees a dangling pointer in this if it is inlined. */
static __attribute__((noinline)) char *names_of(struct target *target)
{
    return name_all(target);
}

/* Checks the name of the outermost function at an address. */
static void check_name_at(const char *path, uint64_t address, const char *expected)
{
    struct target *target = calloc(1, sizeof *target);
    char end[200], *names;

    snprintf(target->path, sizeof target->path, "%s", path);
    target->addresses[0] = address;
    target->n = 1;
    names = names_of(target);
    cut_line(names); /* the place */
    snprintf(end, sizeof end, "\n%s\n", expected);
    CHECKF(strlen(names) > strlen(end) && strcmp(names + strlen(names) - strlen(end), end) == 0, "%s", names);
    free(names);
    free(target);
}

static void check_name(const char *path, const char *symbol, const char *expected)
{
    check_name_at(path, address_of(path, symbol), expected);
}

CP_TEST(names_in_symbols_are_found_among_digits_and_dots)
{
    static const char *const options[] = {"-g -O0", "-g -O2", "-g1 -O2"};
    static const char counting[] = "_Z8countingPZ8countingiE18_Z8countingi[.]Frame[.]";
    char path[256], symbol[80];

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        snprintf(path, sizeof path, "%s/target", test_dir());
        free(test_command(NULL, "g++ -x c++ -std=c++20 -fcoroutines %s -o %s %s", options[i], path,
                          test_source("dotted_target.c")));
        snprintf(symbol, sizeof symbol, "%sactor", counting);
        check_name(path, symbol, "counting(counting(int)::_Z8countingi.Frame*)");
        snprintf(symbol, sizeof symbol, "%sdestroy", counting);
        check_name(path, symbol, "counting(counting(int)::_Z8countingi.Frame*)");
        check_name(path, "_ZN12_GLOBAL__N_13v116behindEi", "(anonymous namespace)::v11::behind(int)");
        check_name(path, "_ZN3v12L6partedEi", "v12::parted(int)");
    }
}

/* A coroutine's frame stands in the function whose parameter it is. */
CP_TEST(a_type_in_a_function_may_be_that_of_its_parameter)
{
    char path[256];
    uint64_t actor;

    snprintf(path, sizeof path, "%s/target", test_dir());
    free(test_command(NULL, "g++ -x c++ -std=c++20 -fcoroutines -g -O0 -o %s %s", path,
                      test_source("dotted_target.c")));
    actor = address_of(path, "_Z8countingPZ8countingiE18_Z8countingi[.]Frame[.]actor");
    free(test_command(NULL, "objcopy -w -N '_Z8counting*' %s", path));
    check_name_at(path, actor, "counting(counting(counting::_Z8countingi.Frame*)::_Z8countingi.Frame*)");
}

/* A procedure of Fortran is told from one of the same name in another module. */
CP_TEST(procedures_of_fortran_have_their_modules)
{
    static const char source[] =
        "module one\ncontains\nsubroutine work(n)\ninteger :: n\nprint *, n\nend subroutine\nend module\n";
    char path[256];

    if (!is_there("gfortran"))
        SKIP("There is no gfortran here.");
    snprintf(path, sizeof path, "%s/target", test_dir());
    free(test_command(NULL,
                      "cd %s && printf '%%s' '%s' > one.f90 && gfortran -g -shared -fPIC -o target one.f90",
                      test_dir(), source));
    check_name(path, "__one_MOD_work", "__one_MOD_work");
}
