/*
 * Tests and benchmarks in the manner of Go's, for a function that reverses a string:
 *
 *     build/examples/reverse -v
 *     build/examples/reverse -run '^$' -bench . -count 5 -counters cycles,instructions
 *     build/examples/reverse -bench . -benchprofile x.pb.gz && go tool pprof -tags x.pb.gz
 */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reverse(char *text, size_t length)
{
    for (size_t i = 0; i < length / 2; i++) {
        char c = text[i];
        text[i] = text[length - 1 - i];
        text[length - 1 - i] = c;
    }
}

static const struct row {
    const char *name, *text, *reversed;
} rows[] = {
    {"empty", "", ""},
    {"one", "a", "a"},
    {"even", "abcd", "dcba"},
    {"odd", "abc", "cba"},
};

CP_TEST_TABLE(reverse, rows)
{
    char text[20];
    strcpy(text, row->text);
    reverse(text, strlen(text));
    if (strcmp(text, row->reversed) != 0)
        cp_t_error(t, "\"%s\" became \"%s\", not \"%s\"", row->text, text, row->reversed);
}

static void reverse_bytes(struct cp_t *b, void *length)
{
    size_t n = *(size_t *)length;
    char *text = calloc(n, 1);
    if (!text)
        cp_t_fatal(b, "no memory for %zu bytes", n);
    cp_bench_set_bytes(b, n);
    for (; cp_bench_next(b);)
        reverse(text, n);
    free(text);
}

CP_BENCHMARK(reverse)
{
    for (size_t n = 16; n <= 65536; n *= 64) {
        char name[20];
        snprintf(name, sizeof(name), "%zu", n);
        cp_t_run(b, name, reverse_bytes, &n);
    }
}

CP_TEST_MAIN()
