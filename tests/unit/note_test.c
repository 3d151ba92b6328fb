/* Build ids among notes, as linkers put them together. */
#include "runtime/base/note.h"

#include "tests/support/test.h"

static const char id[20] = "0123456789abcdefghi";

struct notes {
    uint8_t bytes[256];
    size_t size;
};

static void pad(struct notes *notes, size_t align)
{
    while (notes->size % align != 0)
        notes->bytes[notes->size++] = 0;
}

static void append(struct notes *notes, const void *bytes, size_t size)
{
    memcpy(notes->bytes + notes->size, bytes, size);
    notes->size += size;
}

/* Appends a note whose parts begin at multiples of "align". */
static void add_note(struct notes *notes, size_t align, uint32_t type, const char *name, const void *data,
                     size_t size)
{
    const Elf64_Nhdr note = {
        .n_namesz = (uint32_t)strlen(name) + 1, .n_descsz = (uint32_t)size, .n_type = type};

    pad(notes, align);
    append(notes, &note, sizeof note);
    append(notes, name, note.n_namesz);
    pad(notes, align);
    append(notes, data, size);
}

static void check_found(const struct notes *notes, size_t size)
{
    size_t found_size = 0;
    const uint8_t *found = cp__note_build_id(notes->bytes, notes->size, &found_size);

    CHECK(found != NULL);
    CHECK_EQ(found_size, size);
    CHECK(memcmp(found, id, size) == 0);
}

CP_TEST(a_build_id_is_found_however_notes_are_aligned)
{
    static const size_t aligns[] = {4, 8};

    for (size_t i = 0; i < 8; i++) { /* the alignment of each of three notes */
        struct notes notes = {.size = 0};

        add_note(&notes, aligns[i & 1], NT_GNU_PROPERTY_TYPE_0, "GNU", id, 12);
        add_note(&notes, aligns[i >> 1 & 1], 3, "stapsdt", id, 17);
        add_note(&notes, aligns[i >> 2 & 1], NT_GNU_BUILD_ID, "GNU", id, sizeof id);
        check_found(&notes, sizeof id);
        add_note(&notes, 4, NT_GNU_ABI_TAG, "GNU", "other", 6);
        check_found(&notes, sizeof id);
    }
}

CP_TEST(build_ids_have_any_size)
{
    for (size_t size = 1; size <= sizeof id; size++) {
        struct notes notes = {.size = 0};

        add_note(&notes, 4, NT_GNU_BUILD_ID, "GNU", id, size);
        check_found(&notes, size);
    }
}

CP_TEST(what_is_no_build_id_is_not_found)
{
    struct notes notes = {.size = 0};
    size_t size;

    add_note(&notes, 4, NT_GNU_BUILD_ID, "GNX", id, sizeof id); /* of another vendor */
    add_note(&notes, 4, NT_GNU_ABI_TAG, "GNU", id, sizeof id);
    add_note(&notes, 4, NT_GNU_BUILD_ID, "GNU", id, 0);
    add_note(&notes, 4, NT_GNU_BUILD_ID, "GNU", id, sizeof id);
    notes.size--; /* the last byte was not loaded */
    CHECK(cp__note_build_id(notes.bytes, notes.size, &size) == NULL);
    for (notes.size = 0; notes.size < 40; notes.size++)
        CHECK(cp__note_build_id(notes.bytes, notes.size, &size) == NULL);
}
