#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fetch.h"
#include "names.h"
#include "perf.h"
#include "pprof.h"
#include "pprof/naming.h"

/* ---- One source ------------------------------------------------------------------------------ */

int read_whole(int fd, struct source *source)
{
    size_t room = 0;
    ssize_t n;

    do {
        if (room - source->size < 4096) {
            unsigned char *grown = realloc(source->data, room = room * 2 + 65536);

            if (grown == NULL)
                return -ENOMEM;
            source->data = grown;
        }
        n = read(fd, source->data + source->size, room - source->size);
        if (n > 0)
            source->size += (size_t)n;
    } while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 ? -errno : 0;
}

static enum status read_source(struct source *source)
{
    bool is_stdin = strcmp(source->name, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(source->name, O_RDONLY | O_CLOEXEC);
    int result = fd < 0 ? -errno : read_whole(fd, source);

    if (fd >= 0 && !is_stdin)
        close(fd);
    if (result == 0)
        return STATUS_OK;
    free(source->data);
    source->data = NULL;
    return complain(result == -ENOENT ? STATUS_USAGE : STATUS_FAILURE, "%s cannot be read: %s.%s",
                    source->name, strerror(-result),
                    result == -ENOENT ? " The command report takes the file of a profile, or its URL." : "");
}

/* Writes a source anew, with names; without memory for that it keeps its addresses. */
static void name_source(struct cp__naming *naming, struct source *source)
{
    struct cp_memory memory = {0};

    if (cp__naming_write(naming, source->data, source->size, cp_writer_memory(&memory), NULL) < 0) {
        free(memory.data);
        return;
    }
    free(source->data);
    source->data = memory.data;
    source->size = memory.size;
}

/* Adds names to those sources whose process has left that for later. What cannot be read is told by whoever
 * parses it. */
static void name_sources(struct source *sources, size_t n)
{
    struct cp__naming *naming;
    bool *are_left = calloc(n + 1, sizeof *are_left), is_any = false;

    if (are_left == NULL || cp__naming_new(&naming) < 0) {
        free(are_left);
        return;
    }
    for (size_t i = 0; i < n; i++)
        is_any |= are_left[i] = cp__naming_add(naming, sources[i].data, sources[i].size, NULL) == 1;
    if (is_any && cp__naming_look_up(naming, NULL) == 0)
        for (size_t i = 0; i < n; i++)
            if (are_left[i])
                name_source(naming, &sources[i]);
    cp__naming_free(naming);
    free(are_left);
}

enum status sources_read(struct source *sources, char *const *names, size_t n)
{
    enum status status = STATUS_OK;
    size_t i;

    for (i = 0; i < n && status == STATUS_OK; i++) {
        sources[i] = (struct source){.name = names[i]};
        status = is_url(names[i]) ? fetch_profile(&sources[i]) : read_source(&sources[i]);
        if (status == STATUS_OK && is_perf_file(&sources[i]))
            status = perf_to_pprof(&sources[i]);
    }
    if (status != STATUS_OK)
        sources_free(sources, i);
    else
        name_sources(sources, n);
    return status;
}

void sources_free(struct source *sources, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(sources[i].data);
        sources[i].data = NULL;
    }
}

/* ---- Several --------------------------------------------------------------------------------- */

static enum status refuse_source(const struct source *source, const struct cp_error *err)
{
    return complain(STATUS_FAILURE, "%s cannot be merged. %s", source->name, err->message);
}

/* Adds all sources to a new merge; NULL: the function has said why not. Each source is parsed before, because
 * the sentences of profile_parse() name the file. */
static struct cp_merge *merge_sources(const struct source *sources, size_t n)
{
    struct cp_merge *merge = cp_merge_new();
    struct cp_error err;

    for (size_t i = 0; i < n && merge != NULL; i++) {
        struct profile *profile;

        if (profile_parse(&profile, sources[i].data, sources[i].size, sources[i].name, &err) < 0)
            complain(STATUS_FAILURE, "%s", err.message);
        else if (cp_merge_add(merge, sources[i].data, sources[i].size, &err) < 0)
            refuse_source(&sources[i], &err);
        else {
            profile_free(profile);
            continue;
        }
        profile_free(profile);
        cp_merge_free(merge);
        return NULL;
    }
    if (merge == NULL)
        complain(STATUS_FAILURE, "There is not enough memory to merge profiles.");
    return merge;
}

enum status sources_merge(const struct source *sources, size_t n, const char *path)
{
    struct cp_merge *merge = merge_sources(sources, n);
    struct cp_error err;
    int result;

    if (merge == NULL)
        return STATUS_FAILURE;
    result = cp_merge_write(merge, cp_writer_path(path), &err);
    cp_merge_free(merge);
    return result < 0 ? complain(STATUS_FAILURE, "%s", err.message) : STATUS_OK;
}

static enum status parse_merged(const struct source *sources, size_t n, struct profile **profile)
{
    struct cp_merge *merge = merge_sources(sources, n);
    struct cp_memory memory = {0};
    struct cp_error err;
    int result;

    if (merge == NULL)
        return STATUS_FAILURE;
    result = cp_merge_write(merge, cp_writer_memory(&memory), &err);
    cp_merge_free(merge);
    if (result == 0)
        result = profile_parse(profile, memory.data, memory.size, "The merged profile", &err);
    free(memory.data);
    return result < 0 ? complain(STATUS_FAILURE, "%s", err.message) : STATUS_OK;
}

/* Parses a profile. One with negative values, which is a difference, is merged: equal samples cancel out. */
static enum status parse_one(const struct source *source, struct profile **profile)
{
    struct cp_error err;

    if (profile_parse(profile, source->data, source->size, source->name, &err) < 0)
        return complain(STATUS_FAILURE, "%s", err.message);
    if (!profile_is_difference(*profile))
        return STATUS_OK;
    profile_free(*profile);
    return parse_merged(source, 1, profile);
}

enum status sources_parse(const struct source *sources, size_t n, struct profile **profile)
{
    enum status status = n > 1 ? parse_merged(sources, n, profile) : parse_one(sources, profile);

    if (status != STATUS_OK)
        return status;
    profile_demangle(*profile);
    profile_prune(*profile);
    if (isatty(STDOUT_FILENO))
        profile_make_printable(*profile);
    return STATUS_OK;
}
