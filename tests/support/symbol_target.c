/* What the tests of symbols build and look up: calls, inlined calls, and code that a linker may drop. */
int target_outer(int n);
int target_exported(int n);
int target_unused(int n);

#include "symbol_target.h"

__attribute__((always_inline)) static inline int middle(int n)
{
    for (int i = 0; i < n; i++)
        innermost(i);
    return sink;
}

__attribute__((noinline)) int target_outer(int n)
{
    int sum = middle(n);

    if (sum > 10)
        innermost(sum);
    return sum + middle(2 * n);
}

__attribute__((noinline)) static int hidden(int n)
{
    store(n);
    return n * sink;
}

/* Not called in any of the programs. */
__attribute__((noinline)) int target_unused(int n)
{
    store(n);
    store(2 * n);
    store(3 * n);
    __asm__ volatile(".skip 16384"); /* as far as the code of the others begins, were it at 0 */
    return sink;
}

__attribute__((noinline)) int target_exported(int n)
{
    store(n);
    return hidden(n + 1) + hidden(n + 2);
}

#ifdef __cplusplus
namespace outer_space
{
namespace space
{
__attribute__((noinline)) int target_spaced(int n)
{
    innermost(n);
    return sink;
}
} // namespace space
} // namespace outer_space
#endif

#ifdef PROGRAM
int main(int argc, char **argv)
{
    (void)argv;
    return target_outer(argc) + target_exported(argc);
}
#endif
