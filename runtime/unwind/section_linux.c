#include "section_linux.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/sys_linux.h"

/* Reads all of the bytes at an offset of the file. The C library's pread() is a cancellation point. */
static bool read_at(int fd, uint64_t offset, void *data, size_t size)
{
    return syscall(SYS_pread64, fd, data, size, offset) == (long)size;
}

/* Returns whether the name at an offset of the file is this one. */
static bool is_named(int fd, uint64_t offset, const char *name)
{
    char found[32];
    size_t size = strlen(name) + 1;

    return size <= sizeof found && read_at(fd, offset, found, size) && memcmp(found, name, size) == 0;
}

/* Finds the section by the file's header. */
static bool find_section(int fd, const ElfW(Ehdr) * header, const char *name, ElfW(Shdr) * found)
{
    ElfW(Shdr) names;

    if (header->e_shentsize != sizeof *found ||
        !read_at(fd, header->e_shoff + (uint64_t)header->e_shstrndx * sizeof names, &names, sizeof names))
        return false;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (!read_at(fd, header->e_shoff + (uint64_t)i * sizeof *found, found, sizeof *found))
            return false;
        if ((found->sh_flags & SHF_ALLOC) != 0 && is_named(fd, names.sh_offset + found->sh_name, name))
            return true;
    }
    return false;
}

bool cp__section_find(const char *name, uint64_t *lo, uint64_t *hi)
{
    int fd = cp__sys_open_from_handler("/proc/self/exe");
    ElfW(Ehdr) header;
    ElfW(Shdr) section;
    bool is_found;

    if (fd < 0)
        return false;
    is_found = read_at(fd, 0, &header, sizeof header) && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
               find_section(fd, &header, name, &section);
    cp__sys_close_from_handler(fd);
    if (is_found) {
        *lo = section.sh_addr;
        *hi = section.sh_addr + section.sh_size;
    }
    return is_found;
}
