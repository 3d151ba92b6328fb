/*
 * Finds the caller of interrupted code if the frame pointer cannot tell the caller: in a function's first and
 * last instructions, and in functions without a frame (gcc makes no frame for leaf functions, whatever the
 * flags are).
 *
 * The code ahead tells where the return address is: the program will reach a ret, and at that ret the stack
 * pointer points at the return address. So cp__caller_from_handler() reads on, instruction by instruction,
 * and tracks the stack pointer and the frame pointer. The choice of branches does not matter, because every
 * way out of the function restores the same stack. A walk meets one of these:
 *
 *     ret                    The return address is on top of the stack. The tracked frame pointer is the
 *                            caller's.
 *     mov %rsp,%rbp          The function makes its frame. The caller's frame pointer is on top of the stack,
 *                            and the return address lies above the frame pointer.
 *     an instruction that    A call or a system call, which may never return; most indirect jumps; a stack
 *     cannot be followed     pointer loaded from elsewhere. The walk returns to the last conditional jump
 *                            that it passed, and takes the jump. The walk also does so at the end of a
 *                            loop.
 *
 * If no jump is left to take, or after STEPS instructions, the caller is unknown. In code that keeps frame
 * pointers, the function has made its frame by then, because a function makes its frame before it calls
 * another one.
 *
 * By the ABI, a function restores rbp before it returns, by pop, leave or a mov from memory. The walk ignores
 * every other use of rbp.
 */
#include "arch/arch.h"
#include "decode.h"

/* A step takes a few ns. STEPS is enough for the way out of most functions that call nothing, unrolled
 * digests included. Behind calls, of which a stack has many, fewer must do. */
#define STEPS 2048
#define STEPS_BEHIND_CALL 256
#define FORKS 8
#define LOOPS 4
#define WORD sizeof(uintptr_t)

/* A position of the walk, with the values that the registers will have there. */
struct state {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;
    uintptr_t pushed_at; /* the address at which the frame pointer will have been pushed; 0: not pushed */
    uintptr_t pushed;
};

/* A conditional jump that the walk has passed without taking it. */
struct fork {
    uintptr_t passed; /* the address after the conditional jump */
    bool is_taken;
    struct state state; /* the state at the jump's target */
};

#define UNKNOWN_SUM (CP__NO_REGISTER + 1)

struct walk {
    struct state at;
    uintptr_t floor; /* the stack pointer at the start; below it, what will be pushed is not stored yet */
    uintptr_t hi;
    struct cp__registers *caller;
    struct cp__text text;
    /* the register that the instruction before has added another one to; UNKNOWN_SUM at the first one */
    unsigned summed;
    bool used_a_table; /* the walk went on behind a jump through a table */
    unsigned loops;    /* jumps backward that were followed */
    unsigned fork_count;
    struct fork forks[FORKS];
};

enum outcome { GOES_ON, FOUND, LOST, NEVER };

/* Reads a word of the stack. The stack holds frames of other functions, and a sanitizer may have fenced parts
 * of these frames. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static uintptr_t read_word(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

/* Finds the word that the stack will hold at address when the program has come to the walk's position.
 * Returns false if the word is unknown. */
static bool load(const struct walk *walk, uintptr_t address, uintptr_t *value)
{
    if (address == walk->at.pushed_at) {
        *value = walk->at.pushed;
        return address != 0;
    }
    if (address < walk->floor || address % WORD != 0 || address >= walk->hi || walk->hi - address < WORD)
        return false;
    *value = read_word(address);
    return true;
}

/* ---- Instructions ---------------------------------------------------------------------------- */

/* Returns whether a call ends at pc: a call by a distance, or one through a register or memory, whose second
 * byte tells its length. */
static bool is_behind_call(struct cp__text *text, uintptr_t pc)
{
    const uint8_t *end = (const uint8_t *)pc;

    if (!cp__text_has_from_handler(text, pc - 7, 7))
        return false;
    if (end[-5] == 0xe8)
        return true;
    for (int size = 2; size <= 7; size++) {
        unsigned kind = end[-size + 1] >> 3 & 7;

        if (end[-size] == 0xff && kind == 2)
            return true;
    }
    return false;
}

