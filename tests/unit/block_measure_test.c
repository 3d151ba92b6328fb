/* Blocks that end in each way, and what a block can reach. How many cycles they take is in
 * live/block_cycles_test.c. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "block/block.h"
#include "block/layout.h"
#include "block/process.h"
#include "tests/support/test.h"

#if defined(__x86_64__)

/* ---- Tools ----------------------------------------------------------------------------------- */

/* The ends of blocks need one run of timings. */
static struct cp_block *open_block(void)
{
    const struct cp_block_options options = {.size = sizeof options, .runs = 1};
    struct cp_block *block;
    struct cp_error err = {0};
    const int result = cp_block_open(&block, &options, &err);

    if (result == -EPERM || result == -EACCES)
        SKIP("%s", err.message);
    CHECKF(result == 0, "%s", err.message);
    return block;
}

static struct cp_block_result measure(struct cp_block *block, const char *hex)
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
    return result;
}

/* A machine that is busy makes many blocks irreproducible. */
static bool has_run(const struct cp_block_result *result)
{
    return result->status == CP_BLOCK_MEASURED || result->status == CP_BLOCK_NOT_REPRODUCIBLE;
}

/* ---- How blocks end -------------------------------------------------------------------------- */

CP_TEST(each_end_has_a_name)
{
    static const struct {
        const char *hex;
        enum cp_block_status status;
        const char *detail;
    } blocks[] = {
        {"", CP_BLOCK_EMPTY, ""},
        {"ebfe", CP_BLOCK_EMPTY, ""},       /* jumps to itself */
        {"ebfe90", CP_BLOCK_BRANCH, "jmp"}, /* the same, not at the end */
        {"e80000000090", CP_BLOCK_BRANCH, "call"},
        {"c390", CP_BLOCK_BRANCH, "ret"},
        {"7500ff", CP_BLOCK_BRANCH, "jnz"},
        {"06", CP_BLOCK_UNDECODED, "byte 0"},
        {"4801", CP_BLOCK_UNDECODED, "byte 0"},
        {"0f05", CP_BLOCK_REFUSED, "syscall"},
        {"0f34", CP_BLOCK_REFUSED, "sysenter"},
        {"cd80", CP_BLOCK_REFUSED, "int 0x80"},
        {"f4", CP_BLOCK_REFUSED, "hlt"},
        {"ec", CP_BLOCK_REFUSED, "in al, dx"},
        {"8ed8", CP_BLOCK_REFUSED, "mov ds"},
        {"48cb", CP_BLOCK_REFUSED, "ret"}, /* far */
        {"f3480faed0", CP_BLOCK_REFUSED, "wrfsbase"},
        {"0f01ef", CP_BLOCK_REFUSED, "wrpkru"},
        {"0f01fb", CP_BLOCK_REFUSED, "mwaitx"},
        {"31e450", CP_BLOCK_BAD_ADDRESS, "0xfffffffffffffff8"}, /* a stack at 0 */
        {"8b042510000000", CP_BLOCK_BAD_ADDRESS, "0x10"},
        {"488b042500003b6d", CP_BLOCK_OWN_MEMORY, "0x6d3b0000"}, /* where the harness keeps registers */
        {"4889042500003c6d", CP_BLOCK_OWN_MEMORY, "0x6d3c0000"}, /* the page itself */
        {"48b90000010000200000c60190", CP_BLOCK_OWN_MEMORY, "0x200000010000"}, /* writes to its own code */
        {"f3a4", CP_BLOCK_MANY_PAGES, ""},
        {"0f0b", CP_BLOCK_ILLEGAL, "at byte 0"},
        {"9048f7f1", CP_BLOCK_ARITHMETIC, "at byte 1"},
        {"48b800000000000000808b00", CP_BLOCK_PROTECTION, "at byte 10"}, /* no address */
        {"68000100009d90", CP_BLOCK_ENDED, "signal 5"},                  /* single steps */
        {"0f284001", CP_BLOCK_PROTECTION, "at byte 0"},                  /* must be aligned */
    };
    struct cp_block *block = open_block();

    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        const struct cp_block_result result = measure(block, blocks[i].hex);

        CHECKF(result.status == blocks[i].status, "%s: %s (%s)", blocks[i].hex,
               cp_block_status_name(result.status), result.detail);
        CHECKF(strncmp(result.detail, blocks[i].detail, strlen(blocks[i].detail)) == 0, "%s: %s",
               blocks[i].hex, result.detail);
        CHECK_EQ(result.cycles, 0);
    }
    cp_block_close(block);
}

