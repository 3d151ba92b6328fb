/*
 * The file of an object: its sections, which are not mapped as such. Not for signal handlers; one thread at a
 * time.
 */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_FILE_LINUX_H
#define COUNTERPOINT_RUNTIME_UNWIND_FILE_LINUX_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cp__mapped;
struct stat;

/* Returns whether a file is the one that a mapping of the list is of. Some file systems tell other numbers
 * in mappings than by stat(): the answer is false for their files. */
bool cp__file_is_of(const struct stat *file, const struct cp__mapped *mapping);
/* Opens the very file that a mapping of the list is of. Returns a descriptor, or a negative number. */
int cp__file_open(const struct cp__mapped *mapping);

/* Finds the section that has a name, and is mapped or not. Returns false if the file has no such section, or
 * only its size. */
bool cp__file_find_section(int fd, const char *name, bool is_mapped, ElfW(Shdr) * section);

/* The bytes of a section, in memory of their own. */
struct cp__section {
    uint8_t *bytes; /* NULL: they cannot be read */
    size_t size;
};

/* Reads a section of at most max bytes, and expands it if it is compressed by zlib and the program has that
 * library. */
struct cp__section cp__file_read_section(int fd, const ElfW(Shdr) * section, size_t max);
void cp__section_free(struct cp__section *section);

#endif
