/*
 * Reads the call-frame information of an object: .eh_frame and .debug_frame (entries.h), whose functions
 * .eh_frame_hdr, or a list in its form, lists by address.
 *
 * The entry of a function and the entry that is common to many functions each contain a program. An
 * instruction of a program either changes the rule of a register or goes on to a later address. Only three
 * rules matter here: those of the CFA, of the return address, and of the frame pointer.
 *
 * The information is the work of other compilers and of people, and the dynamic linker's lock is held while
 * it is read. So no byte outside of the source is read, whatever the bytes say, a function whose program is
 * not understood gets rule 0, and every step is paid for out of the draft's budget (draft.h).
 */
#include <string.h>

#include "arch/arch.h"
#include "draft.h"
#include "entries.h"
#include "runtime/base/sys_linux.h"

/* ---- Programs -------------------------------------------------------------------------------- */

#define REMEMBERED 16

struct program {
    struct reader reader;
    const struct cp__cfi_source *source;
    struct cp__draft *draft;
    uint64_t code_align;
    int64_t data_align;
    unsigned address_form;
    bool is_debug; /* the program stands in .debug_frame */
    bool is_first; /* the CIE's program, which has no addresses */
    uint64_t at;   /* the address that the program has come to, from the object's first one on */
    uint64_t end;  /* of the function */
    struct cp__rule rule;
    struct cp__rule initial; /* after the CIE's program */
    struct cp__rule kept;    /* of kept registers; after the CIE's program, none is saved */
    bool was_saved;          /* a row has told that the return address is in memory */
    bool was_restored;       /* a later row has told that the return address is in its register again */
    unsigned n_remembered;
    struct cp__rule remembered[REMEMBERED];
    struct cp__rule remembered_kept[REMEMBERED];
};

static void set_rule(struct program *program, uint64_t reg, enum cp__how how, int64_t value)
{
    if (value != (int32_t)value) {
        how = CP__UNKNOWN;
        value = 0;
    }
    if (reg == CP__RETURN_NUMBER) {
        program->rule.return_how = (uint8_t)how;
        program->rule.return_value = (int32_t)value;
    } else if (reg == CP__FP_NUMBER) {
        program->rule.fp_how = (uint8_t)how;
        program->rule.fp_value = (int32_t)value;
    } else if (reg < CP__LEAVING_REGISTERS && how == CP__AT) {
        program->rule.flags |= CP__RULE_LEAVES;
    } else if (program->draft->is_of_kept) {
        cp__draft_keep(&program->kept, reg, how, value);
    }
}

/* Returns a place in the frame, which programs tell in units of the CIE's data alignment. A product that is
 * too large is as far away as set_rule() and set_cfa() do not go. */
static int64_t scaled(const struct program *program, int64_t units)
{
    int64_t place;

    return __builtin_mul_overflow(units, program->data_align, &place) ? INT64_MAX : place;
}

static void restore_rule(struct program *program, uint64_t reg)
{
    const struct cp__rule *initial = &program->initial;

    if (reg == CP__RETURN_NUMBER)
        set_rule(program, reg, initial->return_how, initial->return_value);
    else if (reg == CP__FP_NUMBER)
        set_rule(program, reg, initial->fp_how, initial->fp_value);
    else
        cp__draft_keep(&program->kept, reg, CP__SAME, 0);
}

static void set_cfa(struct program *program, uint64_t reg, int64_t offset)
{
    bool is_known = reg < CP__CFA_EXPRESSION && offset == (int32_t)offset;

    program->rule.cfa_from = is_known ? (uint8_t)reg : CP__CFA_UNKNOWN;
    program->rule.cfa = is_known ? (int32_t)offset : 0;
}

static int32_t read_expression(struct program *program)
{
    uint64_t size = read_uleb(&program->reader);
    const uint8_t *bytes = skip(&program->reader, size);

    return program->reader.is_bad ? -1 : cp__draft_expression(program->draft, bytes, size);
}

static void set_cfa_expression(struct program *program)
{
    int32_t place = read_expression(program);

    program->rule.cfa_from = place < 0 ? CP__CFA_UNKNOWN : CP__CFA_EXPRESSION;
    program->rule.cfa = place < 0 ? 0 : place;
}

