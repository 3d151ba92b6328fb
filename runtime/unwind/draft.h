/* Rows while they are made: cfi.c adds them in the order of their addresses, rows.c packs them. Nothing
 * here is for signal handlers. */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_DRAFT_H
#define COUNTERPOINT_RUNTIME_UNWIND_DRAFT_H

#include "rows.h"

#define CP__DRAFT_EXPRESSIONS 4096

struct cp__draft {
    struct cp__rare_row *rows; /* sorted by address; several may have the same rule, or the same address */
    uint32_t n;
    uint32_t room;
    struct cp__rule *rules; /* all different; the first one is rule 0 */
    uint32_t n_rules;
    uint32_t *table; /* the rules by their hash: numbers plus 1; 0: free */
    bool is_short_of_memory;
    uint32_t expressions_size;
    uint8_t expressions[CP__DRAFT_EXPRESSIONS];
};

/* Adds a row: the rule holds from address `at` on. NULL stands for rule 0. */
void cp__draft_add(struct cp__draft *draft, uint32_t at, const struct cp__rule *rule);
/* Gives the flags to the rules of all rows from number `first` on. */
void cp__draft_flag(struct cp__draft *draft, uint32_t first, uint8_t flags);
/* Stores an expression, and returns its place; -1 if there is no room for it. */
int32_t cp__draft_expression(struct cp__draft *draft, const uint8_t *bytes, size_t size);

/* Reads an object's call-frame information into the draft. Returns whether it had the expected
 * form. */
bool cp__cfi_read(const struct cp__cfi_source *source, struct cp__draft *draft);

#endif
