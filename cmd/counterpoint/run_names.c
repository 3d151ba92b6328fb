/* Adds names to the profiles of a run. See run.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/counterpoint/report/load.h"
#include "pprof/naming.h"
#include "run.h"
#include "runtime/base/fail.h"

/* The file of a profile, as it was read. */
struct read_file {
    struct source source;
    struct stat status;
};

static int read_profile_file(struct read_file *file, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), result;

    *file = (struct read_file){0};
    result = fd < 0 || fstat(fd, &file->status) < 0 ? -errno : read_whole(fd, &file->source);
    if (fd >= 0)
        close(fd);
    return result;
}

/* Gives the new file what the old one has, so that who could read the one can read the other. */
static int take_rights(int fd, const struct stat *status)
{
    struct stat now;

    if (fstat(fd, &now) < 0)
        return -errno;
    if ((now.st_uid != status->st_uid || now.st_gid != status->st_gid) &&
        fchown(fd, status->st_uid, status->st_gid) < 0)
        return -errno;
    return fchmod(fd, status->st_mode & 07777) < 0 ? -errno : 0;
}

/* Writes the named profile beside the old one, and puts it in its place. */
static int replace_file(struct cp__naming *naming, const struct read_file *file, const char *path,
                        struct cp_error *err)
{
    char *beside;
    int fd, result;

    if (asprintf(&beside, "%s.XXXXXX", path) < 0)
        return cp__error(err, -ENOMEM, "There is not enough memory.");
    fd = mkostemp(beside, O_CLOEXEC);
    result = fd < 0 ? -errno : take_rights(fd, &file->status);
    if (result < 0)
        cp__error(err, result, "No file can be written beside it: %s.", strerror(-result));
    else
        result = cp__naming_write(naming, file->source.data, file->source.size, cp_writer_fd(fd), err);
    if (fd >= 0 && close(fd) < 0 && result == 0)
        result = cp__error(err, -errno, "The file with names cannot be written: %s.", strerror(errno));
    if (result == 0 && rename(beside, path) < 0)
        result = cp__error(err, -errno, "The file with names cannot take its place: %s.", strerror(errno));
    if (result < 0 && fd >= 0)
        unlink(beside);
    free(beside);
    return result;
}

static void complain_of_names(const char *path, const struct cp_error *err)
{
    fprintf(stderr,
            "counterpoint: %s has addresses instead of names, which 'counterpoint report' looks up. %s\n",
            path, err->message);
}

/* Returns whether the profile has names to look up. */
static bool add_unnamed_profile(struct cp__naming *naming, const char *path)
{
    struct read_file file;
    struct cp_error err;
    bool is_left = false;

    if (read_profile_file(&file, path) == 0) /* whoever prints what the run has left says why not */
        is_left = cp__naming_add(naming, file.source.data, file.source.size, &err) == 1;
    free(file.source.data);
    return is_left;
}

static int name_profile(struct cp__naming *naming, const char *path)
{
    struct read_file file;
    struct cp_error err;
    int result = read_profile_file(&file, path);

    if (result < 0)
        cp__error(&err, result, "It cannot be read: %s.", strerror(-result));
    else
        result = replace_file(naming, &file, path, &err);
    if (result < 0)
        complain_of_names(path, &err);
    free(file.source.data);
    return result;
}

/* Names the profiles that have names to look up. Returns how many there are, or 0 if one of them cannot be
 * named. */
static size_t name_each(struct cp__naming *naming, char *const *paths, size_t n, bool *are_left)
{
    struct cp_error err;
    size_t n_left = 0;
    bool is_good = true;

    for (size_t i = 0; i < n; i++)
        n_left += are_left[i] = add_unnamed_profile(naming, paths[i]);
    if (n_left > 0 && cp__naming_look_up(naming, &err) < 0) {
        complain_of_names("Each of the profiles", &err);
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        if (are_left[i] && name_profile(naming, paths[i]) < 0)
            is_good = false;
    return is_good ? n_left : 0;
}

size_t run_name_profiles(char *const *paths, size_t n)
{
    const struct cp_error no_memory = {.message = "There is not enough memory."};
    struct cp__naming *naming = NULL;
    bool *are_left = calloc(n + 1, sizeof *are_left);
    size_t n_left = 0;

    if (are_left != NULL && cp__naming_new(&naming) == 0)
        n_left = name_each(naming, paths, n, are_left);
    else if (n > 0)
        complain_of_names("Each of the profiles", &no_memory);
    cp__naming_free(naming);
    free(are_left);
    return n_left;
}
