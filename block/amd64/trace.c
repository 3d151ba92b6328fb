/* See block/operands.h: writes copies that are traced, and reads what they have logged. */
#include "block/operands.h"

#include <string.h>

#include <Zydis/Zydis.h>

#include "block/layout.h"

#define VECTOR_SLOTS 8u

/* ---- Copies ---------------------------------------------------------------------------------- */

/* A copy that is being written. */
struct tracing {
    const struct cp__operands *operands;
    const struct cp__code *code;
    uint64_t from, to;
    uint8_t *bytes;
    unsigned size;
    unsigned first_slot;
};

static uint32_t log_place(const struct tracing *tracing, unsigned slot)
{
    return CP__LOG + (tracing->first_slot + slot) * 8;
}

/* mov [address], register */
static void log_general(struct tracing *tracing, uint8_t number, unsigned slot)
{
    const uint32_t address = log_place(tracing, slot);
    uint8_t *to = tracing->bytes + tracing->size;

    to[0] = (uint8_t)(0x48 | (number >> 3) << 2);
    to[1] = 0x89;
    to[2] = (uint8_t)((number & 7) << 3 | 4);
    to[3] = 0x25;
    memcpy(to + 4, &address, sizeof address);
    tracing->size += 8;
}

/* vmovups [address], register */
static bool log_vector(struct tracing *tracing, ZydisRegister name, unsigned slot)
{
    const uint16_t size = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, name) / 8;
    ZydisEncoderRequest request = {
        .machine_mode = ZYDIS_MACHINE_MODE_LONG_64, .mnemonic = ZYDIS_MNEMONIC_VMOVUPS, .operand_count = 2};
    ZyanUSize length = ZYDIS_MAX_INSTRUCTION_LENGTH;

    request.operands[0].type = ZYDIS_OPERAND_TYPE_MEMORY;
    request.operands[0].mem.displacement = log_place(tracing, slot);
    request.operands[0].mem.size = size;
    request.operands[1].type = ZYDIS_OPERAND_TYPE_REGISTER;
    request.operands[1].reg.value = name;
    if (ZYAN_FAILED(ZydisEncoderEncodeInstruction(&request, tracing->bytes + tracing->size, &length)))
        return false;
    tracing->size += (unsigned)length;
    return true;
}

static bool log_before(struct tracing *tracing, const struct cp__operand *operand)
{
    const uint8_t numbers[] = {operand->base, operand->index, operand->bit};
    unsigned slot = operand->slot;

    for (unsigned i = 0; i < sizeof numbers; i++)
        if (numbers[i] != CP__NO_REGISTER)
            log_general(tracing, numbers[i], slot++);
    return operand->kind != CP__OPERAND_VECTOR || log_vector(tracing, (ZydisRegister)operand->vector, slot);
}

static void log_behind(struct tracing *tracing, const struct cp__operand *operand)
{
    if (operand->kind == CP__OPERAND_STRING)
        log_general(tracing, operand->base, operand->slot + 1u);
}

static bool copy_part(struct tracing *tracing, unsigned begin, unsigned end)
{
    const bool reaches = cp__code_copy_part(tracing->code, begin, end, tracing->from,
                                            tracing->to + tracing->size, tracing->bytes + tracing->size);

    tracing->size += end - begin;
    return reaches;
}

/* Writes the instruction of operands first to end, and what logs these. */
static bool copy_traced(struct tracing *tracing, unsigned first, unsigned end)
{
    const struct cp__operand *operand = tracing->operands->operand;

    for (unsigned i = first; i < end; i++)
        if (!log_before(tracing, &operand[i]))
            return false;
    if (!copy_part(tracing, operand[first].at, operand[first].end))
        return false;
    for (unsigned i = first; i < end; i++)
        log_behind(tracing, &operand[i]);
    return true;
}

