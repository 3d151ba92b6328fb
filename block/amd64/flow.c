/* See block/flow.h. */
#include "block/flow.h"

#include <Zydis/Zydis.h>

static enum cp__flow flow_of_jump(const ZydisDecodedOperand *operands)
{
    return operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? CP__FLOW_JUMP : CP__FLOW_ANYWHERE;
}

static enum cp__flow flow_of(const ZydisDecodedInstruction *instruction, const ZydisDecodedOperand *operands)
{
    switch (instruction->mnemonic) {
    case ZYDIS_MNEMONIC_HLT:
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
        return CP__FLOW_END;
    default:
        break;
    }
    switch (instruction->meta.category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_SYSCALL:
        return CP__FLOW_CALL;
    case ZYDIS_CATEGORY_COND_BR:
        return CP__FLOW_BRANCH;
    case ZYDIS_CATEGORY_RET:
        return CP__FLOW_END;
    case ZYDIS_CATEGORY_UNCOND_BR:
        return flow_of_jump(operands);
    default:
        return CP__FLOW_ON;
    }
}

static bool is_slow(const ZydisDecodedInstruction *instruction)
{
    switch (instruction->mnemonic) {
    case ZYDIS_MNEMONIC_DIV:
    case ZYDIS_MNEMONIC_IDIV:
    case ZYDIS_MNEMONIC_DIVSS:
    case ZYDIS_MNEMONIC_DIVSD:
    case ZYDIS_MNEMONIC_DIVPS:
    case ZYDIS_MNEMONIC_DIVPD:
    case ZYDIS_MNEMONIC_VDIVSS:
    case ZYDIS_MNEMONIC_VDIVSD:
    case ZYDIS_MNEMONIC_VDIVPS:
    case ZYDIS_MNEMONIC_VDIVPD:
    case ZYDIS_MNEMONIC_SQRTSS:
    case ZYDIS_MNEMONIC_SQRTSD:
    case ZYDIS_MNEMONIC_SQRTPS:
    case ZYDIS_MNEMONIC_SQRTPD:
    case ZYDIS_MNEMONIC_VSQRTSS:
    case ZYDIS_MNEMONIC_VSQRTSD:
    case ZYDIS_MNEMONIC_VSQRTPS:
    case ZYDIS_MNEMONIC_VSQRTPD:
        return true;
    default:
        return false;
    }
}

/* FNV-1a, over the parts of the address. */
static uint64_t name_place(const ZydisDecodedOperandMem *memory)
{
    const uint64_t parts[] = {(uint64_t)memory->segment, (uint64_t)memory->base, (uint64_t)memory->index,
                              memory->scale, (uint64_t)memory->disp.value};
    uint64_t hash = 0xcbf29ce484222325;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        hash = (hash ^ parts[i]) * 0x100000001b3;
    return hash | 1;
}

/* What push, pop and their like do with the stack is hidden among the operands, and counts, too. */
static void look_at_memory(struct cp__step *step, const ZydisDecodedOperand *operands, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        const ZydisDecodedOperand *operand = &operands[i];

        if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY || operand->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
            continue;
        step->loads |= (operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
        step->stores |= (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
        if (operand->visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT)
            step->place = name_place(&operand->mem);
    }
}

bool cp__flow_decode(const void *bytes, size_t size, uint64_t address, struct cp__step *step)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];

    *step = (struct cp__step){.length = 0};
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, bytes, size, &instruction, operands)))
        return false;
    step->length = instruction.length;
    step->flow = flow_of(&instruction, operands);
    step->is_nop = instruction.mnemonic == ZYDIS_MNEMONIC_NOP;
    step->divides = is_slow(&instruction);
    if (step->flow == CP__FLOW_BRANCH || step->flow == CP__FLOW_JUMP)
        ZydisCalcAbsoluteAddress(&instruction, &operands[0], address, &step->target);
    if (step->flow == CP__FLOW_ON && !step->is_nop)
        look_at_memory(step, operands, instruction.operand_count);
    return true;
}
