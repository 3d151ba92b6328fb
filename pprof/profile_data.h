/* The contents of a profile: profile.c folds samples in, resolve.c looks the frames up, and profile_encode.c
 * encodes the profile. */
#ifndef COUNTERPOINT_PPROF_PROFILE_DATA_H
#define COUNTERPOINT_PPROF_PROFILE_DATA_H

#include <stdio.h>

#include "encode.h"
#include "pprof/symbol/mapping.h"
#include "profile.h"

/* The room for staged samples, in words of 8 bytes. */
enum { CP__STAGE_WORDS = 4096 };

/* An instruction where samples were taken or which called, or a name in place of one. A Location in the
 * file. */
struct cp__frame {
    uint64_t address; /* for a return address, the byte before it, the last one of the call; 0: a name */
    uint32_t name;    /* number in names, plus 1; 0: the frame has an address */
    uint32_t place;   /* the mapping that held the address at the time: its number plus 1; if none is known,
                       * cp__no_place() of the process that has the address */

    /* set by resolve.c: */
    bool is_resolved;
    uint32_t mapping; /* number in mappings, plus 1; 0: in no mapping */
    uint32_t n_lines;
    size_t first_line; /* number in lines */
    uint64_t entry;    /* where the linker's function begins; 0: unknown */
};

struct cp__line {
    uint32_t function; /* number in functions */
    uint32_t line;
};

struct cp__function {
    uint32_t name;        /* for people to read; numbers in strings */
    uint32_t system_name; /* the linker's, or that in the source with scopes and parameters */
    uint32_t file;
    uint32_t start_line;
};

/* A distinct stack with distinct labels, distinct rounds of watches, a distinct instruction recorded by the
 * processor and a distinct data address; and the weight of its samples. Its further values are in struct
 * cp__profile. */
struct cp__profile_stack {
    uint64_t weight;
    uint64_t address; /* address of the data that the sampled instruction accessed; 0: none */
    size_t first;     /* frame number in stack_frames, leaf first */
    uint32_t depth;
    uint32_t labels; /* number in label_sets, plus 1; 0: none */
    uint32_t ip;     /* the instruction that the processor recorded, if it is not the leaf: number in frames,
                      * plus 1; 0: none */
    uint32_t rounds; /* number in round_sets, plus 1; 0: none */
    uint32_t address_string; /* number of the address as text in strings; 0: not resolved yet, or none */
};

/* The key of the label that shows a stack's data address. */
#define CP__ADDRESS_KEY "data_addr"

/* The key of the label with the location of the recorded instruction, in a profile whose names are left for
 * later: only names tell whether the instruction replaces the interrupted one. */
#define CP__RECORDED_KEY "recorded_location"

struct cp__label_set {
    struct cp_labels *labels; /* with a reference of the set's own */
    size_t first_string;      /* index in label_strings of key, value, key, value ...; set when resolved */
};

/* A watch with samples. Its members are numbers in strings; 0: the watch has no samples. */
struct cp__profile_watch {
    uint32_t name;
    uint32_t key; /* of the label with the duration of a round */
};

/* Each distinct thing is stored once: in an array (items, n, capacity), with a table that finds the item by
 * its contents. */
struct cp__profile {
    struct cp__profile_stack *stacks;
    size_t n_stacks, stacks_capacity;
    struct cp__table stack_table;
    struct cp__value_type further[CP__MAX_FURTHER]; /* what the stacks' further values are */
    size_t n_further;
    uint64_t *values; /* n_further for each stack, in the order of the stacks */
    size_t values_capacity;
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
    uint32_t last_labels; /* number of the last sample's label set, plus 1 */

    struct cp__tuples rounds;     /* of watches, a word each, as in struct cp_sample; see rounds.h */
    struct cp__tuples round_sets; /* those that a stack has, by their numbers */
    uint64_t *round_ns;           /* how long each of the rounds took; 0: it has not ended, or nobody knows */
    size_t round_ns_capacity;
    uint32_t *unended; /* the numbers of rounds whose duration is not known */
    size_t n_unended, unended_capacity;
    uint64_t untold;     /* weight of samples in rounds that are not told apart */
    size_t next_unended; /* the place from which the next look goes on */

    struct cp__mappings mappings;
    int64_t noted_ns;  /* CLOCK_MONOTONIC when the mappings were last noted */
    size_t n_placed;   /* frames that were there then */
    uint64_t loads;    /* the stamp of the sample that is folded in */
    bool is_of_now;    /* the sample was taken in the mappings as they were noted last */
    size_t last_place; /* for cp__mappings_find_near() */
    bool is_between;   /* samples were taken between the last two times that the mappings were noted */
    uint64_t replaced; /* weight of the samples with a frame of which nobody knows the mapping */

