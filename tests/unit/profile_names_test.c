/* What a profile shows of a function: the name that people read, the linker's, or the module. */
#include <dlfcn.h>
#include <link.h>

#include "pprof/profile_data.h"
#include "pprof/writer.h"
#include "tests/support/profile_tools.h"

unsigned named(unsigned x) __asm__("_ZN4test5namedEj");
__attribute__((noinline)) unsigned named(unsigned x)
{
    return x + 1;
}

static char *print_text(struct cp__profile *profile)
{
    struct cp_memory memory = {.data = NULL};
    struct cp_writer w = cp_writer_memory(&memory);
    struct cp__profile_findings findings;

    CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
    CHECK_EQ(w.ops->begin(&w), 0);
    CHECK_EQ(cp__profile_print(profile, &cpu_meta, &w), 0);
    CHECK_EQ(w.ops->write(&w, "", 1), 1);
    return (char *)memory.data;
}

/* Readers show the first name, and find the function by the second. */
CP_TEST(a_profile_has_the_demangled_name_and_the_linkers)
{
    struct cp__profile *profile = new_profile();
    const uintptr_t frame = (uintptr_t)named;
    const char *path;
    char *text;

    add(profile, &frame, 1, 1, 0, NULL);
    path = write_profile(profile, &cpu_meta, "named");
    text = decode(path);
    CHECK_CONTAINS(text, "string_table: \"\"\nstring_table: \"_ZN4test5namedEj\"\n");
    CHECK_CONTAINS(text, "  name: 3\n  system_name: 1\n");
    free(text);
    text = pprof("-symbolize=none -top", path);
    CHECK_CONTAINS(text, "test::named(unsigned int)\n");
    free(text);
    text = print_text(profile);
    CHECK_CONTAINS(text, "\ttest::named(unsigned int)+0x1\t");
    CHECK(strstr(text, "_ZN4test") == NULL);
    free(text);
    cp__profile_free(profile);
}

/* The text, as tools read it, has the address, too. */
CP_TEST(a_frame_without_a_symbol_is_shown_by_its_module)
{
    struct cp__profile *profile = new_profile();
    const struct link_map *map;
    char path[256], *text;
    uintptr_t frame;
    void *object;

    snprintf(path, sizeof path, "%s/nameless.so", test_dir());
    free(test_command(NULL,
                      "cd %s && printf '.text\\n.skip 64, 0x90\\n' > nameless.s && "
                      "gcc -shared -nostdlib -Wl,-z,noseparate-code -s -o nameless.so nameless.s",
                      test_dir()));
    object = dlopen(path, RTLD_NOW);
    CHECKF(object != NULL, "%s", dlerror());
    CHECK_EQ(dlinfo(object, RTLD_DI_LINKMAP, &map), 0);
    text = test_command(
        NULL, "readelf -SW %s | awk '{ sub(/^ *\\[ *[0-9]*\\]/, \"\") } $1 == \".text\" { print $3 }'", path);
    frame = map->l_addr + strtoul(text, NULL, 16) + 8;
    free(text);
    add(profile, &frame, 1, 1, 0, NULL);
    frame = 0x1000; /* in no mapping */
    add(profile, &frame, 1, 1, 0, NULL);
    text = print_text(profile);
    CHECK_CONTAINS(text, "\t[nameless.so]+0x");
    CHECK_CONTAINS(text, "#\t0x1001\t[unknown code]+0x1001\n");
    free(text);
    dlclose(object);
    cp__profile_free(profile);
}
