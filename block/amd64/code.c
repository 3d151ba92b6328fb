/* See block/code.h. */
#include "block/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <Zydis/Zydis.h>

/* What a decoded instruction has besides itself. */
struct decoded {
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    unsigned at; /* in the block */
    const uint8_t *bytes;
};

static bool is_branch(const ZydisDecodedInstruction *instruction)
{
    switch (instruction->meta.category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_UNCOND_BR:
        return true;
    default:
        return false;
    }
}

static bool is_far(const ZydisDecodedInstruction *instruction)
{
    return instruction->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;
}

static bool calls_system(const ZydisDecodedInstruction *instruction)
{
    switch (instruction->meta.category) {
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_IO:
    case ZYDIS_CATEGORY_IOSTRINGOP:
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_VTX:
        return true;
    default:
        return (instruction->attributes & ZYDIS_ATTRIB_IS_PRIVILEGED) != 0;
    }
}

/* What registers and memory do not say, or what leaves the CPU to others for a while. */
static bool changes_what_is_not_restored(const ZydisDecodedInstruction *instruction)
{
    switch (instruction->mnemonic) {
    case ZYDIS_MNEMONIC_MONITORX:
    case ZYDIS_MNEMONIC_MWAITX:
    case ZYDIS_MNEMONIC_TPAUSE:
    case ZYDIS_MNEMONIC_UMONITOR:
    case ZYDIS_MNEMONIC_UMWAIT:
    case ZYDIS_MNEMONIC_WRFSBASE:
    case ZYDIS_MNEMONIC_WRGSBASE:
    case ZYDIS_MNEMONIC_WRPKRU:
    case ZYDIS_MNEMONIC_XABORT:
    case ZYDIS_MNEMONIC_XBEGIN:
    case ZYDIS_MNEMONIC_XEND:
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64:
        return true;
    default:
        return instruction->meta.category == ZYDIS_CATEGORY_UINTR ||
               instruction->meta.category == ZYDIS_CATEGORY_AMX_TILE;
    }
}

static bool writes_segment(const struct decoded *decoded)
{
    for (unsigned i = 0; i < decoded->instruction.operand_count; i++) {
        const ZydisDecodedOperand *operand = &decoded->operands[i];

        if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
            (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0 &&
            ZydisRegisterGetClass(operand->reg.value) == ZYDIS_REGCLASS_SEGMENT)
            return true;
    }
    return false;
}

/* What MXCSR says about subnormal numbers matters to it. */
static bool computes_with_floats(const struct decoded *decoded)
{
    switch (decoded->instruction.meta.category) {
    case ZYDIS_CATEGORY_BROADCAST:
    case ZYDIS_CATEGORY_DATAXFER:
    case ZYDIS_CATEGORY_LOGICAL:
    case ZYDIS_CATEGORY_LOGICAL_FP:
    case ZYDIS_CATEGORY_X87_ALU:
        return false;
    default:
        break;
    }
    for (unsigned i = 0; i < decoded->instruction.operand_count; i++) {
        const ZydisElementType type = decoded->operands[i].element_type;

        if (type == ZYDIS_ELEMENT_TYPE_FLOAT16 || type == ZYDIS_ELEMENT_TYPE_FLOAT32 ||
            type == ZYDIS_ELEMENT_TYPE_FLOAT64)
            return true;
    }
    return false;
}

static enum cp_block_status judge_instruction(const struct decoded *decoded, bool is_last)
{
    const ZydisDecodedInstruction *instruction = &decoded->instruction;

    if (calls_system(instruction) || is_far(instruction) || changes_what_is_not_restored(instruction) ||
        writes_segment(decoded))
        return CP_BLOCK_REFUSED;
    return is_branch(instruction) && !is_last ? CP_BLOCK_BRANCH : CP_BLOCK_MEASURED;
}

/* The size is at least 80. */
static void format_instruction(const struct decoded *decoded, char *text, size_t size)
{
    ZydisFormatter formatter;

    if (ZYAN_FAILED(ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL)) ||
        ZYAN_FAILED(ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_FORCE_SIZE, ZYAN_TRUE)) ||
        ZYAN_FAILED(ZydisFormatterFormatInstruction(&formatter, &decoded->instruction, decoded->operands,
                                                    decoded->instruction.operand_count_visible, text, size,
                                                    ZYDIS_RUNTIME_ADDRESS_NONE, NULL)))
        snprintf(text, size, "%s", ZydisMnemonicGetString(decoded->instruction.mnemonic));
}

