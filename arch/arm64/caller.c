/*
 * Finds the caller of interrupted code if the frame pointer cannot tell the caller: in a function's first and
 * last instructions, and in functions without a frame (gcc makes no frame for leaf functions, unless an
 * option asks for one).
 *
 * A call leaves the return address in the link register, x30. A function that calls others stores x30
 * together with the caller's frame pointer, as a frame record, and loads both again before it returns. The
 * code ahead tells which of the two places holds the return address now. So cp__caller_from_handler() reads
 * on, instruction by instruction, and tracks the stack pointer, the frame pointer and the link register. The
 * choice of branches does not matter, because every way out of the function restores the same registers. A
 * walk meets one of these:
 *
 *     ret                   The tracked registers are those of the call.
 *     stp x29,x30,[sp...]   The function makes its frame record. The registers are still those of the call.
 *     mov x29,sp            The frame record is stored and x29 does not point at it yet. The registers are
 *                           still those of the call.
 *     an instruction that   A call or a system call, which may never return; an indirect jump. The walk
 *     cannot be followed    returns to the last conditional jump that it passed, and takes the jump. The walk
 *                           also does so at the end of a loop.
 *
 * If no jump is left to take, or after STEPS instructions, the caller is unknown. In code that keeps frame
 * pointers, the function has made its frame by then, because a function makes its frame before it calls
 * another one.
 *
 * By the procedure call standard, a function restores x29 before it returns, and it needs its original x30 to
 * return. So a function changes x29 and x30 only after it has stored them, and loads them from the stack
 * later. The walk follows only these loads, and ignores every other write to x29 and x30.
 */
#include "arch/arch.h"

#include <stddef.h>

/* STEPS is enough for the way out of most functions that call nothing. A step takes a few ns. */
#define STEPS 96
#define FORKS 8
#define WORD sizeof(uintptr_t)

/* Register numbers. 31 means the stack pointer in operands that can be the stack pointer. */
enum { IP0 = 16, IP1 = 17, FP = 29, LR = 30, SP = 31 };

/* A position of the walk, with the values that the registers will have there. */
struct state {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;
    uintptr_t lr;
    bool knows_lr; /* false behind a call, until x30 is loaded */
    bool knows_sp; /* false after sp was realigned, or set from a register that the walk does not track */
};

/* A conditional jump that the walk has passed without taking it. */
struct fork {
    uintptr_t passed; /* the address after the conditional jump */
    bool is_taken;
    struct state state; /* the state at the jump's target */
};

struct walk {
    struct state at;
    uintptr_t floor; /* the stack pointer at the start; below it, what will be stored is not there yet */
    uintptr_t hi;
    struct cp__registers *caller;
    bool found_sp; /* caller->sp is the caller's stack pointer; behind a record's end the frame may go on */
    struct cp__text text;
    bool has_call; /* one of the ways leads to a call */
    unsigned fork_count;
    struct fork forks[FORKS];
};

enum outcome { GOES_ON, FOUND, LOST };

/* Reads a word of the stack. The stack holds frames of other functions, and a sanitizer may have fenced parts
 * of these frames. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static uintptr_t read_word(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

/* Reads the word at an address of the stack into *value. Returns false if the address is outside the known
 * stack. */
static bool load(const struct walk *walk, uintptr_t address, uintptr_t *value)
{
    if (address < walk->floor || address % WORD != 0 || address >= walk->hi || walk->hi - address < WORD)
        return false;
    *value = read_word(address);
    return true;
}

/* ---- Fields of an instruction ---------------------------------------------------------------- */

/* Returns the bits of an instruction from lowest on, width bits wide. */
static unsigned field(uint32_t in, unsigned lowest, unsigned width)
{
    return in >> lowest & ((1u << width) - 1);
}

