/*
 * Public structs that begin with `size_t size`, the struct's size as the caller compiled it.
 *
 * The rule is that of the kernel's copy_struct_from_user() and copy_struct_to_user(), so that a struct can
 * grow at its end. The members that an older program's shorter struct lacks are zero. If a newer program's
 * struct is longer than this library's, its tail must be zero if the library reads the struct, and is zeroed
 * if the library fills the struct. If a size does not cover more than the member `size`, or is larger than
 * CP__STRUCT_MAX, the caller never set that member, and the library does not believe what stood on the stack:
 * -EINVAL. A tail that is not zero asks for something that this library does not have: -E2BIG.
 */
#ifndef COUNTERPOINT_RUNTIME_BASE_SIZED_H
#define COUNTERPOINT_RUNTIME_BASE_SIZED_H

#include <stddef.h>

#include "error.h"

/* No struct has more bytes, in this version or a later one. */
#define CP__STRUCT_MAX 4096

/* Copies the caller's struct *from to *to, which has size bytes. to->size becomes size. Returns 0, -EINVAL or
 * -E2BIG. */
int cp__struct_take(void *to, size_t size, const void *from, const char *name, struct cp_error *err);
/* Returns whether cp__struct_give() can fill *to: 0 or -EINVAL. For calls that act before they fill. */
int cp__struct_check(const void *to, const char *name, struct cp_error *err);
/* Fills the caller's struct *to from *from, which has size bytes. to->size keeps the caller's value. Returns
 * 0 or -EINVAL. */
int cp__struct_give(void *to, const void *from, size_t size, const char *name, struct cp_error *err);

/* The same for "struct type"; messages use the name. */
#define CP__TAKE(type, to, from, err)                                                                        \
    cp__struct_take((to), sizeof(struct type), (from), "struct " #type, (err))
#define CP__GIVE(type, to, from, err)                                                                        \
    cp__struct_give((to), (from), sizeof(struct type), "struct " #type, (err))

#endif
