/* The function of a profile that is annotated: its instructions, and their samples. */
#ifndef COUNTERPOINT_CMD_ANNOTATE_HOT_H
#define COUNTERPOINT_CMD_ANNOTATE_HOT_H

#include "blocks.h"
#include "cmd/counterpoint/commands.h"
#include "cmd/counterpoint/report/code.h"

struct hot_function {
    const struct profile *profile;
    size_t type; /* of the values */
    const char *name;
    struct code **opened; /* of each mapping of the profile; NULL: not opened, or an earlier one has it */
    struct code *code;    /* of the file that the function is in */
    struct code_symbol symbol;
    const uint8_t *bytes; /* of the symbol */
    struct code_step *steps;
    size_t n_steps;
    int64_t *values;       /* of each step, one for each type: see hot_value() */
    int64_t total, inside; /* of the type: of the profile, and in the symbol's own instructions */
    int64_t unnamed;       /* of the profile, in code of which no function is known */
    int64_t elsewhere;     /* in other symbols of the function, as name.cold */
    struct arena arena;
};

/* Finds the function of this name, or that the regular expression matches, or, for NULL, any: of several, the
 * one that has most of the values in itself. Says why if there is none, or none whose instructions are known;
 * hot_function_free() is needed then, too. */
enum status hot_function_find(struct hot_function *hot, const struct profile *profile, size_t type,
                              const char *name);
void hot_function_free(struct hot_function *hot);

/* Returns a value of an instruction. */
static inline int64_t hot_value(const struct hot_function *hot, size_t step, size_t type)
{
    return hot->values[step * hot->profile->n_types + type];
}

#endif
