/* What is judged of accesses to memory, and the accesses of blocks whose instructions are known. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "block/accesses.h"
#include "block/block.h"
#include "tests/support/test.h"

#if defined(__x86_64__)

/* ---- The judgement --------------------------------------------------------------------------- */

static void add(struct cp__judge *judge, bool is_store, uint64_t address, uint64_t size)
{
    const struct cp__access access = {
        .address = address, .size = size, .unit = (uint32_t)size, .is_load = !is_store, .is_store = is_store};

    cp__judge_add(judge, &access);
}
static void load(struct cp__judge *judge, uint64_t address, uint64_t size)
{
    add(judge, false, address, size);
}
static void store(struct cp__judge *judge, uint64_t address, uint64_t size)
{
    add(judge, true, address, size);
}

static struct cp__apart apart;

static void begin(struct cp__judge *judge)
{
    cp__apart_begin(&apart);
    cp__judge_begin(judge, &apart);
}

/* Returns whether a load may alias after one store, if nothing is known of pages but how many there are. */
static bool aliases(unsigned physical, uint64_t stored, uint64_t stored_size, uint64_t loaded,
                    uint64_t loaded_size)
{
    struct cp__judge judge;

    cp__apart_begin(&apart);
    cp__apart_choose(&apart, physical);
    cp__judge_begin(&judge, &apart);
    store(&judge, stored, stored_size);
    load(&judge, loaded, loaded_size);
    return judge.may_alias;
}

CP_TEST(a_load_may_alias_with_a_store_to_the_same_place_of_another_page)
{
    CHECK(aliases(1, 0x12345600, 8, 0x12346600, 8));
    CHECK(aliases(1, 0x12346600, 8, 0x12345600, 8));
    CHECK(aliases(1, 0x12345600, 8, 0x12346607, 1)); /* its last byte */
    CHECK(aliases(1, 0x12345607, 1, 0x12346600, 8));
    CHECK(!aliases(1, 0x12345600, 8, 0x12346608, 8)); /* beside it */
    CHECK(!aliases(1, 0x12345608, 8, 0x12346600, 8));
    CHECK(aliases(1, 0x12345ffc, 8, 0x12345000, 4)); /* over the end of a page */
    CHECK(aliases(1, 0x12345000, 4, 0x12345ffc, 8));
}

CP_TEST(a_load_waits_for_its_own_address_in_any_case)
{
    CHECK(!aliases(1, 0x12345600, 8, 0x12345600, 8));
    CHECK(!aliases(1, 0x12345600, 8, 0x12345604, 8)); /* a part of it */
    CHECK(!aliases(1, 0x12345600, 8, 0x12345604, 4));
}

CP_TEST(more_physical_pages_keep_pages_apart)
{
    CHECK(!aliases(2, 0x12345600, 8, 0x12346600, 8));
    CHECK(aliases(2, 0x12345600, 8, 0x12347600, 8));
    CHECK(!aliases(4, 0x12345600, 8, 0x12347600, 8));
    CHECK(aliases(4, 0x12345600, 8, 0x12349600, 8));
}

/* Returns what a second judgement says, after what the first one has found was kept apart. */
static bool aliases_apart(unsigned physical, const uint64_t *pages, unsigned n)
{
    struct cp__judge judge;

    cp__apart_begin(&apart);
    for (unsigned i = 0; i < 2; i++) {
        cp__judge_begin(&judge, &apart);
        for (unsigned k = 0; k < n; k++) {
            load(&judge, pages[k] * 4096, 8);
            store(&judge, pages[k] * 4096, 8);
        }
        if (i == 0)
            cp__apart_choose(&apart, physical);
    }
    return judge.may_alias;
}

CP_TEST(pages_that_a_judgement_has_found_are_kept_apart)
{
    static const uint64_t pages[] = {0x12345, 0x12349, 0x1234d, 0x12351, 0x12355};

    for (unsigned n = 1; n <= 5; n++) {
        CHECK(aliases_apart(1, pages, n) == (n > 1));
        CHECK(aliases_apart(2, pages, n) == (n > 2));
        CHECK(aliases_apart(4, pages, n) == (n > 4));
    }
}

