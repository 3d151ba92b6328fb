/* Directories for what a run keeps until it ends. */
#ifndef COUNTERPOINT_TESTING_TEMP_H
#define COUNTERPOINT_TESTING_TEMP_H

/* Makes a directory in TMPDIR, or /tmp, that was not there before and that only this user may enter; its name
 * cannot be foreseen. *path is absolute, so that it stays right if the process changes its directory; free()
 * it. 0 or a negative errno value; *path then is the name that was tried, or NULL. */
int cp__temp_make(char **path);

/* A path that stays right if the process changes its directory; free() it. NULL: there is no memory, or no
 * such directory any more; errno says which. */
char *cp__temp_absolute(const char *path);

/* Removes a directory with all that is in it, if it is there. For a cleanup of a test, hence "void *". */
void cp__temp_remove(void *path);

#endif
