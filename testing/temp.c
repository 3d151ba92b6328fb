/* See temp.h. */
#include "temp.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *cp__temp_absolute(const char *path)
{
    char *here = path[0] == '/' ? strdup("") : getcwd(NULL, 0), *whole;

    if (here == NULL || asprintf(&whole, "%s%s%s", here, path[0] == '/' ? "" : "/", path) < 0)
        whole = NULL;
    free(here);
    return whole;
}

int cp__temp_make(char **path)
{
    const char *parent = getenv("TMPDIR");
    char *name;

    *path = NULL;
    if (asprintf(&name, "%s/counterpoint-XXXXXX", parent != NULL && *parent != '\0' ? parent : "/tmp") < 0)
        return -ENOMEM;
    *path = cp__temp_absolute(name);
    free(name);
    return *path != NULL && mkdtemp(*path) != NULL ? 0 : -errno;
}

/* ---- Removing -------------------------------------------------------------------------------- */

/* Makes a directory accessible to its owner, so that the second walk can empty it. FTW_DNR: nftw() could not
 * read the * directory and did not enter it, so a new walk starts there. */
static int open_up(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if ((type != FTW_D && type != FTW_DNR) || (st->st_mode & 0700) == 0700)
        return 0;
    if (chmod(path, 0700) == 0 && type == FTW_DNR)
        nftw(path, open_up, 16, FTW_PHYS);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    remove(path);
    return 0;
}

/* Walks twice: a test may have taken away its own permission for a directory, and the second walk removes. */
void cp__temp_remove(void *path)
{
    nftw(path, open_up, 16, FTW_PHYS);
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