static void set_expression(struct program *program, uint64_t reg)
{
    int32_t place = -1;

    if (reg == CP__RETURN_NUMBER || reg == CP__FP_NUMBER)
        place = read_expression(program);
    else
        skip(&program->reader, read_uleb(&program->reader));
    set_rule(program, reg, place < 0 ? CP__UNKNOWN : CP__AT_ADDRESS, place < 0 ? 0 : place);
}

/* Adds a row with the present rule, and goes on to a later address. */
static void advance(struct program *program, uint64_t delta)
{
    if (program->is_first || program->reader.is_bad)
        return;
    cp__draft_add(program->draft, (uint32_t)program->at,
                  program->draft->is_of_kept ? &program->kept : &program->rule);
    if (program->rule.return_how != CP__SAME)
        program->was_saved = true;
    else if (program->was_saved)
        program->was_restored = true;
    if (delta > (program->end - program->at) / program->code_align)
        program->reader.is_bad = true;
    else
        program->at += delta * program->code_align;
}

static void go_to(struct program *program)
{
    uint64_t to =
        cp__entry_read_place(&program->reader, program->address_form, program->is_debug, program->source);

    if (to < program->at)
        program->reader.is_bad = true;
    else if (!program->is_first)
        advance(program, (to - program->at) / program->code_align);
}

static void remember(struct program *program)
{
    if (program->n_remembered == REMEMBERED) {
        program->reader.is_bad = true;
        return;
    }
    program->remembered_kept[program->n_remembered] = program->kept;
    program->remembered[program->n_remembered++] = program->rule;
}

static void recall(struct program *program)
{
    if (program->n_remembered == 0) {
        program->reader.is_bad = true;
        return;
    }
    program->rule = program->remembered[--program->n_remembered];
    program->kept = program->remembered_kept[program->n_remembered];
}

/* Runs an instruction that concerns one register, whose number comes first. */
static void run_register(struct program *program, unsigned code)
{
    struct reader *reader = &program->reader;
    uint64_t reg = read_uleb(reader);

    switch (code) {
    case DW_CFA_offset_extended:
        set_rule(program, reg, CP__AT, scaled(program, (int64_t)read_uleb(reader)));
        break;
    case DW_CFA_restore_extended:
        restore_rule(program, reg);
        break;
    case DW_CFA_undefined:
        set_rule(program, reg, CP__UNDEFINED, 0);
        break;
    case DW_CFA_same_value:
        set_rule(program, reg, CP__SAME, 0);
        break;
    case DW_CFA_register:
        set_rule(program, reg, CP__IN, (int64_t)read_uleb(reader));
        break;
    case DW_CFA_expression:
        set_expression(program, reg);
        break;
    case DW_CFA_offset_extended_sf:
        set_rule(program, reg, CP__AT, scaled(program, read_sleb(reader)));
        break;
    case DW_CFA_val_offset: /* the register is an address and in no memory */
    case DW_CFA_val_offset_sf:
        read_uleb(reader);
        set_rule(program, reg, CP__UNKNOWN, 0);
        break;
    case DW_CFA_val_expression:
        skip(reader, read_uleb(reader));
        set_rule(program, reg, CP__UNKNOWN, 0);
        break;
    default: /* DW_CFA_GNU_negative_offset_extended */
        set_rule(program, reg, CP__AT, scaled(program, (int64_t)(0 - read_uleb(reader))));
    }
}

static void run_cfa(struct program *program, unsigned code)
{
    struct reader *reader = &program->reader;
    uint64_t reg = program->rule.cfa_from;

    switch (code) {
    case DW_CFA_def_cfa:
        reg = read_uleb(reader);
        set_cfa(program, reg, (int64_t)read_uleb(reader));
        break;
    case DW_CFA_def_cfa_register:
        set_cfa(program, read_uleb(reader), program->rule.cfa);
        break;
    case DW_CFA_def_cfa_offset:
        set_cfa(program, reg, (int64_t)read_uleb(reader));
        break;
    case DW_CFA_def_cfa_expression:
        set_cfa_expression(program);
        break;
    case DW_CFA_def_cfa_sf:
        reg = read_uleb(reader);
        set_cfa(program, reg, scaled(program, read_sleb(reader)));
        break;
    default: /* DW_CFA_def_cfa_offset_sf */
        set_cfa(program, reg, scaled(program, read_sleb(reader)));
    }
}

