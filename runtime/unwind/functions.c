#include "functions.h"

#include <string.h>
#include <sys/mman.h>

#include "reader.h"

/* ---- Entries --------------------------------------------------------------------------------- */

/* An entry of .eh_frame: of a function (FDE), or what is common to many functions (CIE). */
struct entry {
    const uint8_t *id;  /* the four bytes that tell which of the two it is */
    const uint8_t *end; /* also where the next entry begins */
};

/* Finds the entry at `at`. Returns false at the end of the entries, or if there is none. */
static bool find_entry(const uint8_t *at, const uint8_t *hi, struct entry *entry)
{
    uint32_t size;
    uint64_t large;

    if ((size_t)(hi - at) < sizeof size)
        return false;
    memcpy(&size, at, sizeof size);
    at += sizeof size;
    large = size;
    if (size == UINT32_MAX) {
        if ((size_t)(hi - at) < sizeof large)
            return false;
        memcpy(&large, at, sizeof large);
        at += sizeof large;
    }
    if (large < sizeof size || large > (uint64_t)(hi - at))
        return false;
    *entry = (struct entry){.id = at, .end = at + large};
    return true;
}

/* Returns how many bytes an address takes in a form of DWARF for exceptions; 0 for forms that gcc and
 * clang do not use. */
static size_t address_size(uint8_t form)
{
    switch (form & FORM) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
        return 8;
    case DW_EH_PE_udata4:
    case DW_EH_PE_sdata4:
        return 4;
    default:
        return 0;
    }
}

/* Skips a number in groups of seven bits. Returns NULL past the end. */
static const uint8_t *skip_number(const uint8_t *at, const uint8_t *end)
{
    while (at != NULL && at < end) {
        if ((*at++ & 0x80) == 0)
            return at;
    }
    return NULL;
}

/* Finds the form of addresses that the letters of a CIE announce; data has what each letter needs. */
static bool read_letters(const char *letters, const uint8_t *data, const uint8_t *end, uint8_t *form)
{
    for (; *letters != '\0' && *letters != 'R'; letters++) {
        if (*letters == 'S' || *letters == 'B')
            continue;
        if ((*letters != 'L' && *letters != 'P') || data >= end)
            return false;
        if (*letters == 'P') {
            size_t size = address_size(*data);

            if (size == 0 || (size_t)(end - data) <= size)
                return false;
            data += size;
        }
        data++;
    }
    if (*letters == 'R' && data < end)
        *form = *data;
    return *letters == '\0' || data < end;
}

/* Finds the form of the addresses in the FDEs of a CIE. */
static bool read_form(const struct entry *cie, uint8_t *form)
{
    const uint8_t *at = cie->id + 4, *letters_end;
    const char *letters = (const char *)at + 1;
    uint8_t version;

    *form = 0;
    if (at >= cie->end)
        return false;
    version = *at;
    letters_end = memchr(letters, '\0', (size_t)(cie->end - (at + 1)));
    if (letters_end == NULL || (version != 1 && version != 3))
        return false;
    at = skip_number(skip_number(letters_end + 1, cie->end), cie->end);
    at = version == 1 && at != NULL && at < cie->end ? at + 1 : skip_number(at, cie->end);
    if (*letters == '\0')
        return at != NULL;
    if (*letters != 'z')
        return false;
    at = skip_number(at, cie->end);
    return at != NULL && read_letters(letters + 1, at, cie->end, form);
}

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
    uint64_t frames;
    uint64_t count;
};

struct reading {
    const uint8_t *lo;
    const uint8_t *hi;
    const uint8_t *cie; /* of the last FDE */
    uint8_t form;       /* what that CIE says */
    bool is_known;
    struct function *functions;
    size_t n;
};

/* Finds where the function of an FDE begins. */
static bool read_start(struct reading *reading, const struct entry *fde, uint32_t back, uint64_t *start)
{
    const uint8_t *cie = back <= (uint64_t)(fde->id - reading->lo) ? fde->id - back : NULL;
    const uint8_t *at = fde->id + 4;
    struct entry common;
    int32_t distance;

    if (cie == NULL)
        return false;
    if (cie != reading->cie) {
        reading->cie = cie;
        reading->is_known = find_entry(cie, reading->hi, &common) && read_form(&common, &reading->form);
    }
    if (!reading->is_known || (size_t)(fde->end - at) < address_size(reading->form))
        return false;
    if (address_size(reading->form) == 8) {
        memcpy(start, at, 8);
    } else {
        memcpy(&distance, at, sizeof distance);
        *start = (uint64_t)(int64_t)distance;
    }
    if ((reading->form & RELATIVE) == DW_EH_PE_pcrel)
        *start += (uintptr_t)at;
    return address_size(reading->form) != 0;
}

/* Goes through all entries. Adds those of functions to the list, or only counts them if there is no list. */
static void read_entries(struct reading *reading)
{
    const uint8_t *at = reading->lo;
    struct entry entry;

    reading->n = 0;
    for (; find_entry(at, reading->hi, &entry); at = entry.end) {
        struct function function = {.entry = (uintptr_t)at};
        uint32_t back;

        memcpy(&back, entry.id, sizeof back);
        if (back == 0 || !read_start(reading, &entry, back, &function.start))
            continue;
        if (reading->functions != NULL)
            reading->functions[reading->n] = function;
        reading->n++;
    }
}

/* Moves functions[i] down to its place among the first n, which are a heap from i on. */
static void sift(struct function *functions, size_t i, size_t n)
{
    struct function moved = functions[i];

    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && functions[child + 1].start > functions[child].start)
            child++;
        if (functions[child].start <= moved.start)
            break;
        functions[i] = functions[child];
    }
    functions[i] = moved;
}

/* Sorts without memory: an allocator of the program may wait for the linker's lock. */
static void sort(struct function *functions, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift(functions, i, n);
    while (n > 1) {
        struct function last = functions[--n];

        functions[n] = functions[0];
        functions[0] = last;
        sift(functions, 0, n);
    }
}

struct cp__functions cp__functions_list(const uint8_t *lo, const uint8_t *hi)
{
    struct reading reading = {.lo = lo, .hi = hi};
    struct cp__functions result = {.list = NULL};
    struct head *head;

    read_entries(&reading);
    if (reading.n == 0)
        return result;
    result.memory_size = sizeof *head + reading.n * sizeof *reading.functions;
    head = mmap(NULL, result.memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (head == MAP_FAILED)
        return result;
    reading.functions = (struct function *)(head + 1);
    read_entries(&reading);
    sort(reading.functions, reading.n);
    *head = (struct head){
        .version = 1, .count_form = DW_EH_PE_udata8, .frames = (uintptr_t)lo, .count = reading.n};
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
