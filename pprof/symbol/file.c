/* Opens the files from which symbols are read, on this machine only. */
#include "debug_file.h"
#include "part.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

/* Never called for a file: each module gets its file when it is reported. */
static int find_no_elf(Dwfl_Module *module, void **user_data, const char *module_name, Dwarf_Addr base,
                       char **file, Elf **elf)
{
    (void)module, (void)user_data, (void)module_name, (void)base, (void)file, (void)elf;
    return -1;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Where an object's file is looked for, in this order. */
enum way {
    EXE,   /* /proc/self/exe is the program's file even if another file has its name now */
    PATH,  /* the name that the file had when it was mapped */
    MAP,   /* /proc/self/map_files has each mapped file, but only for some users */
    IMAGE, /* what is mapped of the file: without the debug information, and mostly without local symbols */
    N_WAYS
};

/* Copies the vDSO, which has no file but is in memory as a whole, to a file in memory. */
static int copy_vdso(const struct cp__mapping *mapping)
{
    size_t size = mapping->limit - mapping->start;
    int fd = memfd_create("vdso", MFD_CLOEXEC);

    if (fd >= 0 && write(fd, (const void *)(uintptr_t)mapping->start, size) != (ssize_t)size) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int cp__open_regular(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return fd;
    close(fd);
    return -ENOEXEC;
}

/* Opens what a way leads to. Returns the descriptor, or a negative errno value. */
static int open_way(const struct cp__mapping *mapping, enum way way)
{
    char path[80];

    if (mapping->process != 0 && way != PATH) /* the others are of this process, its memory or its files */
        return -ENOENT;
    if (strcmp(mapping->file, "[vdso]") == 0)
        return way == IMAGE ? copy_vdso(mapping) : -ENOENT;
    if (way == EXE)
        return mapping->main ? cp__open_regular("/proc/self/exe") : -ENOENT;
    if (way == PATH)
        return mapping->file[0] == '/' ? cp__open_regular(mapping->file) : -ENOENT;
    if (way == IMAGE)
        return cp__image_open(mapping);
    snprintf(path, sizeof path, "/proc/self/map_files/%" PRIx64 "-%" PRIx64, mapping->start, mapping->limit);
    return mapping->inode != 0 ? cp__open_regular(path) : -ENOENT;
}

/* Returns whether the bytes of this process at an address are those of the file. Of long code, a part of the
 * pages is compared. */
static bool are_bytes_same(int fd, uint64_t address, uint64_t size, uint64_t offset)
{
    enum { CHUNK = 4096, MAX_CHUNKS = 256 };
    const uint64_t n_chunks = (size + CHUNK - 1) / CHUNK, stride = (n_chunks + MAX_CHUNKS - 1) / MAX_CHUNKS;
    char here[CHUNK], there[CHUNK];
    struct iovec local = {.iov_base = here}, remote;
    uint64_t at;

    for (at = 0; at < size; at += stride * CHUNK) {
        local.iov_len = size - at < CHUNK ? size - at : CHUNK;
        remote = (struct iovec){(void *)(uintptr_t)(address + at), local.iov_len};
        if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)local.iov_len ||
            pread(fd, there, local.iov_len, (off_t)(offset + at)) != (ssize_t)local.iov_len ||
            memcmp(here, there, local.iov_len) != 0)
            return false;
    }
    return size > 0;
}

bool cp__file_has_code(const struct cp__mapping *mapping, uint64_t address, uint64_t size, uint64_t offset)
{
    bool is_same = false;
    enum way way;
    int fd;

    for (way = EXE; way <= MAP && !is_same; way++) {
        fd = open_way(mapping, way);
        if (fd < 0)
            continue;
        is_same = are_bytes_same(fd, address, size, offset);
        close(fd);
    }
    return is_same;
}

/* ---- Objects --------------------------------------------------------------------------------- */

/* Returns how many bytes of the mapping come from a segment's pages in the file. */
static uint64_t overlap(const GElf_Phdr *part, const struct cp__mapping *mapping)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = part->p_offset & -page, end = (part->p_offset + part->p_filesz + page - 1) & -page;
    uint64_t limit = mapping->offset + (mapping->limit - mapping->start);

    start = start > mapping->offset ? start : mapping->offset;
    end = end < limit ? end : limit;
    return end > start ? end - start : 0;
}

/* Finds by how much the object's addresses in memory differ from those in the file. Returns false if the
 * file does not have the mapping's code. Segments may share a page of the file, so the segment that the
 * mapping has most of is the mapping's; but if the linker has loaded the object, its word counts. */