/* Loads go through a hundred pages, and the store is to one. */
CP_TEST(one_page_is_kept_apart_from_a_hundred)
{
    struct cp__judge judge;

    cp__apart_begin(&apart);
    for (unsigned i = 0; i < 2; i++) {
        cp__judge_begin(&judge, &apart);
        for (uint64_t page = 0x20000; page < 0x20064; page++) {
            store(&judge, 0x12345600, 8);
            load(&judge, page * 4096 + 0x600, 8);
        }
        CHECK(judge.may_alias == (i == 0));
        cp__apart_choose(&apart, 2);
    }
    CHECK_EQ(apart.n, 101);
}

CP_TEST(of_more_pages_than_there_is_room_for_the_first_are_kept_apart)
{
    cp__apart_begin(&apart);
    for (uint64_t page = 1; page <= CP__APART_PAGES + 10; page++)
        cp__apart_add(&apart, page, 0);
    cp__apart_choose(&apart, 2);
    CHECK_EQ(apart.n, CP__APART_PAGES);
    CHECK(cp__apart_physical(&apart, 5) != cp__apart_physical(&apart, 0));
    CHECK_EQ(cp__apart_physical(&apart, CP__APART_PAGES + 4), 0);
    CHECK_EQ(cp__apart_physical(&apart, CP__APART_PAGES + 5), 1);
}

/* The store that a load gets its value from is what counts, not an older one. */
CP_TEST(a_newer_store_of_all_that_is_loaded_hides_older_ones)
{
    struct cp__judge judge;

    begin(&judge);
    store(&judge, 0x12345600, 8);
    store(&judge, 0x12346600, 8);
    load(&judge, 0x12346600, 8);
    load(&judge, 0x12346604, 4);
    CHECK(!judge.may_alias);
    store(&judge, 0x12346600, 4); /* only a part of the next load */
    store(&judge, 0x12347600, 4);
    load(&judge, 0x12346600, 8);
    CHECK(judge.may_alias);
}

CP_TEST(only_stores_before_a_load_and_near_it_count)
{
    struct cp__judge judge;

    begin(&judge);
    load(&judge, 0x12346600, 8);
    store(&judge, 0x12345600, 8);
    CHECK(!judge.may_alias);
    for (unsigned i = 0; i < CP__JUDGE_STORES - 1; i++)
        store(&judge, 0x12345000, 8);
    load(&judge, 0x12347600, 8);
    CHECK(judge.may_alias);

    begin(&judge);
    store(&judge, 0x12345600, 8);
    for (unsigned i = 0; i < CP__JUDGE_STORES; i++)
        store(&judge, 0x12345000, 8);
    load(&judge, 0x12347600, 8);
    CHECK(!judge.may_alias);
}

