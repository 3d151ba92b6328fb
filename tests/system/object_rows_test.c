/*
 * Which objects have rows: those whose call-frame information is listed nowhere, or stands in .debug_frame;
 * those of other namespaces; and those whose file is not to be found. In each of them, chains are exact at
 * every instruction, with a shadow stack of real calls as the judge.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/shadow_steps.h"
#include "tests/support/stub_syscall.h"

#define SOURCE "tests/support/unwind_target.c"
#define PLAIN "-O2 -fomit-frame-pointer "
/* Only .debug_frame tells of such code. */
#define DEBUG PLAIN "-g -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions "

/* Steps through the code that was loaded last. No chain lacks anything. */
static void check_exact(const char *name)
{
    on_thread(step_target);
    finish(name);
    CHECK(!KNOWS_CODE || run.marked == 0);
}

static void check_built(const char *compiler, const char *options)
{
    load(compiler, options, SOURCE);
    check_exact(options);
}

/* ---- Files that tests change ------------------------------------------------------------------ */

struct file {
    char *bytes;
    size_t size;
};

static struct file open_file(const char *path)
{
    struct file file;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    CHECK(fd >= 0);
    file.size = (size_t)lseek(fd, 0, SEEK_END);
    file.bytes = mmap(NULL, file.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(file.bytes != MAP_FAILED);
    close(fd);
    return file;
}

/* Returns .eh_frame_hdr. */
static unsigned char *find_frames(const struct file *file)
{
    const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)file->bytes;
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)(file->bytes + elf->e_phoff);

    for (int i = 0; i < elf->e_phnum; i++) {
        if (headers[i].p_type == PT_GNU_EH_FRAME)
            return (unsigned char *)file->bytes + headers[i].p_offset;
    }
    CHECK(!"no .eh_frame_hdr");
    return NULL;
}

/* Takes the list of sections out of the file. */
static void drop_sections(const struct file *file)
{
    ElfW(Ehdr) *elf = (ElfW(Ehdr) *)file->bytes;

    elf->e_shoff = 0;
    elf->e_shnum = elf->e_shstrndx = 0;
}

/* ---- Information that is not listed ----------------------------------------------------------- */

CP_TEST(objects_without_a_list_have_rows, .timeout_s = 60 * TEST_SLOWDOWN)
{
    check_built("gcc", PLAIN "-Wl,--no-eh-frame-hdr");
    check_built("gcc", PLAIN "-Wl,--no-eh-frame-hdr -Wl,--build-id=none");
}

/* The header may say that there is no table, or have a table in a form that nobody knows. */
CP_TEST(objects_with_a_header_that_lists_nothing_have_rows, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const unsigned char forms[][2] = {
        {0xff, 0xff}, {0x03, 0xff}, {0xff, 0x3b}, {0x03, 0x50 /* aligned */}, {0x03, 0x0e}};

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const char *path = build("gcc", PLAIN, SOURCE);
        struct file file = open_file(path);
        unsigned char *header = find_frames(&file);

        header[2] = forms[i][0];
        header[3] = forms[i][1];
        if (i % 2 == 0)
            drop_sections(&file);
        find_targets(dlopen(path, RTLD_LAZY));
        check_exact("a header without a table");
    }
}

/* ---- .debug_frame ------------------------------------------------------------------------------ */

CP_TEST(objects_with_debug_frame_alone_have_rows, .timeout_s = 120 * TEST_SLOWDOWN)
{
    check_built("gcc", DEBUG);
    check_built("gcc", DEBUG "-Wl,--build-id=none");
    check_built("gcc", DEBUG "-gz=zlib");
    check_built("gcc", DEBUG "-Wa,--gdwarf-cie-version=4");
    check_built("gcc", DEBUG "-Wa,--gdwarf-cie-version=3");
    check_built("gcc", DEBUG "-gdwarf-5 -gdwarf64");
}

/* The linker leaves the description of a function that it has dropped, at address 0. In this object that is
 * an address of code. */
CP_TEST(dropped_functions_have_no_rows)
{
    char options[1000];

    test_write_file("dropped.c", "#define FIVE(x) x x x x x\n"
                                 "#define TEN(x) FIVE(x) FIVE(x)\n"
                                 "__attribute__((visibility(\"hidden\"))) void dropped(void) {"
                                 " TEN(TEN(FIVE(__asm__ volatile(\"lea 7(%rip), %rax\");))) }\n");
    snprintf(options, sizeof options,
             DEBUG "-ffunction-sections -fuse-ld=gold -Wl,--gc-sections %s/dropped.c", test_dir());
    check_built("gcc", options);
}

