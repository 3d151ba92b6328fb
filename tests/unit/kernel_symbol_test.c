/* Kernel frames: which function contains an address, by a list of symbols made here and by the kernel's own
 * list. */
#include <inttypes.h>
#include <sys/stat.h>

#include "pprof/profile_data.h"
#include "pprof/symbol/kernel.h"
#include "runtime/base/sysctl_linux.h"
#include "tests/support/profile_tools.h"

static const char symbols[] = "0000000000000000 A fixed_percpu_data\n"
                              "0000000000001000 A cpu_tss_rw\n"
                              "ffffffff81000000 T _stext\n"
                              "ffffffff81000000 T alias\n"
                              "ffffffff81000100 t inner_work.isra.0\n"
                              "ffffffff81000200 D table\n"
                              "ffffffff81000200 T after_table\n"
                              "ffffffff81000300 d data_in_text\n"
                              "ffffffff81000400 W weak_one\n"
                              "ffffffff81009000 T _etext\n"
                              "ffffffff8100a000 R _rodata\n"
                              "ffffffff82000000 T _sinittext\n"
                              "ffffffff82000000 t init_work\n"
                              "ffffffff82001000 T _einittext\n"
                              "no line of this kind\n"
                              "ffffffffc0500010 t disk_write\t[disk]\n"
                              "ffffffffc0500000 t disk_read\t[disk]\n"
                              "ffffffffc0100000 t net_send\t[net]\n"
                              "ffffffffc0101500 t net_last\t[net]\n"
                              "ffffffffc0103800 t bpf_prog_6deef7357e7b4530_one\t[bpf]\n"
                              "ffffffffc0110000 t bpf_prog_6deef7357e7b4530_two\t[bpf]\n";

/* Writes a file into the test's directory; returns its path. */
static const char *make_file(const char *name, const char *text)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    test_write_file(name, text);
    return path;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

struct answers {
    char names[64][64]; /* "": none */
};

static int note_answer(void *context, size_t i, const char *name, const char *module)
{
    struct answers *answers = context;

    CHECKF(answers->names[i][0] == '\0', "%zu was answered twice", i);
    snprintf(answers->names[i], sizeof answers->names[i], "%s%s", name, module);
    return 0;
}

CP_TEST(each_address_finds_its_function)
{
    static const struct {
        uint64_t address;
        const char *name;
    } expected[] = {
        {0x8000000000000000, ""}, /* before the first symbol */
        {0xffffffff80ffffff, ""},
        {0xffffffff81000000, "_stext"}, /* the first of equal addresses */
        {0xffffffff810000ff, "_stext"},
        {0xffffffff81000100, "inner_work.isra.0"},
        {0xffffffff810001ff, "inner_work.isra.0"},
        {0xffffffff81000200, "after_table"}, /* code has priority over data of the same address */
        {0xffffffff810002ff, "after_table"},
        {0xffffffff81000300, ""},
        {0xffffffff810003ff, ""},
        {0xffffffff81000400, "weak_one"},
        {0xffffffff81008fff, "weak_one"},
        {0xffffffff81009000, ""}, /* between sections */
        {0xffffffff81009fff, ""},
        {0xffffffff8100a000, ""},
        {0xffffffff82000000, "_sinittext"},
        {0xffffffff82000fff, "_sinittext"},
        {0xffffffff82001000, ""},
        {0xffffffffc00fffff, ""},
        {0xffffffffc0100000, "net_send[net]"},
        {0xffffffffc01014ff, "net_send[net]"}, /* past the page: the symbol's module continues */
        {0xffffffffc0101500, "net_last[net]"},
        /* the last symbol of a module reaches to the end of the next page */
        {0xffffffffc0102fff, "net_last[net]"},
        {0xffffffffc0103000, ""},
        {0xffffffffc0103800, "bpf_prog_6deef7357e7b4530_one[bpf]"},
        {0xffffffffc010ffff, "bpf_prog_6deef7357e7b4530_one[bpf]"},
        {0xffffffffc0110000, "bpf_prog_6deef7357e7b4530_two[bpf]"},
        {0xffffffffc0500000, "disk_read[disk]"},
        {0xffffffffc050000f, "disk_read[disk]"},
        {0xffffffffc0500010, "disk_write[disk]"},
        {0xffffffffc0501fff, "disk_write[disk]"}, /* past the last symbol */
        {0xffffffffc0502000, ""},
        {0xffffffffffffffff, ""},
    };
    enum { N = sizeof expected / sizeof expected[0] };
    const char *path = make_file("kallsyms", symbols);
    struct answers all = {0};
    uint64_t addresses[N];

    for (size_t i = 0; i < N; i++)
        addresses[i] = expected[i].address;
    CHECK_EQ(cp__kernel_symbolise(path, addresses, N, note_answer, &all), 0);
    for (size_t i = 0; i < N; i++) {
        struct answers one = {0};

        CHECKF(strcmp(all.names[i], expected[i].name) == 0, "%" PRIx64 " is in \"%s\", not in \"%s\"",
               addresses[i], expected[i].name, all.names[i]);
        CHECK_EQ(cp__kernel_symbolise(path, addresses + i, 1, note_answer, &one), 0);
        CHECKF(strcmp(one.names[0], expected[i].name) == 0, "%" PRIx64 " alone is in \"%s\", not in \"%s\"",
               addresses[i], expected[i].name, one.names[0]);
    }
}