static intptr_t signed_field(uint32_t in, unsigned lowest, unsigned width)
{
    return (int32_t)(in << (32 - lowest - width)) >> (32 - width);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Ends the walk: the tracked registers are the caller's, except the stack pointer. If knows_sp, the caller's
 * stack pointer is sp. Else only a lower bound is known: it is not below the function's own stack pointer. */
static enum outcome finish_walk(struct walk *walk, bool knows_sp, uintptr_t sp)
{
    /* a call that has not returned has taken the link register, and nothing has loaded it again */
    if (!walk->at.knows_lr || (knows_sp && (sp < walk->floor || sp > walk->hi)))
        return LOST;
    *walk->caller = (struct cp__registers){.pc = cp__code_address_from_handler(walk->at.lr),
                                           .sp = knows_sp ? sp : walk->floor,
                                           .fp = walk->at.fp};
    return FOUND;
}

/* Handles an instruction that makes x29 point at address. If the frame record there holds the tracked
 * registers, the function has just made its frame. */
static enum outcome make_frame(struct walk *walk, uintptr_t address)
{
    uintptr_t fp, lr;

    if (walk->at.knows_sp && load(walk, address, &fp) && load(walk, address + WORD, &lr) &&
        fp == walk->at.fp && lr == walk->at.lr)
        return finish_walk(walk, true, address + 2 * WORD);
    walk->at.fp = address;
    return GOES_ON;
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */

/* Handles add and sub of a constant, and mov between sp and another register. */
static enum outcome add_constant(struct walk *walk, uint32_t in)
{
    unsigned to = field(in, 0, 5), from = field(in, 5, 5);
    uintptr_t constant = (uintptr_t)field(in, 10, 12) << (field(in, 22, 1) != 0 ? 12 : 0);
    uintptr_t sum = from == FP ? walk->at.fp : walk->at.sp;

    sum += field(in, 30, 1) != 0 ? -constant : constant;
    if (to == FP && from == SP)
        return make_frame(walk, sum);
    if (to != SP)
        return GOES_ON;
    walk->at.knows_sp = field(in, 31, 1) != 0 && (from == FP || (from == SP && walk->at.knows_sp));
    walk->at.sp = sum;
    return GOES_ON;
}

/* Handles arithmetic. The walk needs to know only what becomes of sp and x29. */
static enum outcome compute(struct walk *walk, uint32_t in)
{
    if ((in & 0x3f800000) == 0x11000000)
        return add_constant(walk, in);
    /* and, orr, eor of a constant; add and sub with a tag; add and sub of an extended register */
    if (field(in, 0, 5) == SP && (((in & 0x1f800000) == 0x12000000 && field(in, 29, 2) != 3) ||
                                  (in & 0x3f800000) == 0x11800000 || (in & 0x3fe00000) == 0x0b200000))
        walk->at.knows_sp = false;
    return GOES_ON;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* A load or a store. Its address is base + offset, or base if the instruction moves base afterwards. */
struct access {
    unsigned base;
    intptr_t offset;
    bool moves_before; /* base becomes base + offset before the access */
    bool moves_behind;
    bool is_load;
    unsigned words;  /* how many words of 64 bits are accessed; 0 for parts of words and vectors */
    unsigned reg[2]; /* the registers that are loaded or stored */
};

/* Decodes a load or a store of two registers. */
static struct access pair(uint32_t in)
{
    unsigned opc = field(in, 30, 2);
    bool is_vector = field(in, 26, 1) != 0;
    unsigned size = is_vector ? 4u << opc : opc == 0 || opc == 1 ? 4 : 8;

    if (!is_vector && opc == 1 && field(in, 22, 1) == 0)
        size = 16; /* a store with a memory tag */
    return (struct access){.base = field(in, 5, 5),
                           .offset = signed_field(in, 15, 7) * (intptr_t)size,
                           .moves_before = field(in, 23, 2) == 3,
                           .moves_behind = field(in, 23, 2) == 1,
                           .is_load = field(in, 22, 1) != 0,
                           .words = !is_vector && opc == 2 ? 2 : 0,
                           .reg = {field(in, 0, 5), field(in, 10, 5)}};
}

/* Decodes a load or a store of one register. Its offset has 9 bits and a sign, or 12 bits in units of the
 * access's size. */
static struct access single(uint32_t in)
{
    bool is_scaled = field(in, 24, 1) != 0;
    bool is_word = field(in, 30, 2) == 3 && field(in, 26, 1) == 0 && field(in, 23, 1) == 0;

    return (struct access){.base = field(in, 5, 5),
                           .offset = is_scaled ? (intptr_t)field(in, 10, 12) * (intptr_t)WORD
                                               : signed_field(in, 12, 9),
                           .moves_before = !is_scaled && field(in, 10, 2) == 3,
                           .moves_behind = !is_scaled && field(in, 10, 2) == 1,
                           .is_load = field(in, 22, 1) != 0,
                           .words = is_word ? 1 : 0,
                           .reg = {field(in, 0, 5)}};
}

/* Returns whether a store saves x29 and x30 as a frame record, or saves x30 alone and moves the stack pointer
 * for it. Such a store saves the caller's values. */
static bool makes_record(const struct access *access)
{
    if (access->is_load || access->base != SP)
        return false;
    if (access->words == 2 && access->reg[0] == FP && access->reg[1] == LR)
        return true;
    for (unsigned i = 0; i < access->words; i++)
        if (access->reg[i] == LR && access->moves_before)
            return true;
    return false;
}

/* Follows a load of x29 or x30 from the stack. The walk is lost if the address or the word there is
 * unknown. */
static enum outcome take_register_back(struct walk *walk, const struct access *access, uintptr_t address,
                                       bool knows_address)
{
    for (unsigned i = 0; i < access->words; i++) {
        uintptr_t *reg = access->reg[i] == FP ? &walk->at.fp : access->reg[i] == LR ? &walk->at.lr : NULL;

        if (reg != NULL && !(knows_address && load(walk, address + i * WORD, reg)))
            return LOST;
        walk->at.knows_lr |= reg == &walk->at.lr;
    }
    return GOES_ON;
}

static enum outcome access_memory(struct walk *walk, const struct access *access)
{
    uintptr_t base = access->base == SP ? walk->at.sp : walk->at.fp;
    uintptr_t moved = base + (uintptr_t)access->offset;
    bool knows_base = access->base == SP ? walk->at.knows_sp : access->base == FP;

    if (makes_record(access))
        return finish_walk(walk, knows_base && access->moves_before && base >= walk->floor, base);
    if (access->base == SP && (access->moves_before || access->moves_behind))
        walk->at.sp = moved;
    if (!access->is_load || (access->base != SP && access->base != FP))
        return GOES_ON;
    return take_register_back(walk, access, access->moves_behind ? base : moved, knows_base);
}

static enum outcome load_or_store(struct walk *walk, uint32_t in)
{
    struct access access;

    if ((in & 0x3a000000) == 0x28000000) {
        access = pair(in);
        return access_memory(walk, &access);
    }
    if ((in & 0x3b000000) == 0x39000000 || (in & 0x3b200000) == 0x38000000) {
        access = single(in);
        return access_memory(walk, &access);
    }
    /* loads and stores of several vectors, or of tags, that move the base register */
    if (field(in, 5, 5) == SP &&
        ((in & 0xbe800000) == 0x0c800000 || ((in & 0xff200000) == 0xd9200000 && field(in, 10, 1) != 0)))
        walk->at.knows_sp = false;
    return GOES_ON;
}

/* ---- Ways ------------------------------------------------------------------------------------ */

/* Remembers a conditional jump's target, once for each jump. */
static enum outcome pass_jump(struct walk *walk, intptr_t words)
{
    for (unsigned i = 0; i < walk->fork_count; i++) {
        if (walk->forks[i].passed == walk->at.pc)
            return GOES_ON;
    }
    if (walk->fork_count < FORKS) {
        struct fork *fork = &walk->forks[walk->fork_count++];

        *fork = (struct fork){.passed = walk->at.pc, .state = walk->at};
        fork->state.pc += (uintptr_t)words * 4 - 4;
    }
    return GOES_ON;
}

/* Returns to the last conditional jump whose target the walk has not visited. */
static bool take_fork(struct walk *walk)
{
    for (unsigned i = walk->fork_count; i-- > 0;) {
        if (!walk->forks[i].is_taken) {
            walk->forks[i].is_taken = true;
            walk->at = walk->forks[i].state;
            return true;
        }
    }
    return false;
}

/* Handles an unconditional jump. A jump backward may close a loop, so the walk takes another branch if one is
 * left. */
static enum outcome jump(struct walk *walk, intptr_t words)
{
    if (words < 0 && take_fork(walk))
        return GOES_ON;
    walk->at.pc += (uintptr_t)words * 4 - 4;
    return GOES_ON;
}

/*
 * Returns whether a jump through x16 or x17 belongs to a linker's stub. Programs call distant functions, and
 * functions of other objects, through such stubs. A stub ends in one of these forms:
 *
 *     ldr x17,[x16,#]; add x16,x16,#; br x17
 *     adrp x16,#; add x16,x16,#; br x16
 *
 * A function's own jump through a pointer tells nothing. A stub has changed no register that the walk tracks.
 */
static bool is_stub(const uint32_t *jump, unsigned reg)
{
    if ((uintptr_t)jump % 4096 < 2 * sizeof *jump)
        return false; /* the page before may not be mapped */
    if ((jump[-1] & 0xffc003ff) != 0x91000210)
        return false;
    return reg == IP1 ? (jump[-2] & 0xffc003ff) == 0xf9400211 : (jump[-2] & 0x9f00001f) == 0x90000010;
}

/* Handles ret and br. A ret, and the br of a linker's stub, end the walk. */
static enum outcome jump_indirect(struct walk *walk, uint32_t in)
{
    unsigned reg = field(in, 5, 5);
    bool is_ret = (in & 0xfffffc1f) == 0xd65f0000 && reg == LR;
    bool is_authenticated_ret = (in & 0xfffffbff) == 0xd65f0bff;
    bool is_br = (in & 0xfffffc1f) == 0xd61f0000 && (reg == IP0 || reg == IP1);

    if (is_ret || is_authenticated_ret || (is_br && is_stub((const uint32_t *)walk->at.pc - 1, reg))) {
        walk->found_sp = walk->at.knows_sp && !is_br; /* the linker's first stub has pushed two words */
        return finish_walk(walk, walk->at.knows_sp, walk->at.sp);
    }
    return LOST;
}

static enum outcome branch(struct walk *walk, uint32_t in)
{
    walk->has_call |= (in & 0xfc000000) == 0x94000000 || (in & 0xfffffc1f) == 0xd63f0000; /* bl, blr */
    if ((in & 0xff000000) == 0x54000000 || (in & 0x7e000000) == 0x34000000) /* b.cond; cbz, cbnz */
        return pass_jump(walk, signed_field(in, 5, 19));
    if ((in & 0x7e000000) == 0x36000000) /* tbz, tbnz */
        return pass_jump(walk, signed_field(in, 5, 14));
    if ((in & 0xfc000000) == 0x14000000) /* b */
        return jump(walk, signed_field(in, 0, 26));
    if ((in & 0xfe000000) == 0xd6000000)
        return jump_indirect(walk, in);
    return (in & 0xff000000) == 0xd5000000 ? GOES_ON : LOST; /* hints, barriers, system registers */
}

/* Follows one instruction. */
static enum outcome step(struct walk *walk, uint32_t in)
{
    walk->at.pc += sizeof in;
    if (in < 0x10000) /* udf */
        return LOST;
    if ((in & 0x1c000000) == 0x14000000)
        return branch(walk, in);
    if ((in & 0x0a000000) == 0x08000000)
        return load_or_store(walk, in);
    return compute(walk, in);
}

enum cp__caller cp__caller_from_handler(const struct cp__registers *regs, uintptr_t hi, cp__text_fn *text_at,
                                        struct cp__registers *caller)
{
    struct walk walk;
    enum outcome outcome = GOES_ON;

    if (regs->pc % sizeof(uint32_t) != 0)
        return CP__CALLER_UNKNOWN;
    walk.at = (struct state){.pc = regs->pc,
                             .sp = regs->sp,
                             .fp = regs->fp,
                             .lr = regs->lr,
                             .knows_lr = regs->lr != 0 || regs->machine != NULL,
                             .knows_sp = true};
    walk.floor = regs->sp;
    walk.hi = hi;
    walk.caller = caller;
    walk.text = (struct cp__text){.at_from_handler = text_at};
    walk.fork_count = 0;
    walk.found_sp = false;
    walk.has_call = false;
    for (int steps = 0; outcome == GOES_ON && steps < STEPS; steps++) {
        outcome = cp__text_has_from_handler(&walk.text, walk.at.pc, sizeof(uint32_t))
                      ? step(&walk, *(const uint32_t *)walk.at.pc)
                      : LOST;
        if (outcome == LOST && take_fork(&walk))
            outcome = GOES_ON;
    }
    if (outcome != FOUND)
        return walk.has_call ? CP__CALLER_STORED : CP__CALLER_UNKNOWN;
    return walk.found_sp ? CP__CALLER_FOUND : CP__CALLER_FOUND_ABOVE;
}

bool cp__may_be_behind_call_from_handler(uintptr_t pc, cp__text_fn *text_at)
{
    const uintptr_t before = pc - sizeof(uint32_t);
    struct cp__text text = {.at_from_handler = text_at};
    uint32_t in;

    if (pc % sizeof in != 0 || !cp__text_has_from_handler(&text, before, sizeof in))
        return true;
    in = *(const uint32_t *)before;
    return (in & 0xfc000000) == 0x94000000 || (in & 0xfefff000) == 0xd63f0000; /* bl; blr, with keys, too */
}

/* Follows the code without branches. Such a function leaves by adding a register to the stack pointer, behind
 * its last call, which tells a debugger. */
bool cp__leaves_stack_from_handler(uintptr_t pc, cp__text_fn *text_at)
{
    struct cp__text text = {.at_from_handler = text_at};
    int calls = 0;

    for (int steps = 0; steps < STEPS && pc % sizeof(uint32_t) == 0; steps++) {
        uint32_t in;

        if (!cp__text_has_from_handler(&text, pc, sizeof in))
            return false;
        in = *(const uint32_t *)pc;
        pc += sizeof in;
        if ((in & 0xfc000000) == 0x94000000 && calls++ > 0) /* bl */
            return false;
        if ((in & 0xffe003ff) == 0x8b2003ff) /* add sp,sp,x */
            return true;
        if ((in & 0xfc000000) == 0x14000000) /* b */
            pc += (uintptr_t)signed_field(in, 0, 26) * 4 - 4;
    }
    return false;
}

struct cp__switch cp__find_switch(uintptr_t function, cp__text_fn *text_at)
{
    (void)function;
    (void)text_at;
    return (struct cp__switch){.loaded = 0};
}
