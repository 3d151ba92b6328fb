/* What a profile shows of a function: the name that people read, and the linker's. */
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