/* Handles a ret: the return address is on top of the stack. */
static enum outcome finish_walk(struct walk *walk)
{
    *walk->caller = (struct cp__registers){.sp = walk->at.sp + WORD, .fp = walk->at.fp};
    if (!load(walk, walk->at.sp, &walk->caller->pc))
        return LOST;
    return !walk->used_a_table || is_behind_call(&walk->text, walk->caller->pc) ? FOUND : LOST;
}

/* Handles a call, which may never return. Only the first code of a program, or of a green thread, halts
 * behind a call. */
static enum outcome call(const struct walk *walk, const struct cp__instruction *in)
{
    bool is_only_way = walk->fork_count == 0;

    return is_only_way && walk->text.hi > (uintptr_t)in->end && *in->end == 0xf4 ? NEVER : LOST;
}

/* Handles `mov %rsp,%rbp`. If the caller's frame pointer is on top of the stack, the function is making its
 * frame. */
static enum outcome make_frame(struct walk *walk)
{
    uintptr_t saved;

    if (!load(walk, walk->at.sp, &saved) || saved != walk->at.fp) {
        walk->at.fp = walk->at.sp; /* no frame, only a copy */
        return GOES_ON;
    }
    *walk->caller = (struct cp__registers){.sp = walk->at.sp + 2 * WORD, .fp = saved};
    return load(walk, walk->at.sp + WORD, &walk->caller->pc) ? FOUND : LOST;
}

/* Handles `leave`: restores rsp and rbp from the frame. */
static enum outcome leave_frame(struct walk *walk)
{
    walk->at.sp = walk->at.fp + WORD;
    return load(walk, walk->at.fp, &walk->at.fp) ? GOES_ON : LOST;
}

static enum outcome push(struct walk *walk, unsigned reg)
{
    walk->at.sp -= WORD;
    if (reg == CP__FP) {
        walk->at.pushed_at = walk->at.sp;
        walk->at.pushed = walk->at.fp;
    }
    return GOES_ON;
}

static enum outcome pop(struct walk *walk, unsigned reg)
{
    walk->at.sp += WORD;
    if (reg == CP__FP)
        return load(walk, walk->at.sp - WORD, &walk->at.fp) ? GOES_ON : LOST;
    if (reg == CP__SP) /* code that aligns its stack has stored the old stack pointer there */
        return load(walk, walk->at.sp - WORD, &walk->at.sp) ? GOES_ON : LOST;
    return GOES_ON;
}

/* Handles add, sub, and, cmp and similar operations with a constant. */
static enum outcome add_constant(struct walk *walk, const struct cp__instruction *in)
{
    uintptr_t constant = (uintptr_t)(intptr_t)in->immediate;

    if (in->mod != 3 || in->rm != CP__SP || in->group == 7)
        return GOES_ON;
    if ((in->rex & CP__REX_W) == 0 || (in->group != 0 && in->group != 4 && in->group != 5))
        return LOST;
    if (in->group == 4)
        walk->at.sp &= constant;
    else
        walk->at.sp += in->group == 0 ? constant : -constant;
    return GOES_ON;
}

/* Handles `lea`, as far as rsp and rbp are concerned. */
static enum outcome load_address(struct walk *walk, const struct cp__instruction *in)
{
    uintptr_t address = (in->base == CP__SP ? walk->at.sp : walk->at.fp) + (uintptr_t)(intptr_t)in->disp;

    if (in->base != CP__SP && in->base != CP__FP)
        return in->reg == CP__SP ? LOST : GOES_ON;
    if (in->reg == CP__SP)
        walk->at.sp = address;
    if (in->reg == CP__FP)
        walk->at.fp = address;
    return GOES_ON;
}

/* Handles a mov between two registers. */
static enum outcome move(struct walk *walk, unsigned to, unsigned from)
{
    if (to == CP__FP && from == CP__SP)
        return make_frame(walk);
    if (to != CP__SP)
        return GOES_ON;
    walk->at.sp = walk->at.fp;
    return from == CP__FP ? GOES_ON : LOST;
}

