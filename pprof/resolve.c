/* Looks up what frames are, each frame once, even if the profile is written several times. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pprof/symbol/demangle.h"
#include "pprof/symbol/kernel.h"
#include "pprof/symbol/symbol.h"
#include "profile_data.h"
#include "rounds.h"

/* ---- Lines and functions --------------------------------------------------------------------- */

static int add_function(struct cp__profile *p, const struct cp__function *function, uint32_t hash,
                        uint32_t *number)
{
    if (CP__RESERVE(p->functions, p->functions_capacity, p->n_functions + 1) < 0 ||
        cp__table_reserve(&p->function_table, 1) < 0)
        return -ENOMEM;
    *number = (uint32_t)p->n_functions;
    cp__table_insert(&p->function_table, hash, *number);
    p->functions[p->n_functions++] = *function;
    return 0;
}

/* Stores the name of a function for people to read: the linker's name demangled, or else as it is. */
static int add_name(struct cp__profile *p, const char *system_name, uint32_t *name)
{
    char *text;
    int result = cp__demangle(system_name, &text);

    if (result < 0)
        return result;
    result = cp__strings_add(&p->strings, text != NULL ? text : system_name, name);
    free(text);
    return result;
}

/* Stores the absolute name of the source, so that readers find it from wherever they run. The name stays
 * relative if the directory is unknown, or makes it too long for a path. */
static int add_source(struct cp__profile *p, const struct cp__symbol_line *line, uint32_t *number)
{
    const char *file = line->file;
    char path[PATH_MAX];

    if (file == NULL)
        return 0;
    if (line->directory == NULL || file[0] == '/')
        return cp__strings_add(&p->strings, file, number);
    file += strncmp(file, "./", 2) == 0 ? 2 : 0;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", line->directory, file) < sizeof path)
        file = path;
    return cp__strings_add(&p->strings, file, number);
}

/* Finds or adds the function of a line, and stores its number. */
static int find_function(struct cp__profile *p, const struct cp__symbol_line *line, uint32_t *number)
{
    struct cp__function f = {.start_line = line->start_line}, *known;
    const char *name = cp__symbol_name(line);
    uint32_t hash;
    size_t at;

    if ((name != NULL && cp__strings_add(&p->strings, name, &f.system_name) < 0) ||
        add_source(p, line, &f.file) < 0)
        return -ENOMEM;
    hash = cp__hash_end(cp__hash_add(cp__hash_add(f.system_name, f.file), f.start_line));
    at = hash;
    while (cp__table_next(&p->function_table, hash, &at, number)) {
        known = &p->functions[*number];
        if (known->system_name == f.system_name && known->file == f.file && known->start_line == f.start_line)
            return 0;
    }
    if (name != NULL && add_name(p, name, &f.name) < 0)
        return -ENOMEM;
    return add_function(p, &f, hash, number);
}

int cp__frame_add_lines(struct cp__profile *p, struct cp__frame *frame, const struct cp__symbol_line *lines,
                        size_t n)
{
    size_t first = p->n_lines;
    struct cp__line line;
    size_t i;

    if (CP__RESERVE(p->lines, p->lines_capacity, p->n_lines + n) < 0)
        return -ENOMEM;
    for (i = 0; i < n; i++) {
        if (find_function(p, &lines[i], &line.function) < 0)
            return -ENOMEM;
        line.line = lines[i].line;
        p->lines[p->n_lines++] = line;
    }
    frame->first_line = first;
    frame->n_lines = (uint32_t)n;
    return 0;
}

/* Gives a frame that is a name one line, whose function has that name. */
static int resolve_name(struct cp__profile *p, struct cp__frame *frame)
{
    struct cp__symbol_line line = {.function = p->names[frame->name - 1]};

    if (cp__frame_add_lines(p, frame, &line, 1) < 0)
        return -ENOMEM;
    frame->is_resolved = true;
    return 0;
}

/* Makes room for what the file says about each mapping. */
static int reserve_uses(struct cp__profile *p)
{
    size_t known = p->uses_capacity;

    if (CP__RESERVE(p->uses, p->uses_capacity, p->mappings.n) < 0)
        return -ENOMEM;
    memset(p->uses + known, 0, (p->uses_capacity - known) * sizeof *p->uses);
    return 0;
}

/* ---- One mapping ----------------------------------------------------------------------------- */

/* Frames in one mapping, or in the kernel, sorted by address. */
struct batch {
    struct cp__profile *profile;
    struct cp__encoded_mapping *use;
    struct unresolved {
        uint64_t address;
        uint32_t mapping; /* number of the mapping, or KERNEL: the module is only known after the look-up */
        uint32_t frame;
    } * frames;
};
enum { KERNEL = INT32_MAX };