unsigned cp__operands_copy(const struct cp__operands *operands, const struct cp__code *code, uint64_t from,
                           uint64_t to, unsigned number, uint8_t *bytes)
{
    struct tracing tracing = {operands, code, from, to, bytes, 0, number * operands->slots};
    unsigned at = 0;

    for (unsigned first = 0, end; first < operands->n; first = end) {
        const struct cp__operand *operand = &operands->operand[first];

        for (end = first + 1; end < operands->n && operands->operand[end].at == operand->at;)
            end++;
        if (!copy_part(&tracing, at, operand->at) || !copy_traced(&tracing, first, end))
            return 0;
        at = operand->end;
    }
    return copy_part(&tracing, at, code->length) ? tracing.size : 0;
}

/* ---- Logs ------------------------------------------------------------------------------------ */

/* What is in a string goes from the lower of both addresses on; downwards, from a unit above. */
static void set_string(struct cp__access *access, const struct cp__operand *operand, const uint64_t *slots)
{
    uint64_t moved = slots[1] - slots[0];
    bool is_down;

    if (operand->address_bits == 32)
        moved = (uint64_t)(int64_t)(int32_t)moved;
    is_down = moved >> 63 != 0;
    access->size = is_down ? -moved : moved;
    if (is_down)
        access->address -= access->size - access->unit;
}

/* The bytes from the operand's address on to the part that has the bit. */
static int64_t offset_of_bit(const struct cp__operand *operand, uint64_t bit)
{
    if (operand->size == 2)
        return ((int16_t)bit >> 4) * INT64_C(2);
    if (operand->size == 4)
        return ((int32_t)bit >> 5) * INT64_C(4);
    return ((int64_t)bit >> 6) * 8;
}

static uint64_t to_address(const struct cp__operand *operand, uint64_t offset)
{
    return operand->segment + (operand->address_bits == 32 ? (uint32_t)offset : offset);
}

static void judge_vector(const struct cp__operand *operand, const uint64_t *parts, uint64_t offset,
                         struct cp__access *access, struct cp__judge *judge)
{
    for (unsigned i = 0; i < operand->lanes; i++) {
        int64_t wide = 0;
        int32_t narrow;

        memcpy(&wide, (const uint8_t *)parts + (size_t)i * operand->lane_size, operand->lane_size);
        memcpy(&narrow, &wide, sizeof narrow);
        if (operand->lane_size == sizeof narrow)
            wide = narrow;
        access->address = to_address(operand, offset + (uint64_t)wide * operand->scale);
        cp__judge_add(judge, access);
    }
}

static void judge_operand(const struct cp__operand *operand, const uint64_t *slots, struct cp__judge *judge)
{
    struct cp__access access = {.size = operand->size,
                                .unit = operand->size,
                                .is_load = operand->is_load,
                                .is_store = operand->is_store};
    const uint64_t *next = slots;
    uint64_t offset = (uint64_t)operand->displacement;

    if (operand->base != CP__NO_REGISTER)
        offset += *next++;
    if (operand->index != CP__NO_REGISTER)
        offset += (operand->kind == CP__OPERAND_BYTE ? *next & 0xff : *next) * operand->scale, next++;
    if (operand->bit != CP__NO_REGISTER)
        offset += (uint64_t)offset_of_bit(operand, *next++);
    if (operand->kind == CP__OPERAND_VECTOR) {
        judge_vector(operand, next, offset, &access, judge);
        return;
    }
    access.address = to_address(operand, offset);
    if (operand->kind == CP__OPERAND_STRING)
        set_string(&access, operand, slots);
    cp__judge_add(judge, &access);
}

void cp__operands_judge(const struct cp__operands *operands, const uint64_t *log, unsigned copies,
                        struct cp__judge *judge)
{
    for (unsigned i = 0; i < copies; i++, log += operands->slots)
        for (unsigned k = 0; k < operands->n; k++)
            judge_operand(&operands->operand[k], log + operands->operand[k].slot, judge);
}
