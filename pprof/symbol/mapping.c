/* Collects the mappings of the process, from /proc/self/maps and the dynamic linker. See mapping.h. */
#include "mapping.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernel.h"
#include "linked.h"
#include "runtime/base/fork_gate.h"
#include "runtime/base/loads.h"
#include "runtime/base/table.h"

static void mapping_free(struct cp__mapping *mapping)
{
    free(mapping->file);
    free(mapping->build_id);
}

int cp__mapping_own_strings(struct cp__mapping *mapping, const char *file, const char *build_id)
{
    mapping->file = strdup(file);
    mapping->build_id = build_id == NULL ? NULL : strdup(build_id);
    if (mapping->file != NULL && (build_id == NULL || mapping->build_id != NULL))
        return 0;
    free(mapping->file);
    free(mapping->build_id);
    return -ENOMEM;
}

void cp__mappings_free(struct cp__mappings *mappings)
{
    size_t i;

    for (i = 0; i < mappings->n; i++)
        mapping_free(&mappings->items[i]);
    free(mappings->items);
    free(mappings->now.items);
    free(mappings->before.items);
    for (i = 0; i < mappings->n_others; i++)
        free(mappings->others[i].items);
    free(mappings->others);
}

/* ---- Finding --------------------------------------------------------------------------------- */

/* Returns the place of an address; places->n if it has none. */
static size_t find_index(const struct cp__places *places, uint64_t address)
{
    const size_t n = CP__COUNT_BEFORE(places->n, i, places->items[i].start <= address);

    return n > 0 && address < places->items[n - 1].limit ? n - 1 : places->n;
}

/* Returns the number of the mapping that was at an address; "none" if there was none. */
static size_t find_place(const struct cp__places *places, uint64_t address, size_t none)
{
    const size_t i = find_index(places, address);

    return i < places->n ? places->items[i].number : none;
}

size_t cp__mappings_find(const struct cp__mappings *mappings, uint64_t address)
{
    return find_place(&mappings->now, address, mappings->n);
}

size_t cp__mappings_find_near(const struct cp__mappings *mappings, uint64_t address, size_t *last)
{
    const struct cp__places *places = &mappings->now;

    if (*last >= places->n || address < places->items[*last].start || address >= places->items[*last].limit)
        *last = find_index(places, address);
    return *last < places->n ? places->items[*last].number : mappings->n;
}

/* Returns how many objects were loaded between the last two times, and were gone at the second one or had
 * been there at the first one. Each of them may have been at any free address. */
static uint64_t passing_objects(const struct cp__mappings *mappings)
{
    const uint64_t loads = mappings->now.loads - mappings->before.loads;

    /* More were loaded than were found if they were loaded while the mappings were read. */
    if (mappings->now.unloads == mappings->before.unloads)
        return 0;
    return loads > mappings->now.fresh ? loads - mappings->now.fresh : 0;
}

size_t cp__mappings_find_between(const struct cp__mappings *mappings, uint64_t address)
{
    const size_t now = find_place(&mappings->now, address, mappings->n);
    const size_t before = find_place(&mappings->before, address, mappings->n);
    const uint64_t passing = passing_objects(mappings);

    if (address >= CP__KERNEL_START || mappings->before.n == 0)
        return now;
    /* A single passing object was either this one, again, or elsewhere. */
    if (now == before && now != mappings->n)
        return passing < 2 || mappings->items[now].object == 0 || mappings->items[now].is_permanent
                   ? now
                   : CP__MAPPING_REPLACED;
    if (passing > 0 || (now != mappings->n && before != mappings->n))
        return CP__MAPPING_REPLACED;
    return now != mappings->n ? now : before;
}

static bool has_stamp(const struct cp__places *places, uint64_t stamp)
{
    return stamp == places->stamps[0] || stamp == places->stamps[1];
}

