#include "rows.h"

#include <string.h>
#include <sys/mman.h>

#include "arch/arch.h"
#include "draft.h"
#include "runtime/base/sys_linux.h"

/* ---- In the handler -------------------------------------------------------------------------- */

static const struct cp__rule no_rule = {.cfa_from = CP__CFA_UNKNOWN};

/* Returns the rule of the last rare row that begins at `at` or before. */
static const struct cp__rule *find_rare_from_handler(const struct cp__rows *rows, uintptr_t at)
{
    uint32_t lo = 0, hi = rows->n_rare;

    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;

        if (rows->rare[middle].at <= at)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo == 0 ? &no_rule : &rows->rules[rows->rare[lo - 1].rule];
}

const struct cp__rule *cp__rows_find_from_handler(const struct cp__rows *rows, uintptr_t at)
{
    uintptr_t block = at >> CP__BLOCK_BITS;
    uint8_t place = (uint8_t)at; /* in its block */
    uint32_t lo, hi;

    if (block >= rows->n_blocks)
        return &no_rule;
    lo = rows->index[block];
    hi = rows->index[block + 1];
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;

        if (rows->rows[middle].at <= place)
            lo = middle + 1;
        else
            hi = middle;
    }
    if (lo == 0)
        return &no_rule;
    if (rows->rows[lo - 1].rule == CP__RULE_IS_RARE)
        return find_rare_from_handler(rows, at);
    return &rows->rules[rows->rows[lo - 1].rule];
}

