/* Finds the functions that the command line names. See functions.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "functions.h"
#include "runtime/base/fail.h"

void watch_function_free(struct watch_function *function)
{
    free(function->name);
    free(function->path);
}

/* ---- "LIBRARY:NAME@ADDRESS" ------------------------------------------------------------------ */

/* Returns the colon between a library and a name; NULL: there is none. Two colons belong to a C++ name. */
static char *find_colon(char *text)
{
    size_t n;

    for (char *at = text + strcspn(text, ":"); *at != '\0'; at += n + strcspn(at + n, ":")) {
        n = strspn(at, ":");
        if (n == 1)
            return at > text ? at : NULL;
    }
    return NULL;
}

/* Takes the address off that chooses one of several functions. */
static void take_address(struct watch_search *search, char *name)
{
    char *at = strstr(name, "@0x"), *end;

    if (at == NULL)
        return;
    search->address = strtoull(at + 1, &end, 16);
    search->has_address = *end == '\0' && end > at + 3;
    if (search->has_address)
        *at = '\0';
}

/* ---- What is wrong --------------------------------------------------------------------------- */

/* Appends to a sentence of at most `size` bytes, as far as there is room. */
static void append(char *text, size_t size, const char *before, const char *what)
{
    const size_t n = strlen(text);

    snprintf(text + n, size - n, "%s%.120s", before, what);
}

static int refuse_unknown(const struct watch_search *search, const char *where, struct cp_error *err)
{
    char near[300] = "";

    for (size_t i = 0; i < search->n_near; i++)
        append(near, sizeof near, i == 0 ? " Similar names are: " : ", ", search->near[i]);
    if (search->is_inlined)
        return cp__error(err, -ENOENT,
                         "The function \"%.100s\" has no code of its own in %.150s: the compiler has inlined "
                         "all of its calls. Compile it with __attribute__((noinline)), or watch a caller.",
                         search->name, where);
    return cp__error(err, -ENOENT, "There is no function \"%.100s\" in %.150s.%s%s%s", search->name, where,
                     search->is_stripped
                         ? " The file is stripped, so most of its functions have no names: install its "
                           "debug symbols."
                         : "",
                     near, search->n_near > 0 ? "." : "");
}

static int refuse_several(const struct watch_search *search, const char *asked, struct cp_error *err)
{
    char list[400] = "";

    for (size_t i = 0; i < search->n && i < WATCH_SHOWN; i++) {
        append(list, sizeof list, i == 0 ? "" : ", ", asked);
        append(list, sizeof list, "", search->places[i].where);
    }
    return cp__error(err, -EEXIST, "%zu functions are called \"%.60s\". Choose one of them: --function %s%s.",
                     search->n, search->name, list, search->n > WATCH_SHOWN ? ", ..." : "");
}

static int check_place(const struct watch_search *search, struct cp_error *err)
{
    const struct watch_place *place = &search->places[0];

    if (place->is_go)
        return cp__error(
            err, -ENOEXEC,
            "The file of \"%.100s\" is a Go program, and Go's runtime moves stacks while functions run: it "
            "would crash at the changed return address by which an end is noticed. Watch a Go program from "
            "inside, by runtime/trace or by a clock around the call.",
            search->name);
    if (place->is_indirect)
        return cp__error(err, -ENOEXEC,
                         "\"%.100s\" only chooses a function for this processor (an indirect function), and "
                         "runs once. Watch the one that is chosen: 'counterpoint report', or perf, shows its "
                         "name in a profile of the program.",
                         search->name);
    if (!place->is_in_file)
        return cp__error(err, -ENOEXEC,
                         "\"%.100s\" is no code of its file (%.150s), so it cannot be watched.", search->name,
                         place->where);
    return 0;
}

/* ---- The search ------------------------------------------------------------------------------ */

/* Searches the one library that is named. */
static int search_library(struct watch_search *search, struct watch_files *files, const char *library,
                          struct cp_error *err)
{
    const struct watch_file *file = watch_files_find(files, library);
    int result;

    if (file == NULL && strchr(library, '/') != NULL)
        return cp__error(err, -ENOENT, "\"%.200s\" cannot be read: %s.", library,
                         strerror(access(library, R_OK) < 0 ? errno : ENOMEM));
    if (file == NULL)
        return cp__error(err, -ENOENT,
                         "The program has no library \"%.100s\". 'ldd PROGRAM' lists those that it needs; of "
                         "one that is loaded later, give the path.",
                         library);
    result = watch_search_file(search, file, err);
    return result == 0 && search->n == 0 ? refuse_unknown(search, file->name, err) : result;
}

/* Searches the program, and then its libraries if the program does not have the function. */
static int search_all(struct watch_search *search, struct watch_files *files, struct cp_error *err)
{
    struct cp_error ignored;
    bool is_stripped;
    int result;

    if (files->n == 0)
        return cp__error(err, -ENOEXEC,
                         "The program is a script, so the function \"%.100s\" is in another file. Name that "
                         "one, too: --function FILE:%.100s.",
                         search->name, search->name);
    result = watch_search_file(search, &files->items[0], err);
    is_stripped = search->is_stripped;
    if (result == 0 && search->n == 0)
        for (size_t i = 1; i < files->n; i++)
            watch_search_file(search, &files->items[i], &ignored); /* a damaged library is no error */
    search->is_stripped = is_stripped;                             /* libraries mostly are */
    return result == 0 && search->n == 0
               ? refuse_unknown(search, files->n > 1 ? "the program and its libraries" : "the program", err)
               : result;
}

static int take_found(struct watch_function *function, const struct watch_search *search, const char *asked,
                      struct cp_error *err)
{
    int result = search->n > 1 ? refuse_several(search, asked, err) : check_place(search, err);

    if (result < 0)
        return result;
    *function = (struct watch_function){
        .name = strdup(asked), .path = strdup(search->places[0].path), .offset = search->places[0].offset};
    if (function->name != NULL && function->path != NULL)
        return 0;
    watch_function_free(function);
    return cp__error(err, -ENOMEM, "There is not enough memory for a function.");
}

int watch_find_function(struct watch_function *function, const char *text, struct watch_files *files,
                        struct cp_error *err)
{
    char *own = strdup(text), *colon = own == NULL ? NULL : find_colon(own);
    struct watch_search search = {.name = colon == NULL ? own : colon + 1};
    int result;

    if (own == NULL)
        return cp__error(err, -ENOMEM, "There is not enough memory for a function.");
    if (colon != NULL)
        *colon = '\0';
    take_address(&search, colon == NULL ? own : colon + 1);
    if (*search.name == '\0')
        result = cp__error(err, -EINVAL, "\"%.100s\" names no function.", text);
    else
        result = colon == NULL ? search_all(&search, files, err) : search_library(&search, files, own, err);
    if (result == 0)
        result = take_found(function, &search, text, err);
    watch_search_free(&search);
    free(own);
    return result;
}
