/* Objects in other forms than GNU ld's and the dynamic linker's: what other linkers write, copies of code on
 * other memory, and files that are gone. */
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/support/library_tools.h"

/* ---- Linkers --------------------------------------------------------------------------------- */

static const char *const layouts[] = {
    "",
    "-Wl,-z,separate-code",
    "-Wl,-z,noseparate-code",
    "-Wl,--section-start=far_code=0x40000", /* a second executable segment */
    "-Wl,--section-start=far_code=0x40000 -Wl,-z,separate-code",
    "-Wl,--build-id=none",
};

static void check_linker(const char *linker)
{
    struct library library;
    char flags[200], name[40];
    int status;

    free(test_command(&status, "command -v ld.%s", linker));
    if (status != 0)
        return;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        snprintf(name, sizeof name, "lib%s%zu.so", linker, i);
        snprintf(flags, sizeof flags, "-fuse-ld=%s -Wl,--build-id=sha1 %s", linker, layouts[i]);
        free(test_command(&status, "cd %s && echo 'int x;' > x.c && gcc -shared -fPIC %s -o x.so x.c 2>&1",
                          test_dir(), flags));
        if (status != 0)
            continue; /* the linker has no such layout */
        library = build_and_load(flags, name);
        CHECK_EQ(library.id[0] == '\0', strstr(flags, "none") != NULL);
        check_library(&library);
        dlclose(library.handle);
    }
}

CP_TEST(libraries_of_all_linkers_have_names_and_build_ids)
{
    static const char *const linkers[] = {"bfd", "gold", "lld", "mold"};

    for (size_t i = 0; i < sizeof linkers / sizeof linkers[0]; i++)
        check_linker(linkers[i]);
}

/* ---- Copies of code -------------------------------------------------------------------------- */

enum backing { ANONYMOUS, SHARED, FILE_AT_0, FILE_AT_OFFSET, N_BACKINGS };

/* Puts a copy of memory in the place of that memory, with a changed byte if that is not NULL. */
static void replace(uintptr_t start, uintptr_t limit, enum backing backing, uintptr_t offset,
                    unsigned char *changed)
{
    const size_t size = limit - start;
    int fd = backing < FILE_AT_0 ? -1 : memfd_create("copy", MFD_CLOEXEC);
    char *copy = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      fd >= 0                ? MAP_SHARED
                      : backing == ANONYMOUS ? MAP_PRIVATE | MAP_ANONYMOUS
                                             : MAP_SHARED | MAP_ANONYMOUS,
                      fd, backing == FILE_AT_OFFSET ? (off_t)offset : 0);

    CHECK(copy != MAP_FAILED);
    if (fd >= 0)
        CHECK_EQ(ftruncate(fd, (off_t)(offset + size)), 0);
    memcpy(copy, (void *)start, size);
    if (changed != NULL)
        copy[(uintptr_t)changed - start] ^= 1;
    CHECK_EQ(mprotect(copy, size, PROT_READ | PROT_EXEC), 0);
    CHECK(mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) == (void *)start);
    if (fd >= 0)
        close(fd);
}

/* Checks that the page behind the library's code is no part of the library. */
static void check_end(const struct library *library)
{
    struct cp__profile *profile = new_profile();
    uintptr_t address = library->text_end + 5;
    char *raw;

    add(profile, &address, 1, 1, 0, NULL);
    raw = raw_profile(profile);
    free(location_of(raw, address));
    CHECKF(strstr(raw, library->path) == NULL, "%s", raw);
    free(raw);
    cp__profile_free(profile);
}

/* One page of the library's segment of code, all of it, or all of it and a page on either side is a copy. The
 * library is another one each time, so that each has one copy. */
CP_TEST(a_copy_of_code_has_the_names_of_the_code)
{
    struct library library;
    char name[40];

    for (enum backing backing = 0; backing < N_BACKINGS; backing++)
        for (int extent = 0; extent < 3; extent++) {
            snprintf(name, sizeof name, "libcopied%d%d.so", backing, extent);
            library = build_and_load("-Wl,-z,separate-code", name);
            if (extent == 0)
                replace(library.text + 2 * PAGE, library.text + 3 * PAGE, backing, library.offset + 2 * PAGE,
                        NULL);
            else if (extent == 1)
                replace(library.text, library.text_end, backing, library.offset, NULL);
            else
                replace(library.text - PAGE, library.text_end + PAGE, backing, library.offset - PAGE, NULL);
            check_library(&library);
            if (extent == 2)
                check_end(&library);
        }
}

