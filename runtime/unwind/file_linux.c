#include "file_linux.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <zlib.h>

#include "maps_linux.h"
#include "runtime/base/sys_linux.h"

/* ---- Which file it is ------------------------------------------------------------------------- */

bool cp__file_is_of(const struct stat *file, const struct cp__mapped *mapping)
{
    return ((uint64_t)major(file->st_dev) << 32 | minor(file->st_dev)) == mapping->device &&
           file->st_ino == mapping->inode;
}

/* Maps the file, and returns whether the kernel tells the same numbers for this mapping: overlayfs and btrfs
 * have others than stat() has. */
static bool is_mapped_alike(int fd, const struct cp__mapped *mapping)
{
    void *page = mmap(NULL, CP__SYS_PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    struct cp__mapped mapped;

    if (page == MAP_FAILED)
        return false;
    mapped = cp__maps_look((uintptr_t)page);
    munmap(page, CP__SYS_PAGE);
    return cp__maps_are_of_one_file(&mapped, mapping);
}

/* Opens a path if it leads to the mapping's file. A path may lead to anything meanwhile, so what is no file
 * is not opened: a pipe would wait for its writer. */
static int open_path(const char *path, const struct cp__mapped *mapping)
{
    struct stat file;
    int fd;

    if (stat(path, &file) < 0 || !S_ISREG(file.st_mode))
        return -1;
    fd = cp__sys_open_from_handler(path);
    if (fd < 0)
        return fd;
    if (fstat(fd, &file) == 0 && (cp__file_is_of(&file, mapping) || is_mapped_alike(fd, mapping)))
        return fd;
    cp__sys_close_from_handler(fd);
    return -1;
}

int cp__file_open(const struct cp__mapped *mapping)
{
    char path[80];
    int fd = open_path(cp__maps_path(mapping), mapping);

    if (fd >= 0)
        return fd;
    /* This path leads to files that have no other any more, but only for privileged users. */
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", (unsigned long)mapping->start,
             (unsigned long)mapping->end);
    return open_path(path, mapping);
}

/* ---- Sections -------------------------------------------------------------------------------- */

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

bool cp__file_find_section(int fd, const char *name, bool is_mapped, ElfW(Shdr) * section)
{
    ElfW(Ehdr) header;
    ElfW(Shdr) names, some[16];
    const unsigned most = sizeof some / sizeof some[0];

    if (!read_at(fd, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_shentsize != sizeof names ||
        !read_at(fd, header.e_shoff + (uint64_t)header.e_shstrndx * sizeof names, &names, sizeof names))
        return false;
    for (unsigned i = 0; i < header.e_shnum; i++) {
        unsigned n = header.e_shnum - i < most ? header.e_shnum - i : most;

        if (i % most == 0 &&
            !read_at(fd, header.e_shoff + (uint64_t)i * sizeof names, some, n * sizeof names))
            return false;
        *section = some[i % most];
        if (section->sh_type != SHT_NULL && section->sh_type != SHT_NOBITS &&
            ((section->sh_flags & SHF_ALLOC) != 0) == is_mapped &&
            is_named(fd, names.sh_offset + section->sh_name, name))
            return true;
    }
    return false;
}

void cp__section_free(struct cp__section *section)
{
    if (section->bytes != NULL)
        munmap(section->bytes, section->size);
    *section = (struct cp__section){.bytes = NULL};
}

/* ---- Compressed sections ---------------------------------------------------------------------- */

/* zlib is not needed: a static program that does not use it has none, and reads no compressed sections. */
extern __typeof__(inflateInit_) inflateInit_ __attribute__((weak));
extern __typeof__(inflate) inflate __attribute__((weak));

/* zlib takes its memory in two or three pieces. An allocator of the program may wait for the linker's
 * lock. */
struct pieces {
    size_t taken;
    _Alignas(16) uint8_t bytes[65536];
};

static void *take_piece(void *pieces, unsigned n, unsigned size)
{
    struct pieces *from = pieces;
    const size_t bytes = ((size_t)n * size + 15) & ~(size_t)15;

    if (bytes > sizeof from->bytes - from->taken)
        return NULL;
    from->taken += bytes;
    return from->bytes + from->taken - bytes;
}

static void leave_piece(void *pieces, void *piece)
{
    (void)pieces;
    (void)piece;
}

static bool expand_into(struct cp__section *expanded, const uint8_t *bytes, size_t size)
{
    static struct pieces pieces; /* too large for a stack */
    z_stream stream = {.zalloc = take_piece,
                       .zfree = leave_piece,
                       .opaque = &pieces,
                       .next_in = (uint8_t *)(uintptr_t)bytes,
                       .avail_in = (unsigned)size,
                       .next_out = expanded->bytes,
                       .avail_out = (unsigned)expanded->size};

    pieces.taken = 0;
    return inflateInit_(&stream, ZLIB_VERSION, (int)sizeof stream) == Z_OK &&
           inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_out == 0;
}

/* Replaces a section by what it expands to. */
static struct cp__section expand(struct cp__section *section, size_t max)
{
    struct cp__section expanded = {.bytes = NULL};
    ElfW(Chdr) header = {.ch_size = 0};

    if (section->size >= sizeof header)
        memcpy(&header, section->bytes, sizeof header);
    if (header.ch_type == ELFCOMPRESS_ZLIB && header.ch_size > 0 && header.ch_size <= max &&
        &inflateInit_ != NULL && &inflate != NULL) {
        expanded = (struct cp__section){.bytes = cp__sys_map(header.ch_size), .size = header.ch_size};
        if (expanded.bytes != NULL &&
            !expand_into(&expanded, section->bytes + sizeof header, section->size - sizeof header))
            cp__section_free(&expanded);
    }
    cp__section_free(section);
    return expanded;
}

struct cp__section cp__file_read_section(int fd, const ElfW(Shdr) * section, size_t max)
{
    struct cp__section result = {.bytes = NULL};

    if (section->sh_size == 0 || section->sh_size > max)
        return result;
    result = (struct cp__section){.bytes = cp__sys_map(section->sh_size), .size = section->sh_size};
    if (result.bytes != NULL && !read_at(fd, section->sh_offset, result.bytes, result.size))
        cp__section_free(&result);
    if (result.bytes != NULL && (section->sh_flags & SHF_COMPRESSED) != 0)
        result = expand(&result, max);
    return result;
}