CP_TEST(unaligned_accesses_and_crossings_are_counted)
{
    static const struct {
        uint64_t address;
        uint64_t size;
        unsigned unaligned, crossings;
    } cases[] = {
        {0x1000, 8, 0, 0},  {0x1001, 1, 0, 0},   {0x1004, 8, 1, 0},   {0x1038, 8, 0, 0},
        {0x1039, 8, 1, 1},  {0x103e, 4, 1, 1},   {0x1030, 32, 1, 1},  {0x1020, 32, 0, 0},
        {0x1000, 64, 0, 0}, {0x1008, 64, 1, 1},  {0x1002, 10, 0, 0}, /* the x87's */
        {0x1001, 10, 1, 0}, {0x1000, 512, 0, 0}, {0x1010, 512, 1, 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cp__judge judge;

        begin(&judge);
        load(&judge, cases[i].address, cases[i].size);
        CHECK_EQ(judge.accesses, 1);
        CHECKF(judge.unaligned == cases[i].unaligned && judge.crossings == cases[i].crossings,
               "%u bytes at %#x: %u, %u", (unsigned)cases[i].size, (unsigned)cases[i].address,
               judge.unaligned, judge.crossings);
    }
}

CP_TEST(a_string_is_as_aligned_as_its_parts)
{
    struct cp__judge judge;
    struct cp__access access = {.address = 0x1030, .size = 64, .unit = 8, .is_load = true};

    begin(&judge);
    cp__judge_add(&judge, &access);
    CHECK_EQ(judge.unaligned + judge.crossings, 0);
    access.size = 0;
    cp__judge_add(&judge, &access);
    CHECK_EQ(judge.accesses, 1);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static struct cp_block *open_traced(unsigned runs)
{
    const struct cp_block_options options = {.size = sizeof options, .runs = runs};
    struct cp_block *block;
    struct cp_error err = {0};
    const int result = cp_block_open(&block, &options, &err);

    if (result == -EPERM || result == -EACCES)
        SKIP("%s", err.message);
    CHECKF(result == 0, "%s", err.message);
    return block;
}

static struct cp_block_result trace(struct cp_block *block, const char *hex)
{
    struct cp_block_result result = {.size = sizeof result};
    struct cp_error err = {0};
    uint8_t bytes[64];
    size_t n = 0;

    for (; hex[2 * n] != '\0'; n++) {
        unsigned byte;

        CHECK(n < sizeof bytes && sscanf(hex + 2 * n, "%2x", &byte) == 1);
        bytes[n] = (uint8_t)byte;
    }
    CHECKF(cp_block_measure(block, bytes, n, &result, &err) == 0, "%s: %s", hex, err.message);
    CHECKF(result.status <= CP_BLOCK_NOT_REPRODUCIBLE, "%s: %s (%s)", hex,
           cp_block_status_name(result.status), result.detail);
    CHECKF(result.traced > 0, "%s", hex);
    return result;
}

/* Each copy does the same: all registers hold 0x12345600, and so does what is loaded. */
CP_TEST(accesses_of_blocks_are_counted)
{
    static const struct {
        const char *hex, *code;
        unsigned accesses, unaligned, crossings; /* of each copy */
    } blocks[] = {
        {"4801c0", "add rax, rax", 0, 0, 0},
        {"488d473e", "lea rax, [rdi+62]", 0, 0, 0},
        {"0f1f403e", "nop [rax+62]", 0, 0, 0},
        {"0f18483e", "prefetcht0 [rax+62]", 0, 0, 0},
        {"488b473e", "mov rax, [rdi+62]", 1, 1, 1},
        {"488b4704", "mov rax, [rdi+4]", 1, 1, 0},
        {"8b4704", "mov eax, [rdi+4]", 1, 0, 0},
        {"4801473e", "add [rdi+62], rax", 1, 1, 1},
        {"488907488b07", "mov [rdi], rax; mov rax, [rdi]", 2, 0, 0},
        {"4c896424fe", "mov [rsp-2], r12", 1, 1, 1},
        {"f30f6f4738", "movdqu xmm0, [rdi+56]", 1, 1, 1},
        {"ff770159", "push [rdi+1]; pop rcx", 3, 1, 0},
        {"a44883ee014883ef01", "movsb; sub rsi, 1; sub rdi, 1", 2, 0, 0},
        {"b920000000f3a44883ee204883ef20", "mov ecx, 32; rep movsb; sub rsi, 32; sub rdi, 32", 2, 0, 0},
    };
    struct cp_block *block = open_traced(1);

    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        const struct cp_block_result result = trace(block, blocks[i].hex);

        CHECKF(result.accesses == blocks[i].accesses * result.traced &&
                   result.unaligned == blocks[i].unaligned * result.traced &&
                   result.crossings == blocks[i].crossings * result.traced,
               "%s: %u, %u, %u of %u copies", blocks[i].code, result.accesses, result.unaligned,
               result.crossings, result.traced);
        CHECKF(!result.may_alias, "%s", blocks[i].code);
    }
    cp_block_close(block);
}

/* Returns whether a load may wait falsely if there is one physical page. */
static bool has_aliased(struct cp_block *block, const char *hex)
{
    const struct cp_block_result result = trace(block, hex);

    return result.may_alias || result.physical > 1;
}

/* A store and a load of other pages, at the same place there or beside each other: so the address of the
 * other access is known by each byte. */
CP_TEST(addresses_of_all_kinds_of_operands_are_found)
{
    static const struct {
        const char *same, *beside, *code;
    } blocks[] = {
        {"48890425001601008b0f", "48890425081601008b0f", "mov ecx, [rdi]"},
        {"4889042500160100678b0e", "4889042508160100678b0e", "mov ecx, [esi]"},
        {"48890425002c0100488b0c5d00000000", "48890425082c0100488b0c5d00000000", "mov rcx, [rbx*2]"},
        {"48890425082e01004b8b4ca508", "48890425002e01004b8b4ca508", "mov rcx, [r13+r12*4+8]"},
        {"488904252816010064488b0c2528000000", "488904252016010064488b0c2528000000", "mov rcx, fs:[0x28]"},
        {"488904250f000100488b0d00000000", "4889042517000100488b0d00000000", "mov rcx, [rip]"},
        {"48890425f015010048034ff0", "48890425f815010048034ff0", "add rcx, [rdi-16]"},
        {"4889042500160100480f400f", "4889042508160100480f400f", "cmovo rcx, [rdi]"},
        {"4889042510160100f30f6f4708", "4889042518160100f30f6f4708", "movdqu xmm0, [rdi+8]"},
        {"4889042509160100db2fddd8", "488904250a160100db2fddd8", "fld [rdi]; fstp st(0)"},
        {"4889042500160100594883ec08", "4889042508160100594883ec08", "pop rcx; sub rsp, 8"},
        {"4889042500160100c9", "4889042508160100c9", "leave"},
        {"48890425fe15010088c2b005d7", "488904250616010088c2b005d7", "mov dl, al; mov al, 5; xlatb"},
        {"48890425c0200100480fa317", "48890425c8200100480fa317", "bt [rdi], rdx"},
        {"48890425f8150100baffffffff0fa317", "4889042500160100baffffffff0fa317",
         "mov edx, -1; bt [rdi], edx"},
        {"4889042500160100ad4883ee04", "4889042504160100ad4883ee04", "lodsd; sub rsi, 4"},
        {"4889042500160100fdad4883c604", "4889042504160100fdad4883c604", "std; lodsd; add rsi, 4"},
        {"4889042518160100b904000000f348ad4883ee20", "4889042520160100b904000000f348ad4883ee20",
         "mov ecx, 4; rep lodsq; sub rsi, 32"},
        {"48890425e8150100fdb904000000f348ad4883c620", "4889042508160100fdb904000000f348ad4883c620",
         "std; mov ecx, 4; rep lodsq; add rsi, 32"},
        {"4889042500160100fdb904000000f348ad4883c620", "48890425e0150100fdb904000000f348ad4883c620",
         "std; mov ecx, 4; rep lodsq; add rsi, 32"},
        {"4889042500160100b909000000f2ae4883ef01", "4889042508160100b909000000f2ae4883ef01",
         "mov ecx, 9; repne scasb; sub rdi, 1"},
        {"48890425002c0100c4e271920417", "48890425082c0100c4e271920417", "vgatherdps xmm0, [rdi+xmm2], xmm1"},
        {"4889042500060100c4e2f59304d7", "4889042508060100c4e2f59304d7",
         "vgatherqpd ymm0, [rdi+ymm2*8], ymm1"},
        {"504883c408488b0c25f8150100", "504883c408488b0c2500160100", "push rax; add rsp, 8"},
        {"8f4424084883ec08488b0c2510160100", "8f4424084883ec08488b0c2508160100", "pop [rsp+8]; sub rsp, 8"},
        {"48ab4883ef08488b0c2500160100", "48ab4883ef08488b0c2508160100", "stosq; sub rdi, 8"},
        {"8907488b0c2500160100", "8907488b0c2504160100", "mov [rdi], eax"},
        {"a54883ee044883ef04488b0c2500160100", "a54883ee044883ef04488b0c2504160100",
         "movsd; sub rsi, 4; sub rdi, 4"},
    };
    struct cp_block *block = open_traced(1);

    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        if (blocks[i].code[0] == 'v' && !__builtin_cpu_supports("avx2"))
            continue;
        CHECKF(has_aliased(block, blocks[i].same), "%s", blocks[i].code);
        CHECKF(!has_aliased(block, blocks[i].beside), "%s", blocks[i].code);
    }
    cp_block_close(block);
}