static int refuse(void *context, size_t i, const char *name, const char *module)
{
    (void)context, (void)i, (void)name, (void)module;
    return -E2BIG;
}

CP_TEST(what_cannot_be_read_is_told)
{
    const uint64_t address = 0xffffffff81000100;
    struct answers none = {0};

    CHECK_EQ(cp__kernel_symbolise("/nonexistent/kallsyms", &address, 1, note_answer, &none), -ENOENT);
    CHECK_EQ(cp__kernel_symbolise("/", &address, 1, note_answer, &none), -EISDIR);
    CHECK_EQ(cp__kernel_symbolise(make_file("empty", ""), &address, 1, note_answer, &none), -EPERM);
    CHECK_EQ(
        cp__kernel_symbolise(make_file("hidden", "0000000000000000 T _stext\n0000000000000000 t x\t[m]\n"),
                             &address, 1, note_answer, &none),
        -EPERM);
    CHECK_STR(none.names[0], "");
    CHECK_EQ(cp__kernel_symbolise(make_file("kallsyms", symbols), &address, 1, refuse, NULL), -E2BIG);
}

/* ---- The kernel's own list ------------------------------------------------------------------- */

/* Returns the address of a kernel function; 0 if the kernel hides addresses. */
static uint64_t find_address(const char *name)
{
    char *text = test_command(NULL, "grep -E ' [tT] %s$' /proc/kallsyms | head -n 1", name);
    uint64_t address = strtoull(text, NULL, 16);

    free(text);
    return address;
}

/* Adds a stack: the program has called outer, outer has called inner, and inner was interrupted at its
 * beginning. */
static void add_kernel_stack(struct cp__profile *profile, uint64_t outer, uint64_t inner, uint64_t weight)
{
    const uintptr_t frames[] = {inner, outer + 8, (uintptr_t)add_kernel_stack, (uintptr_t)strlen + 1};
    const struct cp_sample sample = {.weight = weight, .depth = 4, .kernel_depth = 2, .frames = frames};

    CHECK_EQ(cp__profile_add(profile, &sample), 0);
}

