/* Which program is to be run, and whether a library can be preloaded into it. See run.h. */
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "run.h"
#include "runtime/base/fail.h"

/* ---- Along PATH ------------------------------------------------------------------------------ */

static bool is_program(const char *path)
{
    struct stat found;

    return stat(path, &found) == 0 && S_ISREG(found.st_mode) && access(path, X_OK) == 0;
}

static int find_along_path(char **path, const char *name, struct cp_error *err)
{
    const char *from = getenv("PATH");

    if (from == NULL)
        from = "/bin:/usr/bin";
    for (const char *end; from != NULL; from = *end == ':' ? end + 1 : NULL) {
        end = from + strcspn(from, ":");
        if (asprintf(path, "%.*s/%s", (int)(end - from), end > from ? from : ".", name) < 0)
            return cp__error(err, -ENOMEM, "There is not enough memory to find the program.");
        if (is_program(*path))
            return 0;
        free(*path);
        *path = NULL;
    }
    return cp__error(err, -ENOENT, "There is no program \"%s\" in the folders of PATH.", name);
}

static int find_by_path(char **path, const char *name, struct cp_error *err)
{
    struct stat found;

    if (stat(name, &found) < 0)
        return cp__error(err, -errno, "The program \"%s\" cannot be run: %s.", name, strerror(errno));
    if (!is_program(name))
        return cp__error(err, -EACCES, "\"%s\" cannot be run: it is %s.", name,
                         S_ISDIR(found.st_mode) ? "a folder" : "not executable for this user");
    *path = strdup(name);
    return *path == NULL ? cp__error(err, -ENOMEM, "There is not enough memory to find the program.") : 0;
}

/* ---- What it is ------------------------------------------------------------------------------ */

/* The kernel starts such a program with the rights of another user, and the dynamic linker then preloads
 * nothing. */
static int check_rights(const char *path, int fd, struct cp_error *err)
{
    struct stat found;
    const char *what = NULL;

    if (fstat(fd, &found) == 0 && (found.st_mode & S_ISUID) != 0 && found.st_uid != geteuid())
        what = "runs as the owner of its file (set-user-id)";
    else if (fstat(fd, &found) == 0 && (found.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
             found.st_gid != getegid())
        what = "runs as the group of its file (set-group-id)";
    else if (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
        what = "has capabilities of its file (getcap shows them)";
    if (what == NULL)
        return 0;
    return cp__error(
        err, -EPERM,
        "\"%s\" %s, so the dynamic linker preloads no library into it, and it cannot be profiled this way. "
        "Run a copy that has no such rights, or run it as the user whose rights it takes.",
        path, what);
}

static bool is_for_this_machine(const GElf_Ehdr *header)
{
    GElf_Ehdr own_header;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    Elf *own = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
    bool is = own == NULL || gelf_getehdr(own, &own_header) == NULL ||
              (own_header.e_machine == header->e_machine &&
               own_header.e_ident[EI_CLASS] == header->e_ident[EI_CLASS]);

    elf_end(own);
    if (fd >= 0)
        close(fd);
    return is;
}

/* Returns the name of the program's dynamic linker; "" if it has none; NULL if the file has no program
 * headers. */
static const char *interpreter_of(Elf *elf)
{
    GElf_Phdr header;
    size_t n, size;
    const char *file = elf_rawfile(elf, &size);

    if (elf_getphdrnum(elf, &n) < 0)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (gelf_getphdr(elf, (int)i, &header) != NULL && header.p_type == PT_INTERP && file != NULL &&
            header.p_offset < size && header.p_filesz <= size - header.p_offset && header.p_filesz > 0 &&
            file[header.p_offset + header.p_filesz - 1] == '\0')
            return file + header.p_offset;
    }
    return "";
}

/* Returns the name of a library that the program needs and that must be loaded before all others; NULL: none.
 */
static const char *sanitizer_of(Elf *elf)
{
    static const char *const names[] = {"libasan.so", "libtsan.so", "libmsan.so"};
    GElf_Shdr header;
    GElf_Dyn entry;

    for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
        Elf_Data *data = gelf_getshdr(section, &header) != NULL && header.sh_type == SHT_DYNAMIC
                             ? elf_getdata(section, NULL)
                             : NULL;

        for (int i = 0; data != NULL && gelf_getdyn(data, i, &entry) != NULL; i++) {
            const char *name =
                entry.d_tag == DT_NEEDED ? elf_strptr(elf, header.sh_link, entry.d_un.d_val) : NULL;

            for (size_t n = 0; name != NULL && n < sizeof names / sizeof names[0]; n++)
                if (strncmp(name, names[n], strlen(names[n])) == 0)
                    return name;
        }
    }
    return NULL;
}

