/* The code around a block's copies, of each processor: ARCH/harness.S. Each part is copied to where it runs,
 * and ends before its _end. */
#ifndef COUNTERPOINT_BLOCK_HARNESS_H
#define COUNTERPOINT_BLOCK_HARNESS_H

extern const unsigned char cp__harness_stub[], cp__harness_stub_end[];
extern const unsigned char cp__harness_map_head[], cp__harness_map_head_end[];
extern const unsigned char cp__harness_map_tail[], cp__harness_map_tail_end[];

/* Of each clock. */
#define CP__HARNESS(clock)                                                                                   \
    extern const unsigned char cp__harness_##clock##_head[], cp__harness_##clock##_head_end[];               \
    extern const unsigned char cp__harness_##clock##_tail[], cp__harness_##clock##_tail_end[]

CP__HARNESS(tsc);
CP__HARNESS(rdpru);

#endif