CP_TEST(functions_of_this_kernel_are_named)
{
    const char *entry = "do_syscall_64";
    uint64_t inner = find_address("schedule"), outer = find_address(entry);
    struct cp__profile *profile;
    const char *path;
    char *text;

    if (outer == 0) {
        entry = "do_el0_svc"; /* on arm64 */
        outer = find_address(entry);
    }
    if (inner == 0 || outer == 0)
        SKIP("The kernel does not show its symbols to this user.");
    profile = new_profile();
    add_kernel_stack(profile, outer, inner, 7);
    path = write_profile(profile, &cpu_meta, "kernel");
    text = pprof("-traces", path);
    CHECK_CONTAINS(text, "7ms   schedule\n");
    CHECK_CONTAINS(text, entry);
    CHECK_CONTAINS(text, "             add_kernel_stack\n");
    free(text);
    text = pprof("-raw", path);
    CHECK_CONTAINS(text, "[kernel.kallsyms]");
    free(text);
    text = pprof("-top", path);
    CHECK_CONTAINS(text, "File: kernel_symbol_test");
    free(text);
    text = pprof("-peek schedule", path);
    CHECK_CONTAINS(text, entry);
    free(text);
    cp__profile_free(profile);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

static struct cp__profile *profile_with(const char *kallsyms)
{
    struct cp__profile *profile = new_profile();

    profile->kallsyms = kallsyms;
    return profile;
}

/* The kernel's first frame is an instruction, and so is the program's first frame; the others are return
 * addresses. */
CP_TEST(kernel_frames_are_looked_up_as_what_they_are)
{
    static const uintptr_t frames[] = {0xffffffff81000100, 0xffffffff81000100, 0xffffffffc0500010, 0x1000,
                                       0x2001};
    const struct cp_sample whole_stack = {.weight = 1, .depth = 5, .kernel_depth = 3, .frames = frames};
    const struct cp_sample kernel_only = {.weight = 2, .depth = 1, .kernel_depth = 1, .frames = frames};
    const struct cp_sample user_only = {.weight = 4, .depth = 2, .frames = frames + 3};
    struct cp__profile *profile = profile_with(make_file("kallsyms", symbols));
    char *text;

    CHECK_EQ(cp__profile_add(profile, &whole_stack), 0);
    CHECK_EQ(cp__profile_add(profile, &kernel_only), 0);
    CHECK_EQ(cp__profile_add(profile, &user_only), 0);
    text = pprof("-raw", write_profile(profile, &cpu_meta, "kernel"));
    CHECK_CONTAINS(text, "          1    1000000: 1 2 3 4 5 \n"
                         "          2    2000000: 1 \n"
                         "          4    4000000: 4 5 \n"
                         "Locations\n"
                         "     1: 0xffffffff81000100 M=2 inner_work.isra.0 :0 s=0\n"
                         "     2: 0xffffffff810000ff M=2 _stext :0 s=0\n"
                         "     3: 0xffffffffc050000f M=3 disk_read :0 s=0\n"
                         "     4: 0x1000 \n"
                         "     5: 0x2000 \n"
                         "Mappings\n");
    CHECK_CONTAINS(text, "2: 0x8000000000000000/0xffffffffffffffff/0x0 [kernel.kallsyms]  [FN]");
    CHECK_CONTAINS(text, "3: 0x8000000000000000/0xffffffffffffffff/0x0 [disk]  [FN]");
    free(text);
    cp__profile_free(profile);
}

/* The page belongs to the program, but lies in the kernel's half of the address space. */
CP_TEST(the_vsyscall_page_is_no_kernel)
{
    struct cp__profile *profile = profile_with(make_file("kallsyms", "ffffffffff5ff000 T not_this\n"));
    char *maps = test_command(NULL, "cat /proc/self/maps");
    const uintptr_t frame = 0xffffffffff600010;
    bool is_there = strstr(maps, "[vsyscall]") != NULL;
    char *text;

    free(maps);
    if (!is_there)
        SKIP("There is no vsyscall page here.");
    add(profile, &frame, 1, 1, 0, NULL);
    text = pprof("-raw", write_profile(profile, &cpu_meta, "vsyscall"));
    CHECK_CONTAINS(text, "/0x0 [vsyscall]");
    CHECK(strstr(text, "not_this") == NULL && strstr(text, "kallsyms") == NULL);
    free(text);
    cp__profile_free(profile);
}

/* Nothing is lost while the kernel hides names, also the second time; once the kernel shows names, they are
 * used. */
CP_TEST(a_hidden_kernel_has_addresses)
{
    struct cp__profile *profile = profile_with("/nonexistent/kallsyms");
    struct cp__profile_findings findings;
    struct cp_memory first;
    const char *path;
    char *text;

    add_kernel_stack(profile, 0xffffffff81000000, 0xffffffff81000100, 3);
    CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
    CHECK_CONTAINS(findings.kernel, "/proc/kallsyms cannot be read (No such file or directory).");
    first = whole(profile, SIZE_MAX);
    check_same(profile, &first, SIZE_MAX);
    path = write_profile(profile, &cpu_meta, "hidden");
    text = pprof("-raw", path);
    CHECK_CONTAINS(text, "     1: 0xffffffff81000100 M=2 \n     2: 0xffffffff81000007 M=2 \n");
    CHECK_CONTAINS(text, "/0x0 [kernel.kallsyms]  \n");
    free(text);
    text = pprof("-top", path);
    CHECK_CONTAINS(text, "[[kernel.kallsyms]]\n");
    free(text);
    profile->kallsyms = make_file("kallsyms", symbols);
    CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
    CHECK_STR(findings.kernel, "");
    text = pprof("-raw", write_profile(profile, &cpu_meta, "seen"));
    CHECK_CONTAINS(text, "     1: 0xffffffff81000100 M=2 inner_work.isra.0 :0 s=0\n");
    free(text);
    free(first.data);
    cp__profile_free(profile);
}

CP_TEST(a_hidden_kernel_says_what_to_do)
{
    static const struct {
        const char *restricted;
        const char *part;
    } expected[] = {
        {"0\n", "Give it CAP_SYSLOG, or set kernel.kptr_restrict to 0 and kernel.perf_event_paranoid to 1"},
        {"1\n", "hides its addresses from this process."},
        {"2\n", "from everybody (kernel.kptr_restrict=2). Set that to 1 with sysctl, and give"},
        {"", "hides its addresses from this process."},
    };
    struct cp__profile_findings findings;
    struct cp__profile *profile;
    char path[256];

    profile = profile_with(strdup(make_file("hidden", "0000000000000000 T _stext\n")));
    add_kernel_stack(profile, 0xffffffff81000000, 0xffffffff81000100, 3);
    cp__sysctl_root = test_dir();
    snprintf(path, sizeof path, "%s/kernel", test_dir());
    CHECK_EQ(mkdir(path, 0700), 0);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        make_file("kernel/kptr_restrict", expected[i].restricted);
        CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
        CHECK_CONTAINS(findings.kernel, expected[i].part);
        CHECK(findings.kernel[strlen(findings.kernel) - 1] == '.');
    }
    free((char *)(uintptr_t)profile->kallsyms);
    cp__profile_free(profile);
}

CP_TEST(symbols_are_read_where_there_are_kernel_frames_only)
{
    struct cp__profile *profile = profile_with("/nonexistent/kallsyms");
    const uintptr_t frame = 0x1000;
    struct cp__profile_findings findings;

    add(profile, &frame, 1, 1, 0, NULL);
    CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
    CHECK_STR(findings.kernel, "");
    cp__profile_free(profile);
}
