/*
 * Where things are in the processes in which blocks run: in these nothing else is mapped.
 *
 *     CP__STUB       a system call that the monitor has a process make, in a page of its own
 *                    (struct cp__stub)
 *     CP__IMAGE      the code that times or traces a block, and the block's copies
 *     CP__SAVED      what that code reads and writes besides (struct cp__saved), at an address of 31 bits
 *                    because code reaches it there if all registers are the block's
 *     CP__PHYSICAL   the physical pages to which all that a block touches is mapped
 *     CP__LOG        what copies that are traced write, at addresses of 31 bits, too
 *
 * Included by assembler code, too.
 */
#ifndef COUNTERPOINT_BLOCK_LAYOUT_H
#define COUNTERPOINT_BLOCK_LAYOUT_H

#define CP__STUB 0x200000000000
#define CP__STUB_GUEST 256 /* offset in struct cp__stub */
#define CP__IMAGE 0x200000010000
#define CP__IMAGE_SIZE 0x20000
#define CP__SAVED 0x6d3b0000
#define CP__SAVED_SIZE 0x3000
#define CP__PHYSICAL 0x6d3c0000
#define CP__PHYSICAL_PAGES 4
#define CP__LOG (CP__PHYSICAL + CP__PHYSICAL_PAGES * 4096)
#define CP__LOG_SIZE 0x20000
#define CP__RESERVED_END (CP__LOG + CP__LOG_SIZE)

/* What registers and memory hold when a block begins: as an address it can be mapped, and so can sums and
 * multiples of it. */
#define CP__WORD 0x12345600

/* Timings of a run, of which the first CP__WARM_TIMINGS are not used. */
#define CP__WARM_TIMINGS 4
#define CP__TIMINGS 16
#define CP__ALL_TIMINGS (2 * (CP__WARM_TIMINGS + CP__TIMINGS))
/* Dependent additions before each timing, by which ticks become cycles; before each second one, twice as
 * many. */
#define CP__CALIBRATION_ADDS 8192

/* Offsets in struct cp__saved. */
#define CP__SAVED_INDEX 0
#define CP__SAVED_END 4
#define CP__SAVED_HALF 8
#define CP__SAVED_PAGE_WORDS 12
#define CP__SAVED_HEAD 16
#define CP__SAVED_ENTRY 24
#define CP__SAVED_SHORT_ENTRY 32
#define CP__SAVED_XSTATE_MASK 40
#define CP__SAVED_BEGIN 48
#define CP__SAVED_FLAGS 56
#define CP__SAVED_FS 64
#define CP__SAVED_REGISTERS 128
#define CP__SAVED_CALIBRATIONS 256
#define CP__SAVED_TIMINGS 1024
#define CP__SAVED_XSTATE 2048

#endif