CP_TEST(objects_with_debug_frame_by_clang_have_rows, .timeout_s = 120 * TEST_SLOWDOWN)
{
    check_built("clang", DEBUG);
    check_built("clang", DEBUG "-gdwarf-5 -gdwarf64");
    check_built("clang", DEBUG "-fuse-ld=lld -Wl,--gc-sections -ffunction-sections");
}

/* Part of an object was built without tables. */
/* Part of an object was built without tables. */
CP_TEST(objects_with_both_kinds_of_information_have_rows_for_all, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char *const ways[][2] = {{PLAIN, DEBUG}, {DEBUG, PLAIN}};
    char options[500];

    test_write_file("rest.c", "long rest(long n);\nlong rest(long n) { return n * 3; }\n");
    for (size_t i = 0; i < 2; i++) {
        free(
            test_command(NULL, "gcc -fPIC %s -c -o %s/rest.o %s/rest.c", ways[i][0], test_dir(), test_dir()));
        snprintf(options, sizeof options, "%s %s/rest.o", ways[i][1], test_dir());
        check_built("gcc", options);
    }
}

/* ---- Other namespaces -------------------------------------------------------------------------- */

CP_TEST(objects_of_other_namespaces_have_rows, .timeout_s = 60 * TEST_SLOWDOWN)
{
    static const char *const options[] = {PLAIN,
                                          PLAIN "-Wl,--build-id=none",
                                          PLAIN "-Wl,--no-eh-frame-hdr",
                                          DEBUG,
                                          PLAIN "-Wl,-z,noseparate-code",
                                          PLAIN "-fuse-ld=lld",
                                          PLAIN "-fuse-ld=gold"};

    if (TEST_ASAN)
        SKIP("AddressSanitizer lets nobody read a stack between its variables.");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const char *path = build("gcc", options[i], SOURCE);

        find_targets(dlmopen(LM_ID_NEWLM, path, RTLD_NOW));
        check_exact(options[i]);
    }
}

/* ---- Objects that nobody holds -------------------------------------------------------------------- */

/* Memory in which nothing else is mapped. */
#define PLACE_SIZE ((size_t)4 << 20)
static char *place;

/* Takes away what is mapped in the place. */
static void clear_place(void)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (place != NULL ? MAP_FIXED : 0);

    place = mmap(place, PLACE_SIZE, PROT_NONE, flags, -1, 0);
    CHECK(place != MAP_FAILED);
}

/* Maps the segments of an object, as a loader would. */
static void map_by_hand(const struct file *file, int fd)
{
    const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)file->bytes;
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)(file->bytes + elf->e_phoff);

    if (place == NULL)
        clear_place();
    for (int i = 0; i < elf->e_phnum; i++) {
        const size_t before = headers[i].p_vaddr % 4096;
        const int protection = PROT_READ | ((headers[i].p_flags & PF_X) != 0 ? PROT_EXEC : 0);

        if (headers[i].p_type == PT_LOAD)
            CHECK(mmap(place + headers[i].p_vaddr - before, headers[i].p_filesz + before, protection,
                       MAP_PRIVATE | MAP_FIXED, fd, (off_t)(headers[i].p_offset - before)) != MAP_FAILED);
    }
}

/* What takes the place of the object when the kernel copies from there next. */
static struct file replacement;
static int replacement_fd = -1;

/* The call that fails, when it is made for the fail_at-th time. */
static long fail_number = -1;
static int fail_at;

static long stub_syscall(long number, const long a[6])
{
    if (number == fail_number && fail_at > 0 && --fail_at == 0) {
        errno = EPERM;
        return -1;
    }
    if (number == SYS_process_vm_readv && replacement_fd >= 0) {
        map_by_hand(&replacement, replacement_fd);
        replacement_fd = -1;
    }
    return hand_on(number, a);
}

/* ---- Objects whose file is not found ----------------------------------------------------------- */

#define WITHOUT_ID PLAIN "-Wl,--build-id=none "

static const char *build_frames(const char *options)
{
    return build("gcc", options, "tests/support/frames_target.c");
}

CP_TEST(an_object_with_a_relative_path_has_rows)
{
    const char *path = build("gcc", WITHOUT_ID, SOURCE);
    char relative[500];

    snprintf(relative, sizeof relative, ".%s", strrchr(path, '/'));
    CHECK(chdir(test_dir()) == 0);
    find_targets(dlopen(relative, RTLD_NOW));
    CHECK(chdir("/") == 0);
    check_exact("a relative path");
}

