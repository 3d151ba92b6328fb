/*
 * Looks up the names that processes have left for later (cp__profile_leave_names()), for many profiles
 * together: a build leaves a thousand profiles of one compiler. Each object is opened once, and each distinct
 * instruction is looked up once.
 *
 *     cp__naming_new(&naming);
 *     for each profile: cp__naming_add(naming, data, size, &err);      1: it has names left
 *     cp__naming_look_up(naming, &err);
 *     for each of those: cp__naming_write(naming, data, size, w, &err);
 *     cp__naming_free(naming);
 *
 * A profile is unpacked when it is added and when it is written, and is not kept in between.
 */
#ifndef COUNTERPOINT_PPROF_NAMING_H
#define COUNTERPOINT_PPROF_NAMING_H

#include "pprof.h"

struct cp__naming;

/* Returns 0 or -ENOMEM. */
int cp__naming_new(struct cp__naming **naming);
/* Notes the addresses of a profile. Returns 1 if there are names to look up; 0 if the profile has left none;
 * or a negative errno value, and a sentence: it cannot be read. */
int cp__naming_add(struct cp__naming *naming, const void *data, size_t size, struct cp_error *err);
/* Looks up all addresses, by the code that looks up those of a session. Returns 0 or -ENOMEM. */
int cp__naming_look_up(struct cp__naming *naming, struct cp_error *err);
/* Writes an added profile anew, with names. Its comments tell what has none, and why: a file that is not the
 * one that ran, by its build id or else by the time of its last change, is not read. Returns 0 or a negative
 * errno value. */
int cp__naming_write(struct cp__naming *naming, const void *data, size_t size, struct cp_writer w,
                     struct cp_error *err);
void cp__naming_free(struct cp__naming *naming);

/* Stores which boot of which machine this is, or "unknown". The kernel's addresses are those of one boot. */
enum { CP__BOOT_ID = 40 };
void cp__boot_id(char id[CP__BOOT_ID]);

#endif
