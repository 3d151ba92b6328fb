/* Opens the files from which symbols are read, on this machine only. */
#include "debug_file.h"
#include "part.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Never called for a file: each module gets its file when it is reported. */
static int find_no_elf(Dwfl_Module *module, void **user_data, const char *module_name, Dwarf_Addr base,
                       char **file, Elf **elf)
{
    (void)module, (void)user_data, (void)module_name, (void)base, (void)file, (void)elf;
    return -1;
}

/* ---- Objects --------------------------------------------------------------------------------- */

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

/* Finds by how much the object's addresses in memory differ from those in the file. Returns false if the
 * file does not have the mapping's code. */
static bool find_bias(int fd, const struct cp__mapping *mapping, GElf_Addr *bias)
{
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    bool found = false;
    GElf_Phdr part;
    size_t n, i;

    if (elf_getphdrnum(elf, &n) < 0)
        n = 0;
    for (i = 0; i < n && !found; i++) {
        if (gelf_getphdr(elf, (int)i, &part) == NULL || part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0)
            continue;
        *bias = mapping->start - mapping->offset + part.p_offset - part.p_vaddr;
        found = mapping->offset < part.p_offset + part.p_filesz &&
                mapping->offset + (mapping->limit - mapping->start) > part.p_offset;
    }
    elf_end(elf);
    return found;
}

/* Returns whether the module is the mapped object. If the build id in memory is known, the file must have
 * the same one. If it is unknown, the file's name must do: the program's file must have no build id either,
 * and other files must not have been deleted, because another file may have the name now. */
static bool is_object_same(Dwfl_Module *module, const struct cp__mapping *mapping, bool is_program)
{
    const unsigned char *id;
    GElf_Addr address;
    char byte[3];
    int size = dwfl_module_build_id(module, &id, &address);
    int i;

    if (mapping->build_id == NULL)
        return is_program ? size <= 0 : !mapping->deleted;
    if (size <= 0 || strlen(mapping->build_id) != 2 * (size_t)size)
        return false;
    for (i = 0; i < size; i++) {
        snprintf(byte, sizeof byte, "%02x", id[i]);
        if (memcmp(byte, mapping->build_id + 2 * i, 2) != 0)
            return false;
    }
    return true;
}

/* Adds the file to the Dwfl. Returns the module if the file is the mapped object; else NULL. Takes the
 * descriptor. */
static Dwfl_Module *report_mapping(Dwfl *dwfl, const struct cp__mapping *mapping, int fd, bool is_program)
{
    Dwfl_Module *module = NULL;
    GElf_Addr bias;

    if (fd < 0)
        return NULL;
    dwfl_report_begin(dwfl);
    if (find_bias(fd, mapping, &bias))
        module = dwfl_report_elf(dwfl, mapping->file, mapping->file, fd, bias, true);
    if (module == NULL)
        close(fd);
    dwfl_report_end(dwfl, NULL, NULL);
    return module != NULL && is_object_same(module, mapping, is_program) ? module : NULL;
}

Dwfl_Module *cp__module_open(const struct cp__mapping *mapping, Dwfl **dwfl)
{
    static const Dwfl_Callbacks callbacks = {
        .find_elf = find_no_elf,
        .find_debuginfo = cp__find_debug_file,
        .section_address = dwfl_offline_section_address,
    };
    Dwfl_Module *module = NULL;

    elf_version(EV_CURRENT);
    *dwfl = dwfl_begin(&callbacks);
    if (*dwfl == NULL)
        return NULL;
    if (strcmp(mapping->file, "[vdso]") == 0)
        module = report_mapping(*dwfl, mapping, copy_vdso(mapping), false);
    else if (mapping->main) /* /proc/self/exe is the mapped file even if the file has been replaced */
        module = report_mapping(*dwfl, mapping, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), true);
    if (module == NULL && mapping->file[0] == '/' && mapping->file[1] != '/')
        module = report_mapping(*dwfl, mapping, open(mapping->file, O_RDONLY | O_CLOEXEC), false);
    if (module == NULL) {
        dwfl_end(*dwfl);
        *dwfl = NULL;
    }
    return module;
}
