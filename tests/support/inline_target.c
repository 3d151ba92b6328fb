/*
 * What the comparison of inlined functions builds: functions inside others and inside types, inlined or not,
 * cold parts, copies that the compiler makes, calls from macros, in C and in C++.
 */
#include "inline_target.h"

#define NOINLINE __attribute__((noinline))

/* ---- In both languages ----------------------------------------------------------------------- */

NOINLINE static unsigned call(unsigned (*function)(unsigned), unsigned x)
{
    unsigned result = function(x);

    __asm__ volatile("" ::: "memory");
    return result;
}

NOINLINE static unsigned plain(unsigned x)
{
    return mix_twice(x) + 1;
}

/* Has several returns, in each of which a function is inlined. */
NOINLINE static unsigned branches(unsigned x)
{
    switch (x % 5) {
    case 0:
        return mix(x);
    case 1: {
        unsigned y = mix(x);

        while (y % 3 != 0)
            y = mix_twice(y) + 1;
        return y;
    }
    case 2:
        return mix_twice(x + 2);
    default:
        return x;
    }
}

/* The compiler may put the second half elsewhere, or inline the first half alone. */
static unsigned seldom(unsigned x)
{
    if (__builtin_expect(x == 12345, 0)) {
        sink = mix(x);
        sink = mix_twice(x);
        sink = branches(x);
    }
    return x + 1;
}

__attribute__((cold)) NOINLINE static void complain(unsigned x)
{
    sink = mix(x);
}

NOINLINE static unsigned checked(unsigned x)
{
    if (__builtin_expect(x == 99999, 0)) {
        complain(x);
        return mix(x);
    }
    return seldom(x) + seldom(x + 1);
}

/* The compiler may make a copy for a constant argument. */
NOINLINE static unsigned scaled(unsigned x, unsigned scale)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < scale; i++)
        sum += mix(x + i);
    return sum;
}

NOINLINE static unsigned factorial(unsigned n)
{
    return n < 2 ? mix(n) : n * factorial(n - 1);
}

#define TWICE(x) (mix(x) + mix_twice(x))

NOINLINE static unsigned from_a_macro(unsigned x)
{
    return TWICE(x) + TWICE(x + 1);
}

#ifndef __cplusplus

/* ---- In C ------------------------------------------------------------------------------------ */

#ifndef __clang__
/* GNU's nested functions: one that is called, one that is inlined, one in another, and one as a pointer. */
NOINLINE static unsigned nesting(unsigned x)
{
    unsigned sum = x;
    NOINLINE unsigned inner(unsigned y)
    {
        NOINLINE unsigned innermost(unsigned z)
        {
            sum += z;
            return mix_twice(z);
        }
        sum++;
        return mix(y) + innermost(y + 1);
    }
    inline unsigned inlined(unsigned y)
    {
        return mix(y + sum);
    }

    for (unsigned i = 0; i < 3; i++)
        sum += inner(sum) + inlined(sum);
    return sum;
}

/* Is inlined itself, so that the function in it has no other function around it. */
static inline unsigned nesting_inlined(unsigned x)
{
    NOINLINE unsigned inside(unsigned y)
    {
        return mix_twice(y) + x;
    }
    return inside(x + 2);
}
#endif

static unsigned all(unsigned x)
{
#ifndef __clang__
    x += nesting(x) + nesting_inlined(x) + nesting_inlined(x + 1);
#endif
    return x;
}

#else

/* ---- In C++ ---------------------------------------------------------------------------------- */

template <typename Function> NOINLINE unsigned apply(Function function, unsigned x)
{
    return function(x) + 1;
}

template <typename Function> static inline unsigned apply_inlined(Function function, unsigned x)
{
    return function(x) + mix(x);
}

NOINLINE static unsigned lambdas(unsigned x)
{
    unsigned sum = x;
    auto plain_lambda = [](unsigned y) -> unsigned { return mix(y); };
    auto counting = [&sum](unsigned y) {
        auto inner = [&](unsigned z) { return mix_twice(z + sum); };

        sum += apply(inner, y);
        return mix(y);
    };

    sum += call(plain_lambda, x);
    sum += apply(counting, x) + apply_inlined(counting, x + 1);
    return sum + apply([=](unsigned y) { return mix(x) + y; }, sum);
}

/* The lambda is a function of its own, and is inlined. */
static inline unsigned lambda_of_an_inlined(unsigned x)
{
    auto lambda = [](unsigned y) -> unsigned { return mix_twice(y) + 2; };

    return call(lambda, x);
}

NOINLINE static unsigned local_classes(unsigned x)
{
    struct Local {
        unsigned value;

        NOINLINE static unsigned run(unsigned y)
        {
            return mix(y);
        }
        NOINLINE unsigned method(unsigned y)
        {
            struct Inner {
                NOINLINE static unsigned run(unsigned z)
                {
                    return mix_twice(z);
                }
            };

            return call(Inner::run, y) + mix(value);
        }
        unsigned inlined(unsigned y)
        {
            return mix(value + y);
        }
    } local = {x};

    return call(Local::run, x) + local.method(x) + local.inlined(x);
}

namespace space
{
struct Base {
    virtual ~Base()
    {
        sink = mix(sink);
    }
    virtual unsigned run(unsigned x) = 0;
};

struct Derived : Base {
    unsigned run(unsigned x) override
    {
        return mix_twice(x);
    }
    static unsigned defined_outside(unsigned x);
    struct Nested {
        NOINLINE static unsigned run(unsigned x)
        {
            return mix(x + 1);
        }
    };
};

NOINLINE unsigned Derived::defined_outside(unsigned x)
{
    return mix(x) + Nested::run(x);
}

namespace
{
template <unsigned N> struct Repeat {
    static inline unsigned run(unsigned x)
    {
        return Repeat<N - 1>::run(mix(x));
    }
};
template <> struct Repeat<0> {
    static inline unsigned run(unsigned x)
    {
        return x;
    }
};
} // namespace
} // namespace space

struct Guard {
    unsigned x;

    ~Guard()
    {
        sink = mix(x);
    }
};

NOINLINE static unsigned throwing(unsigned x)
{
    Guard guard = {x};

    try {
        if (x % 11 == 3)
            throw x;
        return mix(x);
    } catch (unsigned y) {
        Guard other = {y};

        return mix_twice(y);
    }
}

static unsigned initial = mix(sink);

NOINLINE static unsigned all(unsigned x)
{
    space::Derived derived;
    space::Base *base = &derived;

    __asm__ volatile("" : "+r"(base));
    x += lambdas(x) + lambda_of_an_inlined(x) + local_classes(x) + base->run(x) + initial;
    return x + space::Derived::defined_outside(x) + space::Repeat<4>::run(x) + throwing(x);
}

#endif

int main(int argc, char **argv)
{
    unsigned x = (unsigned)argc;

    (void)argv;
    x += call(plain, x) + branches(x) + checked(x) + scaled(x, 3) + scaled(x, 5) + factorial(x);
    return (int)((all(x) + from_a_macro(x)) & 1);
}
