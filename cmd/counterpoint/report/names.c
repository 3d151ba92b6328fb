/* The rules are those of github.com/google/pprof: internal/symbolizer and profile/prune.go. */
#include "names.h"

#include <libiberty/demangle.h>
#include <regex.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* ---- Demangling ------------------------------------------------------------------------------ */

static bool looks_demangled(const char *name)
{
    return strstr(name, ".<") == NULL && strstr(name, "]).") == NULL &&
           (strpbrk(name, "<>[]") != NULL || strstr(name, "::") != NULL);
}

/* Removes all that stands in brackets of one kind, brackets included, unless they do not pair. */
static void remove_brackets(char *name, char open, char close)
{
    char *to = name, *copied = strdup(name);
    int depth = 0;

    for (const char *from = copied; from != NULL && *from != '\0'; from++) {
        depth += *from == open;
        if (depth == 0 && *from == close) {
            strcpy(name, copied);
            to = name + strlen(name);
            break;
        }
        if (depth == 0)
            *to++ = *from;
        depth -= *from == close;
    }
    if (depth == 0 && copied != NULL)
        *to = '\0';
    else if (copied != NULL)
        strcpy(name, copied);
    free(copied);
}

/* Removes the template arguments of a name that was just demangled; "<" of an operator stays. */
static void remove_arguments(char *name)
{
    char *found = strstr(name, "operator");

    if (found != NULL && strpbrk(found, "<>") == found + strlen("operator"))
        return;
    remove_brackets(name, '<', '>');
}

/* A few characters of a linker's name can stand for gigabytes. */
enum { LONGEST_MANGLED = 4 << 10, LONGEST_NAME = 64 << 10 };

struct demangled {
    char text[LONGEST_NAME];
    size_t length;
    bool is_good;
    jmp_buf too_long;
};

static void add_demangled(const char *part, size_t length, void *context)
{
    struct demangled *name = context;

    if (length >= sizeof name->text - name->length)
        longjmp(name->too_long, 1);
    memcpy(name->text + name->length, part, length);
    name->length += length;
}

/* Demangles into *name, without parameters and, of C++, without template arguments. Returns false if it is no
 * linker's name; jumps to too_long if it becomes too long. */
static bool demangle_into(struct demangled *name, const char *mangled)
{
    bool may_be_rust =
        strncmp(mangled, "_R", 2) == 0 || (strncmp(mangled, "_ZN", 3) == 0 && strstr(mangled, "17h") != NULL);
    int is_demangled = 0;

    name->length = 0;
    if (may_be_rust)
        is_demangled = rust_demangle_callback(mangled, 0, add_demangled, name);
    if (!is_demangled && strncmp(mangled, "_Z", 2) == 0) {
        name->length = 0;
        is_demangled = cplus_demangle_v3_callback(mangled, DMGL_ANSI, add_demangled, name);
        may_be_rust = false;
    }
    name->text[name->length] = '\0';
    if (is_demangled && !may_be_rust)
        remove_arguments(name->text);
    return is_demangled;
}

/* Returns a linker's name for people, which the caller frees; NULL: it is none. */
static char *demangle_bare(const char *mangled)
{
    struct demangled *name;
    char *text;

    if (mangled[0] != '_' || strlen(mangled) > LONGEST_MANGLED || (name = malloc(sizeof *name)) == NULL)
        return NULL;
    name->is_good = false;
    if (setjmp(name->too_long) == 0)
        name->is_good = demangle_into(name, mangled);
    text = name->is_good ? strdup(name->text) : NULL;
    free(name);
    return text;
}

static void demangle_function(struct profile *profile, struct profile_function *function)
{
    char *text;

    if (function->name[0] != '\0' && strcmp(function->name, function->system_name) != 0)
        return;
    function->name = function->system_name;
    text = demangle_bare(function->system_name);
    if (text != NULL) {
        function->name = arena_print(&profile->arena, "%s", text);
    } else if (looks_demangled(function->system_name)) {
        char *simple = arena_print(&profile->arena, "%s", function->system_name);

        remove_brackets(simple, '(', ')');
        remove_brackets(simple, '<', '>');
        function->name = simple;
    }
    free(text);
}

