#include "decode.h"

#include <string.h>

/*
 * What follows each opcode:
 *
 *     .  nothing          m  ModRM            x  not decoded
 *     b  8 bits           B  ModRM, 8 bits    u  ModRM, then an immediate if group is 0 or 1
 *     z  32 or 16 bits    Z  ModRM, z         v  z, or 64 bits with REX.W
 *     w  16 bits          j  32 bits          q  64 bits
 *
 * z has 16 bits after the prefix 66. The decoder skips prefixes before it uses the table, so prefixes are x
 * here.
 */
static const char after_opcode[] = "mmmmbzxxmmmmbzxx"
                                   "mmmmbzxxmmmmbzxx"
                                   "mmmmbzxxmmmmbzxx"
                                   "mmmmbzxxmmmmbzxx"
                                   "xxxxxxxxxxxxxxxx" /* 40 */
                                   "................"
                                   "xxxmxxxxzZbB...."
                                   "bbbbbbbbbbbbbbbb"
                                   "BZxBmmmmmmmmmmmm" /* 80 */
                                   "..........x....."
                                   "qqqq....bz......"
                                   "bbbbbbbbvvvvvvvv"
                                   "BBw.xxBZx.xxxxxx" /* c0 */
                                   "mmmmxxx.mmmmmmmm"
                                   "bbbbbbbbjjxb...."
                                   "xxxxx.uu......mm";

static const char after_0f[] = "mmmmxxxxxxxxxmxx" /* 05: syscall, 0b: ud2 */
                               "mmmmmmmmmmmmmmmm"
                               "mmmmxxxxmmmmmmmm"
                               "....xxx.xxxxxxxx" /* 38 and 3a introduce longer opcodes */
                               "mmmmmmmmmmmmmmmm" /* 40 */
                               "mmmmmmmmmmmmmmmm"
                               "mmmmmmmmmmmmmmmm"
                               "BBBBmmm.mmmmmmmm"
                               "jjjjjjjjjjjjjjjj" /* 80 */
                               "mmmmmmmmmmmmmmmm"
                               "xx.mBmxxxxxmBmmm"
                               "mmmmmmmmmxBmmmmm"
                               "mmBmBBBm........" /* c0 */
                               "mmmmmmmmmmmmmmmm"
                               "mmmmmmmmmmmmmmmm"
                               "mmmmmmmmmmmmmmmx";

static bool is_prefix(uint8_t byte)
{
    switch (byte) {
    case 0x26: /* segment overrides */
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:
    case 0x66: /* operand size and address size */
    case 0x67:
    case 0xf0: /* lock */
    case 0xf2: /* rep, bnd */
    case 0xf3:
        return true;
    default:
        return false;
    }
}

/* Decodes a VEX or EVEX prefix and its opcode. The prefix names one of the maps of opcodes: maps 1, 2 and 3
 * hold the opcodes that follow 0f, 0f38 and 0f3a. */
static char vector_opcode(const uint8_t **at, uint8_t first)
{
    unsigned map = first == 0xc5 ? 1 : **at & (first == 0xc4 ? 31 : 7);
    uint8_t opcode;

    *at += first == 0xc5 ? 1 : first == 0xc4 ? 2 : 3;
    opcode = *(*at)++;
    if (map == 1)
        return after_0f[opcode];
    return map == 3 ? 'B' : 'm';
}

/* Reads the opcode at *at; returns the letter that says what follows the opcode. */
static char take_opcode(const uint8_t **at, struct cp__instruction *in)
{
    uint8_t byte = *(*at)++;

    in->opcode = byte;
    if (byte == 0x62 || byte == 0xc4 || byte == 0xc5) {
        in->opcode = CP__OTHER;
        return vector_opcode(at, byte);
    }
    if (byte != 0x0f)
        return after_opcode[byte];
    byte = *(*at)++;
    in->opcode = 0x0f00u | byte;
    if (byte != 0x38 && byte != 0x3a)
        return after_0f[byte];
    in->opcode = CP__OTHER;
    (*at)++;
    return byte == 0x38 ? 'm' : 'B';
}

