#include "code.h"

#include <errno.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "arch/arch.h"
#include "atomic.h"
#include "maps_linux.h"
#include "objects.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/loads.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"

/* Shared: a handler may read a table while a writer already overwrites it; see code.h. */
struct table {
    struct cp__code_range *ranges; /* sorted by address */
    size_t n;
    size_t room;    /* the number of ranges that fit; only the writer uses it */
    uint64_t loads; /* the stamp of what the linker had loaded before; see loads.h */
};
static struct table tables[2]; /* version v is in tables[v % 2] */
static uint64_t begun;         /* the version that was written last or is being written */
static uint64_t published;     /* the version that is complete; 0: none */
static uint32_t missed;        /* a handler met an address that is in no range */

bool cp__code_has_keys;

/* The thread that has set is_writing owns these. */
static uint32_t is_writing;
static uint64_t not_before; /* the earliest time at which cp__code_look() may make a table */

/* ---- In the handler -------------------------------------------------------------------------- */

/* Every address except the kernel's half and the first page. The first page is never mapped, so a pc there
 * has faulted. */
static const struct cp__code_range anything = {
    .start = 4096, .size = UINTPTR_MAX / 2 - 4096, .is_readable = true};

/* Returns whether a writer may have overwritten the table of this version while it was read. */
static bool is_overtaken_from_handler(uint64_t version)
{
    cp_fence_acquire(); /* pairs with the release fence in begin_version() */
    return cp_load_relaxed(&begun) > version + 1;
}

/* Copies the last range that begins at pc or below, and returns whether pc is in that range. */
static bool search_from_handler(const struct cp__code_range *ranges, size_t n, uintptr_t pc,
                                struct cp__code_range *found)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t middle = lo + (hi - lo) / 2;

        /* relaxed, like the loads below: is_overtaken_from_handler() decides whether the values may be
         * used */
        if (cp_load_relaxed(&ranges[middle].start) <= pc)
            lo = middle + 1;
        else
            hi = middle;
    }
    if (lo == 0)
        return false;
    *found = (struct cp__code_range){.start = cp_load_relaxed(&ranges[lo - 1].start),
                                     .size = cp_load_relaxed(&ranges[lo - 1].size),
                                     .rows = cp_load_relaxed(&ranges[lo - 1].rows),
                                     .origin = cp_load_relaxed(&ranges[lo - 1].origin),
                                     .may_go = cp_load_relaxed(&ranges[lo - 1].may_go),
                                     .is_readable = cp_load_relaxed(&ranges[lo - 1].is_readable)};
    return pc - found->start < found->size;
}

/* Finds the range of pc in the table of a version. Returns false if the table was overwritten meanwhile. */
static bool look_up_from_handler(uint64_t version, uintptr_t pc, struct cp__code_range *found)
{
    const struct table *table = &tables[version % 2];
    const struct cp__code_range *ranges = cp_load_relaxed(&table->ranges); /* relaxed: checked below */
    size_t n = cp_load_relaxed(&table->n);
    struct cp__code_range range;

    if (is_overtaken_from_handler(version) || !search_from_handler(ranges, n, pc, &range) ||
        is_overtaken_from_handler(version))
        return false;
    *found = range;
    return true;
}

uint64_t cp__code_version_from_handler(void)
{
    return cp_load_acquire(&published); /* pairs with the release in publish_code() */
}

bool cp__code_is_old_from_handler(void)
{
    const uint64_t version = cp__code_version_from_handler();

    /* relaxed: a table that is written over has a newer stamp, and is none that the handler believes */
    return version != 0 && cp_load_relaxed(&tables[version % 2].loads) != cp__loads_from_handler();
}

bool cp__code_find_from_handler(uintptr_t pc, struct cp__code_range *found)
{
    uint64_t version = cp__code_version_from_handler();

    if (pc - anything.start >= anything.size)
        return false;
    if (version == 0) {
        *found = anything;
        return true;
    }
    if (look_up_from_handler(version, pc, found))
        return true;
    if (cp_load_relaxed(&missed) == 0)
        cp_store_relaxed(&missed, 1); /* relaxed: cp__code_look() may see the store one pass later */
    return false;
}

bool cp__text_at_from_handler(struct cp__text *text, uintptr_t pc, size_t size)
{
    struct cp__code_range range = {.size = 0};

    if (!cp__code_find_from_handler(pc, &range) || !range.is_readable)
        return false;
    if (pc - text->lo >= text->hi - text->lo) {
        text->lo = pc & -CP__SYS_PAGE;
        text->hi = text->lo;
        if (!cp__sys_can_read_from_handler(text->hi, CP__SYS_PAGE))
            return false;
        text->hi += CP__SYS_PAGE;
    }
    while (text->hi - pc < size && text->hi - range.start < range.size &&
           cp__sys_can_read_from_handler(text->hi, CP__SYS_PAGE))
        text->hi += CP__SYS_PAGE;
    return true;
}

