/* What a thread that spins tells the processor, on arm64. */
#ifndef COUNTERPOINT_ARCH_SPIN_H
#define COUNTERPOINT_ARCH_SPIN_H

/* Lets the processor's other thread go first, if the processor runs two in one core. */
static inline void cp__relax(void)
{
    __asm__ volatile("yield");
}

#endif
