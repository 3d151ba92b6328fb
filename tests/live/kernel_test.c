/* Linux does what the simulated kernel does: see tests/unit/sim_test.c. */
#include "tests/support/sim/sim.h"

#define KERNEL_TEST(name) CP_TEST(name)
#define CHECK_NUMBER(number, exact, lo, hi)                                                                  \
    do {                                                                                                     \
        long long number_ = (long long)(number);                                                             \
        CHECKF(number_ >= (long long)(lo) && number_ <= (long long)(hi), #number ": %lld", number_);         \
    } while (0)

#include "tests/support/sim/conformance.h"
