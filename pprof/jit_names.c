/* Names the frames of code that a just-in-time compiler has made. */
#include <stdlib.h>

#include "pprof/symbol/jit.h"
#include "pprof/symbol/kernel.h"
#include "profile_data.h"

struct unnamed {
    uint64_t address;
    uint32_t frame;
};

struct naming {
    struct cp__profile *profile;
    const struct unnamed *unnamed;
};

static int compare_unnamed(const void *left, const void *right)
{
    const struct unnamed *a = left, *b = right;

    return a->address < b->address ? -1 : a->address > b->address;
}

/* Returns whether a frame has no name, and may be code that a compiler has made: code of this process that
 * the dynamic linker does not know. */
static bool may_be_jit(const struct cp__profile *p, const struct cp__frame *frame)
{
    return frame->name == 0 && frame->n_lines == 0 && frame->address < CP__KERNEL_START &&
           cp__frame_process(p, frame) == 0 &&
           (!cp__is_placed(frame) || (frame->is_resolved && !p->mappings.items[frame->place - 1].is_linked));
}

/* A cp__symbol_fn: stores the function of the i-th frame without a name. */
static int take_jit_answer(void *context, size_t i, const struct cp__symbol *symbol)
{
    const struct naming *naming = context;
    struct cp__profile *p = naming->profile;
    struct cp__frame *frame = &p->frames[naming->unnamed[i].frame];
    struct cp__encoded_mapping *use;

    frame->entry = symbol->entry;
    frame->is_resolved = true;
    if (frame->mapping != 0) {
        use = &p->uses[frame->mapping - 1];
        use->has_functions = true;
        use->has_files |= symbol->lines[0].file != NULL;
        use->has_lines |= symbol->lines[0].line != 0;
    }
    return cp__frame_add_lines(p, frame, symbol->lines, symbol->n);
}

/* Takes back that a mapping lacks names if all of the frames there have names now. */
static int settle_missing(struct cp__profile *p, const struct unnamed *unnamed, size_t n)
{
    bool *lacks = calloc(p->mappings.n + 1, sizeof *lacks);
    const struct cp__frame *frame;

    if (lacks == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        frame = &p->frames[unnamed[i].frame];
        lacks[frame->mapping] |= frame->n_lines == 0;
    }
    for (size_t i = 0; i < n; i++) {
        frame = &p->frames[unnamed[i].frame];
        if (frame->mapping != 0 && !lacks[frame->mapping])
            p->uses[frame->mapping - 1].missing = CP__MISSING_NOTHING;
    }
    free(lacks);
    return 0;
}

static int name_frames(struct cp__profile *p, const struct unnamed *unnamed, size_t n)
{
    struct naming naming = {p, unnamed};
    uint64_t *addresses = malloc(n * sizeof *addresses);
    int result = -ENOMEM;

    for (size_t i = 0; i < n && addresses != NULL; i++)
        addresses[i] = unnamed[i].address;
    if (addresses != NULL)
        result = cp__jit_symbolise(&p->mappings, addresses, n, p->ended_ns, take_jit_answer, &naming);
    free(addresses);
    return result == 0 ? settle_missing(p, unnamed, n) : result;
}

int cp__profile_name_jit(struct cp__profile *p)
{
    struct unnamed *unnamed;
    size_t n = 0;
    int result;

    if (!cp__jit_is_used())
        return 0;
    unnamed = malloc((p->n_frames + 1) * sizeof *unnamed);
    if (unnamed == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < p->n_frames; i++)
        if (may_be_jit(p, &p->frames[i]))
            unnamed[n++] = (struct unnamed){p->frames[i].address, (uint32_t)i};
    qsort(unnamed, n, sizeof *unnamed, compare_unnamed);
    result = n > 0 ? name_frames(p, unnamed, n) : 0;
    free(unnamed);
    return result;
}