unsigned cp__kept_index_from_handler(uint64_t number)
{
    unsigned i = 0;

    while (i < CP__KEPT_MOST && cp__kept_number(i) != number)
        i++;
    return number == UINT8_MAX ? CP__KEPT_MOST : i;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Memory comes from the kernel, because cp__rows_make() runs while the dynamic linker's lock is held: an
 * allocator of the program may wait for that lock in another thread. */
#define CHUNK ((size_t)256 << 10)

static char *chunk;
static size_t left; /* in the chunk */

/* Returns memory that is never given back, aligned for everything that rows contain. */
static char *keep(size_t size)
{
    char *kept;

    size = (size + 15) & ~(size_t)15;
    if (size > left && size > CHUNK / 4)
        return cp__sys_map(size);
    if (size > left) {
        chunk = cp__sys_map(CHUNK);
        left = chunk == NULL ? 0 : CHUNK;
    }
    if (left == 0)
        return NULL;
    kept = chunk;
    chunk += size;
    left -= size;
    return kept;
}

void cp__rows_after_fork(void)
{
    left = 0; /* the chunk may be half taken */
}

/* ---- Drafts ---------------------------------------------------------------------------------- */

#define MAX_RULES 32768u
#define TABLE_SIZE (2 * MAX_RULES)
#define FIRST_TABLE_SIZE 2048u
#define FIRST_ROWS 16384u

/*
 * Of 687 objects of Debian 12, none spent more than 0.51 for a byte of code, or had a row for fewer than 8.7
 * bytes. What an object of 32 MB may spend is 15 times of what the largest of them did, so still larger ones
 * get no more; that takes a few tenths of a second.
 */
#define MOST_CODE ((size_t)32 << 20)
#define BUDGET(code) (65536 + 2 * ((code) < MOST_CODE ? (code) : MOST_CODE))
#define MAX_ROWS(code) ((uint32_t)(1024 + ((code) < MOST_CODE ? (code) : MOST_CODE) / 4))

/* Makes room for more rows. The first rows' memory is enough for most objects. */
static bool grow_draft(struct cp__draft *draft)
{
    uint32_t room = draft->room == 0 ? FIRST_ROWS : 2 * draft->room;
    struct cp__rare_row *rows = cp__sys_map(room * sizeof *rows);

    if (rows == NULL) {
        draft->is_short_of_memory = true;
        return false;
    }
    if (draft->n > 0)
        memcpy(rows, draft->rows, draft->n * sizeof *rows);
    if (draft->room > 0)
        munmap(draft->rows, draft->room * sizeof *rows);
    draft->rows = rows;
    draft->room = room;
    return true;
}

static uint32_t hash_of(const struct cp__rule *rule)
{
    uint64_t words[sizeof *rule / sizeof(uint64_t)], hash = 0;

    memcpy(words, rule, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(hash >> 40);
}

/* Makes the table of the rules twice as large. */
static void grow_table(struct cp__draft *draft)
{
    draft->table_size *= 2;
    memset(draft->table, 0, draft->table_size * sizeof *draft->table);
    for (uint32_t i = 0; i < draft->n_rules; i++) {
        uint32_t slot = hash_of(&draft->rules[i]) % draft->table_size;

        while (draft->table[slot] != 0 && cp__draft_spend(draft, 1))
            slot = (slot + 1) % draft->table_size;
        draft->table[slot] = i + 1;
    }
}

/* Returns the number of a rule. If there are too many rules, that is 0. */
static uint32_t rule_number(struct cp__draft *draft, const struct cp__rule *rule)
{
    const uint32_t size = draft->table_size;
    uint32_t slot = hash_of(rule) % size;

    for (; draft->table[slot] != 0 && cp__draft_spend(draft, 1); slot = (slot + 1) % size) {
        if (memcmp(&draft->rules[draft->table[slot] - 1], rule, sizeof *rule) == 0)
            return draft->table[slot] - 1;
    }
    if (draft->n_rules == MAX_RULES || draft->is_over_budget)
        return 0;
    draft->rules[draft->n_rules] = *rule;
    draft->table[slot] = ++draft->n_rules;
    if (2 * draft->n_rules >= size && size < TABLE_SIZE)
        grow_table(draft);
    return draft->n_rules - 1;
}

void cp__draft_add(struct cp__draft *draft, uint32_t at, const struct cp__rule *rule)
{
    bool is_known = rule != NULL && rule->cfa_from != CP__CFA_UNKNOWN;

    draft->is_over_budget |= draft->n == draft->max_rows;
    if (!cp__draft_spend(draft, 1) || (draft->n == draft->room && !grow_draft(draft)))
        return;
    draft->rows[draft->n++] =
        (struct cp__rare_row){.at = at, .rule = is_known ? rule_number(draft, rule) : 0};
}

void cp__draft_flag(struct cp__draft *draft, uint32_t first, uint8_t flags)
{
    for (uint32_t i = first; i < draft->n; i++) {
        struct cp__rule rule = draft->rules[draft->rows[i].rule];

        rule.flags |= flags;
        if (draft->rows[i].rule != 0)
            draft->rows[i].rule = rule_number(draft, &rule);
    }
}

int32_t cp__draft_expression(struct cp__draft *draft, const uint8_t *bytes, size_t size)
{
    uint32_t place = 0;

    while (place < draft->expressions_size && cp__draft_spend(draft, 1)) {
        const uint8_t *known = draft->expressions + place;

        if (known[0] == size && memcmp(known + 1, bytes, size) == 0)
            return (int32_t)place;
        place += known[0] + 1u;
    }
    if (draft->is_over_budget || size > UINT8_MAX || size + 1 > CP__DRAFT_EXPRESSIONS - place)
        return -1;
    draft->expressions[place] = (uint8_t)size;
    memcpy(draft->expressions + place + 1, bytes, size);
    draft->expressions_size += (uint32_t)size + 1;
    return (int32_t)place;
}

void cp__draft_keep(struct cp__rule *rule, uint64_t number, enum cp__how how, int64_t value)
{
    int64_t words = value / (int64_t)sizeof(uintptr_t);
    int8_t place = CP__KEPT_UNKNOWN;
    unsigned i = cp__kept_index_from_handler(number);

    if (how == CP__SAME)
        place = CP__KEPT_SAME;
    else if (how == CP__AT && value % (int64_t)sizeof(uintptr_t) == 0 && words != CP__KEPT_SAME &&
             words > INT8_MIN && words <= INT8_MAX)
        place = (int8_t)words;
    if (i < CP__KEPT_MOST)
        rule->kept[i] = place;
}

static bool open_draft(struct cp__draft *draft, size_t code)
{
    draft->budget = BUDGET(code);
    draft->max_rows = MAX_ROWS(code);
    draft->table_size = FIRST_TABLE_SIZE;
    draft->rules = cp__sys_map(MAX_RULES * sizeof *draft->rules);
    draft->table = cp__sys_map(TABLE_SIZE * sizeof *draft->table);
    if (draft->rules == NULL || draft->table == NULL)
        return false;
    rule_number(draft, &no_rule);
    return true;
}

static void close_draft(struct cp__draft *draft)
{
    if (draft->rows != NULL)
        munmap(draft->rows, draft->room * sizeof *draft->rows);
    if (draft->rules != NULL)
        munmap(draft->rules, MAX_RULES * sizeof *draft->rules);
    if (draft->table != NULL)
        munmap(draft->table, TABLE_SIZE * sizeof *draft->table);
}

/* ---- Packing --------------------------------------------------------------------------------- */

/* Leaves only rows that change something: of rows at one address the last one holds, and a row with the rule
 * of the row before says nothing. */
static void drop_rows(struct cp__draft *draft)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < draft->n; i++) {
        const struct cp__rare_row row = draft->rows[i];

        if (i + 1 < draft->n && draft->rows[i + 1].at == row.at)
            continue;
        if (n == 0 || draft->rows[n - 1].rule != row.rule)
            draft->rows[n++] = row;
    }
    draft->n = n;
}

/* Gives the rules new numbers, in `table`, by which the most frequent ones come first. Rule 0 keeps its
 * number. Numbers from CP__RULE_IS_RARE on belong to the others, in any order. */
