/* See block/operands.h: finds operands. */
#include "block/operands.h"

#include <Zydis/Zydis.h>

#include "block/layout.h"

/* Bytes that store a register into the log, at most. */
#define GENERAL_BYTES 8u
#define VECTOR_BYTES 16u
#define VECTOR_SLOTS 8u

struct found {
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    unsigned at; /* in the block */
    uint64_t from;
};

/* ---- What accesses memory -------------------------------------------------------------------- */

/* Some name an address and read or write nothing there. */
static bool only_names_addresses(const ZydisDecodedInstruction *instruction)
{
    switch (instruction->meta.category) {
    case ZYDIS_CATEGORY_NOP:
    case ZYDIS_CATEGORY_WIDENOP:
    case ZYDIS_CATEGORY_PREFETCH:
        return true;
    default:
        break;
    }
    switch (instruction->mnemonic) {
    case ZYDIS_MNEMONIC_CLDEMOTE:
    case ZYDIS_MNEMONIC_CLFLUSH:
    case ZYDIS_MNEMONIC_CLFLUSHOPT:
    case ZYDIS_MNEMONIC_CLWB:
        return true;
    default:
        return false;
    }
}

static bool is_access(const ZydisDecodedOperand *operand)
{
    return operand->type == ZYDIS_OPERAND_TYPE_MEMORY && operand->mem.type != ZYDIS_MEMOP_TYPE_AGEN &&
           operand->actions != 0;
}

static bool goes_through_string(const ZydisDecodedInstruction *instruction)
{
    return instruction->meta.category == ZYDIS_CATEGORY_STRINGOP;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static uint8_t general_number(ZydisRegister name)
{
    const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);

    if (ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64)
        return CP__NO_REGISTER;
    return (uint8_t)ZydisRegisterGetId(whole);
}

/* The stack pointer has moved when a push stores, and when the address of what is popped into is made. */
static int64_t stack_moves(const struct found *found, const ZydisDecodedOperand *operand)
{
    const bool is_hidden = operand->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;

    if (operand->mem.base != ZYDIS_REGISTER_RSP)
        return 0;
    if (is_hidden && (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0)
        return -(int64_t)(operand->size / 8);
    return !is_hidden && found->instruction.mnemonic == ZYDIS_MNEMONIC_POP ? operand->size / 8 : 0;
}

static void set_address(struct cp__operand *made, const struct found *found,
                        const ZydisDecodedOperand *operand)
{
    const bool is_relative =
        operand->mem.base == ZYDIS_REGISTER_RIP || operand->mem.base == ZYDIS_REGISTER_EIP;
    const bool has_segment =
        operand->mem.segment == ZYDIS_REGISTER_FS || operand->mem.segment == ZYDIS_REGISTER_GS;

    made->base = general_number(operand->mem.base);
    made->index = general_number(operand->mem.index);
    made->scale = operand->mem.scale;
    made->address_bits = found->instruction.address_width;
    made->segment = has_segment ? CP__WORD : 0;
    made->displacement = operand->mem.disp.has_displacement ? operand->mem.disp.value : 0;
    made->displacement += stack_moves(found, operand);
    if (is_relative)
        made->displacement += (int64_t)(found->from + made->end);
}

/* ---- Kinds ----------------------------------------------------------------------------------- */

static void set_xlat(struct cp__operand *made)
{
    made->kind = CP__OPERAND_BYTE;
    made->index = 0; /* rax */
    made->scale = 1;
}

static void set_bits(struct cp__operand *made, const struct found *found)
{
    const ZydisDecodedOperand *source = &found->operands[1];

    if (source->type != ZYDIS_OPERAND_TYPE_REGISTER)
        return;
    made->kind = CP__OPERAND_BITS;
    made->bit = general_number(source->reg.value);
}

static bool has_wide_index(ZydisMnemonic mnemonic)
{
    switch (mnemonic) {
    case ZYDIS_MNEMONIC_VGATHERQPD:
    case ZYDIS_MNEMONIC_VGATHERQPS:
    case ZYDIS_MNEMONIC_VPGATHERQD:
    case ZYDIS_MNEMONIC_VPGATHERQQ:
    case ZYDIS_MNEMONIC_VPSCATTERQD:
    case ZYDIS_MNEMONIC_VPSCATTERQQ:
    case ZYDIS_MNEMONIC_VSCATTERQPD:
    case ZYDIS_MNEMONIC_VSCATTERQPS:
        return true;
    default:
        return false;
    }
}

/* Parts that are masked out count, too. */
static void set_vector(struct cp__operand *made, const struct found *found,
                       const ZydisDecodedOperand *operand)
{
    const unsigned index = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, operand->mem.index) / 8;
    unsigned lanes;

    made->kind = CP__OPERAND_VECTOR;
    made->vector = (uint16_t)operand->mem.index;
    made->lane_size = has_wide_index(found->instruction.mnemonic) ? 8 : 4;
    lanes = index / made->lane_size;
    for (unsigned i = 0; i < found->instruction.operand_count_visible; i++) {
        const ZydisDecodedOperand *other = &found->operands[i];

        if (other->type == ZYDIS_OPERAND_TYPE_REGISTER && other->size >= 128 &&
            other->size / 8 / made->size < lanes)
            lanes = other->size / 8 / made->size;
    }
    made->lanes = (uint8_t)lanes;
}

