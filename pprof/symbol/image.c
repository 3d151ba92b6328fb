/* Puts the file of an object together from what is mapped of it. */
#include "part.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

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

/* Writes all segments but those that have only code. The section headers, which are no part of a segment, are
 * left out: libdw finds the exported symbols by the dynamic section. */
static int write_segments(int fd, const struct cp__mapping *mapping, ElfW(Ehdr) * header)
{
    ElfW(Phdr) parts[64];
    int result = 0;
    size_t i;

    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_phentsize != sizeof parts[0] ||
        header->e_phnum > sizeof parts / sizeof parts[0] ||
        !copy_memory(parts, header->e_phnum * sizeof parts[0], mapping->header + header->e_phoff))
        return -ENOEXEC;
    for (i = 0; i < header->e_phnum && result == 0; i++)
        if (parts[i].p_type == PT_LOAD && ((parts[i].p_flags & PF_X) == 0 || parts[i].p_offset == 0))
            result = write_segment(fd, &parts[i], mapping->bias);
    header->e_shoff = 0;
    header->e_shnum = header->e_shstrndx = 0;
    if (result == 0 && pwrite(fd, header, sizeof *header, 0) != sizeof *header)
        result = -EIO;
    return result;
}

int cp__image_open(const struct cp__mapping *mapping)
{
    ElfW(Ehdr) header;
    int fd, result;

    if (!mapping->is_linked || mapping->header == 0 || !copy_memory(&header, sizeof header, mapping->header))
        return -ENOENT;
    fd = memfd_create("object", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    result = write_segments(fd, mapping, &header);
    if (result == 0)
        return fd;
    close(fd);
    return result;
}
