/* See debug_file.h. */
#include "debug_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* Returns whether the file has the wanted CRC-32. */
static bool has_checksum(int fd, GElf_Word wanted)
{
    unsigned char buffer[16384];
    uLong checksum = crc32(0, NULL, 0);
    ssize_t n;

    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        checksum = crc32(checksum, buffer, (uInt)n);
    return n == 0 && checksum == wanted;
}

/* Opens a debug file if its checksum is right. Returns the descriptor, or -1. */
static int open_debug_file(const char *path, GElf_Word checksum, char **found)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    /* The name of a debug file that several objects share comes without a checksum. */
    if (checksum == 0 || has_checksum(fd, checksum)) {
        *found = strdup(path);
        if (*found != NULL)
            return fd;
    }
    close(fd);
    return -1;
}

/* Looks for the debug file that the object names, in the places where debuggers look. */
static int find_linked(const char *object, const char *name, GElf_Word checksum, char **found)
{
    static const char *const formats[] = {"%.*s/%s", "%.*s/.debug/%s", "/usr/lib/debug%.*s/%s"};
    const char *slash = strrchr(object, '/');
    char path[PATH_MAX];
    int fd = -1;
    size_t i;

    if (name[0] == '/')
        return open_debug_file(name, checksum, found);
    for (i = 0; slash != NULL && i < sizeof formats / sizeof formats[0] && fd < 0; i++) {
        snprintf(path, sizeof path, formats[i], (int)(slash - object), object, name);
        fd = open_debug_file(path, checksum, found);
    }
    return fd;
}

int cp__find_debug_file(Dwfl_Module *module, void **user_data, const char *module_name, Dwarf_Addr base,
                        const char *file, const char *debuglink, GElf_Word checksum, char **found)
{
    int fd =
        dwfl_build_id_find_debuginfo(module, user_data, module_name, base, file, debuglink, checksum, found);

    if (fd < 0 && file != NULL && debuglink != NULL)
        fd = find_linked(file, debuglink, checksum, found);
    return fd;
}
