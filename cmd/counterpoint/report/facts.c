#include "facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *profile_fact(const struct profile *profile, const char *key)
{
    size_t length = strlen(key);

    for (size_t i = 0; i < profile->n_comments; i++) {
        const char *comment = profile->comments[i];

        if (strncmp(comment, key, length) == 0 && strncmp(comment + length, ": ", 2) == 0)
            return comment + length + 2;
    }
    return NULL;
}

/* Returns whether a list "KEY,KEY # sentence" has the key. */
static bool lists_key(const char *list, const char *key, size_t length)
{
    while (*list != '\0' && *list != '#') {
        size_t n = strcspn(list, ", #");

        if (n == length && strncmp(list, key, n) == 0)
            return true;
        list += n + strspn(list + n, ", ");
    }
    return false;
}

bool profile_is_limit(const struct profile *profile, const char *comment)
{
    const char *end = strstr(comment, ": ");

    for (size_t i = 0; end != NULL && i < profile->n_comments; i++) {
        const char *other = profile->comments[i];

        if (strncmp(other, "limits: ", strlen("limits: ")) == 0 &&
            lists_key(other + strlen("limits: "), comment, (size_t)(end - comment)))
            return true;
    }
    return false;
}

bool profile_number(const struct profile *profile, const char *key, double *sum)
{
    size_t length = strlen(key);
    bool is_there = false;

    *sum = 0;
    for (size_t i = 0; i < profile->n_comments; i++) {
        const char *comment = profile->comments[i];
        char *end;
        double number;

        if (strncmp(comment, key, length) != 0 || strncmp(comment + length, ": ", 2) != 0)
            continue;
        number = strtod(comment + length + 2, &end);
        if (end == comment + length + 2 || !isfinite(number))
            continue;
        *sum += number;
        is_there = true;
    }
    return is_there;
}

double profile_cpu_ns(const struct profile *profile)
{
    double ns;

    return profile_number(profile, "cpu_ns", &ns) && ns > 0 ? ns : 0;
}

bool profile_is_of_waits(const struct profile *profile)
{
    return profile->n_types == 2 && strcmp(profile->types[0].unit, "count") == 0 &&
           strcmp(profile->types[1].name, "delay") == 0;
}

/* Returns the index of the type that counts samples, or waits; n_types: there is none. */
static size_t count_type(const struct profile *profile)
{
    size_t i = 0;

    if (profile_is_of_waits(profile))
        return 0;
    while (i < profile->n_types &&
           !(strcmp(profile->types[i].name, "samples") == 0 && strcmp(profile->types[i].unit, "count") == 0))
        i++;
    return i;
}

double sample_count(const struct profile *profile, const struct profile_sample *sample, size_t type)
{
    size_t counts = count_type(profile);

    if (counts < profile->n_types && sample->values[counts] != 0)
        return fabs((double)sample->values[counts]);
    if (profile->period > 0 && strcmp(profile->period_type.unit, profile->types[type].unit) == 0)
        return fmax(1, fabs((double)sample->values[type]) / (double)profile->period);
    return 1;
}

double profile_sample_count(const struct profile *profile, size_t type)
{
    double n = 0;

    for (size_t i = 0; i < profile->n_samples; i++) {
        if (profile->samples[i].values[type] != 0)
            n += sample_count(profile, &profile->samples[i], type);
    }
    return n;
}
