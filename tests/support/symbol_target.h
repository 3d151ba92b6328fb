/* What symbol_target.c inlines from another file. */
static volatile int sink;

__attribute__((noinline)) static void store(int n)
{
    sink = n;
    __asm__ volatile("");
}

__attribute__((always_inline)) static inline void innermost(int n)
{
    store(n);
    store(n + 1);
}