bool cp__mappings_are_of_now(const struct cp__mappings *mappings, uint64_t stamp, bool is_between)
{
    return !is_between && (stamp == 0 || mappings->now.stamps[1] == 0 || has_stamp(&mappings->now, stamp));
}

/* Returns the mapping of an address that was sampled before, but not long before, the first of the last two
 * times, or long ago. */
static size_t find_doubtful(const struct cp__mappings *mappings, size_t now)
{
    return now == mappings->n || mappings->items[now].object == 0 || mappings->items[now].is_permanent ||
                   mappings->now.unloads == 0 /* what is there now was there since it was loaded */
               ? now
               : CP__MAPPING_REPLACED;
}

/* Returns the mapping of an address that was sampled between the last two times, after the last object was
 * loaded. An object may have been unloaded since, and other memory be in its place, as that of a just-in-time
 * compiler. */
static size_t find_after_loads(const struct cp__mappings *mappings, uint64_t address, size_t now)
{
    if (now == mappings->n)
        return cp__mappings_find_between(mappings, address);
    return mappings->items[now].object == 0 && mappings->now.unloads != mappings->before.unloads &&
                   find_place(&mappings->before, address, mappings->n) != now
               ? CP__MAPPING_REPLACED
               : now;
}

size_t cp__mappings_find_then(const struct cp__mappings *mappings, uint64_t address, uint64_t stamp,
                              bool is_between)
{
    const size_t now = cp__mappings_find(mappings, address);
    size_t before;

    if (stamp == 0 || mappings->now.stamps[1] == 0)
        return is_between ? cp__mappings_find_between(mappings, address) : now;
    if (has_stamp(&mappings->now, stamp))
        return is_between ? find_after_loads(mappings, address, now) : now;
    if (has_stamp(&mappings->before, stamp)) {
        before = find_place(&mappings->before, address, mappings->n);
        return before != mappings->n ? before : find_doubtful(mappings, now);
    }
    return is_between ? cp__mappings_find_between(mappings, address) : find_doubtful(mappings, now);
}

/* ---- What the kernel says -------------------------------------------------------------------- */

/* Reads the numbers of a line such as "START-LIMIT r-xp OFFSET MAJOR:MINOR INODE   FILE" by strtoull(), which
 * takes a third of the time of sscanf(). Returns where the file's name begins; NULL: the line has another
 * form. */
static char *parse_numbers(char *line, struct cp__mapping *mapping)
{
    char *at;

    mapping->start = strtoull(line, &at, 16);
    if (*at != '-')
        return NULL;
    mapping->limit = strtoull(at + 1, &at, 16);
    if (strlen(at) < strlen(" rwxp "))
        return NULL;
    mapping->is_code = at[3] == 'x';
    mapping->offset = strtoull(at + strlen(" rwxp "), &at, 16);
    mapping->device = strtoull(at, &at, 16) << 32;
    if (*at != ':')
        return NULL;
    mapping->device |= strtoull(at + 1, &at, 16);
    mapping->inode = strtoull(at, &at, 10);
    return at + strspn(at, " ");
}

/* Parses a line of /proc/self/maps. Returns 1 if the memory is executable or belongs to a file, 0 if not, or
 * -ENOMEM. */
static int parse_mapping(char *line, struct cp__mapping *mapping)
{
    static const char suffix[] = " (deleted)";
    size_t length;

    line[strcspn(line, "\n")] = '\0';
    *mapping = (struct cp__mapping){0};
    line = parse_numbers(line, mapping);
    if (line == NULL || (!mapping->is_code && mapping->inode == 0))
        return 0;
    length = strlen(line);
    if (length >= sizeof suffix && strcmp(line + length - (sizeof suffix - 1), suffix) == 0) {
        line[length - (sizeof suffix - 1)] = '\0';
        mapping->deleted = true;
    }
    mapping->file = strdup(line[0] == '\0' ? "[anon]" : line);
    return mapping->file == NULL ? -ENOMEM : 1;
}

