/* Makes names for people of linkers' names, with libiberty. See demangle.h. */
#include "demangle.h"

#include <errno.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/table.h"

/* libiberty's own limit for names, about 1000 characters, is below what templates come to. Its parser takes
 * up to 220 bytes of stack for a character. */
enum { MAX_NAME = 4096, MAX_TEXT = 64 << 10 };

bool cp__is_mangled(const char *name)
{
    return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

/* The text so far. */
struct text {
    char *data;
    size_t n, capacity;
    int error;
    jmp_buf end; /* libiberty's calls cannot be ended otherwise; they hold nothing meanwhile but stack */
};

/* A demangle_callbackref: appends to the text. */
static void add_text(const char *part, size_t n, void *context)
{
    struct text *text = context;

    if (text->n + n > MAX_TEXT)
        text->error = -E2BIG;
    else if (CP__RESERVE(text->data, text->capacity, text->n + n + 1) < 0)
        text->error = -ENOMEM;
    if (text->error != 0)
        longjmp(text->end, 1);
    memcpy(text->data + text->n, part, n);
    text->n += n;
    text->data[text->n] = '\0';
}

/* Fills the text; on return it is empty if the name is neither Rust's nor C++'s. */
static void demangle(const char *name, struct text *text)
{
    /* Rust first: its old names are valid in C++, too, where a hash would become part of the name. */
    if (setjmp(text->end) != 0 || rust_demangle_callback(name, 0, add_text, text) != 0)
        return;
    text->n = 0;
    if (cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT, add_text, text) ==
        0)
        text->n = 0;
}

int cp__demangle(const char *name, char **text)
{
    struct text own = {.data = NULL};

    *text = NULL;
    if (!cp__is_mangled(name) || strnlen(name, MAX_NAME + 1) > MAX_NAME)
        return 0;
    demangle(name, &own);
    if (own.error == 0 && own.n > 0)
        *text = own.data;
    else
        free(own.data);
    return own.error == -ENOMEM ? -ENOMEM : 0;
}