/* A page with other code in the place of a library's. */
CP_TEST(what_is_no_copy_has_no_names)
{
    for (int backing = 0; backing < N_BACKINGS; backing++) {
        char name[40], *raw, *line;
        struct library library;
        struct cp__profile *profile;
        uintptr_t page;

        snprintf(name, sizeof name, "libother%d.so", backing);
        library = build_and_load("-Wl,-z,separate-code", name);
        page = (library.functions[2] + 5) & -(uintptr_t)PAGE;
        replace(page, page + PAGE, backing, library.offset + page - library.text,
                (unsigned char *)library.functions[2] + 5);
        profile = sample(&library);
        raw = raw_profile(profile);
        line = location_of(raw, library.functions[2] + 5);
        CHECKF(strstr(line, "copied_") == NULL, "%s", line);
        free(line);
        line = location_of(raw, library.functions[5] + 5);
        CHECK_CONTAINS(line, " copied_5 ");
        free(line);
        free(raw);
        check_missing(profile, backing == ANONYMOUS ? "[anon]" : "/",
                      ""); /* why: by the rights of this user */
        cp__profile_free(profile);
    }
}

/* Moves the segment of the functions to other addresses, looks the functions up, and moves the segment back,
 * because the dynamic linker calls code of the library at the end. */
static void check_moved(struct library *library)
{
    const size_t size = library->text_end - library->text;
    char *moved = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(moved != MAP_FAILED);
    CHECK(mremap((void *)library->text, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, moved) == moved);
    for (int i = 0; i < N_FUNCTIONS; i++)
        library->functions[i] += (uintptr_t)moved - library->text;
    if (library->far - library->text < size)
        library->far += (uintptr_t)moved - library->text;
    check_library(library);
    CHECK(mremap(moved, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)library->text) ==
          (void *)library->text);
}

CP_TEST(moved_code_has_names_and_a_build_id)
{
    struct library library = build_and_load("-Wl,-z,separate-code", "libmoved.so");
    int status;

    check_moved(&library);
    if (TEST_ASAN)
        SKIP("LeakSanitizer itself faults in such a library.");
    free(test_command(&status, "command -v ld.lld"));
    if (status != 0)
        SKIP("only lld lets executable segments share a page of the file");
    library = build_and_load("-fuse-ld=lld -Wl,--build-id=sha1 -Wl,--section-start=far_code=0x40140",
                             "libmoved2.so");
    check_moved(&library);
}

/* dl_iterate_phdr() does not tell of objects in other namespaces. */
CP_TEST(a_library_in_another_namespace_has_names_and_a_build_id)
{
    struct library library = build_and_load("-nostdlib", "libspace.so"), other = library;
    uintptr_t moved;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("a sanitizer does not see a second namespace");
    other.handle = dlmopen(LM_ID_NEWLM, library.path, RTLD_NOW);
    CHECKF(other.handle != NULL, "%s", dlerror());
    moved = (uintptr_t)dlsym(other.handle, "copied_0") - library.functions[0];
    for (int i = 0; i < N_FUNCTIONS; i++)
        other.functions[i] += moved;
    other.far += moved;
    other.hidden += moved;
    dlclose(library.handle); /* otherwise the file is known */
    check_library(&other);
    CHECK_EQ(unlink(other.path), 0);
    check_library(&other);
}

/* ---- Files that cannot be read --------------------------------------------------------------- */

/* Gives up what root may do more than others, but not the ownership of files. */
static void drop_rights(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};

    CHECK_EQ(syscall(SYS_capset, &header, none), 0);
}

/* Looks up all functions. Those that are exported have names in memory. The other one has a name if the file
 * can be read; else the profile tells why not. */
static void check_readable(const struct library *library, const char *module, const char *why)
{
    struct cp__profile *profile = sample(library);
    char *raw, *line;

    add(profile, &library->hidden, 1, 1, 0, NULL);
    raw = raw_profile(profile);
    check_names(library, raw);
    line = location_of(raw, library->hidden);
    CHECKF((strstr(line, " copied_hidden ") != NULL) == (why == NULL), "%s", line);
    free(line);
    free(raw);
    check_missing(profile, module, why);
    cp__profile_free(profile);
}