CP_TEST(what_may_alias_is_measured_with_more_pages)
{
    static const char *const blocks[] = {
        "488907488b8700100000", /* mov [rdi], rax; mov rax, [rdi+0x1000] */
        "488907488b8700400000", /* the load is from [rdi+0x4000] */
    };
    struct cp_block *block = open_traced(0);
    struct cp_block_result result = trace(block, "488907488b07"); /* from [rdi] */

    CHECK_EQ(result.physical, 1);
    CHECK(!result.may_alias && result.other_cycles == 0);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        result = trace(block, blocks[i]);
        CHECK(result.physical == 1 || result.physical == 2);
        CHECK(result.may_alias == (result.physical == 1));
    }
    cp_block_close(block);
}

/* ---- Subnormal numbers ----------------------------------------------------------------------- */

/* What all registers hold is a subnormal number of 64 bits. If such numbers count as 0, so does their sum,
 * which is added to an address in the second block; otherwise that is no address any more, and nothing is
 * timed. */
CP_TEST(blocks_with_floats_are_timed_with_subnormal_numbers)
{
    struct cp_block *block = open_traced(0);
    struct cp_block_result result = trace(block, "f20f58d3"); /* addsd xmm2, xmm3 */

    if (result.subnormal_cycles == 0)
        SKIP("the machine is too busy");
    CHECK(result.subnormal ==
          (result.subnormal_cycles > result.cycles * 1.05 || result.subnormal_cycles < result.cycles * 0.95));
    /* addsd xmm0, xmm1; movq rax, xmm0; shl rax, 32; mov rcx, [rbx+rax] */
    result = trace(block, "f20f58c166480f7ec048c1e020488b0c03");
    CHECK_EQ(result.subnormal_cycles, 0);
    CHECK(!result.subnormal);
    cp_block_close(block);
}

