#include "context.h"

#include <stdlib.h>
#include <string.h>

/* What a new context needs until it begins. It lies at the top of the context's stack. */
struct beginning {
    ucontext_t machine;
    void (*entry)(void *);
    void *arg;
};

/* The unwind information says that the function has no caller from here on. */
#if defined(__x86_64__)
#define END_UNWINDING() __asm__ volatile(".cfi_undefined %rip")
#elif defined(__aarch64__)
#define END_UNWINDING() __asm__ volatile(".cfi_undefined x30")
#endif

/* The outermost function of a context. makecontext() passes ints, so begin_fiber() gets its pointer in two
 * halves. */
static void begin_fiber(unsigned high, unsigned low)
{
    const struct beginning *beginning = (const struct beginning *)((uintptr_t)high << 32 | low);

    END_UNWINDING();
    beginning->entry(beginning->arg);
    abort();
}

/* Clears the frame pointer and the return address of begin_fiber(), so that the chain of frame pointers ends
 * there. */
static void end_chains(ucontext_t *machine)
{
#if defined(__x86_64__)
    machine->uc_mcontext.gregs[REG_RBP] = 0;
    *(uintptr_t *)machine->uc_mcontext.gregs[REG_RSP] = 0;
#elif defined(__aarch64__)
    machine->uc_mcontext.regs[29] = 0;
    machine->uc_mcontext.regs[30] = 0;
#endif
}

void cp__context_init(struct cp__context *context, void *stack_lo, void *stack_hi, void (*entry)(void *),
                      void *arg)
{
    uintptr_t place = ((uintptr_t)stack_hi - sizeof(struct beginning)) & ~(uintptr_t)63;
    struct beginning *beginning = (struct beginning *)place;

    if (getcontext(&beginning->machine) < 0)
        abort(); /* the documentation says that getcontext() cannot fail */
    beginning->machine.uc_stack.ss_sp = stack_lo;
    beginning->machine.uc_stack.ss_size = place - (uintptr_t)stack_lo;
    beginning->machine.uc_link = NULL;
    beginning->entry = entry;
    beginning->arg = arg;
    makecontext(&beginning->machine, (void (*)(void))begin_fiber, 2, (unsigned)(place >> 32),
                (unsigned)place);
    end_chains(&beginning->machine);
    context->saved = &beginning->machine;
    /* The address is past the first byte, like a return address, so that unwinders find begin_fiber() in a
     * context that has not begun. */
    context->caller = (struct cp__registers){.pc = (uintptr_t)begin_fiber + 1, .sp = place};
}

/* Writes the registers with which swapcontext() returns. In a context that has not begun, pc is that of
 * cp__context_registers(). */
void cp__context_save(const struct cp__context *context, ucontext_t *to)
{
    memcpy(&to->uc_mcontext, &context->saved->uc_mcontext, sizeof to->uc_mcontext);
#if defined(__x86_64__)
    if (context->caller.pc == (uintptr_t)begin_fiber + 1)
        to->uc_mcontext.gregs[REG_RIP] = (greg_t)context->caller.pc;
#elif defined(__aarch64__)
    if (context->caller.pc == (uintptr_t)begin_fiber + 1)
        to->uc_mcontext.pc = context->caller.pc;
#endif
}

void cp__context_switch(struct cp__context *from, struct cp__context *to)
{
    const uintptr_t *frame =
        __builtin_frame_address(0); /* the caller's frame pointer and the return address */
    ucontext_t here;

    here.uc_stack = (stack_t){.ss_flags = 0}; /* AddressSanitizer reads uc_stack */
    from->saved = &here;
    from->caller = (struct cp__registers){.pc = frame[1], .sp = (uintptr_t)(frame + 2), .fp = frame[0]};
    if (swapcontext(&here, to->saved) < 0)
        abort(); /* the signal mask could not be set, so the context is not valid */
}
