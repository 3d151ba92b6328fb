/*
 * Unwinding of stacks and code that the tests make up: here, stacks of which every word may have any value;
 * in caller_amd64.c and caller_arm64.c, pieces of code for each processor whose code is read. All of them lie
 * at the end of a page after which nothing is mapped.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/unwind/unwind.h"
#include "tests/support/lone_page.h"

#if TEST_ASAN
#include <sanitizer/asan_interface.h>
#endif

/* Code that tells nothing about the caller. */
#ifdef __aarch64__
static const uint32_t call[] = {0x94000000, 0x94000000};
#else
static const unsigned char call[] = {0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0};
#endif

static uintptr_t frames[CP_MAX_FRAMES];
static unsigned flags;

static unsigned unwind(uintptr_t pc, uintptr_t sp, uintptr_t fp, uintptr_t lo, uintptr_t hi)
{
    const struct cp__registers regs = {.pc = pc, .sp = sp, .fp = fp};
    struct cp__stack bounds = {.lo = lo, .hi = hi};

    return cp__unwind_from_handler(&regs, &bounds, NULL, frames, CP_MAX_FRAMES, &flags, NULL);
}

/* A page of frames: each word except the last is the address of the next word, so a frame pointer to any word
 * is valid. */
static uintptr_t *page_of_frames(void)
{
    uintptr_t *words = lone_page();

    for (int i = 0; i < WORDS; i++)
        words[i] = i % 2 == 0 ? (uintptr_t)&words[i + 2] : 0x200000 + (uintptr_t)i;
    words[WORDS - 2] = 0;
    return words;
}

CP_TEST(frame_pointers_may_be_anything)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS), pc = (uintptr_t)call;
    uintptr_t sp = (uintptr_t)&words[100];
    const uintptr_t bad[] = {0,
                             1,
                             8,
                             lo,
                             sp - 8,
                             sp - 16,
                             sp + 1,
                             sp + 4,
                             hi - 8,
                             hi - 15,
                             hi - 1,
                             hi,
                             hi + 8,
                             lo - 8,
                             UINTPTR_MAX,
                             UINTPTR_MAX - 7,
                             UINTPTR_MAX - 15,
                             (uintptr_t)1 << 63};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECKF(unwind(pc, sp, bad[i], lo, hi) == 1, "frame pointer %#lx of [%#lx, %#lx)", bad[i], lo, hi);
        CHECK_EQ(frames[0], pc);
        CHECK((flags & CP_SAMPLE_TRUNCATED) == 0);
    }
    CHECK_EQ(unwind(pc, sp, hi - 16, lo, hi), 2);
    CHECK_EQ(frames[1], 0x200000 + WORDS - 1);
    CHECK_EQ(unwind(pc, sp, sp, lo, hi), 1 + (WORDS - 100) / 2);
}

CP_TEST(bounds_may_be_anything)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS), pc = (uintptr_t)call;

    CHECK_EQ(unwind(pc, lo, lo, 0, 0), CP_MAX_FRAMES); /* nobody told of the stack, and it can be read */
    CHECK_EQ(unwind(pc, 0, 0, 0, 0), 1);
    CHECK_EQ(unwind(pc, 0, 0, 0, 8), 1);
    CHECK_EQ(unwind(pc, lo - 8, lo, lo, hi), 1); /* the stack pointer is outside */
    CHECK_EQ(unwind(pc, hi, lo, lo, hi), 1);
    CHECK_EQ(unwind(pc, UINTPTR_MAX, lo, lo, hi), 1);
    CHECK_EQ(unwind(pc, hi - 8, hi - 8, lo, hi), 1);
    CHECK_EQ(unwind(pc, lo, lo, lo, lo + 15), 1); /* no room for a frame */
    CHECK_EQ(unwind(pc, lo, lo, lo, lo + 16), 2);
    CHECK_EQ(unwind(pc, UINTPTR_MAX - 31, UINTPTR_MAX - 15, UINTPTR_MAX - 63, UINTPTR_MAX - 15), 1);
}

