/* Rows while they are made: cfi.c adds them in the order of their addresses, rows.c packs them. Nothing
 * here is for signal handlers. */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_DRAFT_H
#define COUNTERPOINT_RUNTIME_UNWIND_DRAFT_H

#include "rows.h"

#define CP__DRAFT_EXPRESSIONS 4096

/*
 * A draft has a budget, because anybody's file can be an object, and the dynamic linker's lock is held
 * meanwhile. Each instruction, row and entry costs 1, and so does each comparison with a rule or an
 * expression that is known. The information of an object is in proportion to its code, and so is the budget
 * (rows.c).
 */
struct cp__draft {
    struct cp__rare_row *rows; /* sorted by address; several may have the same rule, or the same address */
    uint32_t n;
    uint32_t room;
    struct cp__rule *rules; /* all different; the first one is rule 0 */
    uint32_t n_rules;
    uint32_t *table;     /* the rules by their hash: numbers plus 1; 0: free */
    uint32_t table_size; /* a power of 2; grows with the rules, so that few pages are touched */
    uint64_t budget;     /* what may still be spent */
    uint32_t max_rows;
    bool is_over_budget;
    bool is_short_of_memory;
    bool is_of_kept; /* the rules are of kept registers */
    uint32_t expressions_size;
    uint8_t expressions[CP__DRAFT_EXPRESSIONS];
};

/* Pays for a step. Returns false, and sets is_over_budget, if the budget is spent. */
static inline bool cp__draft_spend(struct cp__draft *draft, unsigned cost)
{
    draft->is_over_budget |= draft->budget < cost;
    draft->budget -= draft->is_over_budget ? 0 : cost;
    return !draft->is_over_budget;
}

/* Adds a row: the rule holds from address `at` on. NULL stands for rule 0. */
void cp__draft_add(struct cp__draft *draft, uint32_t at, const struct cp__rule *rule);
/* Gives the flags to the rules of all rows from number `first` on. */
void cp__draft_flag(struct cp__draft *draft, uint32_t first, uint8_t flags);
/* Sets the place of a register in a rule of kept registers, if the register is one of them. */
void cp__draft_keep(struct cp__rule *rule, uint64_t number, enum cp__how how, int64_t value);
/* Stores an expression, and returns its place; -1 if there is no room for it. */
int32_t cp__draft_expression(struct cp__draft *draft, const uint8_t *bytes, size_t size);

/* Reads an object's call-frame information into the draft. Returns whether it had the expected
 * form. */
bool cp__cfi_read(const struct cp__cfi_source *source, struct cp__draft *draft);

#endif