/* Returns whether this process may read files through /proc/self/map_files. */
static bool can_read_mapped_files(void)
{
    char path[80];
    FILE *maps = fopen("/proc/self/maps", "re");
    int fd;

    strcpy(path, "/proc/self/map_files/");
    CHECK_EQ(fscanf(maps, "%40s", path + strlen(path)), 1);
    fclose(maps);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Checks what can be read with the rights of this process, and then without. */
static void check_with_and_without_rights(const struct library *library, const char *module, const char *why)
{
    if (can_read_mapped_files())
        check_readable(library, module, NULL);
    drop_rights();
    check_readable(library, module, why);
}

CP_TEST(a_library_that_was_deleted_has_names)
{
    struct library library = build_and_load("", "libdeleted.so");

    CHECK_EQ(unlink(library.path), 0);
    check_with_and_without_rights(&library, "/libdeleted.so", "its file is gone");
}

CP_TEST(a_library_without_a_build_id_that_was_deleted_has_names)
{
    struct library library = build_and_load("-Wl,--build-id=none", "libdeleted.so");

    CHECK_EQ(unlink(library.path), 0);
    check_with_and_without_rights(&library, "/libdeleted.so", "its file is gone");
}

CP_TEST(a_library_that_was_replaced_has_its_own_names)
{
    struct library library = build_and_load("", "libreplaced.so");

    free(test_command(NULL,
                      "cd %s && gcc -shared -fPIC -Dcopied_0=wrong_0 -Dcopied_hidden=wrong_hidden -O1 -o "
                      "new.so %s && mv new.so libreplaced.so",
                      test_dir(), test_source("copied_target.c")));
    check_with_and_without_rights(&library, "/libreplaced.so", "another file has the name");
}

/* Overwrites the file of a library with another library, or gives that one its name. */
static void replace_file(const char *flags, const char *name, bool is_in_place)
{
    free(test_command(
        NULL, "cd %s && gcc -shared -fPIC -Dcopied_0=wrong_0 -DOTHER=1 -O1 %s -o new.so %s && %s new.so %s",
        test_dir(), flags, test_source("copied_target.c"), is_in_place ? "cp" : "mv", name));
}

static void check_gone(const char *flags, const char *name, bool is_in_place, bool is_other_mapped)
{
    struct library library = build_and_load(flags, name);
    struct cp__profile *profile = sample(&library);
    char *raw;

    dlclose(library.handle);
    replace_file(flags, name, is_in_place);
    if (is_other_mapped)
        CHECK(dlopen(library.path, RTLD_NOW | RTLD_LOCAL) != NULL);
    raw = raw_profile(profile);
    CHECKF(strstr(raw, " wrong_0 ") == NULL && strstr(raw, " copied_") == NULL, "%s", raw);
    free(raw);
    check_missing(profile, name, "another file has the name");
    cp__profile_free(profile);
}

#define FIXED_ID "-Wl,--build-id=0x1234567812345678"

/* Without a build id, or if all versions have the same one, the file's number and the time of its last change
 * tell that another file has its name now, which may even be mapped at the same addresses. */
CP_TEST(a_library_that_is_gone_has_no_names_of_another)
{
    static const char *const flags[] = {"-Wl,--build-id=none", FIXED_ID};
    char name[40];

    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "libold%d.so", i);
        check_gone(flags[i & 1], name, (i & 2) != 0, (i & 4) != 0);
    }
}

/* The library is still there, and another file with its build id has its name. */
CP_TEST(a_build_id_that_two_libraries_have_is_no_proof)
{
    struct library library = build_and_load(FIXED_ID, "libtwice.so");

    replace_file(FIXED_ID, "libtwice.so", false);
    check_with_and_without_rights(&library, "/libtwice.so", "another file has the name");
}

CP_TEST(a_library_that_may_not_be_read_has_its_exported_names)
{
    struct library library = build_and_load("", "libsecret.so");

    CHECK_EQ(chmod(library.path, 0), 0);
    check_with_and_without_rights(&library, "/libsecret.so", "this user may not read");
}

CP_TEST(a_library_in_a_memfd_has_names)
{
    struct library library = build_and_load("", "libfile.so"), copy;
    int fd = memfd_create("inmemory", MFD_CLOEXEC);
    char path[40];

    free(test_command(NULL, "cat %s > /proc/$PPID/fd/%d", library.path, fd));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    copy = load(path);
    close(fd);
    CHECK(copy.functions[0] != library.functions[0]);
    strcpy(copy.id, library.id);
    copy.path = "/memfd:inmemory";
    copy.hidden = library.hidden - library.functions[0] + copy.functions[0];
    check_with_and_without_rights(&copy, "/memfd:inmemory", "in memory only");
}