    uint64_t staged[CP__STAGE_WORDS]; /* samples that are not folded in yet; see stage.c */
    size_t n_staged;
    int64_t ended_ns;    /* see cp__profile_end(); 0: not told */
    bool are_names_left; /* see cp__profile_leave_names() */

    /* set by resolve.c: */
    struct cp__line *lines;
    size_t n_lines, lines_capacity;
    struct cp__function *functions;
    size_t n_functions, functions_capacity;
    struct cp__table function_table;
    uint32_t *label_strings;
    size_t n_label_strings, label_strings_capacity;
    size_t n_resolved_label_sets;
    struct cp__profile_watch *watches; /* by their numbers in the process */
    size_t n_watches, watches_capacity;
    size_t n_resolved_rounds;
    uint32_t watch_key, ns_unit;      /* numbers in strings; 0: no stack has rounds */
    uint32_t address_key;             /* number in strings; 0: no stack has an address */
    uint32_t recorded_key;            /* the same for CP__RECORDED_KEY; 0: no stack has the label */
    struct cp__encoded_mapping *uses; /* one for each mapping */
    size_t uses_capacity;
    struct cp__strings strings; /* string 0 is "" */
    struct cp__profile_findings findings;
    const char *kallsyms; /* the file with the kernel's symbols; tests set another one */
};

/* Returns the place of a process's addresses that are in no known mapping; 0 for this process. So the place
 * of a frame tells its process, too, and addresses of two processes are never one frame. */
#define CP__NO_PLACE UINT32_C(0x80000000)
static inline uint32_t cp__no_place(uint32_t process)
{
    return process != 0 ? CP__NO_PLACE | process : 0;
}

static inline bool cp__is_placed(const struct cp__frame *frame)
{
    return frame->place != 0 && (frame->place & CP__NO_PLACE) == 0;
}

/* Returns the number of the process that has the frame's address. The kernel and names are of this
 * process. */
static inline uint32_t cp__frame_process(const struct cp__profile *p, const struct cp__frame *frame)
{
    return cp__is_placed(frame) ? p->mappings.items[frame->place - 1].process : frame->place & ~CP__NO_PLACE;
}

/* Returns the n_further values of stack i beside its weight. */
static inline uint64_t *cp__stack_values(const struct cp__profile *p, size_t i)
{
    return p->values + i * p->n_further;
}

/* Returns the offset, in its function, of the instruction after the frame's; 0: unknown. */
static inline uint64_t cp__frame_offset(const struct cp__frame *frame)
{
    return frame->entry != 0 ? frame->address + 1 - frame->entry : 0;
}

/* Returns a string for people to read; "?" if it is unknown. */
static inline const char *cp__profile_string(const struct cp__profile *p, uint32_t number)
{
    return number != 0 ? cp__strings_get(&p->strings, number) : "?";
}

/* Prints what stands for a frame whose function is unknown: the module that it is in, "[libx.so]". */
void cp__print_module(FILE *out, const struct cp__profile *p, const struct cp__frame *frame);

/* Returns whether the recorded instruction replaces the interrupted leaf: only if both are in one known
 * function. */
static inline bool cp__stack_is_precise(const struct cp__profile *p, const struct cp__profile_stack *stack)
{
    const struct cp__frame *leaf, *ip;

    if (stack->ip == 0)
        return false;
    leaf = &p->frames[p->stack_frames[stack->first]];
    ip = &p->frames[stack->ip - 1];
    return leaf->entry != 0 && leaf->entry == ip->entry;
}

/* Returns whether only the names that are left for later tell that. */
static inline bool cp__stack_is_undecided(const struct cp__profile *p, const struct cp__profile_stack *stack)
{
    return p->are_names_left && stack->ip != 0 &&
           !(p->frames[p->stack_frames[stack->first]].is_resolved && p->frames[stack->ip - 1].is_resolved);
}

/* Returns whether the i-th mapping lacks names that people miss, as the first one of its module for its
 * reason. */
bool cp__uses_lack_names(const struct cp__encoded_mapping *uses, size_t i);

struct cp__symbol_line; /* pprof/symbol/symbol.h */

/* Appends a frame's lines. If memory runs out, the lines so far belong to no frame. */
int cp__frame_add_lines(struct cp__profile *p, struct cp__frame *frame, const struct cp__symbol_line *lines,
                        size_t n);
/* Names frames of code that a just-in-time compiler has made, if the program asks for that. Returns 0 or
 * -ENOMEM. */
int cp__profile_name_jit(struct cp__profile *p);
/* Drops the staged samples. */
void cp__stage_drop(struct cp__profile *profile);
/* Looks up, in the known mappings, what was not looked up before. Returns 0 or -ENOMEM. */
int cp__profile_look_up(struct cp__profile *profile);

#endif
