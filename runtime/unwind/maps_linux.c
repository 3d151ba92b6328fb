#include "maps_linux.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"

/* ---- The text -------------------------------------------------------------------------------- */

/* What takes mappings, in the order of their addresses. The path is valid during the call only. */
struct taker {
    void (*take)(struct taker *taker, const struct cp__mapped *mapping, const char *path);
};

/*
 * A parser of /proc/self/maps, which has one mapping in each line:
 *
 *     START-END PERMISSIONS OFFSET MAJOR:MINOR INODE PATH
 *
 * Numbers have hexadecimal digits, the inode decimal ones; PERMISSIONS are r, w, x and p, or a dash in their
 * place. The text arrives in pieces.
 */
enum part { IN_START, IN_END, IN_PERMISSIONS, IN_OFFSET, IN_MAJOR, IN_MINOR, IN_INODE, IN_PATH };

struct parser {
    enum part at;
    uint64_t numbers[IN_PATH]; /* by their parts */
    bool is_readable, is_executable;
    size_t path_size;
    char path[4096];
    struct taker *taker;
};

static void end_mapping(struct parser *parser)
{
    const uint64_t *numbers = parser->numbers;
    const struct cp__mapped mapping = {.start = numbers[IN_START],
                                       .end = numbers[IN_END],
                                       .offset = numbers[IN_OFFSET],
                                       .device = numbers[IN_MAJOR] << 32 | numbers[IN_MINOR],
                                       .inode = numbers[IN_INODE],
                                       .is_readable = parser->is_readable,
                                       .is_executable = parser->is_executable};

    parser->path[parser->path_size] = '\0';
    parser->taker->take(parser->taker, &mapping, parser->path);
    memset(parser->numbers, 0, sizeof parser->numbers);
    parser->is_readable = parser->is_executable = false;
    parser->path_size = 0;
    parser->at = IN_START;
}

