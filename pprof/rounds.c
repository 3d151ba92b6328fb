#include "rounds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/text.h"
#include "runtime/rounds.h"
#include "runtime/watch/sampled.h"
#include "watch.h"

/* How many rounds a reader's pass asks for. */
enum { LOOKS = 1024 };

/* ---- Folding --------------------------------------------------------------------------------- */

static uint64_t round_at(const struct cp__profile *p, uint64_t number)
{
    size_t n;

    return cp__tuples_get(&p->rounds, number, &n)[0];
}

static uint64_t id_of(uint64_t round)
{
    return round & (((uint64_t)1 << CP__ROUND_ID_BITS) - 1);
}

/* Finds or adds a round, and stores its number. A round without an id stands for all those of its watch that
 * the profile does not tell apart. */
static int find_round(struct cp__profile *p, uint64_t round, uint32_t *number)
{
    const size_t n = p->rounds.n;

    if (cp__tuples_find(&p->rounds, &round, 1, number))
        return 0;
    if (n >= CP__ROUNDS_TOLD)
        round -= id_of(round);
    if (CP__RESERVE(p->round_ns, p->round_ns_capacity, n + 1) < 0 ||
        CP__RESERVE(p->unended, p->unended_capacity, p->n_unended + 1) < 0 ||
        cp__tuples_add(&p->rounds, &round, 1, number) < 0)
        return -ENOMEM;
    if (p->rounds.n > n) {
        p->round_ns[*number] = 0;
        if (id_of(round) != 0)
            p->unended[p->n_unended++] = *number;
    }
    return 0;
}

int cp__profile_rounds_find(struct cp__profile *p, const struct cp_sample *sample, uint32_t *set)
{
    const unsigned n = sample->n_rounds < CP_SAMPLE_ROUNDS ? sample->n_rounds : CP_SAMPLE_ROUNDS;
    uint64_t numbers[CP_SAMPLE_ROUNDS];
    uint32_t number;
    bool is_told = true;

    *set = 0;
    for (unsigned i = 0; i < n; i++) {
        if (find_round(p, sample->rounds[i], &number) < 0)
            return -ENOMEM;
        numbers[i] = number;
        is_told = is_told && id_of(round_at(p, number)) != 0;
    }
    if (n == 0)
        return 0;
    if (cp__tuples_add(&p->round_sets, numbers, n, &number) < 0)
        return -ENOMEM;
    *set = number + 1;
    p->untold += is_told ? 0 : sample->weight;
    return 0;
}

/* A round that has ended is asked for no more. The others wait for their turn: in most programs they are
 * few, but those that were dropped, or whose G never ends them, stay. */
void cp__profile_rounds_look(struct cp__profile *p, bool all)
{
    size_t looks = all || p->n_unended < LOOKS ? p->n_unended : LOOKS;

    if (all)
        p->next_unended = 0;
    for (; looks > 0; looks--) {
        const size_t i = p->next_unended < p->n_unended ? p->next_unended : 0;
        const uint32_t number = p->unended[i];

        p->next_unended = i;
        if (cp__sampled_find(round_at(p, number), &p->round_ns[number]))
            p->unended[i] = p->unended[--p->n_unended];
        else
            p->next_unended++;
    }
}

/* ---- Resolving ------------------------------------------------------------------------------- */

/* Adds the strings of a watch: its name, and the key of its durations. A number label of the key that the
 * encoder itself uses would be taken for the encoder's. */
static int name_sampled_watch(struct cp__profile *p, struct cp__profile_watch *watch, uint64_t round)
{
    char text[CP_WATCH_NAME_MAX + 16];
    const char *name = cp_watch_round_name(round);

    if (name == NULL)
        snprintf(text, sizeof text, "watch %u", cp__round_watch(round));
    else
        snprintf(text, sizeof text, "%s", name);
    if (cp__strings_add(&p->strings, text, &watch->name) < 0)
        return -ENOMEM;
    if (strcmp(text, CP__RECORDED_KEY) == 0)
        snprintf(text, sizeof text, "%s:%s", CP__WATCH_KEY, CP__RECORDED_KEY);
    return cp__strings_add(&p->strings, text, &watch->key);
}