/* Appends a mapping to the set, which then owns the mapping's strings. */
static int append_mapping(struct cp__mappings *mappings, const struct cp__mapping *mapping)
{
    if (CP__RESERVE(mappings->items, mappings->capacity, mappings->n + 1) < 0)
        return -ENOMEM;
    mappings->items[mappings->n++] = *mapping;
    return 0;
}

int cp__mappings_add_kernel(struct cp__mappings *mappings, const char *name, size_t *number)
{
    struct cp__mapping kernel = {
        .start = CP__KERNEL_START, .limit = UINT64_MAX, .kernel = true, .is_code = true};

    name = name[0] != '\0' ? name : "[kernel.kallsyms]";
    for (*number = 0; *number < mappings->n; ++*number)
        if (mappings->items[*number].kernel && strcmp(mappings->items[*number].file, name) == 0)
            return 0;
    kernel.file = strdup(name);
    if (kernel.file == NULL || append_mapping(mappings, &kernel) < 0) {
        free(kernel.file);
        return -ENOMEM;
    }
    return 0;
}

/* Fills the set from /proc/self/maps, in ascending order. Returns 0, -ENOMEM, or why the file cannot be
 * read. */
static int read_maps(struct cp__mappings *mappings)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    struct cp__mapping mapping;
    char *line = NULL;
    size_t capacity = 0;
    int result = 0;

    if (maps == NULL)
        return -errno;
    while (result >= 0 && getline(&line, &capacity, maps) >= 0) {
        result = parse_mapping(line, &mapping);
        if (result == 1 && append_mapping(mappings, &mapping) < 0) {
            mapping_free(&mapping);
            result = -ENOMEM;
        }
    }
    if (result >= 0 && !feof(maps))
        result = ferror(maps) ? -EIO : -ENOMEM;
    else if (result >= 0)
        result = mappings->n > 0 ? 0 : -ENODATA;
    free(line);
    fclose(maps);
    return result;
}

/* ---- What the dynamic linker says ------------------------------------------------------------ */

/* How often the linker has loaded and unloaded objects. */
struct changes {
    uint64_t loads;
    uint64_t unloads;
};

static int take_changes(struct dl_phdr_info *object, size_t size, void *context)
{
    (void)size;
    *(struct changes *)context = (struct changes){object->dlpi_adds, object->dlpi_subs};
    return 1;
}

static struct changes count_changes(void)
{
    struct changes changes = {0};

    if (cp__linker_begin())
        dl_iterate_phdr(take_changes, &changes);
    cp__linker_end();
    return changes;
}

static bool are_same(const struct cp__places *places, struct changes changes)
{
    return places->loads == changes.loads && places->unloads == changes.unloads;
}

bool cp__mappings_have_changed(const struct cp__mappings *mappings)
{
    const struct changes changes = count_changes();

    /* 0: the linker must not be called */
    return changes.loads != 0 &&
           (!are_same(&mappings->now, changes) || mappings->now.stamps[1] != cp__loads_from_handler());
}

/* Fills an empty set with what the kernel and the linker say, or the linker alone. */
static int ask_once(struct cp__mappings *found, int *unread)
{
    int result = read_maps(found);

    if (result < 0 && result != -ENOMEM) {
        *unread = result;
        cp__mappings_free(found);
        *found = (struct cp__mappings){0};
        result = cp__mappings_add_linked(found);
    }
    return result < 0 ? result : cp__mappings_link(found);
}

/* The same, again if the linker has loaded or unloaded objects meanwhile. */
static int find_all(struct cp__mappings *found, int *unread)
{
    for (int tries = 0;; tries++) {
        const struct changes changes = count_changes();
        int result = ask_once(found, unread);

        if (result < 0 || are_same(&found->now, changes) || tries == 3)
            return result;
        cp__mappings_free(found);
        *found = (struct cp__mappings){0};
    }
}

