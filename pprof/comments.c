/* Reads the comments of profiles; see comments.h. */
#include "comments.h"

#include <string.h>

const char *cp__comment_value(const char *comment, const char *key)
{
    const size_t n = strlen(key);

    return strncmp(comment, key, n) == 0 && strncmp(comment + n, ": ", 2) == 0 ? comment + n + 2 : NULL;
}

const char *cp__keys_find(const char *keys, size_t n, const char *key)
{
    const size_t length = strlen(key);

    for (const char *end = keys + n; keys != NULL && (size_t)(end - keys) >= length;) {
        const char *comma = memchr(keys, ',', (size_t)(end - keys));

        if ((size_t)((comma != NULL ? comma : end) - keys) == length && memcmp(keys, key, length) == 0)
            return keys;
        keys = comma != NULL ? comma + 1 : NULL;
    }
    return NULL;
}

const char *cp__comment_later(const char *comment)
{
    return cp__comment_value(comment, "names_later");
}
