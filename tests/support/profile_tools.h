/* Builds profiles by hand, and reads them with tools that are not ours: go tool pprof and protoc. */
#ifndef COUNTERPOINT_TESTS_PROFILE_TOOLS_H
#define COUNTERPOINT_TESTS_PROFILE_TOOLS_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pprof/profile.h"
#include "pprof/writer.h"
#include "runtime/base/table.h"
#include "runtime/label.h"
#include "test.h"

static inline struct cp__profile *new_profile(void)
{
    struct cp__profile *profile;

    CHECK_EQ(cp__profile_new(&profile), 0);
    return profile;
}

static inline void add(struct cp__profile *profile, const uintptr_t *frames, unsigned depth, uint64_t weight,
                       unsigned flags, struct cp_labels *labels)
{
    struct cp_sample sample = {
        .weight = weight, .labels = labels, .flags = flags, .depth = depth, .frames = frames};

    CHECK_EQ(cp__profile_add(profile, &sample), 0);
}

static const struct cp__profile_meta cpu_meta = {
    .sample_type = "cpu",
    .sample_unit = "nanoseconds",
    .period = 1000000,
    .time_ns = 1700000000000000000,
    .duration_ns = 2000000000,
};

/* Resolves and encodes a profile. */
static inline int write_to(struct cp__profile *profile, struct cp_writer *w,
                           const struct cp__profile_meta *meta, struct cp_error *err)
{
    struct cp__profile_findings findings;
    int result = cp__profile_resolve(profile, &findings, err);

    return result < 0 ? result : cp__profile_encode(profile, meta, w);
}

static inline ssize_t tools_write(struct cp_writer *w, const void *data, size_t size)
{
    ssize_t n = write(w->fd, data, size);

    return n < 0 ? -errno : n;
}

/* Writes the profile to a file in the test's directory. The path is valid until the next call. */
static inline const char *write_profile(struct cp__profile *profile, const struct cp__profile_meta *meta,
                                        const char *name)
{
    static const struct cp_writer_ops ops = {.what = "file", .write = tools_write};
    static char path[256];
    struct cp_writer w = {.ops = &ops};
    struct cp_error err = {0};

    snprintf(path, sizeof path, "%s/%s.pb.gz", test_dir(), name);
    w.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(w.fd >= 0);
    CHECKF(write_to(profile, &w, meta, &err) == 0, "%s", err.message);
    close(w.fd);
    return path;
}

static inline struct cp_labels *labels2(const char *key1, const char *value1, const char *key2,
                                        const char *value2)
{
    struct cp_labels *labels = malloc(sizeof *labels + 2 * sizeof labels->items[0]);

    labels->refs = 1;
    labels->count = key2 != NULL ? 2 : 1;
    labels->items[0] = (struct cp_label){key1, value1};
    labels->items[1] = (struct cp_label){key2, value2};
    return labels;
}

static inline struct cp_labels *labels1(const char *key, const char *value)
{
    return labels2(key, value, NULL, NULL);
}

enum { MANY_DEPTH = 30, MANY_FRAMES = 1000 };

/* Makes the i-th of many distinct stacks. Their addresses are in no mapping. */
static inline void many_stack(uintptr_t *frames, unsigned i)
{
    for (unsigned j = 0; j < MANY_DEPTH; j++) {
        frames[j] = 0x100000 + 16 * (i % MANY_FRAMES);
        i = i / 7 * 11 + j;
    }
}

static inline void add_many(struct cp__profile *profile, unsigned n)
{
    uintptr_t frames[MANY_DEPTH];

    for (unsigned i = 0; i < n; i++) {
        many_stack(frames, i);
        frames[MANY_DEPTH - 1] = 0x10000000 + i;
        add(profile, frames, MANY_DEPTH, i % 5 + 1, 0, NULL);
    }
}

/* A writer that takes at most chunk bytes at a time and fails after fails_at bytes. */
struct failing {
    struct cp_memory got;
    size_t fails_at;
    size_t chunk;
    int error;
    bool has_failed; /* nothing may be written after the failure */
};