static void renumber(struct cp__draft *draft)
{
    uint32_t *numbers = draft->table, *counts = draft->table + MAX_RULES;
    uint32_t next = 1;

    memset(numbers, 0, draft->n_rules * sizeof *numbers);
    memset(counts, 0, draft->n_rules * sizeof *counts);
    for (uint32_t i = 0; i < draft->n; i++)
        counts[draft->rows[i].rule]++;
    while (next < CP__RULE_IS_RARE && next < draft->n_rules) {
        uint32_t most = 0;

        for (uint32_t i = 1; i < draft->n_rules; i++) {
            if (numbers[i] == 0 && (most == 0 || counts[i] > counts[most]))
                most = i;
        }
        numbers[most] = next++;
    }
    for (uint32_t i = 1; i < draft->n_rules; i++) {
        if (numbers[i] == 0)
            numbers[i] = next++;
    }
}

/* Lays the parts of *rows out in one piece of memory, which begins with *rows itself. Returns the piece's
 * size. The parts are in the order of their alignment. */
static size_t lay_out(struct cp__rows *rows, uintptr_t memory, size_t expressions_size)
{
    uintptr_t at = memory + sizeof *rows;

    rows->rules = (void *)at;
    at += rows->n_rules * sizeof *rows->rules;
    rows->rare = (void *)at;
    at += rows->n_rare * sizeof *rows->rare;
    rows->index = (void *)at;
    at += (rows->n_blocks + 1) * sizeof *rows->index;
    rows->rows = (void *)at;
    at += rows->n_rows * sizeof *rows->rows;
    rows->expressions = (void *)at;
    return at - memory + expressions_size;
}

static void fill_rows(struct cp__rows *rows, const struct cp__draft *draft)
{
    struct cp__row *row = (struct cp__row *)(uintptr_t)rows->rows;
    struct cp__rare_row *rare = (struct cp__rare_row *)(uintptr_t)rows->rare;
    uint32_t *index = (uint32_t *)(uintptr_t)rows->index;
    uint32_t block = 0;

    for (uint32_t i = 0; i < draft->n; i++) {
        uint32_t at = draft->rows[i].at, number = draft->table[draft->rows[i].rule];

        for (; block <= at >> CP__BLOCK_BITS; block++)
            index[block] = i;
        row[i] = (struct cp__row){.at = (uint8_t)at, .rule = (uint8_t)number};
        if (number >= CP__RULE_IS_RARE) {
            row[i].rule = CP__RULE_IS_RARE;
            *rare++ = (struct cp__rare_row){.at = at, .rule = number};
        }
    }
    for (; block <= rows->n_blocks; block++)
        index[block] = draft->n;
}

static struct cp__rows *pack(struct cp__draft *draft)
{
    struct cp__rows rows = {.n_rows = draft->n, .n_rules = draft->n_rules};
    char *memory;

    renumber(draft);
    for (uint32_t i = 0; i < draft->n; i++)
        rows.n_rare += draft->table[draft->rows[i].rule] >= CP__RULE_IS_RARE;
    rows.n_blocks = (draft->rows[draft->n - 1].at >> CP__BLOCK_BITS) + 1;
    rows.size = lay_out(&rows, 0, draft->expressions_size);
    memory = keep(rows.size);
    if (memory == NULL)
        return NULL;
    lay_out(&rows, (uintptr_t)memory, draft->expressions_size);
    for (uint32_t i = 0; i < draft->n_rules; i++)
        ((struct cp__rule *)(uintptr_t)rows.rules)[draft->table[i]] = draft->rules[i];
    fill_rows(&rows, draft);
    memcpy((void *)(uintptr_t)rows.expressions, draft->expressions, draft->expressions_size);
    memcpy(memory, &rows, sizeof rows);
    return (struct cp__rows *)memory;
}

/* Returns whether the CFA is computed from a kept register anywhere. */
static bool needs_kept(const struct cp__rows *rows)
{
    for (uint32_t i = 0; i < rows->n_rules; i++) {
        if (cp__kept_index_from_handler(rows->rules[i].cfa_from) < CP__KEPT_MOST)
            return true;
    }
    return false;
}

static struct cp__rows *make(const struct cp__cfi_source *source, bool is_of_kept, bool *is_over_budget)
{
    static struct cp__draft draft; /* too large for a stack; one thread at a time uses it */
    struct cp__rows *rows = NULL;

    memset(&draft, 0, sizeof draft);
    draft.is_of_kept = is_of_kept;
    if (source->code_hi - source->code_lo <= INT32_MAX &&
        open_draft(&draft, source->code_hi - source->code_lo) && cp__cfi_read(source, &draft)) {
        drop_rows(&draft);
        if (draft.n > 0)
            rows = pack(&draft);
    }
    close_draft(&draft);
    *is_over_budget = draft.is_over_budget;
    return rows;
}

const struct cp__rows *cp__rows_make(const struct cp__cfi_source *source, bool *is_over_budget)
{
    struct cp__rows *rows = make(source, false, is_over_budget);
    bool is_kept_over_budget = false;

    if (rows != NULL && needs_kept(rows))
        rows->kept = make(source, true, &is_kept_over_budget);
    *is_over_budget |= is_kept_over_budget;
    return rows;
}
