/* The structs that the command report reads profiles into, and what other commands ask of them. */
#include "cmd/counterpoint/report/facts.h"
#include "cmd/counterpoint/report/measure.h"
#include "cmd/counterpoint/report/model.h"
#include "tests/support/made_profiles.h"

#include <errno.h>

/* Returns a file of the test's directory; the caller frees it. */
static char *contents(const char *name, size_t *size)
{
    char path[500], *data = malloc(1 << 20);
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    file = fopen(path, "r");
    CHECK(file != NULL);
    *size = fread(data, 1, 1 << 20, file);
    fclose(file);
    return data;
}

static struct profile *parse(const char *name)
{
    struct profile *profile;
    struct cp_error err;
    size_t size;
    char *data = contents(name, &size);

    CHECKF(profile_parse(&profile, data, size, name, &err) == 0, "%s", err.message);
    free(data);
    return profile;
}

CP_TEST(a_profile_is_plain_structs)
{
    struct profile *profile;
    const struct profile_sample *sample;

    make_cpu_profile("x", "time_nanos: 5 duration_nanos: 7 comment: 3 comment: 3",
                     "main;work+inner 3 30000000\nmain 0 0\n[libc] 1 10000000\n");
    profile = parse("x.pb.gz");
    CHECK_EQ(profile->n_types, 2);
    CHECK_STR(profile->types[1].name, "cpu");
    CHECK_STR(profile->types[1].unit, "nanoseconds");
    CHECK_EQ(profile->default_type, 1);
    CHECK_EQ(profile->period, 10000000);
    CHECK_EQ(profile->time_ns, 5);
    CHECK_EQ(profile->duration_ns, 7);
    CHECK_EQ(profile->n_comments, 1);
    CHECK_EQ(profile->n_samples, 2);
    sample = &profile->samples[0];
    CHECK_EQ(sample->n_locations, 2);
    CHECK_EQ(sample->values[0], 3);
    CHECK_EQ(sample->locations[0]->n_lines, 2);
    CHECK_STR(sample->locations[0]->lines[0].function->name, "inner");
    CHECK_STR(sample->locations[0]->lines[1].function->name, "work");
    CHECK_STR(sample->locations[1]->lines[0].function->name, "main");
    CHECK_STR(sample->locations[1]->mapping->file, "/bin/program");
    CHECK_EQ(profile->samples[1].locations[0]->n_lines, 0);
    CHECK(!profile_is_difference(profile));
    profile_free(profile);
}

CP_TEST(types_are_found_by_name_or_number)
{
    struct profile *profile;
    size_t type;

    make_cpu_profile("x", "default_sample_type: 1", "main 1 1\n");
    profile = parse("x.pb.gz");
    CHECK(profile_find_type(profile, NULL, &type) && type == 0);
    CHECK(profile_find_type(profile, "cpu", &type) && type == 1);
    CHECK(profile_find_type(profile, "inuse_cpu", &type) && type == 1);
    CHECK(profile_find_type(profile, "0", &type) && type == 0);
    CHECK(!profile_find_type(profile, "2", &type));
    CHECK(!profile_find_type(profile, "cycles", &type));
    profile_free(profile);
}

CP_TEST(the_hottest_functions_have_their_shares)
{
    struct profile *profile;
    struct hot hot[4];

    make_cpu_profile("x", "", "main;a 10 100\nmain;b 30 300\nmain;[libc.so] 5 50\nmain 5 50\n");
    profile = parse("x.pb.gz");
    CHECK_EQ(report_hottest(profile, 1, hot), 1);
    CHECK_STR(hot[0].name, "b");
    CHECK(hot[0].share == 0.6);
    CHECK_EQ(report_hottest(profile, 4, hot), 4);
    CHECK_STR(hot[1].name, "a");
    CHECK_STR(hot[2].name, "[program]");
    CHECK_STR(hot[3].name, "main");
    profile_free(profile);
}

CP_TEST(facts_are_the_comments_of_a_profile)
{
    static const char *const strings[] = {"",
                                          "samples",
                                          "count",
                                          "cpu",
                                          "nanoseconds",
                                          "/x",
                                          "",
                                          "cpu_ns: 7000 # ns",
                                          "cpu_ns: 500 # ns",
                                          "limits: none # all"};
    struct profile *profile;
    char head[1000];

    snprintf(head, sizeof head, "%s comment: 7 comment: 8 comment: 9", CPU_HEAD);
    make_profile("x", head, strings, sizeof strings / sizeof strings[0],
                 "main 3 30000000\nmain;a 0 20000000\n");
    profile = parse("x.pb.gz");
    CHECK(profile_cpu_ns(profile) == 7500);
    CHECK_STR(profile_fact(profile, "limits"), "none # all");
    CHECK(profile_fact(profile, "limit") == NULL);
    CHECK(!profile_is_limit(profile, "cpu_ns: 7000 # ns"));
    CHECK(profile_sample_count(profile, 1) == 5); /* 3 by "samples", and 2 periods */
    profile_free(profile);
}

CP_TEST(data_that_is_no_profile_is_refused)
{
    struct profile *profile = (struct profile *)1;
    struct cp_error err;

    CHECK_EQ(profile_parse(&profile, "", 0, "x", &err), -EBADMSG);
    CHECK(profile == NULL);
    CHECK_CONTAINS(err.message, "x is empty.");
    CHECK_EQ(profile_parse(&profile, "\377\377\377", 3, "x", &err), -EBADMSG);
    CHECK(profile == NULL);
    CHECK_CONTAINS(err.message, "x is not a profile");
    profile_free(NULL);
}

CP_TEST(values_are_written_in_the_best_unit)
{
    char text[MEASURE_SIZE];

    CHECK_STR(measure_label(text, 1500, "nanoseconds", "auto"), "1.50us");
    CHECK_STR(measure_label(text, -2000000, "ns", "auto"), "-2ms");
    CHECK_STR(measure_label(text, 3, "seconds", "ms"), "3000ms");
    CHECK_STR(measure_label(text, 2048, "Kilobytes", "auto"), "2MB");
    CHECK_STR(measure_label(text, 7, "count", "auto"), "7");
    CHECK_STR(measure_label(text, 7, "cats", "cats"), "7cats");
    CHECK_STR(measure_label(text, 0, "ns", "auto"), "0");
    CHECK_STR(measure_percentage(text, 1, 3), "33.33%");
    CHECK_STR(measure_percentage(text, 9999, 10000), "  100%");
    CHECK_STR(measure_percentage(text, 1, 1000), "  0.1%");
    CHECK_STR(measure_percentage(text, 1, 0), "    0%");
    CHECK(measure_is_time("milliseconds") && !measure_is_time("bytes"));
}