static inline ssize_t write_or_fail(struct cp_writer *w, const void *data, size_t size)
{
    struct failing *f = w->context;
    size_t n = f->fails_at - f->got.size;

    CHECK(!f->has_failed);
    f->has_failed = n == 0;
    if (n == 0)
        return f->error;
    n = n < f->chunk ? n : f->chunk;
    n = n < size ? n : size;
    CHECK_EQ(CP__RESERVE(f->got.data, f->got.capacity, f->got.size + n), 0);
    memcpy(f->got.data + f->got.size, data, n);
    f->got.size += n;
    return (ssize_t)n;
}

static const struct cp_writer_ops failing_ops = {.what = "test's writer", .write = write_or_fail};

/* Returns the bytes of the profile's file. */
static inline struct cp_memory whole(struct cp__profile *profile, size_t chunk)
{
    struct failing f = {.fails_at = SIZE_MAX, .chunk = chunk};
    struct cp_writer w = {.ops = &failing_ops, .context = &f};

    CHECK_EQ(write_to(profile, &w, &cpu_meta, NULL), 0);
    return f.got;
}

/* Returns the profile as text. */
static inline char *text_of(struct cp__profile *profile, const struct cp__profile_meta *meta)
{
    struct cp__profile_findings findings;
    struct failing f = {.fails_at = SIZE_MAX, .chunk = SIZE_MAX};
    struct cp_writer w = {.ops = &failing_ops, .context = &f};

    CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
    CHECK_EQ(cp__profile_print(profile, meta, &w), 0);
    CHECK_EQ(write_or_fail(&w, "", 1), 1); /* ends the text */
    return (char *)f.got.data;
}

static inline void check_same(struct cp__profile *profile, const struct cp_memory *expected, size_t chunk)
{
    struct cp_memory again = whole(profile, chunk);

    CHECK_EQ(again.size, expected->size);
    CHECK(memcmp(again.data, expected->data, again.size) == 0);
    free(again.data);
}

/* Runs go tool pprof, which keeps its own files in the test's directory; returns the output. */
static inline char *pprof(const char *options, const char *path)
{
    return test_command(NULL, "HOME=%s PPROF_TMPDIR=%s XDG_CACHE_HOME=%s go tool pprof %s %s", test_dir(),
                        test_dir(), test_dir(), options, path);
}

/* Returns a profile as text, decoded by protoc with the format's own description. */
static inline char *decode(const char *path)
{
    return test_command(NULL,
                        "file=$(dpkg -L golang-github-google-pprof-dev | grep '/profile\\.proto$') && "
                        "gzip -dc %s | protoc --decode=perftools.profiles.Profile -I ${file%%/*} $file",
                        path);
}

/* Returns the n-th line, from 0, of those that contain part; NULL if there is none. The caller frees the
 * line. */
static inline char *find_line(const char *text, const char *part, unsigned n)
{
    size_t length;

    for (; *text != '\0'; text += length + (text[length] == '\n')) {
        char *line;

        length = strcspn(text, "\n");
        line = strndup(text, length);
        if (strstr(line, part) != NULL && n-- == 0)
            return line;
        free(line);
    }
    return NULL;
}

static inline unsigned count_lines(const char *text, const char *part)
{
    unsigned n = 0;
    char *line;

    while ((line = find_line(text, part, n)) != NULL) {
        free(line);
        n++;
    }
    return n;
}

/* Returns the path of a file of tests/support/, valid until the next call. The build directory is below the
 * sources. */
static inline const char *test_source(const char *name)
{
    static char path[PATH_MAX + 32];
    char *slash;

    snprintf(path, PATH_MAX, "%s/", test_build_dir());
    while ((slash = strrchr(path, '/')) != NULL) {
        snprintf(slash, 32, "/tests/support/%s", name);
        if (access(path, R_OK) == 0)
            return path;
        *slash = '\0';
    }
    SKIP("The sources are not where they were built.");
}

/* Builds symbol_target.c into a file in the test's directory. The path is valid until the next call. */
static inline const char *build(const char *compile, const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    free(test_command(NULL, "cd %s && %s -o %s %s", test_dir(), compile, path,
                      test_source("symbol_target.c")));
    return path;
}

#endif
