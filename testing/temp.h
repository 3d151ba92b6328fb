/* Temporary directories, which exist until the run ends. */
#ifndef COUNTERPOINT_TESTING_TEMP_H
#define COUNTERPOINT_TESTING_TEMP_H

/* Makes a new directory in TMPDIR or /tmp that only this user may enter, with a name that nobody can
 * foresee. * *path is absolute, so that it stays valid if the process changes its working directory; the
 * caller frees *path. * Returns 0 or a negative errno value; after an error *path is the name that was
 * tried, or NULL. */
int cp__temp_make(char **path);

/* Returns an absolute form of the path, which stays valid if the process changes its working directory; the
 * caller * frees it. Returns NULL with errno set if there is no memory or if the working directory no longer
 * exists. */
char *cp__temp_absolute(const char *path);

/* Removes a directory and everything in it, if it exists. The argument is a void * because tests use the
 * function * as a cleanup. */
void cp__temp_remove(void *path);

#endif
