/* Profiles of other programs, written as stacks and encoded by protoc with the format's own description. */
#ifndef COUNTERPOINT_TESTS_MADE_PROFILES_H
#define COUNTERPOINT_TESTS_MADE_PROFILES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile_text.h"

/* A profile while it is made. */
struct made {
    FILE *text;   /* for protoc */
    char *frames; /* the locations, each with a newline; a location's id is the number of its line */
    char *names;  /* the functions, likewise */
};

/* Returns the number of a line in a list, from 1, and adds the line if it is new. */
static inline size_t made_number(char **list, const char *line, size_t length)
{
    size_t n = 1, old = strlen(*list);

    for (const char *at = *list; *at != '\0'; at += strcspn(at, "\n") + 1, n++) {
        if (strcspn(at, "\n") == length && strncmp(at, line, length) == 0)
            return n;
    }
    *list = realloc(*list, old + length + 2);
    memcpy(*list + old, line, length);
    strcpy(*list + old + length, "\n");
    return n;
}

/* Adds samples: each line is "ROOT;...;LEAF VALUE...", and "caller+inlined" is a frame with inlined code. */
static inline void made_samples(struct made *made, const char *stacks)
{
    for (const char *line = stacks; *line != '\0'; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, " "), end = length;

        fputs("sample {", made->text);
        while (end > 0) {
            size_t start = end;

            while (start > 0 && line[start - 1] != ';')
                start--;
            fprintf(made->text, " location_id: %zu", made_number(&made->frames, line + start, end - start));
            end = start > 0 ? start - 1 : 0;
        }
        for (const char *at = line + length; *at == ' ';) {
            char *after;

            fprintf(made->text, " value: %lld", strtoll(at + 1, &after, 10));
            at = after;
        }
        fputs(" }\n", made->text);
    }
}

/* Writes the locations, of which those that begin with "[" have no symbols, and the functions. Strings 0 to
 * 99 are the caller's, and function i has the string 99 + i. */
static inline void made_end(struct made *made, const char *const strings[], size_t n_strings)
{
    size_t id = 1;

    for (const char *at = made->frames; *at != '\0'; at += strcspn(at, "\n") + 1, id++) {
        size_t end = strcspn(at, "\n");

        fprintf(made->text, "location { id: %zu mapping_id: 1 address: %zu", id, 0x1000 + 16 * id);
        while (end > 0 && at[0] != '[') {
            size_t start = end;

            while (start > 0 && at[start - 1] != '+')
                start--;
            fprintf(made->text, " line { function_id: %zu line: %zu }",
                    made_number(&made->names, at + start, end - start), 10 + id);
            end = start > 0 ? start - 1 : 0;
        }
        fputs(" }\n", made->text);
    }
    for (size_t i = 0; i < 100; i++)
        fprintf(made->text, "string_table: \"%s\"\n", i < n_strings ? strings[i] : "");
    id = 1;
    for (const char *at = made->names; *at != '\0'; at += strcspn(at, "\n") + 1, id++)
        fprintf(made->text,
                "function { id: %zu name: %zu system_name: %zu filename: 99 } string_table: \"%.*s\"\n", id,
                99 + id, 99 + id, (int)strcspn(at, "\n"), at);
}

/*
 * Makes the profile NAME.pb.gz in the test's directory. The head is what stands before the samples, in the
 * text form of profile.proto; its strings are numbers in `strings`.
 */
static inline void make_profile(const char *name, const char *head, const char *const strings[],
                                size_t n_strings, const char *stacks)
{
    struct made made = {.frames = calloc(1, 1), .names = calloc(1, 1)};
    char *text = NULL;
    size_t size;

    made.text = open_memstream(&text, &size);
    CHECK(made.text != NULL);
    fprintf(made.text, "%s\n", head);
    made_samples(&made, stacks);
    made_end(&made, strings, n_strings);
    fclose(made.text);
    encode_profile(name, text);
    free(test_command(NULL, "cd %s && gzip -nf -S .pb.gz %s", test_dir(), name));
    free(text);
    free(made.frames);
    free(made.names);
}

/* The strings of the usual head: two values, "samples" and "cpu", and the program. */
static const char *const cpu_strings[] = {"",      "samples", "count", "cpu", "nanoseconds", "/bin/program",
                                          "a1b2c3"};

#define N_CPU_STRINGS (sizeof cpu_strings / sizeof cpu_strings[0])

#define CPU_HEAD                                                                                             \
    "sample_type { type: 1 unit: 2 } sample_type { type: 3 unit: 4 } period_type { type: 3 unit: 4 }\n"      \
    "period: 10000000 mapping { id: 1 memory_start: 4096 memory_limit: 1048576 filename: 5 build_id: 6 "     \
    "has_functions: true }\n"

static inline void make_cpu_profile(const char *name, const char *more, const char *stacks)
{
    char head[1000];

    snprintf(head, sizeof head, "%s %s", CPU_HEAD, more);
    make_profile(name, head, cpu_strings, N_CPU_STRINGS, stacks);
}

#endif