static void set_kind(struct cp__operand *made, const struct found *found, const ZydisDecodedOperand *operand)
{
    if (operand->mem.type == ZYDIS_MEMOP_TYPE_VSIB)
        set_vector(made, found, operand);
    else if (goes_through_string(&found->instruction))
        made->kind = CP__OPERAND_STRING;
    else if (found->instruction.mnemonic == ZYDIS_MNEMONIC_XLAT)
        set_xlat(made);
    else if (found->instruction.meta.category == ZYDIS_CATEGORY_BITBYTE)
        set_bits(made, found);
}

/* ---- All ------------------------------------------------------------------------------------- */

static unsigned count_slots(const struct cp__operand *made)
{
    return (made->base != CP__NO_REGISTER) + (made->index != CP__NO_REGISTER) +
           (made->bit != CP__NO_REGISTER) + (made->kind == CP__OPERAND_STRING) +
           (made->kind == CP__OPERAND_VECTOR ? VECTOR_SLOTS : 0);
}

static unsigned count_bytes(const struct cp__operand *made)
{
    return made->kind == CP__OPERAND_VECTOR ? VECTOR_BYTES + GENERAL_BYTES
                                            : count_slots(made) * GENERAL_BYTES;
}

static bool add_operand(struct cp__operands *operands, const struct found *found,
                        const ZydisDecodedOperand *operand)
{
    struct cp__operand *made = &operands->operand[operands->n];

    if (operands->n == CP__OPERANDS)
        return false;
    *made = (struct cp__operand){.at = (uint16_t)found->at,
                                 .end = (uint16_t)(found->at + found->instruction.length),
                                 .slot = (uint16_t)operands->slots,
                                 .bit = CP__NO_REGISTER,
                                 .size = operand->size / 8u,
                                 .is_load = (operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0,
                                 .is_store = (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0};
    set_address(made, found, operand);
    set_kind(made, found, operand);
    operands->slots += count_slots(made);
    operands->extra += count_bytes(made);
    operands->n++;
    return true;
}

/* An instruction loads before it stores. */
static bool add_operands(struct cp__operands *operands, const struct found *found)
{
    for (int stores = 0; stores <= 1; stores++) {
        for (unsigned i = 0; i < found->instruction.operand_count; i++) {
            const ZydisDecodedOperand *operand = &found->operands[i];
            const bool is_load = (operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;

            if (is_access(operand) && is_load == (stores == 0) && !add_operand(operands, found, operand))
                return false;
        }
    }
    return true;
}

bool cp__operands_find(struct cp__operands *operands, const struct cp__code *code, uint64_t from)
{
    ZydisDecoder decoder;
    struct found found = {.from = from};

    operands->n = operands->slots = operands->extra = 0;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (; found.at < code->length; found.at += found.instruction.length) {
        if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, code->bytes + found.at, code->length - found.at,
                                               &found.instruction, found.operands)))
            return false;
        if (!only_names_addresses(&found.instruction) && !add_operands(operands, &found))
            return false;
    }
    return true;
}