static bool find_bias(int fd, const struct cp__mapping *mapping, GElf_Addr *bias)
{
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    uint64_t most = 0, n_bytes;
    GElf_Phdr part;
    size_t n, i;

    if (elf_getphdrnum(elf, &n) < 0)
        n = 0;
    for (i = 0; i < n; i++) {
        if (gelf_getphdr(elf, (int)i, &part) == NULL || part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0)
            continue;
        n_bytes = overlap(&part, mapping);
        if (n_bytes > most)
            *bias = mapping->start - mapping->offset + part.p_offset - part.p_vaddr;
        most = n_bytes > most ? n_bytes : most;
    }
    if (mapping->is_linked)
        *bias = mapping->bias;
    elf_end(elf);
    return most > 0;
}

/* Returns whether numbers of files do not tell files apart: some file systems show another number in
 * /proc/self/maps. */
static bool are_numbers_doubtful(const struct stat *status, const struct cp__mapping *mapping)
{
    return mapping->device != ((uint64_t)major(status->st_dev) << 32 | minor(status->st_dev));
}

/* Returns whether the file is the one that was mapped. Its build id alone does not prove that, because people
 * give the same one to all versions of an object. Numbers of files differ between the file and the mapping on
 * some file systems, so the mapping's bytes prove it, too; if they are gone, only the build id is left. */
static bool is_file_same(int fd, const struct cp__mapping *mapping, enum way way)
{
    struct stat status;

    if (way == EXE && mapping->build_id != NULL)
        return true;
    if (way == IMAGE)
        return cp__mapping_is_current(mapping);
    if (fstat(fd, &status) != 0)
        return false;
    if ((way != PATH || !mapping->deleted) && cp__mapping_is_of(mapping, &status))
        return true;
    if (cp__mapping_is_current(mapping))
        return are_bytes_same(fd, mapping->start, mapping->limit - mapping->start, mapping->offset);
    return way == PATH && mapping->build_id != NULL && !mapping->deleted &&
           are_numbers_doubtful(&status, mapping);
}

bool cp__mapping_can_wait(const struct cp__mapping *mapping)
{
    struct stat status;

    return mapping->is_linked && !mapping->deleted && mapping->file[0] == '/' &&
           stat(mapping->file, &status) == 0 && S_ISREG(status.st_mode) &&
           (cp__mapping_is_of(mapping, &status) ||
            (mapping->build_id != NULL && are_numbers_doubtful(&status, mapping)));
}

/* Returns whether the module is the mapped object. If the build id in memory is known, the file must have
 * the same one. */
static bool is_object_same(Dwfl_Module *module, const struct cp__mapping *mapping)
{
    const unsigned char *id;
    GElf_Addr address;
    char byte[3];
    int size = dwfl_module_build_id(module, &id, &address);
    int i;

    if (size <= 0 || strlen(mapping->build_id) != 2 * (size_t)size)
        return false;
    for (i = 0; i < size; i++) {
        snprintf(byte, sizeof byte, "%02x", id[i]);
        if (memcmp(byte, mapping->build_id + 2 * i, 2) != 0)
            return false;
    }
    return true;
}

/* Makes the file the only module of the Dwfl. Returns the module; or NULL, and stores why not: the file is
 * not the mapped object. Takes the descriptor. */
static Dwfl_Module *report_file(Dwfl *dwfl, const struct cp__mapping *mapping, int fd, enum way way,
                                enum cp__missing *missing)
{
    Dwfl_Module *module = NULL;
    bool is_same = is_file_same(fd, mapping, way);
    GElf_Addr bias = 0;

    dwfl_report_begin(dwfl); /* drops the last file, whose addresses libdwfl would not give to another */
    dwfl_report_end(dwfl, NULL, NULL);
    dwfl_report_begin(dwfl);
    if (is_same && find_bias(fd, mapping, &bias))
        module = dwfl_report_elf(dwfl, mapping->file, mapping->file, fd, bias, true);
    /* If only the build id tells files apart, a file without the mapped segments is another one. */
    *missing = is_same && module == NULL && (mapping->inode != 0 || mapping->build_id == NULL)
                   ? CP__MISSING_FORMAT
                   : CP__MISSING_REPLACED;
    if (module == NULL)
        close(fd);
    dwfl_report_end(dwfl, NULL, NULL);
    return module == NULL || mapping->build_id == NULL || is_object_same(module, mapping) ? module : NULL;
}

/* Returns why the file of a mapping could not be opened. */
static enum cp__missing explain(const struct cp__mapping *mapping, int error)
{
    if (strcmp(mapping->file, "[vdso]") == 0) /* is in memory as a whole */
        return CP__MISSING_NOTHING;
    if (mapping->inode == 0 && !mapping->is_linked && mapping->file[0] != '/')
        return CP__MISSING_FILE;
    if (strncmp(mapping->file, "/memfd:", 7) == 0)
        return CP__MISSING_MEMFD;
    if (error == -EACCES || error == -EPERM)
        return CP__MISSING_RIGHT;
    if (error == -EMFILE || error == -ENFILE)
        return CP__MISSING_DESCRIPTOR;
    return error == -ENOENT || error == -ENOTDIR ? CP__MISSING_GONE : CP__MISSING_FORMAT;
}