CP_TEST(a_block_that_is_too_long_is_refused)
{
    static uint8_t nops[8193];
    struct cp_block_result result = {.size = sizeof result};
    struct cp_block *block = open_block();

    memset(nops, 0x90, sizeof nops);
    CHECK_EQ(cp_block_measure(block, nops, sizeof nops, &result, NULL), 0);
    CHECK_EQ(result.status, CP_BLOCK_TOO_LONG);
    CHECK_EQ(cp_block_measure(block, nops, sizeof nops - 1, &result, NULL), 0);
    CHECK(has_run(&result));
    CHECK_EQ(result.instructions, 8192);
    cp_block_close(block);
}

/* ---- What blocks touch ----------------------------------------------------------------------- */

CP_TEST(pages_are_mapped_where_a_block_reaches)
{
    static const struct {
        const char *hex;
        unsigned pages;
    } blocks[] = {
        {"4801c0", 0},
        {"488b00", 1},             /* mov rax, [rax]: what is there is an address again */
        {"8a81ff090000", 1},       /* the last byte of a page */
        {"668b81ff090000", 2},     /* and the first one of the next */
        {"64488b042528000000", 1}, /* fs:0x28 */
        {"48ff05dd010000", 1},     /* relative to its place: all copies reach the same */
        {"880a4883c201", 2},       /* 4096 bytes from 0x12345600 on */
        {"488b0425ffff0100", 2},   /* low addresses */
        {"58", 49},                /* pop */
    };
    struct cp_block *block = open_block();

    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        const struct cp_block_result result = measure(block, blocks[i].hex);

        CHECKF(has_run(&result), "%s: %s (%s)", blocks[i].hex, cp_block_status_name(result.status),
               result.detail);
        CHECKF(result.pages == blocks[i].pages, "%s: %u pages", blocks[i].hex, result.pages);
    }
    cp_block_close(block);
}

/* What blocks need many pages, or long for, is copied less often. */
CP_TEST(slow_and_large_blocks_are_copied_less_often)
{
    struct cp_block *block = open_block();
    struct cp_block_result result = measure(block, "4881c700100000488b07"); /* a page each */

    CHECK(has_run(&result));
    CHECK(result.pages > 64 && result.pages <= 256);
    CHECK(result.copies[1] < 24576 / 10);
    result = measure(block, "0fa2"); /* cpuid, which a hypervisor answers */
    CHECK(has_run(&result));
    cp_block_close(block);
}

/* Whatever state a block leaves, the next one does not see it. */
CP_TEST(a_block_begins_with_the_same_state)
{
    static const char *const before[] = {"fd",
                                         "0f6fc1",
                                         "4831c04831db4831c94831d24831f64831ff4831ed4831e4",
                                         "d9eed9eed9ee",
                                         "c5fc57c0",
                                         "f9f5",
                                         "0fae1500020000"};
    struct cp_block *block = open_block();

    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        struct cp_block_result result = measure(block, before[i]);

        printf("%s: %s\n", before[i], cp_block_status_name(result.status));
        result = measure(block, "a4"); /* movsb goes up, from rsi to rdi */
        CHECK(has_run(&result));
        CHECK_EQ(result.pages, 7);
    }
    cp_block_close(block);
}

CP_TEST(a_branch_at_the_end_is_left_out)
{
    struct cp_block *block = open_block();
    const struct cp_block_result result = measure(block, "48ffc84801c075f8");

    CHECK(has_run(&result));
    CHECK(result.has_branch);
    CHECK_EQ(result.instructions, 2);
    CHECK_EQ(result.length, 6);
    cp_block_close(block);
}