static void describe_instruction(const struct decoded *decoded, char *detail, size_t size)
{
    char text[100];

    format_instruction(decoded, text, sizeof text);
    snprintf(detail, size, "%s, at byte %u", text, decoded->at);
}

static void add_relative(struct cp__code *code, const struct decoded *decoded)
{
    const ZydisDecodedInstruction *instruction = &decoded->instruction;

    if ((instruction->attributes & ZYDIS_ATTRIB_IS_RELATIVE) == 0 || instruction->raw.disp.size != 32)
        return;
    code->relative[code->n_relative++] =
        (struct cp__relative){(uint16_t)(decoded->at + instruction->raw.disp.offset),
                              (uint16_t)(decoded->at + instruction->length)};
}

static enum cp_block_status add_instruction(struct cp__code *code, const struct decoded *decoded, size_t size,
                                            char *detail, size_t detail_size)
{
    const unsigned end = decoded->at + decoded->instruction.length;
    const enum cp_block_status status = judge_instruction(decoded, end == size);

    if (status != CP_BLOCK_MEASURED) {
        describe_instruction(decoded, detail, detail_size);
        return status;
    }
    if (is_branch(&decoded->instruction)) {
        code->has_branch = true;
        return status;
    }
    add_relative(code, decoded);
    code->has_floats = code->has_floats || computes_with_floats(decoded);
    code->instructions++;
    code->length = end;
    return status;
}

static bool decode(const ZydisDecoder *decoder, const uint8_t *bytes, size_t size, struct decoded *decoded)
{
    return ZYAN_SUCCESS(
        ZydisDecoderDecodeFull(decoder, bytes, size, &decoded->instruction, decoded->operands));
}

enum cp_block_status cp__code_decode(struct cp__code *code, const void *bytes, size_t size, char *detail,
                                     size_t detail_size)
{
    enum cp_block_status status = CP_BLOCK_MEASURED;
    ZydisDecoder decoder;
    struct decoded decoded = {.at = 0};

    *code = (struct cp__code){.bytes = bytes};
    if (size > CP__BLOCK_BYTES)
        return CP_BLOCK_TOO_LONG;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (; decoded.at < size && status == CP_BLOCK_MEASURED; decoded.at += decoded.instruction.length) {
        if (!decode(&decoder, code->bytes + decoded.at, size - decoded.at, &decoded)) {
            snprintf(detail, detail_size, "byte %u begins no instruction", decoded.at);
            return CP_BLOCK_UNDECODED;
        }
        status = add_instruction(code, &decoded, size, detail, detail_size);
    }
    if (status == CP_BLOCK_MEASURED && code->instructions == 0)
        return CP_BLOCK_EMPTY;
    return status;
}

void cp__code_print(FILE *out, const void *bytes, size_t size)
{
    struct decoded decoded = {.at = 0};
    ZydisDecoder decoder;
    char *lines = NULL, text[100];
    size_t length;
    FILE *all = open_memstream(&lines, &length);

    if (all == NULL)
        return;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    while (decoded.at < size &&
           decode(&decoder, (const uint8_t *)bytes + decoded.at, size - decoded.at, &decoded)) {
        decoded.at += decoded.instruction.length;
        if (decoded.at == size && is_branch(&decoded.instruction))
            continue;
        format_instruction(&decoded, text, sizeof text);
        fprintf(all, "%s\n", text);
    }
    fclose(all);
    if (decoded.at == size)
        fputs(lines, out);
    free(lines);
}

bool cp__code_copy_part(const struct cp__code *code, unsigned begin, unsigned end, uint64_t from, uint64_t to,
                        uint8_t *bytes)
{
    memcpy(bytes, code->bytes + begin, end - begin);
    for (unsigned i = 0; i < code->n_relative; i++) {
        uint8_t *at = bytes + code->relative[i].at - begin;
        int32_t displacement;
        int64_t moved;

        if (code->relative[i].at < begin || code->relative[i].at >= end)
            continue;
        memcpy(&displacement, at, sizeof displacement);
        moved = displacement + (int64_t)(from + begin - to);
        if (moved != (int32_t)moved)
            return false;
        displacement = (int32_t)moved;
        memcpy(at, &displacement, sizeof displacement);
    }
    return true;
}

bool cp__code_copy(const struct cp__code *code, uint64_t from, uint64_t to, uint8_t *bytes)
{
    return cp__code_copy_part(code, 0, code->length, from, to, bytes);
}
