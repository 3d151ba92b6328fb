/* The names that are looked up for profiles: naming.c finds them, and naming_write.c writes them. */
#ifndef COUNTERPOINT_PPROF_NAMING_DATA_H
#define COUNTERPOINT_PPROF_NAMING_DATA_H

#include "merge.h"
#include "naming.h"
#include "profile_data.h"

/* Each distinct thing has a number. A code mapping of a file is the same one in all processes, wherever it is
 * there, so the frames of "known" are at the addresses of the first process that has the mapping. */
struct cp__naming {
    struct cp__profile *known; /* without samples: mappings by the numbers of objects, and frames by those of
                                * addresses */
    struct cp__tuples objects; /* file, build id, offset, size, is the file a newer one */
    struct cp__tuples addresses; /* number of the object plus 1, offset in it; or 0, address of the kernel */
    struct cp__strings strings;  /* files and build ids of the objects */
    size_t n_looked_up;          /* frames of "known" that were looked up */
    bool is_object_lost; /* an object has no mapping for lack of memory; later ones would get its number */
    char boot[CP__BOOT_ID];
};

/* Returns whether a location has no name yet, and is in code of the mapping's file. NULL: it has no
 * mapping. */
bool cp__naming_wants(const Cp__Proto__Profile *p, const Cp__Proto__Location *location,
                      const Cp__Proto__Mapping *mapping);
/* Returns whether the profile's names are left for later, and stores whether the kernel's addresses are those
 * of the kernel that runs: a profile that was merged may be of several boots, and has a comment of each. */
bool cp__naming_is_left(const struct cp__naming *naming, const Cp__Proto__Profile *p, bool *is_kernel_same);
/* Stores the number of the object of a mapping. Returns 0 or -ENOMEM. */
int cp__naming_object(struct cp__naming *naming, const Cp__Proto__Profile *p,
                      const Cp__Proto__Mapping *mapping, uint32_t *object);
/* Returns whether the object's file was written, or put in its place, after the program that had it began,
 * and nothing else tells the files apart. */
bool cp__naming_is_newer(const struct cp__naming *naming, uint32_t object);
/* Stores the number of the frame of an address. Returns 0 or -ENOMEM. */
int cp__naming_frame(struct cp__naming *naming, const Cp__Proto__Location *location,
                     const Cp__Proto__Mapping *mapping, uint32_t object, uint32_t *frame);

#endif
