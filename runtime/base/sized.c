#include "sized.h"

#include <errno.h>
#include <string.h>

#include "fail.h"

/* Returns the member `size` of a caller's struct. */
static size_t size_of(const void *caller)
{
    size_t size;

    memcpy(&size, caller, sizeof size);
    return size;
}

int cp__struct_check(const void *to, const char *name, struct cp_error *err)
{
    size_t size = size_of(to);

    if (size <= sizeof size || size > CP__STRUCT_MAX)
        return cp__error(err, -EINVAL,
                         "A %s was given with the size %zu, which no such struct has. Set its member size to "
                         "sizeof(%s).",
                         name, size, name);
    return 0;
}

/* Returns whether the bytes from begin to end are all zero. */
static int is_zero(const char *begin, const char *end)
{
    while (begin < end && *begin == 0)
        begin++;
    return begin == end;
}

int cp__struct_take(void *to, size_t size, const void *from, const char *name, struct cp_error *err)
{
    size_t given = size_of(from), shared = given < size ? given : size;
    int result = cp__struct_check(from, name, err);

    if (result < 0)
        return result;
    if (!is_zero((const char *)from + shared, (const char *)from + given))
        return cp__error(
            err, -E2BIG,
            "The %s has %zu bytes, this library's has %zu, and what is beyond is not zero. Leave the new "
            "members alone, or install the library that the program was built for.",
            name, given, size);
    memset(to, 0, size);
    memcpy(to, from, shared);
    memcpy(to, &size, sizeof size);
    return 0;
}

int cp__struct_give(void *to, const void *from, size_t size, const char *name, struct cp_error *err)
{
    size_t given = size_of(to), shared = given < size ? given : size;
    int result = cp__struct_check(to, name, err);

    if (result < 0)
        return result;
    memset(to, 0, given);
    memcpy(to, from, shared);
    memcpy(to, &given, sizeof given);
    return 0;
}
