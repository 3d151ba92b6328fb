/*
 * The files of this process's profiles. They are opened at the start, because a service may give up the right
 * to open them (a change of user, chroot), and have high descriptors, because a program may count on low ones
 * (a shell's "exec 3>FILE" replaces the file that has the number). What the program closes or removes all
 * the same is opened again at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic.h"
#include "process.h"
#include "runtime/base/fail.h"
#include "runtime/base/sys_linux.h"
#include "settings.h"

static struct profile_file {
    char *path;
    int fd; /* -1: not open */
    dev_t device;
    ino_t inode;
} files[CP_EV_MAX];
static size_t n_files;

static int try_to_open(struct profile_file *file, int flags)
{
    struct stat found;
    int fd = open(file->path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);

    if (fd < 0 || fstat(fd, &found) < 0)
        return -errno;
    file->fd = cp__sys_lift_from_handler(fd);
    file->device = found.st_dev;
    file->inode = found.st_ino;
    return 0;
}

/* Opens a file that is not there yet: a process may have executed another program, or have the id of one that
 * has ended. Only the first process replaces what an earlier run has left. */
static int open_one(struct profile_file *file, const struct cp__preload_settings *settings, const char *event)
{
    const bool may_replace = settings->is_first && !settings->has_executed;
    int result = -EEXIST;

    for (unsigned again = 0; result == -EEXIST && again < 1000; again++) {
        free(file->path);
        file->path =
            cp__profile_path(settings->file, settings->program, getpid(), settings->is_first, event, again);
        result = file->path == NULL ? -ENOMEM : try_to_open(file, may_replace ? 0 : O_EXCL);
    }
    return result;
}

int cp__files_open(const struct cp__preload_settings *settings, struct cp_error *err)
{
    int result = 0;

    for (n_files = 0; n_files < settings->n && result == 0; n_files++) {
        files[n_files] = (struct profile_file){.fd = -1};
        result = open_one(&files[n_files], settings, settings->n > 1 ? settings->events[n_files] : NULL);
    }
    if (result == 0)
        return 0;
    cp__error(err, result, "The profile's file \"%s\" cannot be written: %s.",
              files[n_files - 1].path == NULL ? settings->file : files[n_files - 1].path, strerror(-result));
    for (size_t i = 0; i < n_files; i++)
        cp__files_close(i, false);
    return result;
}

static bool is_still_open(const struct profile_file *file)
{
    struct stat found;

    return file->fd >= 0 && fstat(file->fd, &found) == 0 && found.st_dev == file->device &&
           found.st_ino == file->inode && found.st_nlink > 0;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static ssize_t write_to_file(void *context, const void *data, size_t size)
{
    struct profile_file *file = context;
    ssize_t n;
    int result;

    if (!is_still_open(file)) {
        result = try_to_open(file, 0);
        if (result < 0)
            return result;
    }
    if (lseek(file->fd, 0, SEEK_CUR) == 0 && ftruncate(file->fd, 0) < 0 && errno != EINVAL)
        return -errno;
    n = write(file->fd, data, size);
    return n < 0 ? -errno : n;
}

struct cp_writer cp__files_writer(size_t i)
{
    return cp_writer_callback(write_to_file, &files[i]);
}

void cp__files_close(size_t i, bool is_kept)
{
    struct profile_file *file = &files[i];
    char *path = file->path;

    if (!is_kept && path != NULL && is_still_open(file))
        unlink(path);
    if (is_still_open(file))
        close(file->fd);
    file->fd = -1;
    file->path = NULL;
    cp_fence_signal(); /* the child of a fork frees what it finds there */
    free(path);
}

void cp__files_forget(void)
{
    for (size_t i = 0; i < n_files; i++)
        cp__files_close(i, true);
    n_files = 0;
}

bool cp__files_have(int fd)
{
    bool has = false;

    for (size_t i = 0; i < n_files; i++)
        has |= files[i].fd == fd;
    return has;
}

const char *cp__files_path(size_t i)
{
    return files[i].path;
}