static uint64_t *list_addresses(const struct unresolved *frames, size_t n)
{
    uint64_t *addresses = malloc(n * sizeof *addresses);
    size_t i;

    for (i = 0; i < n && addresses != NULL; i++)
        addresses[i] = frames[i].address;
    return addresses;
}

/* A cp__symbol_fn: stores what is known about the i-th frame of the batch. */
static int take_answer(void *context, size_t i, const struct cp__symbol *symbol)
{
    struct batch *batch = context;
    struct cp__encoded_mapping *use = batch->use;
    struct cp__frame *frame = &batch->profile->frames[batch->frames[i].frame];
    size_t j;

    for (j = 0; j < symbol->n; j++) {
        use->has_functions |= symbol->lines[j].function != NULL;
        use->has_files |= symbol->lines[j].file != NULL;
        use->has_lines |= symbol->lines[j].line != 0;
    }
    use->has_inlining |= symbol->is_inlining_known;
    frame->entry = symbol->entry;
    return cp__frame_add_lines(batch->profile, frame, symbol->lines, symbol->n);
}

/* Marks the mapping as not symbolised, so that tools look up its frames, which are addresses. Otherwise
 * tools would believe that the look-up had been done. */
static void leave_unnamed(struct batch *batch, size_t n)
{
    struct cp__encoded_mapping *use = batch->use;

    use->has_functions = use->has_files = use->has_lines = use->has_inlining = false;
    batch->profile->findings.unnamed += n;
}

/* Leaves the frames of one mapping addresses, for now. */
static void leave_for_later(struct batch *batch, size_t n)
{
    struct cp__profile *p = batch->profile;

    for (size_t i = 0; i < n; i++)
        p->frames[batch->frames[i].frame].mapping = batch->frames[0].mapping + 1;
    p->findings.later += n;
}

/* Looks up the frames of one mapping. Frames without names for lack of memory stay unresolved, and the next
 * call looks them up again. */
static int resolve_batch(struct batch *batch, size_t n)
{
    struct cp__profile *p = batch->profile;
    uint64_t *addresses = list_addresses(batch->frames, n);
    uint32_t mapping = batch->frames[0].mapping;
    enum cp__missing missing = CP__MISSING_NOTHING;
    int result = -ENOMEM;
    size_t i;

    batch->use = &p->uses[mapping];
    if (addresses != NULL)
        result =
            cp__symbolise_telling(&p->mappings.items[mapping], addresses, n, take_answer, batch, &missing);
    free(addresses);
    if (missing != CP__MISSING_NOTHING)
        batch->use->missing = missing;
    for (i = 0; i < n; i++) {
        p->frames[batch->frames[i].frame].is_resolved = result == 0;
        p->frames[batch->frames[i].frame].mapping = mapping + 1;
    }
    if (result == -ENOMEM)
        leave_unnamed(batch, n);
    return result == -ENOMEM ? 0 : result;
}

/* ---- The kernel ------------------------------------------------------------------------------ */

/* Puts a frame into the mapping of the kernel or of a module. */
static int place_in_kernel(struct cp__profile *p, struct cp__frame *frame, const char *module)
{
    size_t number;

    if (cp__mappings_add_kernel(&p->mappings, module, &number) < 0 || reserve_uses(p) < 0)
        return -ENOMEM;
    frame->mapping = (uint32_t)number + 1;
    return 0;
}

/* A cp__kernel_symbol_fn: stores the function of the i-th frame of the batch. */
static int take_kernel_answer(void *context, size_t i, const char *name, const char *module)
{
    struct batch *batch = context;
    struct cp__frame *frame = &batch->profile->frames[batch->frames[i].frame];
    const struct cp__symbol_line line = {.function = name};

    if (place_in_kernel(batch->profile, frame, module) < 0)
        return -ENOMEM;
    batch->profile->uses[frame->mapping - 1].has_functions = true;
    return cp__frame_add_lines(batch->profile, frame, &line, 1);
}

/* Puts the frames that have no names into the kernel's mapping. */
static int place_unnamed(struct batch *batch, size_t n, bool is_final)
{
    struct cp__profile *p = batch->profile;
    struct cp__frame *frame;
    int result = 0;

    for (size_t i = 0; i < n && result == 0; i++) {
        frame = &p->frames[batch->frames[i].frame];
        frame->is_resolved = is_final;
        if (frame->n_lines == 0)
            result = place_in_kernel(p, frame, "");
    }
    return result;
}

/* Looks up the kernel's frames. If the kernel hides its symbols, the frames stay unresolved, and the next
 * call looks them up again. The kernel's list is read as a stream, which takes less memory than writing the
 * profile. */