int cp__profile_rounds_resolve(struct cp__profile *p)
{
    cp__profile_rounds_look(p, true);
    if (p->rounds.n > 0 && (cp__strings_add(&p->strings, CP__WATCH_KEY, &p->watch_key) < 0 ||
                            cp__strings_add(&p->strings, "nanoseconds", &p->ns_unit) < 0))
        return -ENOMEM;
    for (; p->n_resolved_rounds < p->rounds.n; p->n_resolved_rounds++) {
        const uint64_t round = round_at(p, p->n_resolved_rounds);
        const unsigned number = cp__round_watch(round);

        if (CP__RESERVE(p->watches, p->watches_capacity, number + 1) < 0)
            return -ENOMEM;
        for (; p->n_watches <= number; p->n_watches++)
            p->watches[p->n_watches] = (struct cp__profile_watch){.name = 0};
        if (p->watches[number].key == 0 && name_sampled_watch(p, &p->watches[number], round) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* ---- What is shown --------------------------------------------------------------------------- */

static const struct cp__profile_watch *watch_of(const struct cp__profile *p, uint64_t number)
{
    return &p->watches[cp__round_watch(round_at(p, number))];
}

/* Returns whether the label of a watch's name is there already, because rounds of a watch may nest. */
static bool has_label(const struct cp__round_label *labels, size_t n, uint32_t name)
{
    while (n > 0)
        if (labels[--n].string == name)
            return true;
    return false;
}

size_t cp__profile_rounds_labels(const struct cp__profile *p, uint32_t set,
                                 struct cp__round_label labels[CP__ROUND_LABELS])
{
    size_t n_rounds = 0, n = 0;
    const uint64_t *numbers = set == 0 ? NULL : cp__tuples_get(&p->round_sets, set - 1, &n_rounds);

    for (size_t i = 0; i < n_rounds; i++) {
        const struct cp__profile_watch *watch = watch_of(p, numbers[i]);

        if (!has_label(labels, n, watch->name))
            labels[n++] = (struct cp__round_label){.key = p->watch_key, .string = watch->name};
        if (p->round_ns[numbers[i]] != 0)
            labels[n++] = (struct cp__round_label){
                .key = watch->key, .unit = p->ns_unit, .number = p->round_ns[numbers[i]]};
    }
    return n;
}

void cp__profile_rounds_print(FILE *out, const struct cp__profile *p, uint32_t set)
{
    size_t n = 0;
    const uint64_t *numbers = set == 0 ? NULL : cp__tuples_get(&p->round_sets, set - 1, &n);

    for (size_t i = 0; i < n; i++) {
        fputs(i == 0 ? "# watches: {" : ", ", out);
        cp__json_string(out, cp__profile_string(p, watch_of(p, numbers[i])->name));
        if (p->round_ns[numbers[i]] != 0)
            fprintf(out, ":%" PRIu64, p->round_ns[numbers[i]]);
        else
            fputs(":null", out);
    }
    if (n > 0)
        fputs("}\n", out);
}

/* Watches of one name have one string, and count with the first of them. */
int cp__profile_rounds_each(const struct cp__profile *p, cp__sampled_watch_fn *fn, void *context)
{
    struct cp__sampled_watch *counts = calloc(p->n_watches + 1, sizeof *counts);

    if (counts == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < p->rounds.n; i++) {
        const uint32_t name = watch_of(p, i)->name;
        size_t first = 0;

        while (p->watches[first].name != name)
            first++;
        counts[first].name = cp__profile_string(p, name);
        if (cp__round_watch(round_at(p, i)) > counts[first].number)
            counts[first].number = cp__round_watch(round_at(p, i));
        counts[first].rounds += id_of(round_at(p, i)) != 0;
        counts[first].ended += p->round_ns[i] != 0;
    }
    for (size_t i = 0; i < p->n_watches; i++)
        if (counts[i].name != NULL)
            fn(context, &counts[i]);
    free(counts);
    return 0;
}

void cp__profile_rounds_free(struct cp__profile *p)
{
    cp__tuples_free(&p->rounds);
    cp__tuples_free(&p->round_sets);
    free(p->round_ns);
    free(p->unended);
    free(p->watches);
}
