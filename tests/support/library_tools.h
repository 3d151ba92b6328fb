/* Libraries that a test builds of copied_target.c, and what a profile says of their functions. */
#ifndef COUNTERPOINT_TESTS_LIBRARY_TOOLS_H
#define COUNTERPOINT_TESTS_LIBRARY_TOOLS_H

#include <dlfcn.h>
#include <link.h>

#include "profile_tools.h"

enum { PAGE = 4096, N_FUNCTIONS = 6 };

/* A library with the functions of copied_target.c. */
struct library {
    const char *path;
    void *handle;
    uintptr_t functions[N_FUNCTIONS], far, hidden;
    uintptr_t text, text_end; /* the pages of the segment with the functions */
    uintptr_t offset;         /* of "text" in the file */
    char id[65];
};

/* A dl_iterate_phdr() function: finds the segment of the library's functions. */
static inline int find_text(struct dl_phdr_info *object, size_t size, void *context)
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

static inline struct library load(const char *path)
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
static inline struct library build_and_load(const char *flags, const char *name)
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
    text = test_command(NULL, "nm %s | sed -n 's/ t copied_hidden//p'", path);
    library.hidden = (uintptr_t)strtoull(text, NULL, 16) + ((struct link_map *)library.handle)->l_addr;
    free(text);
    return library;
}

/* Adds samples in all functions. */
static inline struct cp__profile *sample(const struct library *library)
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
static inline char *location_of(const char *raw, uintptr_t address)
{
    char text[40], *line;

    snprintf(text, sizeof text, ": %#zx M=", (size_t)address);
    line = find_line(raw, text, 0);
    CHECKF(line != NULL, "%s", raw);
    return line;
}

/* Checks that each function has its name, and that its mapping is one of the file, with the build id. */
static inline void check_names(const struct library *library, const char *raw)
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

static inline char *raw_profile(struct cp__profile *profile)
{
    return pprof("-symbolize=none -raw", write_profile(profile, &cpu_meta, "modules"));
}

/* Checks all names, and that nothing is missing. */
static inline void check_library(const struct library *library)
{
    struct cp__profile *profile = sample(library);
    struct cp__profile_findings findings;
    char *raw;

    CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
    raw = raw_profile(profile);
    check_names(library, raw);
    CHECKF(findings.n_missing == 0, "%s: %s", findings.missing[0].module, findings.missing[0].why);
    free(raw);
    cp__profile_free(profile);
}

/* Checks that one module lacks names, and why; "why" NULL: none does. */
static inline void check_missing(struct cp__profile *profile, const char *module, const char *why)
{
    struct cp__profile_findings findings;

    CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
    CHECK_EQ(findings.n_missing, why != NULL);
    if (why == NULL)
        return;
    CHECK_CONTAINS(findings.missing[0].module, module);
    CHECK_CONTAINS(findings.missing[0].why, why);
}

#endif