CP_TEST(objects_whose_path_leads_to_another_file_have_their_own_rows)
{
    char path[500];
    void *first;

    snprintf(path, sizeof path, "%s", build_frames(WITHOUT_ID "-DSIZE=192"));
    first = dlopen(path, RTLD_NOW);
    CHECK(unlink(path) == 0);
    find_targets(first);
    check_exact("the path is gone");
    CHECK(rename(build_frames(WITHOUT_ID "-DSIZE=512"), path) == 0);
    find_targets(dlopen(path, RTLD_NOW));
    check_exact("the other file");
    find_targets(first);
    check_exact("the path leads to another file");
}

/* The object at an address is looked at while another one takes its place. Later the first object is loaded
 * somewhere else, and its rows are its own. */
CP_TEST(an_object_that_is_replaced_while_it_is_read_has_its_own_rows)
{
    char path[500];
    const char *other;
    struct file file;
    int fd;

    snprintf(path, sizeof path, "%s", build_frames(WITHOUT_ID "-DSIZE=192"));
    file = open_file(path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    other = build_frames(WITHOUT_ID "-DSIZE=512");
    replacement = open_file(other);
    map_by_hand(&file, fd);
    replacement_fd = open(other, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && replacement_fd >= 0);
    cp__code_update();
    CHECK(replacement_fd < 0 || TEST_TSAN);
    clear_place();
    find_targets(dlopen(path, RTLD_NOW));
    check_exact("an object that was replaced");
}

/* Whatever fails, an object lacks rows at most, and a call that fails later than the last one fails not. */
CP_TEST(calls_that_fail_cost_rows_at_most)
{
    static const long numbers[] = {SYS_pread64, SYS_process_vm_readv};
    const char *path = build("gcc", DEBUG "-gz=zlib -Wl,--no-eh-frame-hdr -Wl,--build-id=none", SOURCE);
    char copy[600];
    int failed = 0;

    for (size_t i = 0; i < 2; i++) {
        struct cp__code_range range = {.size = 0};

        for (int n = 1; fail_at == 0; n++) {
            struct file file;
            int fd;

            snprintf(copy, sizeof copy, "%s.%zu.%d", path, i, n);
            free(test_command(NULL, "cp %s %s", path, copy));
            file = open_file(copy);
            fd = open(copy, O_RDONLY | O_CLOEXEC);
            map_by_hand(&file, fd);
            close(fd);
            fail_number = numbers[i];
            fail_at = n;
            cp__code_update();
            failed += fail_at == 0;
            CHECK(cp__code_find_from_handler((uintptr_t)place + 0x1100, &range));
            clear_place();
        }
        CHECK(range.rows != NULL); /* in the last round nothing failed */
        fail_number = -1;
        fail_at = 0;
    }
    CHECK(failed > 4);
}

/* Returns whether this user may read files through /proc/self/map_files. */
static bool may_read_map_files(void)
{
    static char path[400];
    unsigned long lo, hi;
    FILE *maps = fopen("/proc/self/maps", "re");

    CHECK(maps != NULL && fscanf(maps, "%lx-%lx", &lo, &hi) == 2);
    fclose(maps);
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", lo, hi);
    return access(path, R_OK) == 0;
}

/* Only the file tells where the information is. The kernel calls a file deleted that has no path any more;
 * here that is the name of another file. */
CP_TEST(sections_of_another_file_are_not_read)
{
    static const char *const options[] = {DEBUG "-DSIZE=192", DEBUG "-DSIZE=512"};
    char path[500];
    void *object;

    if (!may_read_map_files())
        SKIP("This user may not read files that have no path.");
    snprintf(path, sizeof path, "%s", build_frames(options[0]));
    object = dlopen(path, RTLD_NOW);
    CHECK(unlink(path) == 0);
    strcat(path, " (deleted)");
    CHECK(rename(build_frames(options[1]), path) == 0);
    find_targets(object);
    check_exact("the path leads to another file");
}

/* A file has neither a time nor a path of its own. Only what is mapped tells the second object from the
 * first, at the same addresses. */
CP_TEST(objects_of_one_file_in_memory_have_their_own_rows)
{
    static const char *const sizes[] = {WITHOUT_ID "-DSIZE=192", WITHOUT_ID "-DSIZE=512"};
    const int fd = memfd_create("object", MFD_CLOEXEC);
    char path[100];

    CHECK(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < 2; i++) {
        const struct file file = open_file(build_frames(sizes[i]));
        void *object;

        CHECK(pwrite(fd, file.bytes, file.size, 0) == (ssize_t)file.size);
        object = dlopen(path, RTLD_NOW);
        find_targets(object);
        check_exact("a file in memory");
        dlclose(object);
    }
}
