/*
 * The writer of a path writes, at the stop, to the file that it opened at the start, and removes only a file
 * that it created; even if the working directory has changed, or another file has the name by then. For
 * that, the writer holds the directory open, and compares device and inode of files. While the file is open,
 * no other file can have its inode.
 *
 * A program may close descriptors that it did not open (a daemon closes all), and open others that get their
 * numbers. So the writer compares device and inode before it uses a descriptor, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/fail.h"
#include "writer.h"

static const char *path_of(const struct cp_writer *w)
{
    return w->context;
}

/* Returns the file's name in its directory. */
static const char *name_of(const struct cp_writer *w)
{
    const char *slash = strrchr(path_of(w), '/');

    if (slash == NULL)
        return path_of(w);
    return slash[1] != '\0' ? slash + 1 : "."; /* "directory/", which cannot be opened for writing */
}

static bool is_absolute(const struct cp_writer *w)
{
    return path_of(w)[0] == '/';
}

/* Opens the directory of the path, and remembers which one it is. */
static int open_directory(struct cp_writer *w)
{
    const char *path = path_of(w), *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    char directory[PATH_MAX] = ".";
    struct stat found;

    if (length >= sizeof directory)
        return -ENAMETOOLONG;
    if (length > 0) {
        memcpy(directory, path, length);
        directory[length] = '\0';
    }
    w->directory_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->directory_fd < 0 || fstat(w->directory_fd, &found) < 0)
        return -errno;
    w->directory.device = found.st_dev;
    w->directory.inode = found.st_ino;
    return 0;
}

/* Opens the file in the directory, and remembers which one it is. */
static int open_file(struct cp_writer *w, int flags)
{
    struct stat found;

    w->fd = openat(w->directory_fd, name_of(w), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
    if (w->fd < 0 || fstat(w->fd, &found) < 0)
        return -errno;
    w->file.device = found.st_dev;
    w->file.inode = found.st_ino;
    return 0;
}

/* Forgets descriptors that the program has closed, and whose numbers may belong to others now. */
static void forget_others(struct cp_writer *w)
{
    struct stat found;

    if (w->fd >= 0 &&
        (fstat(w->fd, &found) < 0 || found.st_dev != w->file.device || found.st_ino != w->file.inode))
        w->fd = -1;
    if (w->directory_fd >= 0 && (fstat(w->directory_fd, &found) < 0 || found.st_dev != w->directory.device ||
                                 found.st_ino != w->directory.inode))
        w->directory_fd = -1;
}

/* Returns whether the name still leads to the file that is open. */
static bool is_in_place(const struct cp_writer *w, int flags)
{
    struct stat named;

    return w->fd >= 0 && fstatat(w->directory_fd, name_of(w), &named, flags) == 0 &&
           named.st_dev == w->file.device && named.st_ino == w->file.inode;
}

static bool is_file_empty(const struct cp_writer *w)
{
    struct stat file;

    return fstat(w->fd, &file) == 0 && file.st_size == 0;
}

static void close_file(struct cp_writer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
    w->created = false;
}

/* Closes the writer. A file that it has created is removed if it is still empty. */
static void path_close(struct cp_writer *w)
{
    forget_others(w);
    if (w->created && is_in_place(w, AT_SYMLINK_NOFOLLOW) && is_file_empty(w))
        unlinkat(w->directory_fd, name_of(w), 0);
    close_file(w);
    if (w->directory_fd >= 0)
        close(w->directory_fd);
    w->directory_fd = -1;
}

static int path_open(struct cp_writer *w, struct cp_error *err)
{
    int result;

    if (path_of(w) == NULL)
        return cp__writer_refuse_null(w, err);
    result = open_directory(w);
    if (result == 0)
        result = open_file(w, O_EXCL);
    w->created = result == 0;
    if (result == -EEXIST)
        result = open_file(w, 0);
    if (result == 0)
        return 0;
    path_close(w);
    return cp__error(err, result, "The profile's file \"%.200s\" cannot be written: %s.", path_of(w),
                     strerror(-result));
}

/* Begins an attempt with an empty file. If the file was removed or moved away, a new one is made, because
 * nobody would find what is written to the old one. */
static int path_begin(struct cp_writer *w)
{
    int result = 0;

    forget_others(w);
    if (w->directory_fd < 0 && is_absolute(w))
        result = open_directory(w);
    if (result < 0)
        return result;
    if (w->fd >= 0 && w->directory_fd >= 0 && !is_in_place(w, 0))
        close_file(w);
    if (w->fd < 0)
        result = open_file(w, 0);
    if (result == 0 && lseek(w->fd, 0, SEEK_SET) == 0 && ftruncate(w->fd, 0) < 0 && errno != EINVAL)
        result = -errno; /* EINVAL: the file is a device */
    return result;
}

/* Ends an attempt. On success the file is closed, because some file systems report a full disk only then.
 * After a failure, the file is emptied, because a part of a profile is useless, and stays open for another
 * attempt or for path_close(). */
static int path_end(struct cp_writer *w, int result)
{
    if (result < 0) {
        if (lseek(w->fd, 0, SEEK_SET) == 0 && ftruncate(w->fd, 0) < 0)
            w->created = false; /* the file stays, with its contents */
        return result;
    }
    result = close(w->fd) < 0 && errno != EINTR ? -errno : 0;
    w->fd = -1;
    w->created = false;
    return result;
}

static const struct cp_writer_ops path_ops = {.what = "file",
                                              .open = path_open,
                                              .begin = path_begin,
                                              .write = cp__writer_fd_write,
                                              .end = path_end,
                                              .close = path_close,
                                              .same = cp__writer_same_file};

struct cp_writer cp_writer_path(const char *path)
{
    return (struct cp_writer){
        .ops = &path_ops, .context = (void *)(uintptr_t)path, .fd = -1, .directory_fd = -1};
}