/* Reads a signed number of size bytes; returns 0 for other sizes than 1, 2 and 4. */
static int32_t take_bytes(const uint8_t **at, unsigned size)
{
    const uint8_t *bytes = *at;
    int32_t word = 0;
    int16_t half = 0;

    *at += size;
    switch (size) {
    case 1:
        return (int8_t)bytes[0];
    case 2:
        memcpy(&half, bytes, sizeof half);
        return half;
    case 4:
        memcpy(&word, bytes, sizeof word);
        return word;
    default:
        return 0;
    }
}

/* Returns a register's number, whose fourth bit comes from the REX prefix. */
static uint8_t extended(const struct cp__instruction *in, uint8_t bit, unsigned number)
{
    return (uint8_t)(number | ((in->rex & bit) != 0 ? 8 : 0));
}

/* Reads the SIB byte and the displacement of an operand in memory. */
static void take_memory(const uint8_t **at, struct cp__instruction *in, unsigned base)
{
    unsigned disp_size = in->mod == 1 ? 1 : in->mod == 2 ? 4 : 0;

    in->base = in->rm;
    if (base == 4) {
        unsigned sib = *(*at)++;

        base = sib & 7;
        in->base = extended(in, CP__REX_B, base);
        if ((sib >> 3 & 7) != 4 || (in->rex & CP__REX_X) != 0)
            in->base = CP__NO_REGISTER;
    }
    if (in->mod == 0 && base == 5) {
        in->is_rip_relative = in->rm % 8 == 5;
        disp_size = 4;
        in->base = CP__NO_REGISTER;
    }
    in->disp = take_bytes(at, disp_size);
}

static void take_modrm(const uint8_t **at, struct cp__instruction *in)
{
    unsigned modrm = *(*at)++;

    in->mod = (uint8_t)(modrm >> 6);
    in->group = modrm >> 3 & 7;
    in->reg = extended(in, CP__REX_R, in->group);
    in->rm = extended(in, CP__REX_B, modrm & 7);
    if (in->mod != 3)
        take_memory(at, in, modrm & 7);
}

static unsigned immediate_size(const struct cp__instruction *in, char after)
{
    unsigned z = in->has_operand_size && (in->rex & CP__REX_W) == 0 ? 2 : 4;

    switch (after) {
    case 'b':
    case 'B':
        return 1;
    case 'w':
        return 2;
    case 'j':
        return 4;
    case 'z':
    case 'Z':
        return z;
    case 'q':
        return 8;
    case 'v':
        return (in->rex & CP__REX_W) != 0 ? 8 : z;
    case 'u':
        return in->group > 1 ? 0 : in->opcode == 0xf6 ? 1 : z;
    default:
        return 0;
    }
}

bool cp__decode_from_handler(const uint8_t *at, struct cp__instruction *in)
{
    char after;

    *in = (struct cp__instruction){.begin = at, .mod = 3, .base = CP__NO_REGISTER, .reg = CP__NO_REGISTER};
    for (int i = 0; i < 14 && is_prefix(*at); i++)
        in->has_operand_size |= *at++ == 0x66;
    if ((*at & 0xf0) == 0x40)
        in->rex = *at++;
    after = take_opcode(&at, in);
    if (after == 'x')
        return false;
    in->rm = extended(in, CP__REX_B, in->opcode & 7);
    if (after == 'm' || after == 'B' || after == 'Z' || after == 'u')
        take_modrm(&at, in);
    in->immediate = take_bytes(&at, immediate_size(in, after));
    in->end = at;
    return true;
}

/* Copies the bytes that exist and puts zeros behind them. If the decoder needs one of the zeros, the
 * instruction is incomplete and the call fails. */
bool cp__decode_within_from_handler(const uint8_t *at, size_t size, struct cp__instruction *in)
{
    uint8_t bytes[CP__DECODE_MOST] = {0};

    if (size >= sizeof bytes)
        return cp__decode_from_handler(at, in);
    memcpy(bytes, at, size);
    if (!cp__decode_from_handler(bytes, in) || (size_t)(in->end - bytes) > size)
        return false;
    in->end = at + (in->end - bytes);
    in->begin = at;
    return true;
}