static uint64_t last_written_ns(const struct stat *status)
{
    return (uint64_t)status->st_mtim.tv_sec * 1000000000 + (uint64_t)status->st_mtim.tv_nsec;
}

/* A file may be overwritten, and the number of a deleted file is given to a new one. */
static void note_file(struct cp__mapping *mapping)
{
    struct stat status;

    if (mapping->inode != 0 && mapping->file[0] == '/' && stat(mapping->file, &status) == 0 &&
        status.st_ino == mapping->inode)
        mapping->written_ns = last_written_ns(&status);
}

bool cp__mapping_is_of(const struct cp__mapping *mapping, const struct stat *status)
{
    return mapping->inode == 0 ||
           (status->st_ino == mapping->inode &&
            (mapping->written_ns == 0 || mapping->written_ns == last_written_ns(status)));
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Returns the mapping of the set that equals the given one of this process, or NULL. */
static struct cp__mapping *find_known(const struct cp__mappings *mappings, const struct cp__mapping *mapping)
{
    struct cp__mapping *m;
    size_t i;

    for (i = 0; i < mappings->n; i++) {
        m = &mappings->items[i];
        if (m->process == 0 && m->start == mapping->start && m->limit == mapping->limit &&
            m->offset == mapping->offset && m->device == mapping->device && m->inode == mapping->inode &&
            m->file != NULL && (mapping->written_ns == 0 || m->written_ns == mapping->written_ns) &&
            strcmp(m->file, mapping->file) == 0 && same_text(m->build_id, mapping->build_id))
            return m;
    }
    return NULL;
}

static int compare_places(const void *left, const void *right)
{
    const struct cp__place *a = left, *b = right;

    return a->start < b->start ? -1 : a->start > b->start;
}

/* Frees the number of a mapping that is at no place and in no use. */
static void forget_mapping(struct cp__mapping *mapping)
{
    mapping_free(mapping);
    *mapping = (struct cp__mapping){0};
}

/* Forgets the mappings that were there at the time before the last two, unless they are in use. */
static void forget_old(struct cp__mappings *mappings, const struct cp__places *old)
{
    const struct cp__place *place;
    struct cp__mapping *mapping;
    size_t i;

    for (i = 0; i < old->n; i++) {
        place = &old->items[i];
        mapping = &mappings->items[place->number];
        if (mapping->file != NULL && !mapping->is_used && !mapping->main &&
            find_place(&mappings->now, place->start, SIZE_MAX) != place->number &&
            find_place(&mappings->before, place->start, SIZE_MAX) != place->number)
            forget_mapping(mapping);
    }
}

/* Returns a free number, for which there is room. */
static size_t free_number(struct cp__mappings *mappings)
{
    size_t i;

    for (i = 0; i < mappings->n; i++)
        if (mappings->items[i].file == NULL)
            return i;
    return mappings->n++;
}

/* Moves the mappings that were found, those of the program or the others, to the known ones, and adds their
 * places. There is room. */
static void merge(struct cp__mappings *known, struct cp__mappings *found, struct cp__places *places,
                  bool main)
{
    struct cp__mapping *same, *new;
    uint32_t last_fresh = 0;
    size_t i;

    for (i = 0; i < found->n; i++) {
        new = &found->items[i];
        if (!new->is_code || new->main != main)
            continue;
        note_file(new);
        same = find_known(known, new);
        if (same != NULL) {
            same->deleted = same->deleted || new->deleted;
            same->object = new->object;
        } else {
            /* an object's mappings follow each other */
            places->fresh += new->object != 0 && new->object != last_fresh;
            last_fresh = new->object;
            same = &known->items[free_number(known)];
            *same = *new;
            *new = (struct cp__mapping){.main = main};
        }
        places->items[places->n++] =
            (struct cp__place){same->start, same->limit, (uint32_t)(same - known->items)};
    }
}

int cp__mappings_note(struct cp__mappings *mappings)
{
    struct cp__mappings found = {0};
    struct cp__places old = mappings->before;
    int unread = 0;
    int result = find_all(&found, &unread);

    if (result == 0 && (CP__RESERVE(mappings->items, mappings->capacity, mappings->n + found.n + 1) < 0 ||
                        CP__RESERVE(found.now.items, found.now.capacity, found.n + 1) < 0))
        result = -ENOMEM;
    if (result == 0) {
        merge(mappings, &found, &found.now, true);
        merge(mappings, &found, &found.now, false);
        qsort(found.now.items, found.now.n, sizeof *found.now.items, compare_places);
        mappings->before = mappings->now;
        mappings->now = found.now;
        forget_old(mappings, &old);
        found.now = old;
        mappings->unread = unread != 0 ? unread : mappings->unread;
    }
    cp__mappings_free(&found);
    return result;
}

/* Finds an address among mappings that have no places yet. Returns mappings->n if it is in none. */
static size_t find_found(const struct cp__mappings *mappings, uint64_t address)
{
    size_t i;

    for (i = 0; i < mappings->n; i++)
        if (address >= mappings->items[i].start && address < mappings->items[i].limit)
            break;
    return i;
}

bool cp__mapping_is_current(const struct cp__mapping *mapping)
{
    struct cp__mappings now = {0};
    bool is_current = false;
    size_t i;

    if (mapping->process == 0 && read_maps(&now) == 0) {
        i = find_found(&now, mapping->start);
        is_current = i < now.n && mapping->limit <= now.items[i].limit &&
                     mapping->inode == now.items[i].inode && mapping->device == now.items[i].device;
        if (is_current && mapping->written_ns != 0) {
            note_file(&now.items[i]);
            is_current = now.items[i].written_ns == 0 || now.items[i].written_ns == mapping->written_ns;
        }
    }
    cp__mappings_free(&now);
    return is_current;
}

/* ---- Other processes ------------------------------------------------------------------------- */

int cp__mappings_add_process(struct cp__mappings *mappings, uint32_t *process)
{
    if (CP__RESERVE(mappings->others, mappings->others_capacity, mappings->n_others + 1) < 0)
        return -ENOMEM;
    mappings->others[mappings->n_others++] = (struct cp__places){0};
    *process = (uint32_t)mappings->n_others;
    return 0;
}

size_t cp__mappings_find_of(const struct cp__mappings *mappings, uint32_t process, uint64_t address)
{
    return process - 1 < mappings->n_others ? find_place(&mappings->others[process - 1], address, mappings->n)
                                            : mappings->n;
}

/* Stores where a new place belongs among places that are sorted by address. Returns whether it is free. */
static bool find_gap_for(const struct cp__places *places, uint64_t start, uint64_t limit, size_t *at)
{
    for (*at = 0; *at < places->n && places->items[*at].limit <= start; ++*at)
        ;
    return *at == places->n || limit <= places->items[*at].start;
}

int cp__mappings_add_of(struct cp__mappings *mappings, const struct cp__mapping *mapping)
{
    struct cp__mapping copy = *mapping;
    struct cp__places *places;
    size_t at, number;

    if (mapping->process - 1 >= mappings->n_others)
        return -ESRCH;
    places = &mappings->others[mapping->process - 1];
    if (!find_gap_for(places, mapping->start, mapping->limit, &at))
        return -EEXIST;
    if (CP__RESERVE(mappings->items, mappings->capacity, mappings->n + 1) < 0 ||
        CP__RESERVE(places->items, places->capacity, places->n + 1) < 0 ||
        cp__mapping_own_strings(&copy, mapping->file, mapping->build_id) < 0)
        return -ENOMEM;
    number = free_number(mappings);
    mappings->items[number] = copy;
    memmove(&places->items[at + 1], &places->items[at], (places->n++ - at) * sizeof places->items[0]);
    places->items[at] = (struct cp__place){copy.start, copy.limit, (uint32_t)number};
    return 0;
}
