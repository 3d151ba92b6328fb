/* Structs that begin with their size, for programs and libraries of different versions. */
#include "runtime/base/sized.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/test.h"

struct young {
    size_t size;
    uint64_t first;
};
struct grown {
    size_t size;
    uint64_t first, second;
};

CP_TEST(what_a_shorter_struct_lacks_is_zero)
{
    const struct young from = {.size = sizeof from, .first = 7};
    struct grown to = {.second = 1};

    CHECK_EQ(CP__TAKE(grown, &to, &from, NULL), 0);
    CHECK_EQ(to.size, sizeof to);
    CHECK_EQ(to.first, 7);
    CHECK_EQ(to.second, 0);
}

CP_TEST(a_longer_struct_is_refused_unless_its_tail_is_zero)
{
    struct grown from = {.size = sizeof from, .first = 7};
    struct young to;
    struct cp_error err;

    CHECK_EQ(CP__TAKE(young, &to, &from, &err), 0);
    CHECK_EQ(to.size, sizeof to);
    CHECK_EQ(to.first, 7);
    from.second = (uint64_t)1 << 63; /* a bit in the last byte */
    CHECK_EQ(CP__TAKE(young, &to, &from, &err), -E2BIG);
    CHECKF(strstr(err.message, "struct young") != NULL, "%s", err.message);
}

CP_TEST(a_struct_without_a_size_is_refused)
{
    const struct young none = {.size = 0}, garbage = {.size = (size_t)1 << 40};
    struct young to = {.size = 0};
    struct cp_error err;

    CHECK_EQ(CP__TAKE(young, &to, &none, &err), -EINVAL);
    CHECKF(strstr(err.message, "sizeof(struct young)") != NULL, "%s", err.message);
    CHECK_EQ(CP__TAKE(young, &to, &garbage, &err), -E2BIG);
    CHECK_EQ(CP__GIVE(young, &to, &none, &err), -EINVAL);
    to.size = garbage.size;
    CHECK_EQ(CP__GIVE(young, &to, &none, &err), -E2BIG);
}

CP_TEST(a_shorter_struct_is_filled_to_its_end)
{
    const struct grown from = {.size = sizeof from, .first = 7, .second = 8};
    struct {
        struct young struct_;
        uint64_t behind;
    } to = {.struct_ = {.size = sizeof to.struct_}, .behind = 5};

    CHECK_EQ(CP__GIVE(grown, &to.struct_, &from, NULL), 0);
    CHECK_EQ(to.struct_.size, sizeof to.struct_);
    CHECK_EQ(to.struct_.first, 7);
    CHECK_EQ(to.behind, 5);
}

CP_TEST(the_tail_of_a_longer_struct_is_zeroed)
{
    const struct young from = {.size = sizeof from, .first = 7};
    struct grown to = {.size = sizeof to, .second = 9};

    CHECK_EQ(CP__GIVE(young, &to, &from, NULL), 0);
    CHECK_EQ(to.size, sizeof to);
    CHECK_EQ(to.first, 7);
    CHECK_EQ(to.second, 0);
}
