/* Where profiles come from: files, servers, and perf record. */
#ifndef COUNTERPOINT_CMD_REPORT_LOAD_H
#define COUNTERPOINT_CMD_REPORT_LOAD_H

#include "cmd/counterpoint/commands.h"
#include "model.h"

/* A profile as the user named it, in pprof's format. */
struct source {
    const char *name;
    unsigned char *data;
    size_t size;
};

/* Reads a descriptor to its end into source->data, which the caller frees also after an error. Returns 0 or a
 * negative errno value. */
int read_whole(int fd, struct source *source);
/* Reads n sources. If one of them cannot be read, says why, and there is nothing to free. */
enum status sources_read(struct source *sources, char *const *names, size_t n);
void sources_free(struct source *sources, size_t n);

/* Makes one profile of the sources, merged if there are several of them, with names for people and, on a
 * terminal, without control characters; or says why that cannot be. */
enum status sources_parse(const struct source *sources, size_t n, struct profile **profile);
/* Writes the merged sources to a file. */
enum status sources_merge(const struct source *sources, size_t n, const char *path);

#endif