static int check_elf(const char *path, Elf *elf, struct cp_error *err)
{
    GElf_Ehdr header;
    const char *linker = interpreter_of(elf);

    if (gelf_getehdr(elf, &header) == NULL || linker == NULL)
        return cp__error(err, -ENOEXEC,
                         "\"%s\" is no program that this machine can run: its header is damaged.", path);
    if (!is_for_this_machine(&header))
        return cp__error(
            err, -ENOEXEC,
            "\"%s\" is a program for another processor, or of another word size, than this profiler. "
            "Install Counterpoint for that one.",
            path);
    if (*linker == '\0')
        return cp__error(
            err, -ENOEXEC,
            "\"%s\" is linked statically, as Go programs without cgo are, so no library can be preloaded "
            "into it. Link it dynamically, or profile it from inside: a C program by linking "
            "libcounterpoint, a Go program by runtime/pprof.",
            path);
    if (sanitizer_of(elf) != NULL)
        return cp__error(
            err, -ENOEXEC,
            "\"%s\" is built with a sanitizer, whose library (%s) must be loaded before all others, so no "
            "other library can be preloaded. Profile a build without the sanitizer.",
            path, sanitizer_of(elf));
    if (strstr(linker, "/ld-linux") == NULL && strstr(linker, "/ld64") == NULL)
        return cp__error(
            err, -ENOEXEC,
            "\"%s\" is linked with another C library than glibc (its dynamic linker is %.100s), and the "
            "library to preload is linked with glibc.",
            path, linker);
    return 0;
}

static int check_program(const char *path, int depth, struct cp_error *err);

/* A script is run by the program of its first line. If that is env, the program that env finds is checked
 * when env executes it: by the dynamic linker. */
static int check_script(const char *path, const char *line, int depth, struct cp_error *err)
{
    char interpreter[PATH_MAX];
    size_t size;

    line += 2 + strspn(line + 2, " \t");
    size = strcspn(line, " \t\n");
    if (size == 0 || size >= sizeof interpreter || depth > 4)
        return cp__error(err, -ENOEXEC, "\"%s\" is a script whose first line names no interpreter.", path);
    memcpy(interpreter, line, size);
    interpreter[size] = '\0';
    if (access(interpreter, X_OK) < 0)
        return cp__error(err, -errno,
                         "The interpreter \"%.200s\" of the script \"%.200s\" cannot be run: %s.",
                         interpreter, path, strerror(errno));
    return check_program(interpreter, depth + 1, err);
}

static int check_open(const char *path, int fd, int depth, struct cp_error *err)
{
    char start[512] = "";
    ssize_t size = pread(fd, start, sizeof start - 1, 0);
    Elf *elf;
    int result = 0;

    if (size >= 2 && memcmp(start, "#!", 2) == 0)
        return check_script(path, start, depth, err);
    if (size < 4 || memcmp(start, ELFMAG, SELFMAG) != 0)
        return 0; /* a script without a first line, which execvp() gives to the shell */
    elf_version(EV_CURRENT);
    elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    result = elf == NULL ? cp__error(err, -ENOEXEC, "\"%s\" cannot be read: %s.", path, elf_errmsg(-1))
                         : check_elf(path, elf, err);
    elf_end(elf);
    return result;
}

static int check_program(const char *path, int depth, struct cp_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), result;

    if (fd < 0)
        return errno == EACCES
                   ? cp__error(
                         err, -EACCES,
                         "\"%s\" cannot be read by this user, and so cannot be looked at before it is run.",
                         path)
                   : cp__error(err, -errno, "The program \"%s\" cannot be run: %s.", path, strerror(errno));
    result = check_rights(path, fd, err);
    if (result == 0)
        result = check_open(path, fd, depth, err);
    close(fd);
    return result;
}

int run_find_path(char **path, const char *name, struct cp_error *err)
{
    return strchr(name, '/') != NULL ? find_by_path(path, name, err) : find_along_path(path, name, err);
}

int run_find_program(char **path, const char *name, struct cp_error *err)
{
    int result = run_find_path(path, name, err);

    if (result == 0)
        result = check_program(*path, 0, err);
    return result;
}

/* ---- The library ----------------------------------------------------------------------------- */

static int find_library(char **path, const char *name, struct cp_error *err)
{
    /* as the packages have it, as `make install` does, and as the build does */
    static const char *const folders[] = {"../lib/" CP_MULTIARCH "/counterpoint", "../lib/counterpoint",
                                          "../lib64/counterpoint", "../lib"};
    char own[PATH_MAX] = "", candidate[PATH_MAX + 100];
    ssize_t size = readlink("/proc/self/exe", own, sizeof own - 1);

    if (size > 0)
        *strrchr(own, '/') = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(candidate, sizeof candidate, "%s/%s/%s", own, folders[i], name);
        *path = realpath(candidate, NULL);
        if (*path != NULL && strpbrk(*path, " :") == NULL)
            return 0;
        if (*path != NULL)
            return cp__error(
                err, -EINVAL,
                "The library \"%s\" cannot be preloaded, because the dynamic linker takes a space or a colon "
                "in LD_PRELOAD for the end of a path. Install Counterpoint in another folder.",
                *path);
    }
    return cp__error(
        err, -ENOENT,
        "The library %s is not there: it belongs into \"%s/../lib/counterpoint/\". Install Counterpoint "
        "anew, or build it with 'make'.",
        name, own);
}

int run_find_preload(char **path, bool has_http, struct cp_error *err)
{
    return find_library(path, has_http ? "libcounterpoint-preload-http.so" : "libcounterpoint-preload.so",
                        err);
}

int run_add_preload_of_waits(char **list, struct cp_error *err)
{
    char *library, *both;
    int result = find_library(&library, "libcounterpoint-preload-waits.so", err);

    if (result < 0)
        return result;
    result = asprintf(&both, "%s:%s", *list, library);
    free(library);
    if (result < 0)
        return cp__error(err, -ENOMEM, "There is not enough memory to run the program.");
    free(*list);
    *list = both;
    return 0;
}
