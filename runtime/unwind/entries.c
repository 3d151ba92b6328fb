#include "entries.h"

/* Finds the CIE that an FDE's number leads to. */
static void find_cie(struct cp__entry *entry, const struct cp__cfi_source *source, const uint8_t *from,
                     uint64_t number)
{
    if (number > (uint64_t)(entry->is_debug ? source->debug_hi - source->debug_lo : from - source->lo))
        entry->reader.is_bad = true;
    else
        entry->cie = entry->is_debug ? source->debug_lo + number : from - number;
}

struct cp__entry cp__entry_open(const struct cp__cfi_source *source, const uint8_t *at)
{
    const bool is_debug = at >= source->debug_lo && at < source->debug_hi;
    struct cp__entry entry = {.is_debug = is_debug,
                              .reader = {.at = at, .end = is_debug ? source->debug_hi : source->hi}};
    struct reader *reader = &entry.reader;
    size_t number_size = 4;
    const uint8_t *from;
    uint64_t size, number;

    if (!is_debug && (at < source->lo || at >= source->hi))
        return (struct cp__entry){.reader = {.is_bad = true}};
    size = read_fixed(reader, 4);
    if (size == UINT32_MAX) {
        size = read_fixed(reader, 8);
        number_size = is_debug ? 8 : 4;
    }
    if (size < number_size || size > (uint64_t)(reader->end - reader->at))
        return (struct cp__entry){.reader = {.is_bad = true}};
    from = reader->at;
    entry.end = reader->end = from + size;
    number = read_fixed(reader, number_size);
    if (number != (is_debug ? UINT64_MAX >> (64 - 8 * number_size) : 0))
        find_cie(&entry, source, from, number);
    return entry;
}

/* Reads the letters after the z of a CIE's augmentation, and the data that they announce. */
static void read_augmentation(struct reader *reader, const char *letters, struct cp__cie *cie)
{
    uint64_t size = read_uleb(reader);
    const uint8_t *data = skip(reader, size);
    struct reader rest = {.at = data, .end = reader->at};

    for (; *letters != '\0' && !rest.is_bad; letters++) {
        if (*letters == 'R')
            cie->address_form = (unsigned)read_fixed(&rest, 1);
        else if (*letters == 'L')
            read_fixed(&rest, 1);
        else if (*letters == 'P')
            read_address(&rest, (unsigned)read_fixed(&rest, 1) & FORM, NULL);
        else if (*letters == 'S')
            cie->is_of_signal = true;
        else if (*letters != 'B') /* how arm64 signs return addresses */
            break;
    }
    reader->is_bad |= rest.is_bad;
}

#define MOST_LETTERS 16 /* no compiler writes more than six */

bool cp__entry_read_cie(struct cp__entry *entry, struct cp__cie *cie)
{
    struct reader *reader = &entry->reader;
    uint64_t version = read_fixed(reader, 1);
    const char *letters = (const char *)reader->at;
    unsigned n = 0;

    *cie = (struct cp__cie){.code_align = 0};
    while (n < MOST_LETTERS && read_fixed(reader, 1) != 0)
        n++;
    if (entry->cie != NULL || reader->is_bad || n == MOST_LETTERS)
        return false;
    if (version == 4 && entry->is_debug) /* the sizes of addresses and of segments' numbers */
        reader->is_bad = read_fixed(reader, 2) != sizeof(uintptr_t);
    else if (version != 1 && version != 3)
        return false;
    cie->code_align = read_uleb(reader);
    cie->data_align = read_sleb(reader);
    cie->return_register = version == 1 ? read_fixed(reader, 1) : read_uleb(reader);
    cie->has_data = letters[0] == 'z';
    if (cie->has_data)
        read_augmentation(reader, letters + 1, cie);
    return !reader->is_bad && (cie->has_data || letters[0] == '\0') && cie->code_align != 0;
}
