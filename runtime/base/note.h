/* Finds a build id among the notes of an ELF object. */
#ifndef COUNTERPOINT_RUNTIME_BASE_NOTE_H
#define COUNTERPOINT_RUNTIME_BASE_NOTE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Returns the build id among the notes of a segment, and stores its size; NULL if there is none.
 *
 * Linkers differ in how they put notes together: notes with an alignment of 4 and of 8 stand in one segment
 * (mold), whose own alignment then says nothing about the padding behind a note of 4, or in segments of their
 * own (GNU ld). Therefore this function does not walk from note to note. A build id's note begins at a
 * multiple of 4 with 16 bytes that are known, but for the size, and its data directly follow them, with
 * either alignment.
 */
static inline const uint8_t *cp__note_build_id(const uint8_t *notes, size_t size, size_t *id_size)
{
    Elf64_Nhdr note; /* of 32-bit objects, too */
    size_t at;

    for (at = 0; at + sizeof note + 4 < size; at += 4) {
        memcpy(&note, notes + at, sizeof note);
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || note.n_descsz == 0 ||
            note.n_descsz > size - at - sizeof note - 4 || memcmp(notes + at + sizeof note, "GNU", 4) != 0)
            continue;
        *id_size = note.n_descsz;
        return notes + at + sizeof note + 4;
    }
    return NULL;
}

#endif
