#include "stages.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/fail.h"
#include "runtime/base/text.h"

/* Returns whether a text is UTF-8 without control characters: labels go to files whose readers want that. */
static bool is_printable(const char *text)
{
    size_t left = strlen(text), n;

    for (; left > 0; text += n, left -= n) {
        n = cp__utf8_size(text, left);
        if (n == 0 || (unsigned char)*text < ' ' || *text == 0x7f)
            return false;
        if (n == 2 && (unsigned char)text[0] == 0xc2 && (unsigned char)text[1] < 0xa0)
            return false; /* U+0080 to U+009F */
    }
    return true;
}

/* Checks the name that the list has after those of *stages. */
static int check_stage(const struct cp__stages *stages, const char *name, struct cp_error *err)
{
    if (stages->n == CP_WATCH_STAGES_MAX)
        return cp__error(err, -EINVAL, "A watch has at most %d stages. Leave \"%.63s\" and what follows out.",
                         CP_WATCH_STAGES_MAX, name);
    if (*name == '\0')
        return cp__error(
            err, -EINVAL,
            "Stage %u has no name. The list of stages has names with one comma between two of them.",
            stages->n);
    if (strlen(name) > CP_WATCH_NAME_MAX || !is_printable(name))
        return cp__error(err, -EINVAL,
                         "Stage %u has a bad name. A name is 1 to %d bytes of UTF-8 without control "
                         "characters.",
                         stages->n, CP_WATCH_NAME_MAX);
    for (unsigned i = 0; i < stages->n; i++) {
        if (strcmp(stages->names[i], name) == 0)
            return cp__error(err, -EINVAL, "Stages %u and %u are both named \"%s\". Name one differently.", i,
                             stages->n, name);
    }
    return 0;
}

int cp__stages_parse(struct cp__stages *stages, const char *list, struct cp_error *err)
{
    char *rest;
    int result = 0;

    *stages = (struct cp__stages){.n = 0};
    if (list == NULL)
        return 0;
    rest = stages->text = strdup(list);
    if (rest == NULL)
        return cp__error(err, -ENOMEM, "There is no memory for the names of the stages.");
    while (rest != NULL && result == 0) {
        const char *name = strsep(&rest, ",");

        result = check_stage(stages, name, err);
        if (result == 0)
            stages->names[stages->n++] = name;
    }
    if (result < 0)
        cp__stages_free(stages);
    return result;
}

void cp__stages_free(struct cp__stages *stages)
{
    free(stages->text);
    *stages = (struct cp__stages){.n = 0};
}