Dwfl_Module *cp__module_open(const struct cp__mapping *mapping, Dwfl **dwfl, enum cp__missing *missing)
{
    static const Dwfl_Callbacks callbacks = {
        .find_elf = find_no_elf,
        .find_debuginfo = cp__find_debug_file,
        .section_address = dwfl_offline_section_address,
    };
    Dwfl_Module *module = NULL;
    enum cp__missing why;
    enum way way;
    int fd;

    elf_version(EV_CURRENT);
    *missing = CP__MISSING_NOTHING;
    *dwfl = dwfl_begin(&callbacks);
    if (*dwfl == NULL)
        return NULL;
    for (way = EXE; way < N_WAYS && module == NULL; way++) {
        fd = open_way(mapping, way);
        why = way == PATH ? explain(mapping, fd) : *missing;
        if (fd >= 0)
            module = report_file(*dwfl, mapping, fd, way, &why);
        if (way == PATH || (way == MAP && why == CP__MISSING_FORMAT))
            *missing = why;
        if (module != NULL && way != IMAGE)
            *missing = CP__MISSING_NOTHING;
    }
    if (module == NULL) {
        dwfl_end(*dwfl);
        *dwfl = NULL;
    }
    return module;
}

/* Finds the section with a name, or of a type if that is not SHT_NULL. Returns whether the ELF file has one,
 * and fills *header. */
static bool find_elf_section(Elf *elf, const char *wanted, GElf_Word type, GElf_Shdr *header)
{
    Elf_Scn *section = NULL;
    const char *name;
    size_t names;

    if (elf == NULL || elf_getshdrstrndx(elf, &names) < 0)
        return false;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        if (gelf_getshdr(section, header) == NULL)
            continue;
        name = elf_strptr(elf, names, header->sh_name);
        if ((type != SHT_NULL && header->sh_type == type) || (name != NULL && strcmp(name, wanted) == 0))
            return true;
    }
    return false;
}

/* Returns whether a section of debug information is still compressed: libdw unpacks what it can. */
static bool is_unreadable(Elf *elf)
{
    static const char *const names[] = {
        ".debug_info",     ".debug_abbrev",      ".debug_line", ".debug_str",    ".debug_types",
        ".debug_line_str", ".debug_str_offsets", ".debug_addr", ".debug_ranges", ".debug_rnglists",
    };
    GElf_Shdr header;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (find_elf_section(elf, names[i], SHT_NULL, &header) && (header.sh_flags & SHF_COMPRESSED) != 0)
            return true;
    return false;
}

/* Returns whether the debug information refers to a file that dwz has made, and that is not there. */
static bool is_alternative_missing(Dwarf *debug)
{
    GElf_Shdr header;

    return dwarf_getalt(debug) == NULL &&
           find_elf_section(dwarf_getelf(debug), ".gnu_debugaltlink", SHT_NULL, &header);
}

enum cp__missing cp__module_missing(Dwfl_Module *module)
{
    const char *debug_file = NULL;
    GElf_Addr bias;
    Elf *elf = dwfl_module_getelf(module, &bias);
    Dwarf *debug = dwfl_module_getdwarf(module, &bias);
    Dwarf_CU *unit = NULL;
    GElf_Shdr header;

    if (is_unreadable(elf) || (debug != NULL && is_unreadable(dwarf_getelf(debug))))
        return CP__MISSING_COMPRESSED;
    if (debug != NULL && is_alternative_missing(debug))
        return CP__MISSING_PART;
    if (debug != NULL && dwarf_get_units(debug, NULL, &unit, NULL, NULL, NULL, NULL) == 0)
        return CP__MISSING_NOTHING;
    dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, &debug_file);
    if (debug_file != NULL || find_elf_section(elf, ".gnu_debugdata", SHT_SYMTAB, &header))
        return CP__MISSING_NOTHING;
    return CP__MISSING_SYMBOLS;
}

const char *cp__missing_explain(enum cp__missing missing)
{
    static const char *const sentences[] = {
        [CP__MISSING_NOTHING] = "nothing is missing",
        [CP__MISSING_FILE] = "the code is in no file",
        [CP__MISSING_GONE] = "its file is gone, or in another root directory",
        [CP__MISSING_REPLACED] = "another file has the name of its file now",
        [CP__MISSING_RIGHT] = "this user may not read its file",
        [CP__MISSING_DESCRIPTOR] = "its file could not be opened, because too many files are open",
        [CP__MISSING_MEMFD] = "its file is in memory only, and this user may not read it",
        [CP__MISSING_FORMAT] = "its file is no ELF object that can be read",
        [CP__MISSING_SYMBOLS] = "its file has no debug information, and no symbols but the exported ones",
        [CP__MISSING_COMPRESSED] =
            "its debug information is compressed in a way that libdw on this machine does not know",
        [CP__MISSING_PART] =
            "a .dwo file, .dwp package or dwz file of it is not there, or libdw here cannot read it",
    };

    return sentences[missing];
}
