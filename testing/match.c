/* Matches names of tests as -run and -bench do: a slash separates the regular expressions for the levels of
 * a name, and * a bar separates alternatives, each of which has all levels. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the length of the text up to the next slash or bar outside of brackets and parentheses. */
static size_t level_length(const char *text)
{
    const char *p = text;
    unsigned brackets = 0, parentheses = 0;
    for (; *p && (brackets + parentheses > 0 || (*p != '/' && *p != '|')); p++) {
        if (*p == '\\' && p[1])
            p++;
        else if (*p == '[')
            brackets++;
        else if (*p == ']')
            brackets -= brackets > 0;
        else if (*p == '(')
            parentheses += brackets == 0;
        else if (*p == ')')
            parentheses -= brackets == 0 && parentheses > 0;
    }
    return (size_t)(p - text);
}

static int compile_level(regex_t *level, const char *text, size_t length, struct cp_error *err)
{
    char *expression = strndup(text, length);
    if (!expression)
        abort();
    for (char *p = expression; *p; p++)
        if (*p == ' ')
            *p = '_'; /* names of tests have underscores instead of spaces */
    int code = regcomp(level, expression, REG_EXTENDED | REG_NOSUB);
    if (code != 0) {
        char reason[100];
        regerror(code, level, reason, sizeof(reason));
        snprintf(err->message, sizeof(err->message), "\"%s\" is not a regular expression: %s.", expression,
                 reason);
        err->code = -EINVAL;
    }
    free(expression);
    return code == 0 ? 0 : -EINVAL;
}

int cp__pattern_compile(struct cp__pattern *pattern, const char *text, struct cp_error *err)
{
    while (pattern->levels > 0)
        regfree(&pattern->level[--pattern->levels]);
    for (bool is_first = true;;) {
        size_t length = level_length(text);
        if (pattern->levels == CP__PATTERN_LEVELS) {
            snprintf(err->message, sizeof(err->message), "\"%s\" has more than %d parts.", text,
                     CP__PATTERN_LEVELS);
            return err->code = -EINVAL;
        }
        int result = compile_level(&pattern->level[pattern->levels], text, length, err);
        if (result < 0)
            return result;
        pattern->is_first[pattern->levels++] = is_first;
        if (!text[length])
            return 0;
        is_first = text[length] == '|';
        text += length + 1;
    }
}

/* Returns the number of levels of the alternative that begins at level i. */
static size_t alternative_levels(const struct cp__pattern *pattern, size_t i)
{
    size_t n = 1;
    while (i + n < pattern->levels && !pattern->is_first[i + n])
        n++;
    return n;
}

/* Returns whether the first levels of the name match the given levels of a pattern. A shorter name matches
 * if all of * its levels do. */
static bool matches_levels(const regex_t *level, size_t levels, const char *name)
{
    char *copy = strdup(name), *rest = copy;
    if (!copy)
        abort();
    bool is_match = true;
    for (size_t i = 0; i < levels && rest && is_match; i++)
        is_match = regexec(&level[i], strsep(&rest, "/"), 0, NULL, 0) == 0;
    free(copy);
    return is_match;
}

/* Returns whether one of the alternatives with at most levels_most levels matches the name. */
static bool match_by(const struct cp__pattern *pattern, size_t levels_most, const char *name)
{
    size_t n;
    for (size_t i = 0; i < pattern->levels; i += n) {
        n = alternative_levels(pattern, i);
        if (n <= levels_most && matches_levels(&pattern->level[i], n, name))
            return true;
    }
    return false;
}

bool cp__pattern_match(const struct cp__pattern *pattern, const char *name)
{
    return match_by(pattern, CP__PATTERN_LEVELS, name);
}

bool cp__pattern_match_whole(const struct cp__pattern *pattern, const char *name)
{
    size_t levels = 1;
    for (const char *p = name; (p = strchr(p, '/')); p++)
        levels++;
    return match_by(pattern, levels, name);
}
