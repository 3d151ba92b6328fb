/* Objects in other forms than GNU ld's and the dynamic linker's: what other linkers write, and copies of code
 * on other memory. */
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include "tests/support/profile_tools.h"

enum { PAGE = 4096, N_FUNCTIONS = 6 };

/* A library with the functions of copied_target.c. */
struct library {
    const char *path;
    void *handle;
    uintptr_t functions[N_FUNCTIONS], far;
    uintptr_t text, text_end; /* the pages of the segment with the functions */
    uintptr_t offset;         /* of "text" in the file */
    char id[65];
};

/* A dl_iterate_phdr() function: finds the segment of the library's functions. */
static int find_text(struct dl_phdr_info *object, size_t size, void *context)
{
    struct library *library = context;

    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + part->p_vaddr;

        if (part->p_type != PT_LOAD || library->functions[0] - start >= part->p_memsz)
            continue;
        library->text = start & -(uintptr_t)PAGE;
        library->text_end = (start + part->p_memsz + PAGE - 1) & -(uintptr_t)PAGE;
        library->offset = part->p_offset & -(uintptr_t)PAGE;
    }
    return 0;
}

static struct library load(const char *path)
{
    struct library library = {.path = path, .handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    char name[16];

    CHECKF(library.handle != NULL, "%s", dlerror());
    for (int i = 0; i < N_FUNCTIONS; i++) {
        snprintf(name, sizeof name, "copied_%d", i);
        library.functions[i] = (uintptr_t)dlsym(library.handle, name);
        CHECK(library.functions[i] != 0);
    }
    library.far = (uintptr_t)dlsym(library.handle, "copied_far");
    dl_iterate_phdr(find_text, &library);
    CHECK(library.text != 0);
    return library;
}

/* Builds copied_target.c with the flags, and loads it. */
static struct library build_and_load(const char *flags, const char *name)
{
    static char path[256];
    struct library library;
    char *text;

    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    free(test_command(NULL, "gcc -O1 -g -shared -fPIC %s -o %s %s", flags, path,
                      test_source("copied_target.c")));
    library = load(path);
    text = test_command(NULL, "readelf -n %s | sed -n 's/ *Build ID: *//p'", path);
    snprintf(library.id, sizeof library.id, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
    return library;
}

/* Adds samples in all functions. */
static struct cp__profile *sample(const struct library *library)
{
    struct cp__profile *profile = new_profile();
    uintptr_t address;

    for (int i = 0; i < N_FUNCTIONS; i++) {
        address = library->functions[i] + 5;
        add(profile, &address, 1, 1, 0, NULL);
    }
    address = library->far + 5;
    add(profile, &address, 1, 1, 0, NULL);
    return profile;
}

/* Returns the line of -raw with a location. */
static char *location_of(const char *raw, uintptr_t address)
{
    char text[40], *line;

    snprintf(text, sizeof text, ": %#zx M=", (size_t)address);
    line = find_line(raw, text, 0);
    CHECKF(line != NULL, "%s", raw);
    return line;
}

/* Checks that each function has its name, and that its mapping is one of the file, with the build id. */
static void check_names(const struct library *library, const char *raw)
{
    char expected[400], *line;
    unsigned mapping, n_mappings = count_lines(raw, library->path);

    for (int i = 0; i <= N_FUNCTIONS; i++) {
        line = location_of(raw, (i < N_FUNCTIONS ? library->functions[i] : library->far) + 5);
        snprintf(expected, sizeof expected, i < N_FUNCTIONS ? " copied_%d " : " copied_far ", i);
        CHECK_CONTAINS(line, expected);
        CHECK_EQ(sscanf(strstr(line, "M="), "M=%u", &mapping), 1);
        free(line);
        snprintf(expected, sizeof expected, "%u: 0x", mapping);
        line = find_line(strstr(raw, "\nMappings\n"), expected, 0);
        snprintf(expected, sizeof expected, "%s %s [FN]", library->path, library->id);
        CHECK_CONTAINS(line, expected);
        free(line);
    }
    snprintf(expected, sizeof expected, "%s %s [FN]", library->path, library->id);
    CHECK_EQ(count_lines(raw, expected), n_mappings);
}

static char *raw_profile(struct cp__profile *profile)
{
    return pprof("-symbolize=none -raw", write_profile(profile, &cpu_meta, "modules"));
}

/* Checks all names. */
static void check_library(const struct library *library)
{
    struct cp__profile *profile = sample(library);
    char *raw = raw_profile(profile);

    check_names(library, raw);
    free(raw);
    cp__profile_free(profile);
}

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
    free(test_command(&status, "command -v ld.lld"));
    if (status != 0)
        SKIP("only lld lets executable segments share a page of the file");
    library = build_and_load("-fuse-ld=lld -Wl,--build-id=sha1 -Wl,--section-start=far_code=0x40140",
                             "libmoved2.so");
    check_moved(&library);
}
