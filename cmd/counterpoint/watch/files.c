/* Which files a program consists of. See functions.h. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <libelf.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "functions.h"
#include "runtime/base/fail.h"
#include "runtime/base/table.h"

/* Adds a file, unless a file of that name is there already. */
static int add_watched_file(struct watch_files *files, const char *path, const char *name,
                            struct cp_error *err)
{
    struct watch_file file;

    for (size_t i = 0; i < files->n; i++)
        if (strcmp(files->items[i].name, name) == 0)
            return 0;
    file = (struct watch_file){.path = strdup(path), .name = strdup(name)};
    if (file.path == NULL || file.name == NULL ||
        CP__RESERVE(files->items, files->capacity, files->n + 1) < 0) {
        free(file.path);
        free(file.name);
        return cp__error(err, -ENOMEM, "There is not enough memory for the names of the program's files.");
    }
    files->items[files->n++] = file;
    return 0;
}

void watch_files_free(struct watch_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        free(files->items[i].path);
        free(files->items[i].name);
    }
    free(files->items);
}

/* ---- A program ------------------------------------------------------------------------------- */

/* Stores the program's dynamic linker, "" if it has none. Returns false if the file is no ELF file. */
static bool read_linker(const char *path, char linker[PATH_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf *elf = fd < 0 || elf_version(EV_CURRENT) == EV_NONE ? NULL : elf_begin(fd, ELF_C_READ, NULL);
    size_t n = 0;
    bool is_elf = elf != NULL && elf_getphdrnum(elf, &n) == 0;
    GElf_Phdr header;

    linker[0] = '\0';
    for (size_t i = 0; is_elf && i < n; i++) {
        if (gelf_getphdr(elf, (int)i, &header) == NULL || header.p_type != PT_INTERP ||
            header.p_filesz >= PATH_MAX)
            continue;
        if (pread(fd, linker, header.p_filesz, (off_t)header.p_offset) < 0)
            linker[0] = '\0';
        linker[header.p_filesz] = '\0';
    }
    elf_end(elf);
    if (fd >= 0)
        close(fd);
    return is_elf;
}

/* Starts the dynamic linker so that it lists the libraries that it would load, and runs nothing. Returns its
 * output; NULL: it cannot be started. */
static FILE *start_linker(const char *linker, const char *path, pid_t *pid)
{
    char list[] = "--list";
    char *const argv[] = {(char *)(uintptr_t)linker, list, (char *)(uintptr_t)path, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], result;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    result = posix_spawn(pid, linker, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (result != 0) {
        close(ends[0]);
        return NULL;
    }
    return fdopen(ends[0], "re");
}

/* Takes a line of the linker's: "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f...)", or without
 * what precedes the path. */
static int take_library(struct watch_files *files, char *line, struct cp_error *err)
{
    char *path = strchr(line, '/'), *end = path == NULL ? NULL : strrchr(path, '(');

    if (end == NULL)
        return 0;
    while (end > path && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    return add_watched_file(files, path, path, err);
}

static int list_libraries(struct watch_files *files, const char *linker, const char *path,
                          struct cp_error *err)
{
    pid_t pid;
    FILE *out = start_linker(linker, path, &pid);
    char *line = NULL;
    size_t size = 0;
    int result = 0;

    if (out == NULL)
        return cp__error(err, -ENOENT, "The dynamic linker \"%.100s\" of \"%.200s\" cannot be started: %s.",
                         linker, path, strerror(errno));
    while (result == 0 && getline(&line, &size, out) > 0)
        result = take_library(files, line, err);
    free(line);
    fclose(out);
    waitpid(pid, NULL, 0);
    return result;
}

int watch_files_of_program(struct watch_files *files, const char *path, struct cp_error *err)
{
    char linker[PATH_MAX], *full = realpath(path, NULL);
    int result = 0;

    if (full == NULL)
        return cp__error(err, -errno, "The program \"%.200s\" cannot be found: %s.", path, strerror(errno));
    if (read_linker(full, linker)) {
        result = add_watched_file(files, full, full, err);
        if (result == 0 && linker[0] != '\0')
            result = list_libraries(files, linker, full, err);
    }
    free(full);
    return result;
}

/* ---- A process ------------------------------------------------------------------------------- */

/* Takes a line of /proc/PID/maps. The way by map_files leads to the file that is mapped, whatever has its
 * name now; it takes some rights, without which the name must do. */
static int take_mapped_file(struct watch_files *files, pid_t pid, char *line, struct cp_error *err)
{
    char path[PATH_MAX + 64], *name = strchr(line, '/');
    uint64_t start, limit;
    char modes[8];
    int fd;

    if (name == NULL || sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &start, &limit, modes) != 3 ||
        strchr(modes, 'x') == NULL)
        return 0;
    name[strcspn(name, "\n")] = '\0';
    snprintf(path, sizeof path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, start, limit);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    else
        snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, name);
    return add_watched_file(files, path, name, err);
}

/* The program's own file comes first, as /proc/PID/exe. */
static int add_own_file(struct watch_files *files, pid_t pid, struct cp_error *err)
{
    char path[40], name[PATH_MAX];
    ssize_t size;

    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    size = readlink(path, name, sizeof name - 1);
    if (size < 0 && errno == ENOENT && access("/proc/self/exe", F_OK) == 0 && kill(pid, 0) == 0)
        return cp__error(err, -ESRCH, "The process %d is a thread of the kernel, or has ended.", (int)pid);
    if (size < 0)
        return cp__error(err, -errno, "The files of process %d cannot be looked at: %s.", (int)pid,
                         errno == ENOENT ? "there is no such process" : strerror(errno));
    name[size] = '\0';
    return add_watched_file(files, path, name, err);
}

int watch_files_of_process(struct watch_files *files, pid_t pid, struct cp_error *err)
{
    int result = add_own_file(files, pid, err);
    char path[40], *line = NULL;
    size_t size = 0;
    FILE *maps;

    if (result < 0)
        return result;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    maps = fopen(path, "re");
    if (maps == NULL)
        return cp__error(err, -errno, "The libraries of process %d cannot be looked at: %s.", (int)pid,
                         strerror(errno));
    while (result == 0 && getline(&line, &size, maps) > 0)
        result = take_mapped_file(files, pid, line, err);
    free(line);
    fclose(maps);
    return result;
}

/* ---- By name --------------------------------------------------------------------------------- */

/* Returns whether the file is called "libc.so.6", as the name is, or the name is "libc.so" or "libc". */
static bool is_file_called(const struct watch_file *file, const char *name)
{
    const char *base = strrchr(file->name, '/');
    const size_t n = strlen(name);

    base = base == NULL ? file->name : base + 1;
    return strncmp(base, name, n) == 0 && (base[n] == '\0' || strncmp(base + n, ".so", 3) == 0 ||
                                           (n > 3 && strcmp(name + n - 3, ".so") == 0 && base[n] == '.'));
}

const struct watch_file *watch_files_find(struct watch_files *files, const char *name)
{
    char *full = strchr(name, '/') == NULL ? NULL : realpath(name, NULL);
    const struct watch_file *found = NULL;
    struct cp_error err;

    for (size_t i = 0; i < files->n && found == NULL; i++)
        if (strchr(name, '/') == NULL ? is_file_called(&files->items[i], name)
                                      : strcmp(files->items[i].name, full == NULL ? name : full) == 0)
            found = &files->items[i];
    if (found == NULL && full != NULL && add_watched_file(files, full, full, &err) == 0)
        found = &files->items[files->n - 1];
    free(full);
    return found;
}
