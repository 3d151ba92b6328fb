/* What inline_target.c inlines from another file, in C and in C++. */
static volatile unsigned sink;

__attribute__((always_inline)) static inline unsigned mix(unsigned x)
{
    for (unsigned i = 0; i < 3; i++)
        x = x * 2654435761u + i;
    sink = x;
    return x;
}

__attribute__((always_inline)) static inline unsigned mix_twice(unsigned x)
{
    if (x % 7 == 0) {
        unsigned y = mix(x + 1);

        return mix(y) + 1;
    }
    return mix(x);
}