static void take_digit(struct parser *parser, char c)
{
    uint64_t digit = (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    uint64_t *number = &parser->numbers[parser->at];

    *number = parser->at == IN_INODE ? 10 * *number + digit : *number << 4 | digit;
}

static void take_character(struct parser *parser, char c)
{
    if (c == '\n') {
        end_mapping(parser);
    } else if (parser->at == IN_PATH) {
        if ((c != ' ' || parser->path_size > 0) && parser->path_size < sizeof parser->path - 1)
            parser->path[parser->path_size++] = c;
    } else if (c == ' ' || (c == '-' && parser->at == IN_START) || c == ':') {
        parser->at++;
    } else if (parser->at == IN_PERMISSIONS) {
        parser->is_readable |= c == 'r';
        parser->is_executable |= c == 'x';
    } else {
        take_digit(parser, c);
    }
}

/* Hands all mappings to the taker. Returns whether all of them were read. */
static bool hand_out(struct taker *taker)
{
    static char text[16384]; /* too large for a stack, like the parser; one thread at a time uses them */
    static struct parser parser;
    int fd = cp__sys_open_from_handler("/proc/self/maps");
    long n;

    if (fd < 0)
        return false;
    memset(&parser, 0, sizeof parser);
    parser.taker = taker;
    while ((n = cp__sys_read_from_handler(fd, text, sizeof text)) > 0) {
        for (long i = 0; i < n; i++)
            take_character(&parser, text[i]);
    }
    cp__sys_close_from_handler(fd);
    return n == 0;
}

/* ---- The kernel's answers -------------------------------------------------------------------- */

/* Linux 6.11 and later answer for single mappings, so that the stacks of a thousand threads need not be
 * written as text. These are PROCMAP_QUERY, its flags and struct procmap_query of linux/fs.h, which older
 * systems do not have there. */
#define QUERY _IOWR('f', 17, struct query)
enum query_flags { READABLE = 0x01, EXECUTABLE = 0x04, COVERING_OR_NEXT = 0x10, OF_FILE = 0x20 };
struct query {
    uint64_t size, flags, address;                /* asked for */
    uint64_t start, end, access, page_size;       /* answered; access is one of flags, too */
    uint64_t offset, inode;                       /* answered */
    uint32_t major, minor, name_size, build_size; /* answered; name_size is the buffer's before */
    uint64_t name, build;                         /* addresses of buffers; 0: not asked for */
};

/* The next mapping of a kind. */
struct next {
    struct query query;
    int result; /* of the call: -ENOENT if there is none */
    char path[4096];
};

static void ask_kernel(int fd, struct next *next, uint64_t flags, uint64_t address)
{
    next->query = (struct query){.size = sizeof next->query,
                                 .flags = flags | COVERING_OR_NEXT,
                                 .address = address,
                                 .name_size = sizeof next->path,
                                 .name = (uintptr_t)next->path};
    next->path[0] = '\0';
    next->result = cp__sys_ioctl_from_handler(fd, QUERY, (unsigned long)&next->query);
}

static void hand_on(struct taker *taker, const struct next *next)
{
    const struct query *query = &next->query;
    const struct cp__mapped mapping = {.start = query->start,
                                       .end = query->end,
                                       .offset = query->offset,
                                       .device = (uint64_t)query->major << 32 | query->minor,
                                       .inode = query->inode,
                                       .is_readable = (query->access & READABLE) != 0,
                                       .is_executable = (query->access & EXECUTABLE) != 0};

    taker->take(taker, &mapping, next->path);
}

/* Returns that of the two which comes first; NULL: there is none. */
static const struct next *first_of(const struct next *a, const struct next *b)
{
    if (a->result < 0 || (b->result >= 0 && b->query.start < a->query.start))
        a = b;
    return a->result >= 0 ? a : NULL;
}

/* Hands the mappings that are of files or executable to the taker. Returns whether the kernel has answered
 * for all of them. */
static bool hand_out_answers(struct taker *taker)
{
    static struct next of_file, executable; /* too large for a stack; one thread at a time uses them */
    int fd = cp__sys_open_from_handler("/proc/self/maps");
    const struct next *first;

    if (fd < 0)
        return false;
    ask_kernel(fd, &of_file, OF_FILE, 0);
    ask_kernel(fd, &executable, EXECUTABLE, 0);
    while ((first = first_of(&of_file, &executable)) != NULL) {
        const uint64_t end = first->query.end;

        hand_on(taker, first);
        if (of_file.result >= 0 && of_file.query.start < end)
            ask_kernel(fd, &of_file, OF_FILE, end);
        if (executable.result >= 0 && executable.query.start < end)
            ask_kernel(fd, &executable, EXECUTABLE, end);
    }
    cp__sys_close_from_handler(fd);
    return of_file.result == -ENOENT && executable.result == -ENOENT;
}

/* ---- One mapping ----------------------------------------------------------------------------- */

/* Looks for the mapping that holds an address. */
struct looking {
    struct taker taker;
    uintptr_t address;
    struct cp__mapped found;
};

static void look_at_mapping(struct taker *taker, const struct cp__mapped *mapping, const char *path)
{
    struct looking *looking = (struct looking *)taker;

    (void)path;
    if (looking->address - mapping->start < mapping->end - mapping->start)
        looking->found = *mapping;
}

struct cp__mapped cp__maps_look(uintptr_t address)
{
    struct looking looking = {.taker = {look_at_mapping}, .address = address};

    hand_out(&looking.taker);
    return looking.found;
}

/* ---- The list -------------------------------------------------------------------------------- */

struct noted {
    struct taker taker;
    struct cp__mapped *mappings;
    size_t n, room;
    uint32_t *paths; /* where in `text` each mapping's path begins */
    size_t paths_room;
    char *text;
    size_t text_size, text_room;
    bool is_short_of_memory;
    uint64_t ns;
};
static struct noted noted;

void *cp__with_room(void *array, size_t n, size_t more, size_t *room, size_t element)
{
    size_t larger = *room == 0 ? 4096 / element : *room;
    void *moved;

    if (more <= *room - n)
        return array;
    while (larger - n < more)
        larger *= 2;
    moved = cp__sys_map(larger * element);
    if (moved == NULL)
        return NULL;
    if (n > 0)
        memcpy(moved, array, n * element);
    if (*room > 0)
        munmap(array, *room * element);
    *room = larger;
    return moved;
}

/* Makes room for one more mapping, and for its path. */
static bool make_room(struct noted *list, size_t path_size)
{
    void *mappings = cp__with_room(list->mappings, list->n, 1, &list->room, sizeof *list->mappings);
    void *paths, *text;

    list->mappings = mappings != NULL ? mappings : list->mappings;
    paths = cp__with_room(list->paths, list->n, 1, &list->paths_room, sizeof *list->paths);
    list->paths = paths != NULL ? paths : list->paths;
    text = cp__with_room(list->text, list->text_size, path_size, &list->text_room, 1);
    list->text = text != NULL ? text : list->text;
    return mappings != NULL && paths != NULL && text != NULL;
}

static void note_mapping(struct taker *taker, const struct cp__mapped *mapping, const char *path)
{
    struct noted *list = (struct noted *)taker;
    const size_t size = strlen(path) + 1;

    if (mapping->inode == 0 && !mapping->is_executable)
        return;
    if (!make_room(list, size)) {
        list->is_short_of_memory = true;
        return;
    }
    list->mappings[list->n] = *mapping;
    if (list->n > 0 && strcmp(list->text + list->paths[list->n - 1], path) == 0) {
        list->paths[list->n] = list->paths[list->n - 1];
    } else {
        list->paths[list->n] = (uint32_t)list->text_size;
        memcpy(list->text + list->text_size, path, size);
        list->text_size += size;
    }
    list->n++;
}

static bool note_all(bool (*hand_out_all)(struct taker *taker))
{
    noted.n = noted.text_size = 0;
    noted.is_short_of_memory = false;
    return hand_out_all(&noted.taker) && !noted.is_short_of_memory;
}

void cp__maps_note(void)
{
    noted.taker.take = note_mapping;
    noted.ns = cp__os_clock_ns_from_handler(CLOCK_THREAD_CPUTIME_ID);
    if (!note_all(hand_out_answers) && !note_all(hand_out))
        noted.n = 0;
    noted.ns = cp__os_clock_ns_from_handler(CLOCK_THREAD_CPUTIME_ID) - noted.ns;
}

uint64_t cp__maps_noting_ns(void)
{
    return noted.ns;
}

const struct cp__mapped *cp__maps_noted(size_t *n)
{
    *n = noted.n;
    return noted.mappings;
}

const struct cp__mapped *cp__maps_of_file_at(uintptr_t address)
{
    size_t lo = 0, hi = noted.n;

    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;

        if (noted.mappings[middle].end <= address)
            lo = middle + 1;
        else
            hi = middle;
    }
    if (lo == noted.n || noted.mappings[lo].start > address || noted.mappings[lo].inode == 0)
        return NULL;
    return &noted.mappings[lo];
}

const char *cp__maps_path(const struct cp__mapped *mapping)
{
    return noted.text + noted.paths[mapping - noted.mappings];
}

void cp__maps_after_fork(void)
{
    memset(&noted, 0, sizeof noted); /* its memory may be half moved */
}
