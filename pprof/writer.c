/* Writers to callbacks, descriptors, streams and memory. See writer.h. */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/fail.h"

static bool same_context(const struct cp_writer *a, const struct cp_writer *b)
{
    return a->ops == b->ops && a->context == b->context;
}

int cp__writer_refuse_null(const struct cp_writer *w, struct cp_error *err)
{
    return cp__error(err, -EINVAL, "The profile's %s is NULL, so no profile can go there.", w->ops->what);
}

static int context_open(struct cp_writer *w, struct cp_error *err)
{
    return w->context == NULL ? cp__writer_refuse_null(w, err) : 0;
}

/* ---- Callback -------------------------------------------------------------------------------- */

static ssize_t callback_write(struct cp_writer *w, const void *data, size_t size)
{
    ssize_t n = w->write(w->context, data, size);

    return n > (ssize_t)size ? -EIO : n;
}

static int callback_open(struct cp_writer *w, struct cp_error *err)
{
    return w->write == NULL ? cp__writer_refuse_null(w, err) : 0;
}

static bool same_callback(const struct cp_writer *a, const struct cp_writer *b)
{
    return same_context(a, b) && a->write == b->write;
}

static const struct cp_writer_ops callback_ops = {
    .what = "callback", .open = callback_open, .write = callback_write, .same = same_callback};

struct cp_writer cp_writer_callback(cp_write_fn *write_fn, void *context)
{
    return (struct cp_writer){.ops = &callback_ops, .write = write_fn, .context = context, .fd = -1};
}

/* ---- Taking back ----------------------------------------------------------------------------- */

/* A failed attempt is undone, because a second attempt after a part of the first would make a file that
 * nobody can read. */

/* Returns whether each write() goes to the end of a regular file. */
static bool is_appending(int fd)
{
    struct stat file;
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_APPEND) != 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode);
}

/* Returns the offset in the file of the next byte to be written; -1 if the descriptor has no offset, as a
 * pipe. */
static off_t position(int fd)
{
    struct stat file;

    return is_appending(fd) && fstat(fd, &file) == 0 ? file.st_size : lseek(fd, 0, SEEK_CUR);
}

/* Goes back to where the attempt began, and cuts the file off there, unless the file was longer before.
 * Returns false if that is impossible. */
static bool take_attempt_back(const struct cp_writer *w, int fd)
{
    const off_t end = position(fd);
    struct stat file;

    if (w->start < 0 || end < 0 || fstat(fd, &file) < 0)
        return false;
    if (is_appending(fd) && (uint64_t)(end - w->start) != w->taken)
        return false; /* others have appended, too */
    if (S_ISREG(file.st_mode) && file.st_size == end && ftruncate(fd, w->start) < 0)
        return false;
    return lseek(fd, w->start, SEEK_SET) == w->start;
}

/* ---- Descriptor ------------------------------------------------------------------------------ */

ssize_t cp__writer_fd_write(struct cp_writer *w, const void *data, size_t size)
{
    ssize_t n = write(w->fd, data, size);

    if (n < 0)
        return -errno;
    w->taken += (uint64_t)n;
    return n;
}

static int fd_begin(struct cp_writer *w)
{
    w->start = position(w->fd);
    w->taken = 0;
    return w->spoilt;
}

static int fd_end(struct cp_writer *w, int result)
{
    if (result < 0 && w->taken > 0 && !take_attempt_back(w, w->fd))
        w->spoilt = result;
    return result;
}

bool cp__writer_same_file(const struct cp_writer *a, const struct cp_writer *b)
{
    struct stat sa;
    struct stat sb;

    if (a->fd < 0 || b->fd < 0)
        return false;
    if (a->fd == b->fd)
        return true;
    return fstat(a->fd, &sa) == 0 && fstat(b->fd, &sb) == 0 && S_ISREG(sa.st_mode) &&
           sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

static int fd_open(struct cp_writer *w, struct cp_error *err)
{
    int flags = fcntl(w->fd, F_GETFL);

    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return cp__error(err, -EBADF,
                         "The descriptor %d is not open for writing, so no profile can go there.", w->fd);
    return 0;
}

static const struct cp_writer_ops fd_ops = {.what = "descriptor",
                                            .open = fd_open,
                                            .begin = fd_begin,
                                            .write = cp__writer_fd_write,
                                            .end = fd_end,
                                            .same = cp__writer_same_file};

struct cp_writer cp_writer_fd(int fd)
{
    return (struct cp_writer){.ops = &fd_ops, .fd = fd};
}

/* ---- Stream ---------------------------------------------------------------------------------- */

/* Begins an attempt at a stream. start is -1, so that nothing is taken back, if the file is one that others
 * may append to, because nobody knows how much of the stream's data has reached it. A stream need not have a
 * file at all. */
static int file_begin(struct cp_writer *w)
{
    const int fd = fileno(w->context);

    if (w->spoilt < 0)
        return w->spoilt;
    w->start = fd < 0 || is_appending(fd) ? -1 : ftello(w->context);
    w->taken = 0;
    return fflush(w->context) != 0 ? -errno : 0;
}

static ssize_t file_write(struct cp_writer *w, const void *data, size_t size)
{
    size_t n;

    errno = 0;
    n = fwrite(data, 1, size, w->context);
    w->taken += n;
    if (n == 0)
        return errno != 0 ? -errno : -EIO;
    return (ssize_t)n;
}

static int file_end(struct cp_writer *w, int result)
{
    if (result == 0 && fflush(w->context) != 0)
        result = -errno;
    if (result == 0 || w->taken == 0)
        return result;
    __fpurge(w->context); /* otherwise the stream would write the data before the next attempt */
    if (!take_attempt_back(w, fileno(w->context)) || fseeko(w->context, w->start, SEEK_SET) < 0)
        w->spoilt = result;
    return result;
}

static const struct cp_writer_ops file_ops = {.what = "stream",
                                              .open = context_open,
                                              .begin = file_begin,
                                              .write = file_write,
                                              .end = file_end,
                                              .same = same_context};

struct cp_writer cp_writer_file(FILE *file)
{
    return (struct cp_writer){.ops = &file_ops, .context = file, .fd = -1};
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static int memory_begin(struct cp_writer *w)
{
    ((struct cp_memory *)w->context)->size = 0;
    return 0;
}

static ssize_t memory_write(struct cp_writer *w, const void *data, size_t size)
{
    struct cp_memory *memory = w->context;

    if (size > memory->capacity - memory->size) {
        size_t capacity = (memory->size + size) * 2;
        unsigned char *grown = realloc(memory->data, capacity);

        if (grown == NULL)
            return -ENOMEM;
        memory->data = grown;
        memory->capacity = capacity;
    }
    memcpy(memory->data + memory->size, data, size);
    memory->size += size;
    return (ssize_t)size;
}

static const struct cp_writer_ops memory_ops = {.what = "buffer",
                                                .open = context_open,
                                                .begin = memory_begin,
                                                .write = memory_write,
                                                .same = same_context};

struct cp_writer cp_writer_memory(struct cp_memory *memory)
{
    return (struct cp_writer){.ops = &memory_ops, .context = memory, .fd = -1};
}