/* ---- Filling the table --------------------------------------------------------------------- */

/* What puts the mappings into a table. */
struct filling {
    struct table *table;
    const struct cp__object *object; /* the first one that ends behind the last mapping, and all after it */
    const struct cp__object *end_of_objects;
    bool is_short_of_memory;
};

/* Gives the table twice the room. Returns false if there is no memory. */
static bool grow(struct table *table)
{
    size_t room = table->room == 0 ? 512 : 2 * table->room;
    struct cp__code_range *ranges = cp__sys_map(room * sizeof *ranges);

    if (ranges == NULL)
        return false;
    /* The old ranges stay mapped, because a handler may still read them. */
    for (size_t i = 0; i < table->n; i++)
        ranges[i] = table->ranges[i];
    cp_store_relaxed(&table->ranges,
                     ranges); /* relaxed, like the stores in take_mapping(): publish_code() orders them */
    table->room = room;
    return true;
}

/* Adds a range to the table. A range that continues the last one extends it. */
static void take_range(struct filling *filling, const struct cp__code_range *range)
{
    struct table *table = filling->table;
    struct cp__code_range *last = table->n > 0 ? &table->ranges[table->n - 1] : NULL;

    if (last != NULL && last->start + last->size == range->start && last->is_readable == range->is_readable &&
        last->rows == range->rows && last->origin == range->origin && last->may_go == range->may_go) {
        cp_store_relaxed(&last->size, last->size + range->size);
        return;
    }
    if (table->n == table->room && !grow(table)) {
        filling->is_short_of_memory = true;
        return;
    }
    last = &table->ranges[table->n];
    cp_store_relaxed(&last->start, range->start);
    cp_store_relaxed(&last->size, range->size);
    cp_store_relaxed(&last->rows, range->rows);
    cp_store_relaxed(&last->origin, range->origin);
    cp_store_relaxed(&last->may_go, range->may_go);
    cp_store_relaxed(&last->is_readable, range->is_readable);
    cp_store_relaxed(&table->n, table->n + 1);
}

/* Adds a mapping to the table if it is executable: a range for each object that the mapping has code of,
 * and for each part that is no object's. */
static void take_mapping(struct filling *filling, const struct cp__mapped *mapping)
{
    uintptr_t start = mapping->start;

    if (!mapping->is_executable || mapping->start >= anything.size)
        return;
    while (start < mapping->end) {
        struct cp__code_range range = {.start = start, .is_readable = mapping->is_readable};
        uintptr_t end = mapping->end;

        while (filling->object < filling->end_of_objects && filling->object->hi <= start)
            filling->object++;
        if (filling->object < filling->end_of_objects && filling->object->lo > start) {
            end = filling->object->lo < end ? filling->object->lo : end;
        } else if (filling->object < filling->end_of_objects) {
            end = filling->object->hi < end ? filling->object->hi : end;
            range.rows = filling->object->rows;
            range.origin = range.rows == NULL ? 0 : filling->object->lo;
            range.may_go = range.rows != NULL && filling->object->may_go;
        }
        range.size = end - start;
        take_range(filling, &range);
        start = end;
    }
}

/* Puts the mappings that are noted into the table, with the objects that they belong to. Returns whether all
 * of them were stored. */
static bool fill_table(struct table *table, const struct cp__object *objects, size_t n_objects)
{
    struct filling filling = {.table = table, .object = objects, .end_of_objects = objects};
    size_t n;
    const struct cp__mapped *mappings = cp__maps_noted(&n);

    if (n_objects > 0)
        filling.end_of_objects += n_objects;
    for (size_t i = 0; i < n; i++)
        take_mapping(&filling, &mappings[i]);
    return table->n > 0 && !filling.is_short_of_memory;
}

/* ---- Without /proc --------------------------------------------------------------------------- */

/* Returns where the code of the vDSO is, of which the linker of a static program may not know. */
static struct cp__object find_vdso(void)
{
    const uintptr_t start = getauxval(AT_SYSINFO_EHDR);
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)start;
    struct cp__object code = {.lo = UINTPTR_MAX, .hi = UINTPTR_MAX};

    for (unsigned i = 0; start != 0 && i < header->e_phnum; i++) {
        const ElfW(Phdr) *segment = (const ElfW(Phdr) *)(start + header->e_phoff) + i;

        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0)
            code = (struct cp__object){.lo = start + segment->p_offset,
                                       .hi = start + segment->p_offset + segment->p_memsz};
    }
    return code;
}