void profile_demangle(struct profile *profile)
{
    for (size_t i = 0; i < profile->n_functions; i++)
        demangle_function(profile, &profile->functions[i]);
}

/* ---- Expressions ----------------------------------------------------------------------------- */

/* Makes a POSIX expression of one in Go's syntax between two texts, as far as both syntaxes are alike: the
 * groups that capture nothing capture here. Returns 0 or regcomp()'s error. */
static int expression_compile(regex_t *to, const char *before, const char *text, const char *after)
{
    size_t size = strlen(before) + strlen(text) + strlen(after) + 1;
    char *posix = malloc(size), *at;
    int result = REG_ESPACE;

    if (posix == NULL)
        return result;
    at = stpcpy(posix, before);
    while (*text != '\0') {
        *at++ = *text;
        text += strncmp(text, "(?:", 3) == 0 ? 3 : 1;
    }
    strcpy(at, after);
    result = regcomp(to, posix, REG_EXTENDED | REG_NOSUB);
    free(posix);
    return result;
}

enum status expression_read(regex_t *to, const char *text)
{
    char why[128];
    int result = expression_compile(to, "", text, "");

    if (result == 0)
        return STATUS_OK;
    regerror(result, to, why, sizeof why);
    return complain(STATUS_USAGE, "\"%s\" is no regular expression: %s.", text, why);
}

bool expression_matches(const regex_t *expression, const char *text)
{
    return regexec(expression, text, 0, NULL, 0) == 0;
}

/* ---- Frames to leave out --------------------------------------------------------------------- */

/* Returns whether an expression of a file may be compiled: regcomp() needs more of the stack for a longer
 * expression, and gigabytes for a few counts such as {255}. A back-reference takes time without end. */
static bool is_harmless(const char *expression)
{
    enum { LONGEST_EXPRESSION = 4 << 10 };

    if (strlen(expression) > LONGEST_EXPRESSION)
        return false;
    for (const char *at = expression; *at != '\0'; at++) {
        if (*at == '{' || (at[0] == '\\' && at[1] >= '0' && at[1] <= '9'))
            return false;
        at += at[0] == '\\' && at[1] != '\0';
    }
    return true;
}

/* Compiles an expression of a file, which is to match whole names. Returns false if there is none, or if it
 * cannot be compiled. */
static bool read_frames(regex_t *to, const char *expression)
{
    return expression[0] != '\0' && is_harmless(expression) &&
           expression_compile(to, "^(", expression, ")$") == 0;
}

enum pruning { STAYS, IS_BOUNDARY, IS_PRUNED };

struct pruner {
    regex_t drop, keep;
    bool has_keep;
    enum pruning *of_location;
};

/* Returns a function's name without its parameters. The caller frees it. */
static char *bare_function(const char *name)
{
    static const char *const reserved[] = {"(anonymous namespace)", "operator()"};
    char *bare = strdup(name[0] == '.' ? name + 1 : name);

    for (char *at = bare; at != NULL && *at != '\0';) {
        size_t skipped = 0;

        for (size_t i = 0; i < 2; i++) {
            if (strncmp(at, reserved[i], strlen(reserved[i])) == 0)
                skipped = strlen(reserved[i]);
        }
        if (skipped == 0 && *at == '(')
            *at = '\0';
        else
            at += skipped > 0 ? skipped : 1;
    }
    return bare;
}

static bool is_dropped(const struct pruner *pruner, const struct profile_function *function)
{
    char *bare;
    bool is_so;

    if (function == NULL || function->name[0] == '\0')
        return false;
    bare = bare_function(function->name);
    is_so = bare != NULL && expression_matches(&pruner->drop, bare) &&
            !(pruner->has_keep && expression_matches(&pruner->keep, bare));
    free(bare);
    return is_so;
}