static int resolve_kernel(struct batch *batch, size_t n)
{
    struct cp__profile *p = batch->profile;
    uint64_t *addresses;
    int result = -ENOMEM;

    if (p->are_names_left) {
        p->findings.later += n;
        return place_unnamed(batch, n, false);
    }
    addresses = list_addresses(batch->frames, n);
    if (addresses != NULL)
        result = cp__kernel_symbolise(p->kallsyms, addresses, n, take_kernel_answer, batch);
    free(addresses);
    if (result == -ENOMEM)
        return result;
    if (result < 0)
        cp__kernel_explain(result, p->findings.kernel, sizeof p->findings.kernel);
    return place_unnamed(batch, n, result == 0);
}

/* ---- All frames -------------------------------------------------------------------------------- */

static int compare_unresolved(const void *left, const void *right)
{
    const struct unresolved *a = left, *b = right;

    if (a->mapping != b->mapping)
        return a->mapping < b->mapping ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* Lists the frames in mappings that are not resolved yet. Frames that are names are resolved at once, and
 * frames in no mapping stay addresses. */
static int list_unresolved(struct cp__profile *p, struct unresolved *list, size_t *n)
{
    struct cp__frame *frame;
    size_t mapping;
    size_t i;

    *n = 0;
    for (i = 0; i < p->n_frames; i++) {
        frame = &p->frames[i];
        if (frame->is_resolved)
            continue;
        if (frame->name != 0) {
            if (resolve_name(p, frame) < 0)
                return -ENOMEM;
            continue;
        }
        mapping = cp__is_placed(frame) ? frame->place - 1 : p->mappings.n;
        if (mapping == p->mappings.n && frame->address >= CP__KERNEL_START)
            mapping = KERNEL;
        if (mapping < p->mappings.n || mapping == KERNEL)
            list[(*n)++] = (struct unresolved){frame->address, (uint32_t)mapping, (uint32_t)i};
    }
    qsort(list, *n, sizeof *list, compare_unresolved);
    return 0;
}

static int resolve_mapping(struct batch *batch, size_t n)
{
    const struct cp__profile *p = batch->profile;
    const uint32_t mapping = batch->frames[0].mapping;

    if (mapping == KERNEL)
        return resolve_kernel(batch, n);
    if (!p->are_names_left || !cp__mapping_can_wait(&p->mappings.items[mapping]))
        return resolve_batch(batch, n);
    leave_for_later(batch, n);
    return 0;
}

/* Looks up all unresolved frames, one mapping after the other. */
static int resolve_frames(struct cp__profile *p)
{
    struct unresolved *list = malloc((p->n_frames + 1) * sizeof *list);
    struct batch batch = {.profile = p};
    size_t n, first, end;
    int result;

    if (list == NULL)
        return -ENOMEM;
    result = list_unresolved(p, list, &n);
    for (first = 0; first < n && result == 0; first = end) {
        for (end = first; end < n && list[end].mapping == list[first].mapping; end++)
            ;
        batch.frames = list + first;
        result = resolve_mapping(&batch, end - first);
    }
    free(list);
    return result;
}

/* Adds the strings of new label sets. */
static int resolve_labels(struct cp__profile *p)
{
    const struct cp_labels *labels;
    size_t first, n, i;

    for (; p->n_resolved_label_sets < p->n_label_sets; p->n_resolved_label_sets++) {
        labels = p->label_sets[p->n_resolved_label_sets].labels;
        n = cp_labels_count(labels);
        first = p->n_label_strings;
        if (CP__RESERVE(p->label_strings, p->label_strings_capacity, first + 2 * n) < 0)
            return -ENOMEM;
        for (i = 0; i < n; i++)
            if (cp__strings_add(&p->strings, cp_labels_key(labels, i), &p->label_strings[first + 2 * i]) <
                    0 ||
                cp__strings_add(&p->strings, cp_labels_value(labels, i),
                                &p->label_strings[first + 2 * i + 1]) < 0)
                return -ENOMEM;
        p->label_sets[p->n_resolved_label_sets].first_string = first;
        p->n_label_strings += 2 * n;
    }
    return 0;
}

/* Adds the strings of new data addresses. */
static int resolve_addresses(struct cp__profile *p)
{
    struct cp__profile_stack *stack;
    char text[24];
    size_t i;

    for (i = 0; i < p->n_stacks; i++) {
        stack = &p->stacks[i];
        if (stack->address == 0 || stack->address_string != 0)
            continue;
        snprintf(text, sizeof text, "%#" PRIx64, stack->address);
        if (cp__strings_add(&p->strings, CP__ADDRESS_KEY, &p->address_key) < 0 ||
            cp__strings_add(&p->strings, text, &stack->address_string) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Adds the key of the label of stacks whose leaf is decided later. */
static int resolve_undecided(struct cp__profile *p)
{
    for (size_t i = 0; i < p->n_stacks; i++)
        if (cp__stack_is_undecided(p, &p->stacks[i]))
            return cp__strings_add(&p->strings, CP__RECORDED_KEY, &p->recorded_key);
    return 0;
}

/* Numbers the mappings that the file needs: that of the program, which readers expect first, and those with
 * frames. */
static int number_mappings(struct cp__profile *p)
{
    const struct cp__mapping *mapping;
    struct cp__encoded_mapping *use;
    uint32_t id = 0;
    size_t i;

    for (i = 0; i < p->n_frames; i++)
        if (p->frames[i].mapping != 0)
            p->uses[p->frames[i].mapping - 1].id = 1;
    for (i = 0; i < p->mappings.n; i++) {
        use = &p->uses[i];
        if (i > 0 && use->id == 0)
            continue;
        mapping = &p->mappings.items[i];
        use->id = ++id;
        use->start = mapping->start;
        use->limit = mapping->limit;
        use->offset = mapping->offset;
        if (cp__strings_add(&p->strings, mapping->file, &use->file) < 0 ||
            (mapping->build_id != NULL &&
             cp__strings_add(&p->strings, mapping->build_id, &use->build_id) < 0))
            return -ENOMEM;
    }
    return 0;
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

/* Adds up the weight of the samples that keep the interrupted instruction: see struct
 * cp__profile_findings. */
static void count_elsewhere(struct cp__profile *p)
{
    size_t i;

    for (i = 0; i < p->n_stacks; i++)
        if (p->stacks[i].ip != 0 && !cp__stack_is_precise(p, &p->stacks[i]) &&
            !cp__stack_is_undecided(p, &p->stacks[i]))
            p->findings.elsewhere += p->stacks[i].weight;
}

/* ---- Missing names ----------------------------------------------------------------------------- */

/* Marks the mappings in which the innermost function of a sample has no name. */
static void mark_unnamed_leaves(struct cp__profile *p)
{
    const struct cp__frame *leaf;
    const struct cp__line *line;
    size_t i;

    for (i = 0; i < p->n_stacks; i++) {
        leaf = &p->frames[p->stack_frames[p->stacks[i].first]];
        line = leaf->n_lines == 0 ? NULL : &p->lines[leaf->first_line + leaf->n_lines - 1];
        if (leaf->mapping != 0 && (line == NULL || p->functions[line->function].name == 0))
            p->uses[leaf->mapping - 1].has_unnamed_leaf = true;
    }
}

/* Distributions ship libraries without symbols, and each stack of a program begins in a local function of the
 * C library. So a mapping of such a library lacks names only if samples were taken in a function without a
 * name, not for callers. */
static bool lacks_names(const struct cp__encoded_mapping *use)
{
    return use->missing != CP__MISSING_NOTHING &&
           (use->missing != CP__MISSING_SYMBOLS || use->has_unnamed_leaf);
}

bool cp__uses_lack_names(const struct cp__encoded_mapping *uses, size_t i)
{
    if (!lacks_names(&uses[i]))
        return false;
    for (size_t j = 0; j < i; j++)
        if (lacks_names(&uses[j]) && uses[j].missing == uses[i].missing && uses[j].file == uses[i].file)
            return false;
    return true;
}

/* Lists modules with functions that have no names, once a module and reason. */
static void list_missing(struct cp__profile *p)
{
    struct cp__profile_findings *findings = &p->findings;
    size_t i;

    mark_unnamed_leaves(p);
    for (i = 0; i < p->mappings.n; i++) {
        if (!cp__uses_lack_names(p->uses, i))
            continue;
        if (findings->n_missing < CP__MAX_MISSING)
            findings->missing[findings->n_missing] = (struct cp__profile_missing){
                p->mappings.items[i].file, cp__missing_explain(p->uses[i].missing)};
        findings->n_missing++;
    }
}

/* ---- The whole profile ----------------------------------------------------------------------- */

int cp__profile_look_up(struct cp__profile *p)
{
    p->findings = (struct cp__profile_findings){0};
    if (reserve_uses(p) < 0 || resolve_frames(p) < 0 || cp__profile_name_jit(p) < 0 ||
        resolve_labels(p) < 0 || cp__profile_rounds_resolve(p) < 0 || resolve_addresses(p) < 0 ||
        resolve_undecided(p) < 0 || number_mappings(p) < 0)
        return -ENOMEM;
    count_elsewhere(p);
    list_missing(p);
    p->findings.replaced = p->replaced;
    p->findings.maps_unread = p->mappings.unread;
    return 0;
}
