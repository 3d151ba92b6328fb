/* Where control flows from an instruction, and what it does with memory. */
#include "block/flow.h"

#include "block/block.h"
#include "tests/support/test.h"

static struct cp__step decode(const char *bytes, size_t size)
{
    struct cp__step step;

    CHECK(cp__flow_decode(bytes, size, 0x1000, &step));
    CHECK_EQ(step.length, size);
    return step;
}
#define DECODE(bytes) decode(bytes, sizeof(bytes) - 1)

static void need_amd64(void)
{
    struct cp__step step;

    if (!cp__flow_decode("\x90", 1, 0, &step))
        SKIP("instructions of this processor are not decoded");
}

CP_TEST(flow_goes_where_the_instruction_says)
{
    static const struct {
        const char *bytes;
        size_t size;
        enum cp__flow flow;
        uint64_t target;
    } cases[] = {
        {"\x48\x01\xc0", 3, CP__FLOW_ON, 0},                       /* add rax, rax */
        {"\xe8\x00\x01\x00\x00", 5, CP__FLOW_CALL, 0},             /* call */
        {"\xff\xd0", 2, CP__FLOW_CALL, 0},                         /* call rax */
        {"\x0f\x05", 2, CP__FLOW_CALL, 0},                         /* syscall */
        {"\x75\xfe", 2, CP__FLOW_BRANCH, 0x1000},                  /* jne to itself */
        {"\x0f\x84\x00\x10\x00\x00", 6, CP__FLOW_BRANCH, 0x2006},  /* je */
        {"\xe2\x10", 2, CP__FLOW_BRANCH, 0x1012},                  /* loop */
        {"\xeb\x7f", 2, CP__FLOW_JUMP, 0x1081},                    /* jmp */
        {"\xff\xe0", 2, CP__FLOW_ANYWHERE, 0},                     /* jmp rax */
        {"\xff\x24\xc5\x00\x10\x40\x00", 7, CP__FLOW_ANYWHERE, 0}, /* jmp [0x401000 + rax * 8] */
        {"\xc3", 1, CP__FLOW_END, 0},
        {"\xf3\xc3", 2, CP__FLOW_END, 0}, /* ret */
        {"\x0f\x0b", 2, CP__FLOW_END, 0},
        {"\xf4", 1, CP__FLOW_END, 0}, /* ud2, hlt */
    };

    need_amd64();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct cp__step step = decode(cases[i].bytes, cases[i].size);

        CHECKF(step.flow == cases[i].flow && step.target == cases[i].target, "case %zu: flow %d to %llx", i,
               step.flow, (unsigned long long)step.target);
    }
}

CP_TEST(loads_and_stores_of_one_address_have_one_place)
{
    struct cp__step load, store, other, both;

    need_amd64();
    load = DECODE("\x48\x8b\x44\x24\x08");     /* mov rax, [rsp + 8] */
    store = DECODE("\x89\x4c\x24\x08");        /* mov [rsp + 8], ecx */
    other = DECODE("\x48\x8b\x44\x24\x10");    /* mov rax, [rsp + 16] */
    both = DECODE("\x48\x83\x44\x24\x08\x01"); /* add qword [rsp + 8], 1 */
    CHECK(load.loads && !load.stores);
    CHECK(!store.loads && store.stores);
    CHECK(both.loads && both.stores);
    CHECK(load.place != 0 && load.place == store.place && load.place == both.place);
    CHECK(load.place != other.place);
}

CP_TEST(an_address_that_is_only_computed_is_no_load)
{
    struct cp__step lea, push, nop;

    need_amd64();
    lea = DECODE("\x48\x8d\x44\x24\x08"); /* lea rax, [rsp + 8] */
    push = DECODE("\x50");                /* push rax */
    nop = DECODE("\x0f\x1f\x44\x00\x00"); /* nop [rax + rax] */
    CHECK(!lea.loads && !lea.stores);
    CHECK(push.stores && !push.loads && push.place == 0);
    CHECK(nop.is_nop && !nop.loads);
}

CP_TEST(divisions_are_slow)
{
    need_amd64();
    CHECK(DECODE("\x48\xf7\xf1").divides);     /* div rcx */
    CHECK(DECODE("\xf2\x0f\x5e\xc1").divides); /* divsd xmm0, xmm1 */
    CHECK(!DECODE("\x48\xf7\xe1").divides);    /* mul rcx */
}

CP_TEST(bytes_that_are_no_instruction_are_refused)
{
    struct cp__step step;

    need_amd64();
    CHECK(!cp__flow_decode("\x06", 1, 0, &step));
    CHECK(!cp__flow_decode("\x48", 1, 0, &step)); /* cut off */
    CHECK(!cp__flow_decode("", 0, 0, &step));
}