/* Removes a dropped function, with what is inlined in it, from a location. */
static enum pruning prune_location(const struct pruner *pruner, struct profile_location *location)
{
    size_t i = location->n_lines;

    while (i > 0 && !is_dropped(pruner, location->lines[i - 1].function))
        i--;
    if (i == 0)
        return STAYS;
    if (i == location->n_lines)
        return IS_PRUNED;
    location->lines += i;
    location->n_lines -= i;
    return IS_BOUNDARY;
}

/* Cuts off a stack at the outermost function that is dropped, unless nothing is outside of that. */
static void prune_sample(const struct pruner *pruner, const struct profile *profile,
                         struct profile_sample *sample)
{
    bool has_user = false;

    for (size_t i = sample->n_locations; i > 0; i--) {
        enum pruning pruning = pruner->of_location[sample->locations[i - 1] - profile->locations];
        size_t cut = pruning == IS_PRUNED ? i : i - 1;

        if (pruning != STAYS && has_user) {
            sample->locations += cut;
            sample->n_locations -= cut;
            return;
        }
        has_user |= pruning == STAYS;
    }
}

void profile_prune(struct profile *profile)
{
    struct pruner pruner;

    if (!read_frames(&pruner.drop, profile->drop_frames))
        return;
    pruner.has_keep = read_frames(&pruner.keep, profile->keep_frames);
    pruner.of_location = arena_array(&profile->arena, profile->n_locations, sizeof *pruner.of_location);
    for (size_t i = 0; i < profile->n_locations; i++)
        pruner.of_location[i] = prune_location(&pruner, &profile->locations[i]);
    for (size_t i = 0; i < profile->n_samples; i++)
        prune_sample(&pruner, profile, &profile->samples[i]);
    regfree(&pruner.drop);
    if (pruner.has_keep)
        regfree(&pruner.keep);
}

/* ---- Control characters ---------------------------------------------------------------------- */

/* Returns how many bytes of a control character the text begins with: of ASCII's, or of those that terminals
 * know beside them, which have two bytes in UTF-8 (U+009B stands for an escape and a bracket). */
static size_t control_size(const char *text)
{
    const unsigned char first = (unsigned char)text[0], second = first == 0xc2 ? (unsigned char)text[1] : 0;

    return second >= 0x80 && second < 0xa0 ? 2 : first < ' ' || first == 0x7f;
}

static const char *make_printable(struct arena *arena, const char *text)
{
    char *copied = NULL;
    size_t size;

    for (size_t i = 0; text[i] != '\0'; i += size > 0 ? size : 1) {
        size = control_size(text + i);
        if (size > 0 && copied == NULL)
            copied = arena_print(arena, "%s", text);
        if (size > 0)
            memset(copied + i, '?', size);
    }
    return copied != NULL ? copied : text;
}

void profile_make_printable(struct profile *profile)
{
    struct arena *arena = &profile->arena;

    for (size_t i = 0; i < profile->n_types; i++) {
        profile->types[i].name = make_printable(arena, profile->types[i].name);
        profile->types[i].unit = make_printable(arena, profile->types[i].unit);
    }
    for (size_t i = 0; i < profile->n_functions; i++) {
        profile->functions[i].name = make_printable(arena, profile->functions[i].name);
        profile->functions[i].file = make_printable(arena, profile->functions[i].file);
    }
    for (size_t i = 0; i < profile->n_mappings; i++) {
        profile->mappings[i].file = make_printable(arena, profile->mappings[i].file);
        profile->mappings[i].build_id = make_printable(arena, profile->mappings[i].build_id);
    }
    for (size_t i = 0; i < profile->n_comments; i++)
        profile->comments[i] = make_printable(arena, profile->comments[i]);
}
