/*
 * A program without shared libraries, which `gcc -static` links without a list of its functions
 * (.eh_frame_hdr). It looks at its own call chain in a callback of the C library, as a sample would.
 * shadow_test.c builds it. The exit status is 0 if the chain has main() and counts as whole.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/unwind/code.h"
#include "runtime/unwind/unwind.h"

int main(void);

static struct cp__stack stack;
static uintptr_t frames[64];
static unsigned n, flags;

static void on_trap(int signal, siginfo_t *info, void *ucontext)
{
    struct cp__registers regs = cp__registers_from_handler(ucontext);

    (void)signal;
    (void)info;
    n = cp__unwind_from_handler(&regs, &stack, NULL, frames, 64, &flags, NULL);
}

static int compare(const void *a, const void *b)
{
    raise(SIGTRAP);
    return *(const int *)a - *(const int *)b;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    uintptr_t begin = (uintptr_t)main;
    int numbers[2] = {2, 1};

    sigaction(SIGTRAP, &action, NULL);
    stack = cp__thread_stack();
    cp__code_prepare();
    cp__code_update();
    qsort(numbers, 2, sizeof numbers[0], compare);
    printf("%u frames, flags %u\n", n, flags);
    for (unsigned i = 0; i < n; i++) {
        if (frames[i] - begin < 1024)
            return flags != 0;
    }
    return 1;
}
