/* Code that keeps no rules for its stack, interrupted anywhere by the machine's kernel.
 * tests/system/stack_test.c has the stacks that keep them. */
#include "tests/support/burn.h"
#include "tests/support/frame_pointers.h"

#include <stdint.h>
#include <sys/mman.h>

/* Runs for a while with fp in the frame pointer. */
__attribute__((noinline)) static void spin_with_frame_pointer(uintptr_t fp)
{
    for (int i = 0; i < 200; i++) {
        uint64_t n = 100000;

#if defined(__x86_64__)
        __asm__ volatile("push %%rbp\n\tmov %1, %%rbp\n"
                         "1:\tdec %0\n\tjnz 1b\n\t"
                         "pop %%rbp"
                         : "+r"(n)
                         : "r"(fp)
                         : "cc", "memory");
#elif defined(__aarch64__)
        __asm__ volatile("str x29, [sp, #-16]!\n\tmov x29, %1\n"
                         "1:\tsubs %0, %0, #1\n\tb.ne 1b\n\t"
                         "ldr x29, [sp], #16"
                         : "+r"(n)
                         : "r"(fp)
                         : "cc", "memory");
#else
#error "Say here how this processor runs with a frame pointer of fp."
#endif
    }
}

static void body_garbage(struct worker *worker)
{
    (void)worker;
    with_bad_frame_pointers(spin_with_frame_pointer);
}

CP_TEST(a_frame_pointer_may_be_anything)
{
    struct cp_slot_request requests[] = {request("taskClock", test_period(100000, 1))};
    struct profile profile = {.may_be_throttled = true}; /* a few samples are enough */
    struct worker worker;

    start_profile(&profile, requests, 1);
    run_attached(&worker, body_garbage, NULL);
    stop_profile(&profile);
    CHECK(profile.seen[0].samples > 0);
}

/* Runs a loop with argument rounds, whose code is the last bytes of a mapping. */
static void body_at_the_edge(struct worker *worker)
{
#if defined(__x86_64__) /* mov %edi,%eax; 1: dec %eax; jnz 1b; ret */
    static const unsigned char code[] = {0x89, 0xf8, 0xff, 0xc8, 0x75, 0xfc, 0xc3};
#elif defined(__aarch64__) /* 1: subs w0,w0,#1; b.ne 1b; ret */
    static const uint32_t code[] = {0x71000400, 0x54ffffe1, 0xd65f03c0};
#endif
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void (*spin)(unsigned);

    (void)worker;
    CHECK(memory != MAP_FAILED);
    memcpy(memory + page - sizeof code, code, sizeof code);
    __builtin___clear_cache(memory, memory + page);
    mprotect(memory, page, PROT_READ | PROT_EXEC);
    munmap(memory + page, page);
    *(void **)&spin = memory + page - sizeof code;
    for (uint64_t end = cpu_ns() + 150 * MS; cpu_ns() < end;)
        spin(100000);
    munmap(memory, page);
}

CP_TEST(code_may_end_where_its_mapping_does)
{
    struct cp_slot_request requests[] = {request("taskClock", test_period(100000, 1))};
    struct profile profile = {.may_be_throttled = true}; /* a few samples are enough */
    struct worker worker;

    start_profile(&profile, requests, 1);
    run_attached(&worker, body_at_the_edge, NULL);
    stop_profile(&profile);
    CHECK(profile.seen[0].samples > 0);
}
