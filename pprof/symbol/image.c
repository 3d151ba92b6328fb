/* Puts the file of an object together from what is mapped of it. */
#include "part.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/base/note.h"

/* Copies memory of this process that may not be there. */
static bool copy_memory(void *data, size_t size, uint64_t address)
{
    struct iovec local = {data, size}, remote = {(void *)(uintptr_t)address, size};

    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* Writes a segment to its place in the file. Returns 0 or a negative errno value. */
static int write_segment(int fd, const ElfW(Phdr) * part, uint64_t bias)
{
    char chunk[16384];
    size_t size;
    uint64_t at;

    for (at = 0; at < part->p_filesz; at += size) {
        size = part->p_filesz - at < sizeof chunk ? part->p_filesz - at : sizeof chunk;
        if (!copy_memory(chunk, size, bias + part->p_vaddr + at))
            return -EFAULT;
        if (pwrite(fd, chunk, size, (off_t)(part->p_offset + at)) != (ssize_t)size)
            return -EIO;
    }
    return 0;
}

enum { MAX_PARTS = 64 };

/* Reads the headers of an object in memory. Returns whether there is an object. */
static bool read_headers(uint64_t address, ElfW(Ehdr) * header, ElfW(Phdr) parts[MAX_PARTS])
{
    return copy_memory(header, sizeof *header, address) && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_phentsize == sizeof parts[0] && header->e_phnum <= MAX_PARTS &&
           copy_memory(parts, header->e_phnum * sizeof parts[0], address + header->e_phoff);
}

/* Writes all segments but those that have only code. The section headers, which are no part of a segment, are
 * left out: libdw finds the exported symbols by the dynamic section. */
static int write_segments(int fd, const struct cp__mapping *mapping)
{
    ElfW(Phdr) parts[MAX_PARTS];
    ElfW(Ehdr) header;
    int result = 0;
    size_t i;

    if (!read_headers(mapping->header, &header, parts))
        return -ENOEXEC;
    for (i = 0; i < header.e_phnum && result == 0; i++)
        if (parts[i].p_type == PT_LOAD && ((parts[i].p_flags & PF_X) == 0 || parts[i].p_offset == 0))
            result = write_segment(fd, &parts[i], mapping->bias);
    header.e_shoff = 0;
    header.e_shnum = header.e_shstrndx = 0;
    if (result == 0 && pwrite(fd, &header, sizeof header, 0) != sizeof header)
        result = -EIO;
    return result;
}

int cp__image_open(const struct cp__mapping *mapping)
{
    int fd, result;

    if (!mapping->is_linked || mapping->header == 0)
        return -ENOENT;
    fd = memfd_create("object", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    result = write_segments(fd, mapping);
    if (result == 0)
        return fd;
    close(fd);
    return result;
}

size_t cp__image_link(struct cp__mapping *mapping, const struct cp__mapping *first, uint8_t id[CP__MAX_ID])
{
    const uint64_t delta = mapping->start - mapping->offset;
    ElfW(Phdr) parts[MAX_PARTS], *p;
    uint8_t notes[4096];
    const uint8_t *found = NULL;
    ElfW(Ehdr) header;
    size_t size = 0;

    if (!read_headers(first->start, &header, parts))
        return 0;
    for (p = parts; p < parts + header.e_phnum; p++) {
        if (p->p_type == PT_LOAD && p->p_offset == 0)
            mapping->bias = first->start - p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) != 0 &&
            delta == mapping->bias + p->p_vaddr - p->p_offset)
            mapping->is_linked = true;
        if (p->p_type == PT_NOTE && found == NULL && p->p_filesz <= sizeof notes &&
            p->p_offset + p->p_filesz <= first->limit - first->start &&
            copy_memory(notes, p->p_filesz, first->start + p->p_offset))
            found = cp__note_build_id(notes, p->p_filesz, &size);
    }
    mapping->header = first->start;
    if (found == NULL || size > CP__MAX_ID)
        return 0;
    memcpy(id, found, size);
    return size;
}