/* Handles a mov from memory to a register. Only a load of rbp from the stack is followed. */
static enum outcome move_from_memory(struct walk *walk, const struct cp__instruction *in)
{
    if (in->reg == CP__FP && in->base == CP__SP)
        return load(walk, walk->at.sp + (uintptr_t)(intptr_t)in->disp, &walk->at.fp) ? GOES_ON : LOST;
    return in->reg == CP__SP ? LOST : GOES_ON;
}

/* Handles the remaining instructions: the walk is lost if one of them sets the stack pointer. Opcodes whose
 * operands have more than 8 bits are odd. */
static enum outcome other(const struct cp__instruction *in)
{
    bool rm_is_sp = in->mod == 3 && in->rm == CP__SP;

    switch (in->opcode) {
    case 0x39: /* cmp, test */
    case 0x3b:
    case 0x85:
        return GOES_ON;
    case 0x63: /* movslq, imul */
    case 0x69:
    case 0x6b:
        return in->reg == CP__SP ? LOST : GOES_ON;
    case 0x87: /* xchg */
        return in->reg == CP__SP || rm_is_sp ? LOST : GOES_ON;
    case 0x94: /* xchg with rax, mov of a constant */
    case 0xbc:
        return rm_is_sp ? LOST : GOES_ON;
    default:
        if (in->opcode < 0x40 && in->opcode % 8 == 3) /* add and similar operations, into reg */
            return in->reg == CP__SP ? LOST : GOES_ON;
        return in->opcode < 0x100 && in->opcode % 2 == 1 && rm_is_sp ? LOST : GOES_ON;
    }
}

/* ---- Ways ------------------------------------------------------------------------------------ */

