/* See waits.h. */
#include "waits.h"

#include "runtime/g_account.h"

/* The linker's: the bounds of what it loads. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

const struct cp__wait_tellers cp__preload_wait_tellers = {
    .accounting = &cp_accounting,
    .begin = cp_wait_begin_accounted,
    .end = cp__wait_end_if,
    .code = (uintptr_t)__ehdr_start,
    .code_end = (uintptr_t)etext,
};