static void run_other(struct program *program, unsigned code)
{
    struct reader *reader = &program->reader;

    switch (code) {
    case DW_CFA_nop:
    case DW_CFA_AARCH64_negate_ra_state: /* a signature is removed wherever one may be */
        break;
    case DW_CFA_set_loc:
        go_to(program);
        break;
    case DW_CFA_advance_loc1:
        advance(program, read_fixed(reader, 1));
        break;
    case DW_CFA_advance_loc2:
        advance(program, read_fixed(reader, 2));
        break;
    case DW_CFA_advance_loc4:
        advance(program, read_fixed(reader, 4));
        break;
    case DW_CFA_remember_state:
        remember(program);
        break;
    case DW_CFA_restore_state:
        recall(program);
        break;
    case DW_CFA_GNU_args_size:
        read_uleb(reader);
        break;
    case DW_CFA_def_cfa ... DW_CFA_def_cfa_expression:
    case DW_CFA_def_cfa_sf ... DW_CFA_def_cfa_offset_sf:
        run_cfa(program, code);
        break;
    case DW_CFA_offset_extended ... DW_CFA_register:
    case DW_CFA_expression ... DW_CFA_offset_extended_sf:
    case DW_CFA_val_offset ... DW_CFA_val_expression:
    case DW_CFA_GNU_negative_offset_extended:
        run_register(program, code);
        break;
    default:
        reader->is_bad = true;
    }
}

static void run_program(struct program *program)
{
    struct reader *reader = &program->reader;

    while (reader->at < reader->end && !reader->is_bad && cp__draft_spend(program->draft, 1)) {
        unsigned code = (unsigned)read_fixed(reader, 1), low = code & 0x3f;

        switch (code & 0xc0) {
        case DW_CFA_advance_loc:
            advance(program, low);
            break;
        case DW_CFA_offset:
            set_rule(program, low, CP__AT, scaled(program, (int64_t)read_uleb(reader)));
            break;
        case DW_CFA_restore:
            restore_rule(program, low);
            break;
        default:
            run_other(program, code);
        }
    }
}

/* ---- Entries --------------------------------------------------------------------------------- */

/* What a CIE says. */
struct common {
    const uint8_t *at;
    bool is_bad;
    bool has_data; /* the FDEs have data whose size they tell */
    struct program program;
};

static void read_common(struct common *common, const uint8_t *at, const struct cp__cfi_source *source,
                        struct cp__draft *draft)
{
    struct program *program = &common->program;
    struct cp__entry entry = cp__entry_open(source, at);
    struct cp__cie cie;

    common->at = at;
    common->is_bad = !cp__entry_read_cie(&entry, &cie) || cie.return_register != CP__RETURN_NUMBER;
    if (common->is_bad)
        return;
    common->has_data = cie.has_data;
    *program = (struct program){.reader = entry.reader,
                                .source = source,
                                .draft = draft,
                                .code_align = cie.code_align,
                                .data_align = cie.data_align,
                                .address_form = cie.address_form,
                                .is_debug = entry.is_debug,
                                .is_first = true};
    program->rule.cfa_from = CP__CFA_UNKNOWN;
    program->rule.flags = cie.is_of_signal ? CP__RULE_SIGNAL : 0;
    run_program(program);
    common->is_bad = program->reader.is_bad;
    program->initial = program->rule;
    program->is_first = false;
    program->n_remembered = 0;
}

/* The functions that have been read. */
struct functions {
    struct common commons[64]; /* by their addresses; few objects have more than ten CIEs */
    uint64_t end;              /* of the last function, from the object's first address on */
};

/* Returns what the CIE at `at` says. A CIE is read once, unless others have its place. */
static const struct common *find_common(struct functions *functions, const uint8_t *at,
                                        const struct cp__cfi_source *source, struct cp__draft *draft)
{
    const size_t n = sizeof functions->commons / sizeof functions->commons[0];
    struct common *common = &functions->commons[(uintptr_t)at / 4 % n];

    if (common->at != at)
        read_common(common, at, source, draft);
    return common;
}

/* Code between two functions that is shorter than this fills up to the next function's alignment and never
 * runs. It gets the rule of the code before it, which saves a row. */
#define FILLING 16

static void begin_function(struct functions *functions, struct cp__draft *draft, uint64_t start)
{
    if (functions->end != 0 && start - functions->end >= FILLING)
        cp__draft_add(draft, (uint32_t)functions->end, NULL);
}