CP_TEST(blocks_without_floats_are_not_timed_twice)
{
    struct cp_block *block = open_traced(0);

    CHECK_EQ(trace(block, "660fd4d3").subnormal_cycles, 0); /* paddq xmm2, xmm3 */
    CHECK_EQ(trace(block, "660f2817").subnormal_cycles, 0); /* movapd xmm2, [rdi] */
    cp_block_close(block);
}

CP_TEST(a_result_without_a_size_is_refused)
{
    struct cp_block *block = open_traced(1);
    struct cp_block_result result = {.size = 0, .runs = 7};
    struct cp_error err = {0};

    CHECK_EQ(cp_block_measure(block, "\x90", 1, &result, &err), -EINVAL);
    CHECK_CONTAINS(err.message, "size");
    CHECK_EQ(result.runs, 7);
    result.size = offsetof(struct cp_block_result, runs);
    CHECK_EQ(cp_block_measure(block, "\x90", 1, &result, &err), 0);
    CHECK_EQ(result.instructions, 1);
    CHECK_EQ(result.runs, 7);
    CHECK_EQ(result.size, offsetof(struct cp_block_result, runs));
    cp_block_close(block);
}

#else

CP_TEST(accesses_are_not_judged_here)
{
    SKIP("blocks are measured on x86-64 only, so far");
}

#endif
