/* The handler of SIGPROF and SIGTRAP. */
#ifndef COUNTERPOINT_RUNTIME_HANDLER_H
#define COUNTERPOINT_RUNTIME_HANDLER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* The handler has a section of its own. The linker defines where the section begins and ends. */
#define CP__HANDLER_SECTION "cp__handler"
extern const char __start_cp__handler[] __attribute__((visibility("hidden")));
extern const char __stop_cp__handler[] __attribute__((visibility("hidden")));

void cp__on_signal_from_handler(int signal, siginfo_t *info, void *ucontext);

/* Whether pc is in the code of the handler itself, but not of what it calls. */
static inline bool cp__is_in_handler(uintptr_t pc)
{
    return pc - (uintptr_t)__start_cp__handler <
           (uintptr_t)__stop_cp__handler - (uintptr_t)__start_cp__handler;
}

#endif