/* ---- What blocks cannot reach ---------------------------------------------------------------- */

/* Returns the only child of this process. */
static int find_child(void)
{
    char path[60];
    int child = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)gettid());
    file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%d", &child) != 1)
        SKIP("the kernel does not list the children of a process");
    fclose(file);
    return child;
}

/* The vsyscall page is the kernel's, and cannot be unmapped. */
CP_TEST(nothing_else_is_mapped_or_open)
{
    struct cp_block *block = open_block();
    const int child = find_child();
    unsigned long long begin, end;
    char path[60], line[200];
    FILE *maps;
    DIR *descriptors;
    unsigned found = 0;

    snprintf(path, sizeof path, "/proc/%d/maps", child);
    maps = fopen(path, "re");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        CHECK_EQ(sscanf(line, "%llx-%llx", &begin, &end), 2);
        if (strstr(line, "[vsyscall]") != NULL)
            continue;
        CHECKF((begin >= CP__SAVED && end <= CP__RESERVED_END) ||
                   (begin >= CP__STUB && end <= CP__IMAGE + CP__IMAGE_SIZE),
               "%s", line);
        found++;
    }
    fclose(maps);
    CHECK_EQ(found, 5);
    snprintf(path, sizeof path, "/proc/%d/fd", child);
    descriptors = opendir(path);
    CHECK(descriptors != NULL);
    for (const struct dirent *entry; (entry = readdir(descriptors)) != NULL;)
        CHECKF(entry->d_name[0] == '.', "descriptor %s", entry->d_name);
    closedir(descriptors);
    cp_block_close(block);
}

/* No block comes so far: what calls the system is refused before it runs. */
CP_TEST(a_guest_ends_with_its_first_system_call)
{
    struct cp__host host;
    struct cp_error err = {0};
    struct cp__stop stop;
    pid_t guest;
    int result = cp__host_open(&host, &err);

    if (result == -EPERM || result == -EACCES)
        SKIP("%s", err.message);
    CHECKF(result == 0, "%s", err.message);
    guest = cp__guest_start(&host);
    CHECK(guest > 0);
    CHECK_EQ(CP__TRACED_CALL(guest, SYS_getpid, 0), guest);
    CHECK_EQ(cp__guest_confine(guest), 0);
    cp__traced_run(guest, CP__STUB, &stop);
    CHECK(stop.has_ended);
    CHECK_EQ(stop.signal, SIGSYS);
    CHECK(kill(guest, 0) < 0);
    cp__host_close(&host);
}

/* Random bytes, most of which are code of some kind, bring nothing but results. */
CP_TEST(random_bytes_bring_results)
{
    struct cp_block *block = open_block();
    uint64_t state = 88172645463325252u;
    unsigned of_status[CP_BLOCK_STATUSES] = {0};

    for (unsigned i = 0; i < 1000; i++) {
        struct cp_block_result result = {.size = sizeof result};
        struct cp_error err = {0};
        uint64_t bytes[2];

        for (unsigned k = 0; k < 2; k++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes[k] = state;
        }
        CHECKF(cp_block_measure(block, bytes, 1 + i % 16, &result, &err) == 0, "%s", err.message);
        CHECK((unsigned)result.status < CP_BLOCK_STATUSES);
        of_status[result.status]++;
    }
    for (int i = 0; i < CP_BLOCK_STATUSES; i++)
        printf("%s: %u\n", cp_block_status_name((enum cp_block_status)i), of_status[i]);
    CHECK(of_status[CP_BLOCK_MEASURED] + of_status[CP_BLOCK_NOT_REPRODUCIBLE] > 10);
    CHECK(of_status[CP_BLOCK_REFUSED] > 0 && of_status[CP_BLOCK_BRANCH] > 0);
    cp_block_close(block);
}

#else

CP_TEST(blocks_are_not_measured_here)
{
    struct cp_block *block;
    struct cp_error err = {0};

    CHECK_EQ(cp_block_open(&block, NULL, &err), -ENOSYS);
    CHECK_CONTAINS(err.message, "x86-64");
}

#endif
