/* Finds the files that a just-in-time compiler has written, and answers from them. See jit.h. */
#include "jit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "atomic.h"
#include "runtime/base/clock.h"
#include "runtime/base/table.h"

static int is_used; /* atomic */

void cp__jit_use(bool use)
{
    cp_store_relaxed(&is_used, use); /* relaxed: nothing else is read with it */
}

bool cp__jit_is_used(void)
{
    return cp_load_relaxed(&is_used) != 0;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Returns when this process began, in seconds of CLOCK_REALTIME; 0: unknown. */
static int64_t began_s(void)
{
    enum { BEHIND_NAME = 20 }; /* members of /proc/self/stat from the one behind the name to the start */
    FILE *file = fopen("/proc/self/stat", "re");
    char text[1024] = "", *at;
    const long hertz = sysconf(_SC_CLK_TCK);

    if (file == NULL)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    at = strrchr(text, ')'); /* the program's name may have any characters */
    for (int i = 0; i < BEHIND_NAME && at != NULL; i++)
        at = strchr(at + 1, ' ');
    if (at == NULL || hertz <= 0)
        return 0;
    return (cp__clock_ns(CLOCK_REALTIME) - cp__clock_ns(CLOCK_BOOTTIME)) / 1000000000 +
           strtoll(at, NULL, 10) / hertz;
}

/* Returns whether a file is one of this process: the directory may be everybody's, another user may have put
 * a file of that name there, and an earlier process may have had the number of this one. */
static bool is_own_file(const struct stat *status)
{
    enum { INEXACT_S = 2 };

    return S_ISREG(status->st_mode) && status->st_uid == geteuid() && (status->st_mode & S_IWOTH) == 0 &&
           status->st_mtim.tv_sec + INEXACT_S >= began_s();
}

/* Opens a file of this process; if the mapping is given, the one that is mapped. Returns NULL if there is
 * none. */
static FILE *open_own(const char *path, const struct cp__mapping *mapping)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    FILE *file = NULL;
    struct stat status;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) == 0 && is_own_file(&status) &&
        (mapping == NULL || mapping->inode == status.st_ino))
        file = fdopen(fd, "r");
    if (file == NULL)
        close(fd);
    return file;
}

static FILE *open_temporary(const char *name, const char *extension)
{
    char path[64];

    snprintf(path, sizeof path, "/tmp/%s-%d.%s", name, (int)getpid(), extension);
    return open_own(path, NULL);
}

/* Returns whether a mapping marks a jitdump file: the compiler maps the beginning of the file as code, only
 * so that the file can be found. */
static bool is_marker(const struct cp__mapping *mapping)
{
    const char *slash = mapping->file == NULL ? NULL : strrchr(mapping->file, '/');
    char name[32];

    snprintf(name, sizeof name, "/jit-%d.dump", (int)getpid());
    return slash != NULL && mapping->process == 0 && mapping->offset == 0 && !mapping->deleted &&
           strcmp(slash, name) == 0;
}

/* ---- Answers --------------------------------------------------------------------------------- */

bool cp__jit_find(const struct cp__jit_search *search, uint64_t start, uint64_t size, size_t *first,
                  size_t *end)
{
    *first = CP__COUNT_BEFORE(search->n, i, search->addresses[i] < start);
    for (*end = *first; *end < search->n && search->addresses[*end] - start < size;)
        ++*end;
    return *end > *first;
}

/* What is not named yet. */
struct jit_rest {
    const uint64_t *addresses;
    struct cp__jit_hit *hits;
    bool *is_named;
    size_t n;
    int64_t ended_ns;
    cp__symbol_fn *fn;
    void *context;
};

/* Names may have any bytes. */
static void drop_controls(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

static int tell_jit_answer(const struct jit_rest *rest, size_t i, struct cp__jit_answer *answer)
{
    const struct cp__symbol_line line = {.function = answer->name,
                                         .file = answer->file[0] != '\0' ? answer->file : NULL,
                                         .line = answer->line};

    drop_controls(answer->name);
    drop_controls(answer->file);
    return rest->fn(rest->context, i,
                    &(struct cp__symbol){.lines = &line, .n = 1, .entry = rest->hits[i].start});
}

/* Answers from a file, which may be NULL, for addresses that no file before has named. */
static int answer_from(const struct jit_rest *rest, FILE *file, bool is_dump)
{
    struct cp__jit_search search = {.file = file,
                                    .addresses = rest->addresses,
                                    .hits = rest->hits,
                                    .n = rest->n,
                                    .ended_ns = rest->ended_ns};
    struct cp__jit_answer *answer = file == NULL ? NULL : calloc(1, sizeof *answer);
    int result = file != NULL && answer == NULL ? -ENOMEM : 0;

    memset(rest->hits, 0, rest->n * sizeof *rest->hits);
    if (answer != NULL && is_dump)
        result = cp__jit_dump_scan(&search);
    else if (answer != NULL)
        cp__jit_map_scan(&search);
    for (size_t i = 0; i < rest->n && result == 0; i++) {
        if (rest->is_named[i] || rest->hits[i].at == 0)
            continue;
        (is_dump ? cp__jit_dump_answer : cp__jit_map_answer)(&search, i, answer);
        rest->is_named[i] = answer->name[0] != '\0';
        if (rest->is_named[i])
            result = tell_jit_answer(rest, i, answer);
    }
    free(answer);
    if (file != NULL)
        fclose(file);
    return result;
}

/* jitdump files come first, because they tell lines and times. Most compilers write them to /tmp, and CPython
 * takes its mark away before the program ends. */
static int answer_from_dumps(const struct jit_rest *rest, const struct cp__mappings *mappings)
{
    bool is_any_marked = false;
    int result = 0;

    for (size_t i = 0; i < mappings->n && result == 0; i++) {
        if (!is_marker(&mappings->items[i]))
            continue;
        is_any_marked = true;
        result = answer_from(rest, open_own(mappings->items[i].file, &mappings->items[i]), true);
    }
    return is_any_marked ? result : answer_from(rest, open_temporary("jit", "dump"), true);
}

int cp__jit_symbolise(const struct cp__mappings *mappings, const uint64_t *addresses, size_t n,
                      int64_t ended_ns, cp__symbol_fn *fn, void *context)
{
    struct jit_rest rest = {.addresses = addresses,
                            .hits = malloc((n + 1) * sizeof *rest.hits),
                            .is_named = calloc(n + 1, sizeof *rest.is_named),
                            .n = n,
                            .ended_ns = ended_ns,
                            .fn = fn,
                            .context = context};
    int result = rest.hits == NULL || rest.is_named == NULL ? -ENOMEM : 0;

    if (result == 0)
        result = answer_from_dumps(&rest, mappings);
    if (result == 0)
        result = answer_from(&rest, open_temporary("perf", "map"), false);
    free(rest.hits);
    free(rest.is_named);
    return result;
}
