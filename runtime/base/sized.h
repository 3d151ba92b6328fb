/*
 * Public structs that begin with `size_t size`, the struct's size as the caller compiled it.
 *
 * The rule is that of the kernel's copy_struct_from_user() and copy_struct_to_user(), so that a struct can
 * grow at its end. What an older program's shorter struct lacks is zero. What a newer program's longer struct
 * has beyond this library's must be zero if the library is to read the struct, and is zeroed if the library
 * fills it. A size that does not even cover the member `size` is that of a caller who forgot to set the
 * member: -EINVAL. A size of more than CP__STRUCT_MAX is no struct's, and a tail that is not zero asks for
 * what this library does not have: -E2BIG.
 */
#ifndef COUNTERPOINT_RUNTIME_BASE_SIZED_H
#define COUNTERPOINT_RUNTIME_BASE_SIZED_H

#include <stddef.h>

#include "error.h"

#define CP__STRUCT_MAX 4096

/* Copies the caller's struct *from to *to, which has size bytes; to->size becomes size. */
int cp__struct_take(void *to, size_t size, const void *from, const char *name, struct cp_error *err);
/* Whether cp__struct_give() can fill *to: 0, -EINVAL or -E2BIG. For calls that do more than filling. */
int cp__struct_check(const void *to, const char *name, struct cp_error *err);
/* Fills the caller's struct *to from *from, which has size bytes. to->size stays what the caller has set. */
int cp__struct_give(void *to, const void *from, size_t size, const char *name, struct cp_error *err);

/* The same for "struct type", whose name is for messages. */
#define CP__TAKE(type, to, from, err)                                                                        \
    cp__struct_take((to), sizeof(struct type), (from), "struct " #type, (err))
#define CP__GIVE(type, to, from, err)                                                                        \
    cp__struct_give((to), (from), sizeof(struct type), "struct " #type, (err))

#endif
