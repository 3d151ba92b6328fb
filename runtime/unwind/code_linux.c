#include "code.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arch/arch.h"
#include "atomic.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"

/* Shared: the handler reads a table while the writer may already write it again; see code.h. */
struct table {
    struct cp__code_range *ranges; /* in order of address */
    size_t n;
    size_t room; /* the writer's own */
};
static struct table tables[2]; /* version v is in [v % 2] */
static uint64_t begun;         /* the version that was written last, or is being written */
static uint64_t published;     /* the version that is whole; 0: there is none */
static uint32_t missed;        /* a handler met an address that is in no range */

bool cp__code_has_keys;

/* Owned by the thread that has set is_writing. */
static uint32_t is_writing;
static uint64_t not_before; /* when cp__code_look() may do it again */

/* ---- In the handler -------------------------------------------------------------------------- */

/* What is not the kernel's half, and not the first page, which is never mapped: a pc there has faulted. */
static const struct cp__code_range anything = {
    .start = 4096, .size = UINTPTR_MAX / 2 - 4096, .is_readable = true};

/* Whether a table of that version could have been written over while it was read. */
static bool is_overtaken_from_handler(uint64_t version)
{
    cp_fence_acquire(); /* pairs with the release fence in begin_version() */
    return cp_load_relaxed(&begun) > version + 1;
}

/* Copies the last range that begins at pc or below it; false where there is none. */
static bool search_from_handler(const struct cp__code_range *ranges, size_t n, uintptr_t pc,
                                struct cp__code_range *found)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;

        /* relaxed, as the loads that follow: is_overtaken_from_handler() decides whether they are of use */
        if (cp_load_relaxed(&ranges[middle].start) <= pc)
            lo = middle + 1;
        else
            hi = middle;
    }
    if (lo == 0)
        return false;
    *found = (struct cp__code_range){.start = cp_load_relaxed(&ranges[lo - 1].start),
                                     .size = cp_load_relaxed(&ranges[lo - 1].size),
                                     .is_readable = cp_load_relaxed(&ranges[lo - 1].is_readable)};
    return pc - found->start < found->size;
}

static bool look_up_from_handler(uint64_t version, uintptr_t pc, struct cp__code_range *found)
{
    const struct table *table = &tables[version % 2];
    const struct cp__code_range *ranges = cp_load_relaxed(&table->ranges); /* relaxed: checked right below */
    size_t n = cp_load_relaxed(&table->n);
    struct cp__code_range range;

    if (is_overtaken_from_handler(version) || !search_from_handler(ranges, n, pc, &range) ||
        is_overtaken_from_handler(version))
        return false;
    *found = range;
    return true;
}

bool cp__code_find_from_handler(uintptr_t pc, struct cp__code_range *found)
{
    uint64_t version = cp_load_acquire(&published); /* pairs with the release in publish() */

    if (pc - anything.start >= anything.size)
        return false;
    if (version == 0) {
        *found = anything;
        return true;
    }
    if (look_up_from_handler(version, pc, found))
        return true;
    if (cp_load_relaxed(&missed) == 0)
        cp_store_relaxed(&missed, 1); /* relaxed: cp__code_look() may see it a pass later */
    return false;
}

#define PAGE ((uintptr_t)4096) /* or a part of one */

/*
 * Asks the kernel whether the page can be read: the table may be older than an mprotect(), and knows nothing
 * of protection keys. rt_sigprocmask(2) copies the set from the page before it looks at the operation, and
 * the kernel has no operation of the number that is given here. So the call changes nothing, and fails with
 * EFAULT if the page cannot be read, else with EINVAL.
 */
static bool is_readable_from_handler(uintptr_t page)
{
    const int nothing = -1;
    int saved_errno = errno;
    bool is_readable =
        syscall(SYS_rt_sigprocmask, nothing, page, NULL, sizeof(uint64_t)) < 0 && errno != EFAULT;

    errno = saved_errno;
    return is_readable;
}

bool cp__text_at_from_handler(struct cp__text *text, uintptr_t pc, size_t size)
{
    struct cp__code_range range = {.size = 0};

    if (!cp__code_find_from_handler(pc, &range) || !range.is_readable)
        return false;
    if (pc - text->lo >= text->hi - text->lo) {
        *text = (struct cp__text){.lo = pc & -PAGE, .hi = pc & -PAGE};
        if (!is_readable_from_handler(text->hi))
            return false;
        text->hi += PAGE;
    }
    while (text->hi - pc < size && text->hi - range.start < range.size && is_readable_from_handler(text->hi))
        text->hi += PAGE;
    return true;
}

/* ---- Reading /proc/self/maps ----------------------------------------------------------------- */

/*
 * One mapping a line:
 *
 *     START-END PERMISSIONS OFFSET DEVICE INODE PATH
 *
 * in hexadecimal digits, and r, w, x and p, each of which may be a dash. The text comes in pieces.
 */
