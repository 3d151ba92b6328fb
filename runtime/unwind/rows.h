/*
 * Rows: the call-frame information of one mapped object, in the form that the signal handler reads.
 *
 * Call-frame information tells, for every address of code, where the function's caller is: how to compute
 * the canonical frame address (CFA, the caller's stack pointer) and where the return address and the
 * caller's frame pointer are saved. It is a program for each function; cp__rows_make() runs the programs
 * outside of the handler. A row says which rule holds from an address on, up to the next row. Few rules
 * differ, so each rule is stored once.
 *
 * The address of a row is stored in two parts. The code is divided into blocks of 256 bytes, and a row
 * holds its place inside the block and the number of its rule, a byte each. index[b] is the number of the
 * first row in block b, so a look-up reads index[b] and index[b + 1] and searches the rows in between. If
 * all of these lie behind the address, the row before them holds, which belongs to an earlier block.
 *
 * The most frequent rules have the lowest numbers. Rule CP__RULE_IS_RARE means that the rule's number does
 * not fit into a byte; then it stands in rare[], sorted by address. Rule 0 stands for code without
 * information.
 *
 * Rows are never changed after they have been made, and never freed. So a handler may use rows of an object
 * that another thread has unmapped meanwhile.
 */
#ifndef COUNTERPOINT_RUNTIME_UNWIND_ROWS_H
#define COUNTERPOINT_RUNTIME_UNWIND_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the value of a register in the caller is found. */
enum cp__how {
    CP__SAME,       /* the register was not changed; a return address is in the link register */
    CP__AT,         /* in the word at CFA + value */
    CP__AT_ADDRESS, /* in the word at the address that an expression gives; value is its place */
    CP__IN,         /* in the register whose number is value */
    CP__UNDEFINED,  /* nowhere; if this is the return address, the function is the stack's first */
    CP__UNKNOWN     /* in no way that the handler knows */
};

/* The values of cp__rule.cfa_from that are no numbers of registers. */
#define CP__CFA_EXPRESSION 254 /* cfa is the place of an expression */
#define CP__CFA_UNKNOWN 255 /* the rule tells nothing: the address is in no function, or is not understood */

#define CP__RULE_SIGNAL                                                                                      \
    1u /* the caller was interrupted, and made no call: the function is a signal's return, or the like */
#define CP__RULE_CALLS_ONLY                                                                                  \
    2u /* the function's rules are right at calls, and not where it makes and removes its frame */
#define CP__RULE_LEAVES                                                                                      \
    4u /* the function may leave for another stack frame: see cp__leaves_stack_from_handler() */

/* In rows of kept registers (cp__kept_number() in arch/): where a function has saved each of them, in
 * words from the CFA. */
#define CP__KEPT_MOST 12
#define CP__KEPT_SAME 0
#define CP__KEPT_UNKNOWN INT8_MIN

struct cp__rule {
    union {
        struct {
            int32_t cfa; /* what is added to the register cfa_from */
            int32_t return_value;
            int32_t fp_value;
        };
        int8_t kept[CP__KEPT_MOST];
    };
    uint8_t cfa_from;
    uint8_t return_how; /* enum cp__how, like fp_how */
    uint8_t fp_how;
    uint8_t flags;
};

#define CP__BLOCK_BITS 8
#define CP__RULE_IS_RARE 255

struct cp__row {
    uint8_t at; /* in its block */
    uint8_t rule;
};

struct cp__rare_row {
    uint32_t at; /* from the object's first address on */
    uint32_t rule;
};

struct cp__rows {
    uint32_t n_blocks;
    uint32_t n_rows;
    uint32_t n_rare;
    uint32_t n_rules;
    const uint32_t *index; /* n_blocks + 1 */
    const struct cp__row *rows;
    const struct cp__rare_row *rare;
    const struct cp__rule *rules;
    const uint8_t *expressions; /* each begins with its length, in a byte */
    size_t size;                /* the memory that all of this takes */
    /* Rows that tell where functions save the registers that they keep for their callers. Only objects in
     * which a CFA is computed from such a register have them; for others it is NULL. */
    const struct cp__rows *kept;
};

/* Returns the index of a register among those that callers keep, by its number in call-frame information;
 * CP__KEPT_MOST if it is none of them. */
unsigned cp__kept_index_from_handler(uint64_t number);

/* Returns the rule at an address of the code, counted from the object's first address on. Rule 0, whose
 * cfa_from is CP__CFA_UNKNOWN, is the answer for addresses without information. */
const struct cp__rule *cp__rows_find_from_handler(const struct cp__rows *rows, uintptr_t at);

/* Memory that holds an object's call-frame information. */
struct cp__cfi_source {
    const uint8_t *lo; /* the segment that contains .eh_frame, [lo, hi), or a copy; all of it can be read */
    const uint8_t *hi;
    const uint8_t *debug_lo; /* a copy of .debug_frame; NULL: there is none */
    const uint8_t *debug_hi;
    const uint8_t *header; /* the object's .eh_frame_hdr, or a list that stands for it (functions.h) */
    const uint8_t *header_end;
    uintptr_t code_lo; /* the object's code, [code_lo, code_hi); addresses of rows count from code_lo */
    uintptr_t code_hi;
    uintptr_t moved; /* how far the copy at lo is from its original. If the segment is a copy, code_lo and
                        code_hi are as far from the code. */
    uintptr_t bias;  /* what is added to the addresses in .debug_frame */
    bool may_vanish; /* the code may be unmapped at any time */
};

/* Makes the rows of an object; NULL if the object has no call-frame information that can be understood, the
 * information takes more time or memory than the object's code justifies (*is_over_budget), or there is no
 * memory. Takes memory from the kernel only, calls nothing of the dynamic linker's and no
 * allocator. One thread at a time may call this function. */
const struct cp__rows *cp__rows_make(const struct cp__cfi_source *source, bool *is_over_budget);
/* For the child of a fork: another thread of the parent may have been in cp__rows_make(). */
void cp__rows_after_fork(void);

#endif
