/* Names of made code in profiles, and in the answers to addresses. */
#include <fcntl.h>

#include "tests/support/profile_tools.h"

#include "tests/support/jit_tools.h"

static void add_code(struct cp__profile *profile, made_code *code)
{
    for (uintptr_t i = 0; i < sizeof code_bytes; i++)
        add(profile, &(uintptr_t){(uintptr_t)code + i}, 1, 1, 0, NULL);
}

/* Returns what a profile of the code shows, and checks whether it lacks names. */
static char *raw_of(made_code *code, int64_t ended_ns, bool is_missing)
{
    struct cp__profile *profile = new_profile();
    struct cp__profile_findings findings;
    char *text;

    add_code(profile, code);
    cp__profile_end(profile, ended_ns);
    CHECK_EQ(cp__profile_resolve(profile, &findings, NULL), 0);
    CHECK_EQ(findings.n_missing, is_missing);
    text = pprof("-raw", write_profile(profile, &cpu_meta, "jit"));
    cp__profile_free(profile);
    return text;
}

/* Makes a jitdump file, and marks it by a mapping. */
static FILE *begin_dump(void)
{
    char path[300];
    FILE *file;

    snprintf(path, sizeof path, "%s/jit-%d.dump", test_dir(), (int)getpid());
    file = fopen(path, "w+e");
    CHECK(file != NULL);
    put_dump_header(file, 0);
    CHECK_EQ(fflush(file), 0);
    CHECK(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(file), 0) != MAP_FAILED);
    return file;
}

CP_TEST(frames_of_made_code_have_names)
{
    made_code *code = make_code();
    char *text = raw_of(code, 0, true);

    CHECK(strstr(text, " made ") == NULL);
    free(text);
    write_jit_map(code, "made");
    text = raw_of(code, 0, true);
    CHECK(strstr(text, " made ") == NULL); /* nobody has asked */
    free(text);
    cp_symbol_use_jit(true);
    text = raw_of(code, 0, false);
    CHECK_EQ(count_lines(text, " made "), sizeof code_bytes);
    CHECK_CONTAINS(text, "[anon] ");
    free(text);
    cp_symbol_use_jit(false);
    text = raw_of(code, 0, true);
    CHECK(strstr(text, " made ") == NULL);
    free(text);
}

/* A part of the mapping is not in the map. */
CP_TEST(frames_without_an_entry_are_still_missing)
{
    made_code *code = make_code();
    char *text;

    write_jit_map((made_code *)((uintptr_t)code + 4), "made");
    cp_symbol_use_jit(true);
    text = raw_of(code, 0, true);
    CHECK_EQ(count_lines(text, " made "), sizeof code_bytes - 4);
    free(text);
}

/* The compiler has thrown the code away, and its memory. */
CP_TEST(code_that_is_gone_has_its_name)
{
    made_code *code = make_code();
    char *text;

    write_jit_map(code, "made");
    cp_symbol_use_jit(true);
    munmap((void *)(uintptr_t)code, 4096);
    text = raw_of(code, 0, false);
    CHECK_EQ(count_lines(text, " made "), sizeof code_bytes);
    free(text);
}

CP_TEST(frames_have_names_and_lines_of_a_jitdump_file)
{
    made_code *code = make_code();
    FILE *file = begin_dump();
    char *text;

    put_lines(file, 100, (uintptr_t)code, "/first.js", "/second.js");
    put_load(file, 100, (uintptr_t)code, sizeof code_bytes, 1, "dumped");
    put_load(file, 200, (uintptr_t)code, sizeof code_bytes, 1, "later");
    CHECK_EQ(fflush(file), 0);
    write_jit_map(code, "mapped"); /* tells less */
    cp_symbol_use_jit(true);
    text = raw_of(code, 150, false);
    CHECK_EQ(count_lines(text, " dumped /first.js:11 "), 8);
    CHECK_EQ(count_lines(text, " dumped /second.js:22 "), sizeof code_bytes - 8);
    free(text);
    text = raw_of(code, 0, false);
    CHECK_EQ(count_lines(text, " later "), sizeof code_bytes);
    free(text);
    fclose(file);
}

/* CPython unmaps the mark before the program ends. */
CP_TEST(a_jitdump_file_in_tmp_needs_no_mark)
{
    made_code *code = make_code();
    static char path[64];
    char *text;
    FILE *file;

    snprintf(path, sizeof path, "/tmp/jit-%d.dump", (int)getpid());
    cp_t_cleanup(t, remove_file, path);
    file = fopen(path, "we");
    CHECK(file != NULL);
    put_dump_header(file, 0);
    put_load(file, 100, (uintptr_t)code, sizeof code_bytes, 1, "dumped");
    CHECK_EQ(fclose(file), 0);
    cp_symbol_use_jit(true);
    text = raw_of(code, 0, false);
    CHECK_EQ(count_lines(text, " dumped "), sizeof code_bytes);
    free(text);
}

static int take_name(void *context, size_t i, const char *name)
{
    char(*names)[16] = context;

    CHECK(i < 3 && names[i][0] == '\0');
    snprintf(names[i], sizeof names[i], "%s", name);
    return 0;
}

CP_TEST(addresses_of_made_code_have_names)
{
    made_code *one = make_code(), *two = make_code();
    const uintptr_t addresses[] = {(uintptr_t)two, (uintptr_t)getpid, (uintptr_t)one};
    char names[3][16] = {"", "", ""};
    FILE *file;

    write_jit_map(one, "one");
    file = fopen(jit_map_path(), "ae");
    fprintf(file, "%" PRIxPTR " %zx two\n", (uintptr_t)two, sizeof code_bytes);
    CHECK_EQ(fclose(file), 0);
    cp_symbol_use_jit(true);
    CHECK_EQ(cp_symbol_each(addresses, 3, take_name, names), 0);
    CHECK_STR(names[0], "two");
    CHECK_CONTAINS(names[1], "getpid");
    CHECK_STR(names[2], "one");
}