/* Reads the first bytes of a function. */
static bool read_code(const struct cp__cfi_source *source, uint64_t lo, uint8_t *code, size_t size)
{
    const uintptr_t at = source->code_lo - source->moved + lo;

    if (source->may_vanish)
        return cp__sys_copy_from_handler(code, at, size);
    if (!cp__sys_can_read_from_handler(at, size))
        return false;
    memcpy(code, (const void *)at, size);
    return true;
}

/* Returns whether a function's information is said to hold throughout, although the function begins with a
 * push: the C library's multiplications of long numbers do. The code ahead tells their callers. */
static bool is_careless(const struct program *program, uint64_t lo, uint32_t n_rows)
{
    uint8_t code[4];

    return n_rows == 1 && program->end - lo >= sizeof code &&
           read_code(program->source, lo, code, sizeof code) && cp__begins_with_push(code);
}

/* Adds the rows of one function, from lo to hi. */
static void add_rows(struct functions *functions, const struct common *common, const struct reader *reader,
                     uint64_t lo, uint64_t hi, struct cp__draft *draft)
{
    struct program program = common->program;
    uint32_t first;

    begin_function(functions, draft, lo);
    functions->end = hi;
    first = draft->n;
    program.reader = *reader;
    program.at = lo;
    program.end = hi;
    run_program(&program);
    advance(&program, 0);
    if (program.reader.is_bad || is_careless(&program, lo, draft->n - first)) {
        draft->n = first;
        cp__draft_add(draft, (uint32_t)lo, NULL);
    } else if (program.was_saved && !program.was_restored && program.initial.return_how == CP__SAME) {
        cp__draft_flag(draft, first, CP__RULE_CALLS_ONLY);
    }
}

/* Reads the FDE at `at`. Returns false if the entry has another form than expected. */
static bool read_function(struct functions *functions, const uint8_t *at, const struct cp__cfi_source *source,
                          struct cp__draft *draft)
{
    struct cp__entry entry = cp__entry_open(source, at);
    struct reader *reader = &entry.reader;
    const struct common *common;
    unsigned form;
    uint64_t lo, size;

    if (reader->is_bad || entry.cie == NULL)
        return false;
    common = find_common(functions, entry.cie, source, draft);
    if (common->is_bad)
        return false;
    form = common->program.address_form;
    lo = cp__entry_read_place(reader, form, entry.is_debug, source);
    size = read_address(reader, form & FORM, NULL);
    if (common->has_data)
        skip(reader, read_uleb(reader));
    if (reader->is_bad)
        return false;
    /* code that the linker has dropped, or that is described twice */
    if (lo < functions->end || size == 0 || lo > source->code_hi - source->code_lo ||
        size > source->code_hi - source->code_lo - lo)
        return true;
    add_rows(functions, common, reader, lo, lo + size, draft);
    return true;
}

bool cp__cfi_read(const struct cp__cfi_source *source, struct cp__draft *draft)
{
    struct reader reader = {.at = source->header, .end = source->header_end};
    static struct functions functions; /* too large for a stack; one thread at a time uses it */
    unsigned frame_form, count_form, table_form;
    uint64_t n;

    memset(&functions, 0, sizeof functions);
    if (read_fixed(&reader, 1) != 1)
        return false;
    frame_form = (unsigned)read_fixed(&reader, 1);
    count_form = (unsigned)read_fixed(&reader, 1);
    table_form = (unsigned)read_fixed(&reader, 1);
    if (frame_form == DW_EH_PE_omit || count_form == DW_EH_PE_omit || table_form == DW_EH_PE_omit)
        return false;
    read_address(&reader, frame_form, source->header);
    n = read_address(&reader, count_form, source->header);
    for (; n > 0 && !reader.is_bad && !draft->is_short_of_memory && cp__draft_spend(draft, 1); n--) {
        read_address(&reader, table_form, source->header);
        if (!read_function(&functions, (const uint8_t *)read_address(&reader, table_form, source->header),
                           source, draft))
            return false;
    }
    if (functions.end != 0)
        cp__draft_add(draft, (uint32_t)functions.end, NULL);
    return !reader.is_bad && !draft->is_short_of_memory && !draft->is_over_budget;
}
