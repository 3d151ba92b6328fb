/* A program that cannot read /proc: after a chroot(), or without descriptors. */
#include <errno.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pprof/symbol/mapping.h"
#include "runtime/unwind/code.h"
#include "tests/support/session_tools.h"

/* Enters a root directory without /proc, or skips the test. Returns a descriptor of the old one. */
static int enter_jail(void)
{
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (chroot(test_dir()) < 0 && (unshare(CLONE_NEWUSER) < 0 || chroot(test_dir()) < 0))
        SKIP("this user may not change the root directory");
    CHECK_EQ(chdir("/"), 0);
    CHECK(access("/proc/self/maps", R_OK) < 0);
    return root;
}

static void leave_jail(int root)
{
    CHECK_EQ(fchdir(root), 0);
    CHECK_EQ(chroot("."), 0);
    close(root);
}

/* Uses more of the stack than is looked at if nobody has told where the stack ends. */
__attribute__((noinline)) static void burn_below(long ns)
{
    char room[400 << 10];

    __asm__ volatile("" : : "r"(room) : "memory");
    burn_here(ns);
    __asm__ volatile("" : : "r"(room) : "memory");
}

SIM_TEST(a_program_without_proc_has_callers_and_names)
{
    struct cp_memory memory = {0};
    const struct cp_profiling_option option =
        cp_option_event(cp_writer_memory(&memory), "taskClock", 1000000);
    struct cp_session *session;
    struct cp_error err;
    char program[256] = "-traces ", *text;
    int root;

    CHECK(readlink("/proc/self/exe", program + strlen(program), sizeof program - 10) > 0);
    root = enter_jail();

    attach();
    CHECKF(cp_session_start(&session, &option, 1, &err) == 0, "%s", err.message);
    burn_below(50000000);
    CHECKF(cp_session_stop(session, &err) == 0, "%s", err.message);
    cp_session_close(session);
    leave_jail(root);
    save(&memory, file_in_dir("jail.pb.gz"));
    text = pprof(program, file_in_dir("jail.pb.gz")); /* pprof can find the names */
    CHECK_CONTAINS(text, "      50ms   burn_here\n             burn_below\n");
    CHECK(strstr(text, "unknown") == NULL && strstr(text, "[incomplete stack]") == NULL);
    free(text);
    text = pprof("-comments", file_in_dir("jail.pb.gz"));
    CHECK_CONTAINS(text, "\nmappings: linker (No such file or directory) # ");
    CHECK_CONTAINS(text, "symbols_missing: ");
    CHECK_CONTAINS(text, "in another root directory");
    CHECK_CONTAINS(text, "\nlimits: mappings,symbols_missing # ");
    free(text);
    free(memory.data);
}

/* Lets no file be opened. */
static struct rlimit take_descriptors_away(void)
{
    struct rlimit before, none;

    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    return before;
}

static const struct cp__mapping *mapping_of(const struct cp__mappings *mappings, void *code)
{
    size_t i = cp__mappings_find(mappings, (uintptr_t)code);

    CHECK(i < mappings->n);
    return &mappings->items[i];
}

/* The kernel and the linker tell of the same code. */
static void check_same(const struct cp__mapping *a, const struct cp__mapping *b)
{
    CHECK_EQ(a->start - a->offset, b->start - b->offset);
    CHECK(a->build_id == b->build_id || strcmp(a->build_id, b->build_id) == 0);
    CHECK_EQ(a->main, b->main);
}

SIM_TEST(the_linker_tells_what_the_kernel_does_not)
{
    struct cp__mappings by_kernel = {0}, by_linker = {0};
    struct rlimit descriptors;
    struct cp__code_range range;

    CHECK_EQ(cp__mappings_note(&by_kernel), 0);
    CHECK_EQ(by_kernel.unread, 0);
    attach();
    descriptors = take_descriptors_away();
    CHECK_EQ(cp__mappings_note(&by_linker), 0);
    cp__code_update();
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &descriptors), 0);
    CHECK_EQ(by_linker.unread, -EMFILE);
    check_same(mapping_of(&by_kernel, (void *)burn_below), mapping_of(&by_linker, (void *)burn_below));
    check_same(mapping_of(&by_kernel, (void *)qsort), mapping_of(&by_linker, (void *)qsort));
    CHECK_STR(by_linker.items[0].file, (const char *)getauxval(AT_EXECFN));
    CHECK(cp__code_find_from_handler((uintptr_t)burn_below, &range));
    CHECK(range.rows != NULL || TEST_ASAN);
    CHECK(cp__code_find_from_handler((uintptr_t)qsort, &range));
    CHECK(range.rows != NULL);
    CHECK(!cp__code_find_from_handler((uintptr_t)&by_kernel, &range));
    cp__mappings_free(&by_kernel);
    cp__mappings_free(&by_linker);
}

static const char *vdso_of(const struct cp__mappings *mappings)
{
    uintptr_t start = getauxval(AT_SYSINFO_EHDR);

    return start == 0 ? "[vdso]" : mapping_of(mappings, (void *)start)->file;
}

CP_TEST(the_vdso_is_known_without_proc)
{
    struct cp__mappings mappings = {0};
    struct cp__code_range range;
    struct rlimit descriptors = take_descriptors_away();
    uintptr_t code = getauxval(AT_SYSINFO_EHDR);

    CHECK_EQ(cp__mappings_note(&mappings), 0);
    cp__code_update();
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &descriptors), 0);
    CHECK_STR(vdso_of(&mappings), "[vdso]");
    CHECK(code == 0 || cp__code_find_from_handler(code + 0x800, &range));
    cp__mappings_free(&mappings);
}
