#include "functions.h"

#include <string.h>
#include <sys/mman.h>

#include "entries.h"
#include "runtime/base/sys_linux.h"

/* ---- The list -------------------------------------------------------------------------------- */

/* An element of the list, as .eh_frame_hdr has it. */
struct function {
    uint64_t start;
    uint64_t entry;
};

/* What begins the list: a version, and the forms of the numbers: 64 bits each, not relative to anything. */
struct head {
    uint32_t unused; /* so that the numbers are aligned */
    uint8_t version;
    uint8_t frames_form;
    uint8_t count_form;
    uint8_t table_form;
    uint64_t unread;
    uint64_t count;
};

struct reading {
    const struct cp__cfi_source *source;
    const uint8_t *cie_at; /* of the last FDE */
    struct cp__cie cie;
    bool is_known; /* the CIE has a form that is understood */
    struct function *functions;
    size_t n;
};

/* Finds where the function of an FDE begins. The linker leaves an address of 0 in .debug_frame for functions
 * that it has dropped. */
static bool read_start(struct reading *reading, struct cp__entry *fde, uint64_t *start)
{
    const struct cp__cfi_source *source = reading->source;
    const uint64_t dropped = source->moved + source->bias - source->code_lo;

    if (fde->cie != reading->cie_at) {
        struct cp__entry cie = cp__entry_open(source, fde->cie);

        reading->cie_at = fde->cie;
        reading->is_known = !cie.reader.is_bad && cp__entry_read_cie(&cie, &reading->cie);
    }
    if (!reading->is_known)
        return false;
    *start = cp__entry_read_place(&fde->reader, reading->cie.address_form, fde->is_debug, source);
    return !fde->reader.is_bad && *start < source->code_hi - source->code_lo &&
           !(fde->is_debug && *start == dropped);
}

/* Goes through the entries of [lo, hi). Adds those of functions to the list, or only counts them if there is
 * no list. */
static void read_entries(struct reading *reading, const uint8_t *lo, const uint8_t *hi)
{
    while (lo < hi) {
        struct cp__entry entry = cp__entry_open(reading->source, lo);
        struct function function = {.entry = (uintptr_t)lo};

        if (entry.end == NULL)
            return;
        lo = entry.end;
        if (entry.reader.is_bad || entry.cie == NULL || !read_start(reading, &entry, &function.start))
            continue;
        if (reading->functions != NULL)
            reading->functions[reading->n] = function;
        reading->n++;
    }
}

static void read_all(struct reading *reading, const uint8_t *lo, const uint8_t *hi)
{
    reading->n = 0;
    read_entries(reading, lo, hi);
    read_entries(reading, reading->source->debug_lo, reading->source->debug_hi);
}

/* Returns whether a belongs behind b. If .eh_frame and .debug_frame describe a function, the entry of
 * .eh_frame comes first, and holds. */
static bool comes_behind(const struct reading *reading, const struct function *a, const struct function *b)
{
    const uint64_t debug_lo = (uintptr_t)reading->source->debug_lo;
    const uint64_t debug_size = (uintptr_t)reading->source->debug_hi - debug_lo;

    if (a->start != b->start)
        return a->start > b->start;
    return a->entry - debug_lo < debug_size && b->entry - debug_lo >= debug_size;
}

/* Moves functions[i] down to its place among the first n, which are a heap from i on. */
static void sift(const struct reading *reading, size_t i, size_t n)
{
    struct function *functions = reading->functions;
    struct function moved = functions[i];

    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && comes_behind(reading, &functions[child + 1], &functions[child]))
            child++;
        if (!comes_behind(reading, &functions[child], &moved))
            break;
        functions[i] = functions[child];
    }
    functions[i] = moved;
}

/* Sorts without memory: an allocator of the program may wait for the linker's lock. */
static void sort(const struct reading *reading)
{
    struct function *functions = reading->functions;
    size_t n = reading->n;

    for (size_t i = n / 2; i-- > 0;)
        sift(reading, i, n);
    while (n > 1) {
        struct function last = functions[--n];

        functions[n] = functions[0];
        functions[0] = last;
        sift(reading, 0, n);
    }
}

struct cp__functions cp__functions_list(const struct cp__cfi_source *source, const uint8_t *lo,
                                        const uint8_t *hi)
{
    struct reading reading = {.source = source};
    struct cp__functions result = {.list = NULL};
    struct head *head;

    read_all(&reading, lo, hi);
    if (reading.n == 0)
        return result;
    result.memory_size = sizeof *head + reading.n * sizeof *reading.functions;
    head = cp__sys_map(result.memory_size);
    if (head == NULL)
        return result;
    reading.functions = (struct function *)(head + 1);
    read_all(&reading, lo, hi);
    sort(&reading);
    *head = (struct head){.version = 1, .count_form = DW_EH_PE_udata8, .count = reading.n};
    result.memory = head;
    result.list = &head->version;
    result.size = result.memory_size - offsetof(struct head, version);
    return result;
}

void cp__functions_free(struct cp__functions *functions)
{
    if (functions->memory != NULL)
        munmap(functions->memory, functions->memory_size);
    functions->memory = NULL;
}
