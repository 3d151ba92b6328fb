/* What a profile holds: profile.c folds samples into it, resolve.c finds out what the frames are,
 * profile_encode.c writes it. */
#ifndef COUNTERPOINT_PPROF_PROFILE_DATA_H
#define COUNTERPOINT_PPROF_PROFILE_DATA_H

#include "encode.h"
#include "pprof/symbol/mapping.h"
#include "profile.h"

/* An instruction that samples were taken in or called from, or a name that stands in for one: a Location. */
struct cp__frame {
    uint64_t address; /* for a return address: the byte before it, the last one of the call; 0: a name */
    uint32_t name;    /* number in names, plus 1; 0: an address */

    /* what resolve.c found out */
    bool is_resolved;
    uint32_t mapping; /* number in mappings, plus 1; 0: in none */
    uint32_t n_lines;
    size_t first_line; /* number in lines */
    uint64_t entry;    /* where the linker's function begins; 0: unknown */
};

struct cp__line {
    uint32_t function; /* number in functions */
    uint32_t line;
};

struct cp__function {
    uint32_t name; /* numbers in strings */
    uint32_t file;
    uint32_t start_line;
};

/* A distinct stack under distinct labels, with distinct findings of the processor, and the weight of its
 * samples. */
struct cp__profile_stack {
    uint64_t weight;
    uint64_t address; /* of the data; 0: none */
    size_t first;     /* frame number in stack_frames, leaf first */
    uint32_t depth;
    uint32_t labels; /* number in label_sets, plus 1; 0: none */
    uint32_t ip;     /* the instruction that the processor recorded, where it is another than the leaf: number
                      * in frames, plus 1 */
    uint32_t address_string; /* the number of its text in strings; 0: not resolved yet, or none */
};

/* The label of a stack's address. */
#define CP__ADDRESS_KEY "data_addr"

struct cp__label_set {
    struct cp_labels *labels; /* with a reference of its own */
    size_t first_string;      /* of key, value, key, value ... in label_strings; set when all are resolved */
};

/* Each kind of thing once: an array (items, n, capacity) and a table that finds an item by what it holds. */
struct cp__profile {
    struct cp__profile_stack *stacks;
    size_t n_stacks, stacks_capacity;
    struct cp__table stack_table;
    uint32_t *stack_frames;
    size_t n_stack_frames, stack_frames_capacity;

    struct cp__frame *frames;
    size_t n_frames, frames_capacity;
    struct cp__table frame_table;
    char **names;
    size_t n_names, names_capacity;

    struct cp__label_set *label_sets;
    size_t n_label_sets, label_sets_capacity;
    struct cp__table label_table;
    uint32_t last_labels; /* plus 1: those of the last sample */

    struct cp__mappings mappings;
    int64_t noted_ns; /* when the mappings were noted last, CLOCK_MONOTONIC */

    /* what resolve.c found out */
    struct cp__line *lines;
    size_t n_lines, lines_capacity;
    struct cp__function *functions;
    size_t n_functions, functions_capacity;
    struct cp__table function_table;
    uint32_t *label_strings;
    size_t n_label_strings, label_strings_capacity;
    size_t n_resolved_label_sets;
    uint32_t address_key;             /* number in strings; 0: no stack has an address */
    struct cp__encoded_mapping *uses; /* one for each mapping */
    size_t uses_capacity;
    struct cp__strings strings; /* the first is "" */
    struct cp__profile_findings findings;
    const char *kallsyms; /* where the kernel's symbols are read; the tests have some of their own */
};

/* Where in its function a frame goes on; 0: unknown. */
static inline uint64_t cp__frame_offset(const struct cp__frame *frame)
{
    return frame->entry != 0 ? frame->address + 1 - frame->entry : 0;
}

static inline const char *cp__profile_string(const struct cp__profile *p, uint32_t number)
{
    return number != 0 ? cp__strings_get(&p->strings, number) : "?";
}

/* Does the processor's record tell more than the interrupted leaf, both being in one function? */
static inline bool cp__stack_is_precise(const struct cp__profile *p, const struct cp__profile_stack *stack)
{
    const struct cp__frame *leaf, *ip;

    if (stack->ip == 0)
        return false;
    leaf = &p->frames[p->stack_frames[stack->first]];
    ip = &p->frames[stack->ip - 1];
    return leaf->entry != 0 && leaf->entry == ip->entry;
}

/* Looks up what was not looked up before, in the mappings that are known. -ENOMEM or 0. */
int cp__profile_look_up(struct cp__profile *profile);

#endif
