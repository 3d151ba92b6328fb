/* Functions that fill a page each, so that a name by a wrong offset is another function's. A test builds them
 * into a library, and calls none of them. */
#define FILL __asm__ volatile("jmp 1f; .fill 4000, 1, 0xcc; 1:")
#ifndef OTHER /* a test may want other code of the same size */
#define OTHER 0
#endif
#define FUNCTION(name)                                                                                       \
    __attribute__((noinline, aligned(64))) void name(void)                                                   \
    {                                                                                                        \
        FILL;                                                                                                \
        sink += __LINE__ + OTHER;                                                                            \
    }

volatile unsigned long sink;

FUNCTION(copied_0)
FUNCTION(copied_1)
FUNCTION(copied_2)
FUNCTION(copied_3)
FUNCTION(copied_4)
FUNCTION(copied_5)
__attribute__((visibility("hidden"))) FUNCTION(copied_hidden) __attribute__((section("far_code")))
FUNCTION(copied_far)