struct parser {
    enum { IN_START, IN_END, IN_PERMISSIONS, IN_REST } at;
    uintptr_t start, end;
    bool is_readable, is_executable;
    struct table *table;
    bool is_short_of_memory;
};

static bool grow(struct table *table)
{
    size_t room = table->room == 0 ? 512 : 2 * table->room;
    struct cp__code_range *ranges =
        mmap(NULL, room * sizeof *ranges, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (ranges == MAP_FAILED)
        return false;
    /* What was there stays mapped: a handler may still read it. */
    for (size_t i = 0; i < table->n; i++)
        ranges[i] = table->ranges[i];
    cp_store_relaxed(&table->ranges,
                     ranges); /* relaxed, as the stores of take_mapping(): publish() orders them */
    table->room = room;
    return true;
}

static void take_mapping(struct parser *parser)
{
    struct table *table = parser->table;
    struct cp__code_range *last = table->n > 0 ? &table->ranges[table->n - 1] : NULL;

    if (!parser->is_executable || parser->start >= anything.size)
        return;
    if (last != NULL && last->start + last->size == parser->start &&
        last->is_readable == parser->is_readable) {
        cp_store_relaxed(&last->size, parser->end - last->start);
        return;
    }
    if (table->n == table->room && !grow(table)) {
        parser->is_short_of_memory = true;
        return;
    }
    last = &table->ranges[table->n];
    cp_store_relaxed(&last->start, parser->start);
    cp_store_relaxed(&last->size, parser->end - parser->start);
    cp_store_relaxed(&last->is_readable, parser->is_readable);
    cp_store_relaxed(&table->n, table->n + 1);
}

static uintptr_t with_digit(uintptr_t number, char digit)
{
    return number << 4 | (uintptr_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

static void take_character(struct parser *parser, char c)
{
    if (c == '\n') {
        take_mapping(parser);
        *parser = (struct parser){.table = parser->table, .is_short_of_memory = parser->is_short_of_memory};
    } else if (parser->at != IN_REST && (c == ' ' || c == '-') && parser->at != IN_PERMISSIONS) {
        parser->at++;
    } else if (parser->at == IN_START) {
        parser->start = with_digit(parser->start, c);
    } else if (parser->at == IN_END) {
        parser->end = with_digit(parser->end, c);
    } else if (parser->at == IN_PERMISSIONS) {
        parser->is_readable |= c == 'r';
        parser->is_executable |= c == 'x';
        if (c == ' ')
            parser->at = IN_REST;
    }
}

/* Whether the mappings could be read to the end. */
static bool read_mappings(struct table *table)
{
    static char text[16384]; /* of the thread that has set is_writing */
    struct parser parser = {.table = table};
    int fd = cp__sys_open_from_handler("/proc/self/maps");
    long n = -1;

    if (fd < 0)
        return false;
    while ((n = cp__sys_read_from_handler(fd, text, sizeof text)) > 0) {
        for (long i = 0; i < n; i++)
            take_character(&parser, text[i]);
    }
    cp__sys_close_from_handler(fd);
    return n == 0 && table->n > 0 && !parser.is_short_of_memory;
}

/* ---- Making the table ------------------------------------------------------------------------ */

static struct table *begin_version(uint64_t version)
{
    struct table *table = &tables[version % 2];

    cp_store_relaxed(&begun, version); /* relaxed: ordered by the fence */
    cp_fence_release();                /* pairs with the acquire fence in is_overtaken_from_handler() */
    cp_store_relaxed(&table->n, 0);
    return table;
}

static void publish(uint64_t version)
{
    cp_store_release(&published, version); /* pairs with the acquire in cp__code_find_from_handler() */
}

void cp__code_update(void)
{
    uint64_t start = cp__os_clock_ns_from_handler(CLOCK_MONOTONIC);
    uint64_t version;

    /* acquire: pairs with the release at the end */
    if (cp_exchange_acq_rel(&is_writing, 1u) != 0)
        return;
    cp__fork_delay();                          /* a file is opened */
    version = cp_load_relaxed(&published) + 1; /* relaxed: only who has set is_writing stores it */
    cp_store_relaxed(&missed, 0); /* relaxed: an address that is missed from now on is looked for again */
    if (version == 1)
        cp_store_relaxed(&cp__code_has_keys, cp__has_keys()); /* relaxed: before the first M */
    if (read_mappings(begin_version(version)))
        publish(version);
    cp_store_relaxed(&not_before, start + 200 * (cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) - start));
    cp__fork_allow();
    cp_store_release(&is_writing, 0); /* pairs with the acquire above */
}

void cp__code_look(void)
{
    if (cp_load_relaxed(&missed) == 0) /* relaxed: a later pass sees it, too */
        return;
    if (cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) >= cp_load_relaxed(&not_before)) /* relaxed: a hint */
        cp__code_update();
}

void cp__code_after_fork(void)
{
    cp_store_relaxed(&is_writing, 0); /* relaxed: this is the only thread */
}
