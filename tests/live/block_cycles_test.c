/* What blocks take of which the processor's manual tells that, measured by the command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

/* Returns the cycles of a block; skips the test if the machine is too busy for a result, or measures none. */
static double cycles_of(const char *hex)
{
    for (int tries = 0; tries < 10; tries++) {
        int status;
        char *text =
            test_command(&status, "%s/bin/counterpoint block --cores 1 --csv %s 2>&1", test_build_dir(), hex);
        const char *found = strstr(text, ",measured,");
        const double cycles = found != NULL ? atof(found + strlen(",measured,")) : 0;

        if (strstr(text, "not reproducible") == NULL && found == NULL)
            SKIP("blocks cannot be measured here: %s", text);
        free(text);
        if (cycles > 0)
            return cycles;
    }
    SKIP("%s is never reproducible: the machine is too busy", hex);
}

static bool is_about(double found, double wanted, double part)
{
    return found >= wanted * (1 - part) && found <= wanted * (1 + part);
}

static void check_cycles(const char *hex, double least, double most)
{
    const double cycles = cycles_of(hex);

    printf("%s: %.3f\n", hex, cycles);
    CHECKF(cycles >= least * 0.97 && cycles <= most * 1.03, "%s takes %.3f cycles", hex, cycles);
    CHECKF(is_about(cycles, (double)(long)(cycles + 0.5), 0.03), "%s takes %.3f cycles", hex, cycles);
}

/* Each depends on the one before. */
CP_TEST(chains_take_what_their_instructions_do)
{
    check_cycles("4801c0", 1, 1); /* add rax, rax */
    check_cycles("4801c04801c04801c0", 3, 3);
    check_cycles("480fafc0", 3, 4); /* imul rax, rax: 3 since 2006, 4 on AMD's K10 */
    check_cycles("480fafc04801c0", 4, 5);
    check_cycles("488b00", 3, 5); /* mov rax, [rax]: what is there is the address */
}

/* What does not depend on others runs beside them, also if another thread has half of the core. */
CP_TEST(independent_instructions_overlap)
{
    const double apart = cycles_of("4801db4801c94801d24801f6"),
                 chained = cycles_of("4801c04801c04801c04801c0");

    printf("%.3f %.3f\n", apart, chained);
    CHECK(apart < chained * 0.8);
}

/* An additional instruction in a chain costs what it does alone, so the time outside of copies is not in the
 * result. */
CP_TEST(cycles_add_up_along_a_chain)
{
    const double one = cycles_of("480fafc0"),
                 ten = cycles_of("480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0"
                                 "480fafc0480fafc0480fafc0");

    printf("%.3f %.3f\n", one, ten);
    CHECK(is_about(ten, 10 * one, 0.02));
}
