/* What the comparison of names builds, in C++: functions of equal names in scopes that only the compiler or
 * the linker tells apart, inlined or not. */
#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))

volatile unsigned sink;

static unsigned seen(unsigned x)
{
    sink = sink + x;
    return sink * 3;
}

namespace
{
struct Json {
    Json(unsigned x) : x(x)
    {
        seen(x);
    }
    NOINLINE ~Json()
    {
        seen(x + 1);
    }
    NOINLINE unsigned parse(unsigned n) const
    {
        return seen(n) + x;
    }
    INLINE unsigned skip(unsigned n) const
    {
        return seen(n + 1) + x;
    }
    unsigned x;
};

struct Xml {
    NOINLINE unsigned parse(unsigned n) const
    {
        return seen(n) * seen(n + 2);
    }
    INLINE unsigned skip(unsigned n) const
    {
        return seen(n + 3);
    }
    NOINLINE unsigned operator+(unsigned n) const
    {
        return skip(n) + 1;
    }
};
} // namespace

namespace app
{
namespace
{
template <typename F> INLINE unsigned apply(F f, unsigned n)
{
    return f(n) + seen(n);
}

template <typename T, int N> NOINLINE unsigned repeat(T x)
{
    unsigned sum = 0;

    for (int i = 0; i < N; i++)
        sum += seen((unsigned)x);
    return sum;
}

struct Widget {
    NOINLINE unsigned outer(unsigned n) const
    {
        auto first = [this](unsigned i) { return seen(i) + k; };
        auto second = [this](unsigned i) { return seen(i + 1) - k; };

        return apply(first, n) + apply(second, n);
    }
    NOINLINE unsigned called(unsigned n) const
    {
        unsigned (*volatile lambda)(unsigned) = [](unsigned i) -> unsigned { return seen(i) + 2; };

        return lambda(n);
    }
    unsigned k;
};

/* Functions of one name that parameters tell apart, inlined and not. */
enum class Mode { PLAIN, DEEP };

#define OVERLOADS(kind, name)                                                                                \
    kind unsigned name(int n)                                                                                \
    {                                                                                                        \
        return seen((unsigned)n + 11);                                                                       \
    }                                                                                                        \
    kind unsigned name(const double &x)                                                                      \
    {                                                                                                        \
        return seen((unsigned)x + 12);                                                                       \
    }                                                                                                        \
    kind unsigned name(Mode mode)                                                                            \
    {                                                                                                        \
        return seen((unsigned)mode + 13);                                                                    \
    }                                                                                                        \
    kind unsigned name(unsigned (*function)(unsigned), const char *text, unsigned long size)                 \
    {                                                                                                        \
        return function(seen((unsigned)text[size]));                                                         \
    }                                                                                                        \
    kind unsigned name(const Widget *const *widgets, short n, ...)                                           \
    {                                                                                                        \
        return seen((unsigned)n) + widgets[0]->k;                                                            \
    }
OVERLOADS(INLINE, convert)
OVERLOADS(NOINLINE, take)

/* Two lambdas of one function, of one line, and with the same parameters. */
NOINLINE unsigned pair(unsigned n)
{
    return apply([](unsigned i) { return seen(i); }, n) + apply([](unsigned i) { return seen(~i); }, n);
}

/* Calls a lambda that is inlined here in one place, and called in another. */
NOINLINE unsigned use_twice(unsigned n)
{
    auto lambda = [](unsigned i) { return seen(i + 31) * seen(i); };
    unsigned (decltype(lambda)::*volatile member)(unsigned) const = &decltype(lambda)::operator();

    return lambda(n) + (lambda.*member)(n);
}

/* Is inlined in one place, and called in another. */
inline unsigned both(unsigned n)
{
    return seen(n) + seen(n + 5);
}
unsigned (*volatile call_both)(unsigned) = both;
} // namespace

NOINLINE unsigned exported(unsigned n)
{
    struct Local {
        NOINLINE static unsigned run(unsigned n)
        {
            return seen(n + 7);
        }
    };

    return Local::run(n) + both(n) + call_both(n) + pair(n) + use_twice(n);
}
NOINLINE unsigned exported(int n)
{
    return seen((unsigned)n) + 1;
}
} // namespace app

static unsigned use_overloads(const app::Widget *widget)
{
    const double x = sink;
    unsigned sum = app::convert((int)sink) + app::convert(x) + app::convert(app::Mode::DEEP) +
                   app::convert(seen, "text", sink % 4);

    sum +=
        app::take((int)sink) + app::take(x) + app::take(app::Mode::DEEP) + app::take(seen, "text", sink % 4);
    return sum + app::convert(&widget, (short)sink) + app::take(&widget, (short)sink);
}

extern "C" NOINLINE unsigned plain(unsigned n)
{
    return seen(n) + 1;
}

int main(int argc, char **argv)
{
    unsigned x = (unsigned)argc;
    Json json(x);
    Xml xml;
    app::Widget widget = {x};

    (void)argv;
    x += json.parse(x) + json.skip(x) + xml.parse(x) + xml.skip(x) + (xml + x);
    x += widget.outer(x) + widget.called(x) + app::repeat<long, 3>(7) + app::repeat<char, 4>('a');
    return (int)(x + app::exported(x) + app::exported(argc) + plain(x) + use_overloads(&widget));
}