/* The interrupted instruction's bytes are not read if no code can be there. */
CP_TEST(program_counters_may_be_anything)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS);
    const uintptr_t bad[] = {0, 1, 4095, (uintptr_t)1 << 63, 0xffffffffff600000, UINTPTR_MAX, lo, hi - 1};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ(unwind(bad[i], lo, lo, lo, hi), 1);
        CHECK_EQ(frames[0], bad[i]);
    }
}

/* A word that is no return address ends the chain. */
CP_TEST(a_word_that_is_no_return_address_ends_the_chain)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS);
    const uintptr_t bad[] = {0, 4095, lo, hi - 8, (uintptr_t)1 << 63, UINTPTR_MAX};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        words[5] = bad[i];
        CHECK_EQ(unwind((uintptr_t)call, lo, lo, lo, hi), 3);
    }
}

CP_TEST(circles_end)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS), pc = (uintptr_t)call;
    const uintptr_t back[] = {(uintptr_t)&words[20], (uintptr_t)&words[18], (uintptr_t)&words[0], lo - 16,
                              (uintptr_t)&words[21] + 4};

    for (size_t i = 0; i < sizeof back / sizeof back[0]; i++) {
        words[20] = back[i];
        CHECK_EQ(unwind(pc, lo, lo, lo, hi), 12);
        CHECK((flags & CP_SAMPLE_TRUNCATED) == 0);
    }
    words[20] = (uintptr_t)&words[21]; /* overlaps */
    CHECK_EQ(unwind(pc, lo, lo, lo, hi), 12);
}

CP_TEST(chains_may_have_any_length)
{
    uintptr_t *words = lone_page();
    uintptr_t *two = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t lo = (uintptr_t)two, hi = lo + 16384;

    (void)words;
    for (unsigned length = 0; length < 600; length++) {
        unsigned n = length < CP_MAX_FRAMES - 1 ? length + 1 : CP_MAX_FRAMES;

        memset(two, 0, 16384);
        for (unsigned i = 0; i < length; i++) {
            two[2 * i] = (uintptr_t)&two[2 * i + 2];
            two[2 * i + 1] = 0x300000 + i;
        }
        CHECK_EQ(unwind((uintptr_t)call, lo, lo, lo, hi), n);
        CHECK_EQ((flags & CP_SAMPLE_TRUNCATED) != 0, length + 1 > CP_MAX_FRAMES);
        for (unsigned i = 1; i < n; i++)
            CHECK_EQ(frames[i], 0x300000 + i - 1);
    }
}

/* Stacks of random words that resemble frames more or less: every frame that is found lies inside the
 * stack. */
CP_TEST(stacks_of_random_words_do_no_harm)
{
    uintptr_t *words = lone_page();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS);

    for (unsigned seed = 1; seed < 20000; seed++) {
        uintptr_t sp, fp;

        srandom(seed);
        for (int i = 0; i < WORDS; i++) {
            long r = random();

            words[i] = r % 4 == 0   ? lo + (uintptr_t)random() % (hi - lo + 64)
                       : r % 4 == 1 ? lo + (uintptr_t)(i * 8 + random() % 32 * 8)
                                    : (uintptr_t)random() << (random() % 33);
        }
        sp = lo + (uintptr_t)random() % (hi - lo);
        fp = sp + (uintptr_t)random() % 256 / 8 * 8;
        CHECK(unwind((uintptr_t)call, sp, fp, lo, hi) >= 1);
        for (uintptr_t below = 0; below < 8; below++) /* with the smallest possible stack */
            unwind((uintptr_t)call, hi - below, hi - below, lo, hi);
    }
}

#if TEST_ASAN
/* AddressSanitizer fences variables in the frames of other functions; a chain passes through these frames. */
CP_TEST(chains_go_through_fenced_stacks)
{
    uintptr_t *words = page_of_frames();
    uintptr_t lo = (uintptr_t)words, hi = (uintptr_t)(words + WORDS);

    __asan_poison_memory_region(words, WORDS * sizeof *words);
    CHECK_EQ(unwind((uintptr_t)call, lo, lo, lo, hi), CP_MAX_FRAMES);
    __asan_unpoison_memory_region(words, WORDS * sizeof *words);
}
#endif