/* Remembers a conditional jump's target, once for each jump. */
static enum outcome pass_jump(struct walk *walk, const struct cp__instruction *in)
{
    for (unsigned i = 0; i < walk->fork_count; i++) {
        if (walk->forks[i].passed == walk->at.pc)
            return GOES_ON;
    }
    if (walk->fork_count < FORKS) {
        struct fork *fork = &walk->forks[walk->fork_count++];

        *fork = (struct fork){.passed = walk->at.pc, .state = walk->at};
        fork->state.pc += (uintptr_t)(intptr_t)in->immediate;
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
static enum outcome jump(struct walk *walk, const struct cp__instruction *in)
{
    if (in->immediate < 0) {
        if (take_fork(walk))
            return GOES_ON;
        if (walk->loops++ == LOOPS)
            return LOST;
    }
    walk->at.pc += (uintptr_t)(intptr_t)in->immediate;
    return GOES_ON;
}

/*
 * Returns whether a jump through a pointer belongs to a linker's stub. Programs call functions of other
 * objects through such stubs. A stub is alone in its block of 16 bytes, which has one of these forms:
 *
 *     jmp *; push; jmp
 *     jmp *; xchg %ax,%ax; jmp *; xchg %ax,%ax
 *     endbr64; jmp *, or bnd jmp *; nop
 *
 * A function's own jump through a pointer tells nothing about the stack. In a stub, the return address is on
 * top of the stack.
 */
static bool is_stub(const uint8_t *jump)
{
    const uint8_t *block = (const uint8_t *)((uintptr_t)jump & ~(uintptr_t)15);

    if (jump == block + 4)
        return block[0] == 0xf3 && block[1] == 0x0f && block[2] == 0x1e && block[3] == 0xfa &&
               block[11] == 0x0f && block[12] == 0x1f;
    if (jump == block && block[6] == 0x68)
        return block[11] == 0xe9;
    return (uintptr_t)jump % 8 == 0 && block[0] == 0xff && block[1] == 0x25 && block[6] == 0x66 &&
           block[7] == 0x90 && block[8] == 0xff && block[9] == 0x25 && block[14] == 0x66 && block[15] == 0x90;
}

/* Returns the register that an instruction adds another one to, in 64 bits. */
static unsigned sum_of(const struct cp__instruction *in)
{
    if (in->mod != 3 || (in->rex & CP__REX_W) == 0)
        return CP__NO_REGISTER;
    return in->opcode == 0x01 ? in->rm : in->opcode == 0x03 ? in->reg : CP__NO_REGISTER;
}

/* Returns the same of the instruction of three bytes that ends at pc, if that is what stands there. */
static unsigned sum_before(struct walk *walk, uintptr_t pc)
{
    struct cp__instruction in;

    if (!cp__text_has_from_handler(&walk->text, pc - 3, 3) ||
        !cp__decode_within_from_handler((const uint8_t *)pc - 3, 3, &in) || (uintptr_t)in.end != pc)
        return CP__NO_REGISTER;
    return sum_of(&in);
}

/* Handles a jump through a register or memory. A sum of two registers is an entry of a table of distances,
 * and the code behind the jump is one of the table's targets, unless the linker has put its filling there.
 * If the walk is wrong about that, it finds no return address. */
static enum outcome jump_indirect(struct walk *walk, const struct cp__instruction *in)
{
    if (in->is_rip_relative)
        return is_stub(in->begin) ? finish_walk(walk) : LOST;
    if (walk->summed == UNKNOWN_SUM)
        walk->summed = sum_before(walk, (uintptr_t)in->begin);
    if (in->mod != 3 || in->rm != walk->summed || !cp__text_has_from_handler(&walk->text, walk->at.pc, 1))
        return LOST;
    walk->used_a_table = true;
    switch (*in->end) {
    case 0x0f: /* nop */
    case 0x2e:
    case 0x66:
    case 0x90:
    case 0xcc: /* int3 */
        return LOST;
    default:
        return GOES_ON;
    }
}

/* Follows one instruction. */
static enum outcome step(struct walk *walk, const struct cp__instruction *in)
{
    walk->at.pc = (uintptr_t)in->end;
    switch (in->opcode) {
    case 0x50 ... 0x57:
        return in->has_operand_size ? LOST : push(walk, in->rm);
    case 0x58 ... 0x5f:
        return in->has_operand_size ? LOST : pop(walk, in->rm);
    case 0x68: /* push of a constant, push of the flags */
    case 0x6a:
    case 0x9c:
        return push(walk, CP__NO_REGISTER);
    case 0x9d:
        return pop(walk, CP__NO_REGISTER);
    case 0x70 ... 0x7f:
    case 0x0f80 ... 0x0f8f:
    case 0xe0 ... 0xe3:
        return pass_jump(walk, in);
    case 0x81:
    case 0x83:
        return add_constant(walk, in);
    case 0x89:
        return in->mod == 3 ? move(walk, in->rm, in->reg) : GOES_ON;
    case 0x8b:
        return in->mod == 3 ? move(walk, in->reg, in->rm) : move_from_memory(walk, in);
    case 0x8d:
        return load_address(walk, in);
    case 0x8f: /* pop to memory */
        return LOST;
    case 0xe8:
        return call(walk, in);
    case 0xc2:
    case 0xc3:
        return finish_walk(walk);
    case 0xc6: /* mov of a constant; transactions */
    case 0xc7:
        return in->group != 0 ? LOST : other(in);
    case 0xc9:
        return leave_frame(walk);
    case 0xe9:
    case 0xeb:
        return jump(walk, in);
    case 0xff: /* inc and dec; call and jmp; push */
        if (in->group == 4)
            return jump_indirect(walk, in);
        if (in->group == 2)
            return call(walk, in);
        return in->group == 6 ? push(walk, CP__NO_REGISTER) : in->group > 1 ? LOST : other(in);
    default:
        return other(in);
    }
}

/* Decodes the instruction at the walk's position. Returns false if the code there cannot be read. */
static bool decode_next(struct walk *walk, struct cp__instruction *in)
{
    uintptr_t pc = walk->at.pc;

    return cp__text_has_from_handler(&walk->text, pc, CP__DECODE_MOST) &&
           cp__decode_within_from_handler((const uint8_t *)pc, walk->text.hi - pc, in);
}

enum cp__caller cp__caller_from_handler(const struct cp__registers *regs, uintptr_t hi, cp__text_fn *text_at,
                                        struct cp__registers *caller)
{
    const int most = regs->machine != NULL ? STEPS : STEPS_BEHIND_CALL;
    struct walk walk;
    enum outcome outcome = GOES_ON;

    walk.at = (struct state){.pc = regs->pc, .sp = regs->sp, .fp = regs->fp};
    walk.floor = regs->sp;
    walk.hi = hi;
    walk.caller = caller;
    walk.text = (struct cp__text){.at_from_handler = text_at};
    walk.summed = UNKNOWN_SUM;
    walk.used_a_table = false;
    walk.loops = 0;
    walk.fork_count = 0;
    for (int steps = 0; outcome == GOES_ON && steps < most; steps++) {
        struct cp__instruction in;

        bool is_known = decode_next(&walk, &in);

        outcome = is_known ? step(&walk, &in) : LOST;
        walk.summed = is_known ? sum_of(&in) : CP__NO_REGISTER;
        if (outcome == LOST && take_fork(&walk))
            outcome = GOES_ON;
    }
    return outcome == FOUND ? CP__CALLER_FOUND : outcome == NEVER ? CP__CALLER_NONE : CP__CALLER_UNKNOWN;
}

bool cp__may_be_behind_call_from_handler(uintptr_t pc, cp__text_fn *text_at)
{
    struct cp__text text = {.at_from_handler = text_at};

    return !cp__text_has_from_handler(&text, pc - 7, 7) || is_behind_call(&text, pc);
}

/* Follows the code without branches. Such a function leaves by `mov` to the stack pointer from a register
 * that is not the frame pointer, and by a jump through a register, behind its last call, which tells a
 * debugger. */
bool cp__leaves_stack_from_handler(uintptr_t pc, cp__text_fn *text_at)
{
    struct walk walk = {.at = {.pc = pc}, .text = {.at_from_handler = text_at}};
    int calls = 0;

    for (int steps = 0; steps < STEPS_BEHIND_CALL; steps++) {
        struct cp__instruction in;

        if (!decode_next(&walk, &in))
            return false;
        walk.at.pc = (uintptr_t)in.end;
        if (in.opcode == 0xe8 && calls++ > 0)
            return false;
        if (in.opcode == 0xff && in.group == 4)
            return true;
        if (in.mod == 3 && ((in.opcode == 0x89 && in.rm == CP__SP && in.reg != CP__FP) ||
                            (in.opcode == 0x8b && in.reg == CP__SP && in.rm != CP__FP)))
            return true;
        if (in.opcode == 0xe9 || in.opcode == 0xeb)
            walk.at.pc += (uintptr_t)(intptr_t)in.immediate;
    }
    return false;
}

/* Follows the code from its beginning, through the system call that sets the signal mask. */
struct cp__switch cp__find_switch(uintptr_t function, cp__text_fn *text_at)
{
    struct walk walk = {.at = {.pc = function}, .text = {.at_from_handler = text_at}};
    struct cp__switch found = {.loaded = 0};

    for (int steps = 0; function != 0 && steps < STEPS_BEHIND_CALL; steps++) {
        const uint8_t *at = (const uint8_t *)walk.at.pc;
        struct cp__instruction in = {.opcode = CP__OTHER};

        if (decode_next(&walk, &in))
            walk.at.pc = (uintptr_t)in.end;
        else if (walk.text.hi - walk.at.pc >= 2 && at[0] == 0x0f && at[1] == 0x05)
            walk.at.pc += 2;
        else
            break;
        if (in.opcode == 0x8b && in.mod != 3 && in.reg == CP__SP)
            found = (struct cp__switch){.loaded = walk.at.pc};
        else if (found.loaded != 0 && in.opcode >= 0x50 && in.opcode <= 0x57)
            found.pushed = walk.at.pc;
        else if (found.pushed != 0 && in.opcode == 0xc3)
            found.end = walk.at.pc;
        if (found.end != 0)
            return found;
    }
    return (struct cp__switch){.loaded = 0};
}