/* Adds the code of an object, or of the vDSO, which need not be among the known objects. */
static void take_code(struct filling *filling, const struct cp__object *object)
{
    const struct cp__mapped code = {
        .start = object->lo, .end = object->hi, .is_readable = true, .is_executable = true};

    take_mapping(filling, &code);
}

/* Fills the table with the code of the objects that the linker knows, and of the vDSO. Returns false if the
 * objects are not known. */
static bool take_objects(struct table *table, const struct cp__object *objects, size_t n_objects)
{
    struct filling filling = {.table = table, .object = objects, .end_of_objects = objects};
    const struct cp__object vdso = find_vdso();
    bool has_vdso = vdso.lo >= vdso.hi;

    if (n_objects == 0)
        return false;
    filling.end_of_objects += n_objects;
    cp_store_relaxed(&table->n, 0);
    for (size_t i = 0; i < n_objects; i++) {
        has_vdso |= objects[i].lo <= vdso.lo && vdso.lo < objects[i].hi;
        if (!has_vdso && vdso.lo < objects[i].lo) {
            take_code(&filling, &vdso);
            has_vdso = true;
        }
        take_code(&filling, &objects[i]);
    }
    if (!has_vdso)
        take_code(&filling, &vdso);
    return !filling.is_short_of_memory;
}

/* ---- Making the table ------------------------------------------------------------------------ */

/* Announces a version, and returns its table, empty. */
static struct table *begin_version(uint64_t version)
{
    struct table *table = &tables[version % 2];

    cp_store_relaxed(&begun, version); /* relaxed: the fence below orders the store */
    cp_fence_release();                /* pairs with the acquire fence in is_overtaken_from_handler() */
    cp_store_relaxed(&table->n, 0);
    return table;
}

static void publish_code(uint64_t version)
{
    cp_store_release(&published, version); /* pairs with the acquire in cp__code_find_from_handler() */
}

/* Keeps the tables of a program that maps and unmaps all the time at half a percent of a CPU. The CPU time
 * counts, because a thread that waits for its CPU costs nothing. A virtual machine's clock goes on while
 * the machine stands still; so there is a limit, because code that was mapped meanwhile is in no table. */
#define REST_FOR 200
#define LONGEST_REST_NS 1000000000

static void rest(uint64_t cpu_ns)
{
    uint64_t ns = REST_FOR * cpu_ns;

    if (ns > LONGEST_REST_NS)
        ns = LONGEST_REST_NS;
    /* relaxed: a hint */
    cp_store_relaxed(&not_before, cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) + ns);
}

static void update(bool with_rows)
{
    const struct cp__object *objects = NULL;
    size_t n_objects = 0;
    struct table *table;
    const uint64_t loads = cp__loads_from_handler();
    uint64_t version, began;

    /* acquire: pairs with the release at the end */
    if (cp_exchange_acq_rel(&is_writing, 1u) != 0)
        return;
    cp__fork_delay(); /* reading the mappings opens a file */
    /* relaxed: only the thread that has set is_writing stores it */
    version = cp_load_relaxed(&published) + 1;
    /* relaxed: a handler that misses an address from now on sets the flag again */
    cp_store_relaxed(&missed, 0);
    if (version == 1)
        cp_store_relaxed(&cp__code_has_keys, cp__has_keys()); /* relaxed: before the first M */
    if (with_rows)
        objects = cp__objects_update(&n_objects); /* notes the mappings, too */
    else
        cp__maps_note();
    /* rows, which take longer, are made once an object */
    began = cp__os_clock_ns_from_handler(CLOCK_THREAD_CPUTIME_ID);
    table = begin_version(version);
    cp_store_relaxed(&table->loads, loads); /* relaxed: publish_code() orders it */
    if (fill_table(table, objects, n_objects) || take_objects(table, objects, n_objects))
        publish_code(version);
    rest(cp__maps_noting_ns() + cp__os_clock_ns_from_handler(CLOCK_THREAD_CPUTIME_ID) - began);
    cp__fork_allow();
    cp_store_release(&is_writing, 0); /* pairs with the acquire above */
}

void cp__code_prepare(void)
{
    update(false);
}

void cp__code_update(void)
{
    update(true);
}

void cp__code_look(void)
{
    if (cp__os_clock_ns_from_handler(CLOCK_MONOTONIC) < cp_load_relaxed(&not_before)) /* relaxed: a hint */
        return;
    /* relaxed: if this pass does not see the store, a later pass does */
    if (cp_load_relaxed(&missed) != 0 || cp__objects_have_changed() || cp__code_is_old_from_handler())
        cp__code_update();
}

void cp__code_after_fork(void)
{
    if (cp_load_relaxed(&is_writing) != 0) /* relaxed: this is the only thread */
        cp__objects_after_fork();
    cp_store_relaxed(&is_writing, 0); /* relaxed: this is the only thread */
}
