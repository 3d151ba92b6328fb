/*
 * The end of programs that Go's runtime is in. It ends the process by a system call of its own, in the
 * function runtime.exit, and not by the C library's _exit(). So the function's first instructions are
 * replaced by a jump to go_exit_hook(), before the program runs, if they are exactly those that are known;
 * otherwise nothing is changed, and such a program leaves no profile when it ends by itself.
 */
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "go_exit.h"
#include "process.h"
#include "raw_exit.h"

#ifndef CP__RAW_EXIT_UNKNOWN

/* ---- In place of runtime.exit ---------------------------------------------------------------- */

/* Named in assembly, so neither may be static to the compiler. */

extern uint32_t cp__go_exit_is_taken;
uint32_t cp__go_exit_is_taken;
asm(".bss\n.p2align 12\n.hidden cp__go_exit_stack_end\n.globl cp__go_exit_stack_end\n"
    ".skip 65536\ncp__go_exit_stack_end:\n.skip 16\n.text\n");
void cp__go_exits(int status) __attribute__((noreturn));
void go_exit_hook(void);

/* The caller is a goroutine or its M's own stack; this thread does not come back. */
void cp__go_exits(int status)
{
    cp__scribe_finish_from_handler(CP__SCRIBE_WAIT_MS);
    for (;;)
        syscall(SYS_exit_group, status);
}

CP__RAW_EXIT_HOOK(go_exit_hook, cp__go_exits, cp__go_exit_is_taken, cp__go_exit_stack_end);

/* ---- Where it is ----------------------------------------------------------------------------- */

static bool has_note_of_go(const char *at, size_t size)
{
    ElfW(Nhdr) note;

    while (size >= sizeof note) {
        size_t whole;

        memcpy(&note, at, sizeof note);
        whole = sizeof note + ((note.n_namesz + 3) & ~3ul) + ((note.n_descsz + 3) & ~3ul);
        if (note.n_namesz == 4 && size >= sizeof note + 4 && memcmp(at + sizeof note, "Go\0", 4) == 0)
            return true;
        if (whole > size)
            return false;
        at += whole;
        size -= whole;
    }
    return false;
}

/* Stores where the program's first object is, and stops there; returns 2 if the object has a note of Go's
 * linker. */
static int look_at_program(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];

        if (header->p_type == PT_NOTE &&
            has_note_of_go((const char *)(info->dlpi_addr + header->p_vaddr), header->p_memsz))
            return 2;
    }
    return 1;
}

/* Returns the symbol's address in the file; 0: there is none. */
static uintptr_t find_symbol(Elf *elf, const char *name)
{
    GElf_Shdr header;
    GElf_Sym symbol;

    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
        Elf_Data *data;

        if (gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_SYMTAB ||
            header.sh_entsize == 0 || (data = elf_getdata(section, NULL)) == NULL)
            continue;
        for (size_t i = 0; i < header.sh_size / header.sh_entsize; i++) {
            const char *found = gelf_getsym(data, (int)i, &symbol) != NULL
                                    ? elf_strptr(elf, header.sh_link, symbol.st_name)
                                    : NULL;

            if (found != NULL && strcmp(found, name) == 0)
                return symbol.st_value;
        }
    }
    return 0;
}

static uintptr_t find_exit(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    uintptr_t address = 0;
    Elf *elf;

    elf_version(EV_CURRENT);
    elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (elf != NULL)
        address = find_symbol(elf, "runtime.exit.abi0");
    if (elf != NULL && address == 0)
        address = find_symbol(elf, "runtime.exit");
    elf_end(elf);
    if (fd >= 0)
        close(fd);
    return address;
}

/* ---- The jump -------------------------------------------------------------------------------- */

static void replace(unsigned char *code)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)code & -page;
    const size_t size = (uintptr_t)code + sizeof cp__raw_exit_code - begin;

    if (mprotect((void *)begin, size, PROT_READ | PROT_WRITE | PROT_EXEC) < 0)
        return;
    cp__raw_exit_write_jump(code, (uintptr_t)go_exit_hook);
    mprotect((void *)begin, size, PROT_READ | PROT_EXEC);
}

void cp__go_exit_install(void)
{
    uintptr_t base = 0, address;

    if (dl_iterate_phdr(look_at_program, &base) != 2)
        return;
    address = find_exit();
    if (address != 0 && memcmp((void *)(base + address), cp__raw_exit_code, sizeof cp__raw_exit_code) == 0)
        replace((unsigned char *)(base + address));
}

#else

void cp__go_exit_install(void)
{
}

#endif
