/* Names of C++ and Rust functions: what people read, and what stays as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pprof/symbol/demangle.h"
#include "runtime/base/thread.h"
#include "tests/support/test.h"

static void check(const char *name, const char *expected)
{
    char *text;

    CHECK_EQ(cp__demangle(name, &text), 0);
    if (expected == NULL)
        CHECKF(text == NULL, "%.100s: %.100s", name, text);
    else
        CHECK_STR(text != NULL ? text : "(none)", expected);
    free(text);
}

CP_TEST(names_of_cxx_have_scopes_and_types)
{
    check("_ZN3foo3barEi", "foo::bar(int)");
    check("_ZN12_GLOBAL__N_14JsonC2Ev", "(anonymous namespace)::Json::Json()");
    check("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back(int&&)");
    check("_ZNK3appUlvE_clEv", "app::{lambda()#1}::operator()() const");
}

/* The end of an old name of Rust is a hash. */
CP_TEST(names_of_rust_lose_their_hash)
{
    check("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place");
    check("_RNvC6_123foo3bar", "123foo::bar");
}

CP_TEST(other_names_stay)
{
    check("main", NULL);
    check("_Reset", NULL);
    check("_Z", NULL);
    check("_ZN3foo", NULL);
    check("", NULL);
}

/* Puts so many levels of pointers into a name: _Z1fPPPi. */
static void make_pointers(char *name, size_t n)
{
    strcpy(name, "_Z1f");
    memset(name + 4, 'P', n);
    strcpy(name + 4 + n, "i");
}

static void *check_long_names(void *arg)
{
    char *name = malloc(100000), *text;

    make_pointers(name, 900);
    CHECK_EQ(cp__demangle(name, &text), 0);
    CHECK(text != NULL && strlen(text) == strlen("f(int)") + 900);
    free(text);
    make_pointers(name, 4000); /* nested too deeply for libiberty */
    check(name, NULL);
    make_pointers(name, 90000);
    check(name, NULL);
    strcpy(name, "_ZN");
    for (unsigned i = 0; i < 600; i++)
        strcat(name, "4name");
    strcat(name, "Ev");
    CHECK_EQ(cp__demangle(name, &text), 0);
    CHECK(text != NULL && strlen(text) == 600 * strlen("name::"));
    free(text);
    free(name);
    return arg;
}

CP_TEST(long_names_fit_the_stack)
{
    CHECK_EQ(cp__thread_run(check_long_names, NULL), 0);
}

/* Each type has the one before it twice: 2 to the power of 31 names of int. */
static void *check_large_names(void *arg)
{
    static const char digits[] = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char name[400] = "_Z1f1AIiiES_IS0_S0_E";

    for (unsigned i = 0; i < 29; i++)
        sprintf(name + strlen(name), "S_IS%c_S%c_E", digits[i], digits[i]);
    check(name, NULL);
    name[strlen("_Z1f1AIiiES_IS0_S0_ES_IS1_S1_E")] = '\0';
    check(name, "f(A<int, int>, A<A<int, int>, A<int, int> >, A<A<A<int, int>, A<int, int> >, "
                "A<A<int, int>, A<int, int> > >)");
    return arg;
}

CP_TEST(a_short_name_that_stands_for_gigabytes_stays, .timeout_s = 10 * TEST_SLOWDOWN)
{
    CHECK_EQ(cp__thread_run(check_large_names, NULL), 0);
}
