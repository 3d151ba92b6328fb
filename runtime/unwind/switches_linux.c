#include "switches.h"

#include <dlfcn.h>
#include <ucontext.h>

#include "arch/arch.h"
#include "code.h"
#include "runtime/base/fork_gate.h"

/* Set once, before the first M. */
static struct cp__switch switches[2];

/* A static program has no other list of its functions than the linker's, and may do without these. */
extern __typeof__(setcontext) setcontext __attribute__((weak));
extern __typeof__(swapcontext) swapcontext __attribute__((weak));

static struct cp__switch find_switch(const char *name, uintptr_t linked)
{
    void *found = NULL;

    if (cp__linker_begin())
        found = dlsym(RTLD_DEFAULT, name);
    cp__linker_end();
    return cp__find_switch(found != NULL ? (uintptr_t)found : linked, cp__text_at_from_handler);
}

void cp__switches_prepare(void)
{
    switches[0] = find_switch("setcontext", (uintptr_t)setcontext);
    switches[1] = find_switch("swapcontext", (uintptr_t)swapcontext);
}

static bool is_between(uintptr_t pc, uintptr_t lo, uintptr_t hi)
{
    return pc - lo < hi - lo;
}

bool cp__switches_hold_from_handler(uintptr_t pc)
{
    return is_between(pc, switches[0].loaded, switches[0].end) ||
           is_between(pc, switches[1].loaded, switches[1].end);
}

bool cp__switches_have_pushed_from_handler(uintptr_t pc)
{
    return is_between(pc, switches[0].pushed, switches[0].end) ||
           is_between(pc, switches[1].pushed, switches[1].end);
}
