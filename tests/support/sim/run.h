/*
 * Where the simulated kernel interrupts a thread: in the middle of the function that uses SIM_HAPPEN().
 * See sim.h.
 *
 * sim_step() lets things happen until a signal is due, and leaves all signals blocked. Two system calls,
 * in line, send the signal to the thread itself and set the mask again; so nothing comes between an
 * overflow and its signal, and the signal interrupts the thread at the end of the second call. That is the
 * address that the event's record has.
 */
#ifndef COUNTERPOINT_TESTS_SIM_RUN_H
#define COUNTERPOINT_TESTS_SIM_RUN_H

struct sim_raise;

/* Lets happen what is in run, until a signal is due at pc, or all has happened: then returns NULL. Only for
 * SIM_HAPPEN(). */
struct sim_raise *sim_step(struct sim_run *run, uintptr_t pc, uintptr_t sp, uintptr_t fp);

/* The offsets in struct sim_raise: see signals.c. */
#define SIM_RAISE_INFO 16
#define SIM_RAISE_MASK 144
#define SIM_STR_(x) #x
#define SIM_STR(x) SIM_STR_(x)

#if defined(__x86_64__)
/* The registers that hold values across the calls are those that a function keeps. 128 bytes below the stack
 * pointer may be the function's. */
#define SIM_HAPPEN(what_)                                                                                    \
    do {                                                                                                     \
        struct sim_run sim_run_ = what_;                                                                     \
        register struct sim_run *sim_at_ __asm__("r12") = &sim_run_;                                         \
        __asm__ volatile(                                                                                    \
            "3:\n\t"                                                                                         \
            "mov %%r12, %%rdi\n\t"                                                                           \
            "lea 1f(%%rip), %%rsi\n\t"                                                                       \
            "mov %%rsp, %%rdx\n\t"                                                                           \
            "mov %%rbp, %%rcx\n\t"                                                                           \
            "mov %%rsp, %%rbx\n\t"                                                                           \
            "lea -128(%%rsp), %%rsp\n\t"                                                                     \
            "and $-16, %%rsp\n\t"                                                                            \
            "call sim_step\n\t"                                                                              \
            "mov %%rbx, %%rsp\n\t"                                                                           \
            "test %%rax, %%rax\n\t"                                                                          \
            "jz 2f\n\t"                                                                                      \
            "mov %%rax, %%r13\n\t"                                                                           \
            "mov 0(%%rax), %%edi\n\t"                                                                        \
            "mov 4(%%rax), %%esi\n\t"                                                                        \
            "mov 8(%%rax), %%edx\n\t"                                                                        \
            "lea " SIM_STR(SIM_RAISE_INFO) "(%%rax), %%r10\n\t"                                              \
                                           "mov $297, %%eax\n\t" /* rt_tgsigqueueinfo */                     \
                                           "syscall\n\t"                                                     \
                                           "mov $2, %%edi\n\t" /* SIG_SETMASK */                             \
                                           "lea " SIM_STR(                                                   \
                                               SIM_RAISE_MASK) "(%%r13), %%rsi\n\t"                          \
                                                               "xor %%edx, %%edx\n\t"                        \
                                                               "mov $8, %%r10d\n\t"                          \
                                                               "mov $14, %%eax\n\t" /* rt_sigprocmask */     \
                                                               "syscall\n"                                   \
                                                               "1:\n\t"                                      \
                                                               "jmp 3b\n"                                    \
                                                               "2:"                                          \
            : "+m"(sim_run_)                                                                                 \
            : "r"(sim_at_)                                                                                   \
            : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r13", "xmm0", "xmm1",     \
              "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",     \
              "xmm13", "xmm14", "xmm15", "memory", "cc");                                                    \
    } while (0)
#elif defined(__aarch64__)
#define SIM_HAPPEN(what_)                                                                                    \
    do {                                                                                                     \
        struct sim_run sim_run_ = what_;                                                                     \
        register struct sim_run *sim_at_ __asm__("x20") = &sim_run_;                                         \
        __asm__ volatile("3:\n\t"                                                                            \
                         "mov x0, x20\n\t"                                                                   \
                         "adr x1, 1f\n\t"                                                                    \
                         "mov x2, sp\n\t"                                                                    \
                         "mov x3, x29\n\t"                                                                   \
                         "bl sim_step\n\t"                                                                   \
                         "cbz x0, 2f\n\t"                                                                    \
                         "mov x21, x0\n\t"                                                                   \
                         "add x3, x0, #" SIM_STR(                                                            \
                             SIM_RAISE_INFO) "\n\t"                                                          \
                                             "ldr w2, [x0, #8]\n\t"                                          \
                                             "ldr w1, [x0, #4]\n\t"                                          \
                                             "ldr w0, [x0]\n\t"                                              \
                                             "mov x8, #240\n\t" /* rt_tgsigqueueinfo */                      \
                                             "svc #0\n\t"                                                    \
                                             "mov x0, #2\n\t" /* SIG_SETMASK */                              \
                                             "add x1, x21, #" SIM_STR(                                       \
                                                 SIM_RAISE_MASK) "\n\t"                                      \
                                                                 "mov x2, #0\n\t"                            \
                                                                 "mov x3, #8\n\t"                            \
                                                                 "mov x8, #135\n\t" /* rt_sigprocmask */     \
                                                                 "svc #0\n"                                  \
                                                                 "1:\n\t"                                    \
                                                                 "b 3b\n"                                    \
                                                                 "2:"                                        \
                         : "+m"(sim_run_)                                                                    \
                         : "r"(sim_at_)                                                                      \
                         : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",  \
                           "x13", "x14", "x15", "x16", "x17", "x21", "x30", "v0", "v1", "v2", "v3", "v4",    \
                           "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",    \
                           "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",      \
                           "v28", "v29", "v30", "v31", "memory", "cc");                                      \
    } while (0)
#else
/* On another processor, the place of the samples is the simulation's own code. */
#define SIM_HAPPEN(what_) sim_happen(what_)
#endif

#endif
