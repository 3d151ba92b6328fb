/* See bench_profile.h. */
#include "bench_profile.h"

#include <stdio.h>
#include <stdlib.h>

static struct cp__parts *parts;       /* NULL: no profile is wanted */
static struct cp__process_part *part; /* the samples of the loop that runs */

int cp__bench_profile_open(const struct cp__profile_flags *flags, struct cp_error *err)
{
    int result = cp__parts_open(&parts, flags, err);
    if (result == 0 && (result = cp__process_part_start(&part, parts, err)) == 0) {
        cp__process_part_warn(part);
        cp__process_part_drop(part); /* the part has shown that sampling works */
    }
    if (result < 0 && parts) {
        cp__parts_remove(parts);
        cp__parts_free(parts);
        parts = NULL;
    }
    part = NULL;
    return result;
}

bool cp__bench_profile_write(void)
{
    return !parts || cp__parts_merge(parts) == 0;
}

int cp__bench_profile_start(const struct cp__test *test, struct cp_error *err)
{
    int result = parts ? cp__process_part_start(&part, parts, err) : 0;
    if (result == 0 && parts)
        cp__bench_label(test);
    return result;
}

int cp__bench_profile_stop(struct cp_error *err)
{
    int result = part ? cp__process_part_stop(part, err) : 0;
    part = NULL;
    return result;
}

/* cp_label_set() fails on a thread that is not an M. That does not matter, because such a thread is not
 * sampled. */
void cp__bench_label(const struct cp__test *test)
{
    char *name;
    if (asprintf(&name, test->cpu == 1 ? "%s" : "%s-%u", test->name, test->cpu) < 0)
        abort();
    cp_label_set("benchmark", name);
    free(name);
}

void cp__bench_unlabel(void)
{
    cp_label_set("benchmark", NULL);
}
