/* Names of C++ and Rust functions for people, made of the linker's. */
#ifndef COUNTERPOINT_PPROF_SYMBOL_DEMANGLE_H
#define COUNTERPOINT_PPROF_SYMBOL_DEMANGLE_H

#include <stdbool.h>

/* Returns whether a name may be a linker's name of C++ or Rust, by its first two characters. */
bool cp__is_mangled(const char *name);

/*
 * Makes "foo::bar(int)" of "_ZN3foo3barEi", in the form that c++filt and addr2line -C print. The caller frees
 * *text. It is NULL if the name is no such name, is longer than 4 KiB, or would become longer than 64 KiB:
 * a few characters can stand for gigabytes. Returns 0 or -ENOMEM. Needs the stack of CP__DEEP_STACK.
 */
int cp__demangle(const char *name, char **text);

#endif
