/* Names of addresses in objects that are built in many ways, compared with addr2line's. */
#include "tests/support/memory_limit.h"
#include "tests/support/symbol_tools.h"

/* ---- Against addr2line ----------------------------------------------------------------------- */

/* Lists the addresses in the functions of symbol_target.c, in ascending order, as the file has them; of a
 * long function, some of them. */
static size_t list_addresses(const char *path, uint64_t *addresses, size_t capacity)
{
    char *text = test_command(NULL,
                              "nm -nS --defined-only %s | grep -E ' [tT] "
                              "(main|(_Z[A-Za-z0-9_]*)?(store|hidden|target_[a-z]*)E?i?)$'",
                              path);
    uint64_t start, size;
    size_t n = 0;
    int length;

    for (char *at = text; sscanf(at, "%" SCNx64 " %" SCNx64 " %*s %*s %n", &start, &size, &length) == 2;
         at += length)
        for (uint64_t i = 0; i < size && n<capacity; i += size> 1000 ? 61 : 1)
            addresses[n++] = start + i;
    free(text);
    return n;
}

static const char addr2line[] = "addr2line -a -f -i -s";
static const char addr2line_names[] =
    "names() { addr2line -a -f -i -s \"$@\" | sed 's/^symbol_target.c:?/??:?/'; }; names";
static const char llvm[] = "llvm-symbolizer-14 --output-style=GNU --no-demangle -a -f -i --basenames";
/* Checks that this library finds the same in a build of the target as the tool does. Returns what the library
 * found; the caller frees it. */
static char *compare(const char *compile, const char *tool)
{
    char *path = strdup(build(compile, "target"));
    uint64_t addresses[4096];
    size_t n = list_addresses(path, addresses, 4096);
    unsigned inlined;
    char *ours = look_up(path, addresses, n, &inlined);

    printf("%s: %zu addresses, %u with inlined functions\n", compile, n, inlined);
    CHECK(n > 100);
    CHECKF((inlined > 20) == (strstr(compile, " -g ") != NULL), "%s", ours);
    if (tool != NULL) {
        char *theirs = ask(tool, path, addresses, n);

        check_equal(ours, theirs);
        free(theirs);
    }
    free(path);
    return ours;
}

static void check(const char *compile, const char *tool)
{
    free(compare(compile, tool));
}

/* llvm-symbolizer is the reference for files that addr2line of binutils 2.40 reads wrongly: files of DWARF 5,
 * some names of inlined functions, and functions that the linker dropped. */
static void need_llvm(void)
{
    if (!is_there("llvm-symbolizer-14"))
        SKIP("There is no llvm-symbolizer-14 here (package llvm-14).");
}

CP_TEST(a_program_has_names_at_any_address)
{
    check("gcc -O2 -g -gdwarf-4 -pie -fPIE -DPROGRAM", addr2line);
    check("gcc -O2 -g -gdwarf-4 -no-pie -fno-pie -DPROGRAM", addr2line);
    check("gcc -O2 -g -gdwarf-4 -static -DPROGRAM", addr2line);
    check("gcc -O2 -DPROGRAM", addr2line_names);
}

CP_TEST(a_shared_object_has_names)
{
    check("gcc -O2 -g -gdwarf-4 -shared -fPIC", addr2line);
    check("gcc -O2 -g -gdwarf-4 -shared -fPIC -Wl,-z,noseparate-code", addr2line);
}

CP_TEST(debug_information_of_all_kinds_is_read)
{
    check("gcc -O2 -g -gdwarf-4 -gz -DPROGRAM", addr2line);
    need_llvm();
    check("gcc -O1 -g -DPROGRAM", llvm);
    check("gcc -O2 -g -gdwarf-4 -DPROGRAM", llvm);
    check("gcc -O2 -g -gdwarf-5 -DPROGRAM", llvm);
    check("gcc -O2 -g -flto -DPROGRAM", llvm);
    check("g++ -x c++ -O2 -g -DPROGRAM", llvm);
}

/* A program has the same code with split debug information as without. */
CP_TEST(split_debug_information_says_the_same)
{
    char *whole = compare("gcc -O2 -g -DPROGRAM", NULL);
    char *split = compare("gcc -O2 -g -gsplit-dwarf -DPROGRAM", NULL);

    check_equal(split, whole);
    free(whole);
    free(split);
}

/* The linker leaves the debug information of functions that it drops, at address 0. */
CP_TEST(functions_that_the_linker_dropped_name_nothing)
{
    need_llvm();
    check("gcc -O2 -g -ffunction-sections -Wl,--gc-sections -DPROGRAM", llvm);
    check("gcc -O2 -g -gdwarf-4 -ffunction-sections -Wl,--gc-sections -DPROGRAM", llvm);
}

/* clang writes no .debug_aranges. */
CP_TEST(objects_of_clang_have_names)
{
    if (!is_there("clang-14"))
        SKIP("There is no clang-14 here.");
    check("clang-14 -O2 -g -gdwarf-4 -DPROGRAM", addr2line);
    check("clang-14 -O2 -g -gdwarf-4 -shared -fPIC", addr2line);
    need_llvm();
    check("clang-14 -O2 -g -DPROGRAM", llvm);
    check("clang-14 -x c++ -O2 -g -shared -fPIC", llvm);
    check("clang-14 -O2 -g -flto=thin -fuse-ld=lld-14 -DPROGRAM", llvm);
}

/* The source has symbols inside others, symbols without a size, and code that no symbol covers. */
CP_TEST(symbols_of_assembly_name_what_they_cover)
{
    static const char source[] =
        ".text\n"
        ".type target_outside, %function\n.size target_outside, 64\ntarget_outside: .skip 16\n"
        ".type target_inside, %function\n.size target_inside, 8\ntarget_inside: .skip 8\n"
        "target_label: .skip 40\n"
        ".skip 16\n" /* only the label covers it */
        ".type target_sized, %function\n.size target_sized, 4\ntarget_sized: .skip 16\n"
        "target_endless: .skip 16\n"
        ".globl target_alias, __target_alias\n"
        "__target_alias: target_alias: _target_alias: aliased: .skip 16\n";
    static const struct {
        unsigned at;
        const char *name;
    } expected[] = {{0, "target_outside"},
                    {15, "target_outside"},
                    {16, "target_inside"},
                    {23, "target_inside"},
                    {24, "target_outside"},
                    {63, "target_outside"},
                    {64, "target_label"},
                    {79, "target_label"},
                    {80, "target_sized"},
                    {83, "target_sized"},
                    {84, NULL},
                    {95, NULL},
                    {96, "target_endless"},
                    {111, "target_endless"},
                    {112, "target_alias"},
                    {127, "target_alias"}};
    char path[256];
    uint64_t addresses[16], start;
    unsigned inlined;
    char *text;
    FILE *file;

    snprintf(path, sizeof path, "%s/target.s", test_dir());
    file = fopen(path, "w");
    fputs(source, file);
    fclose(file);
    free(test_command(NULL, "cd %s && gcc -shared -nostdlib -o target target.s", test_dir()));
    snprintf(path, sizeof path, "%s/target", test_dir());
    CHECK(list_addresses(path, &start, 1) == 1);
    for (size_t i = 0; i < 16; i++)
        addresses[i] = start + expected[i].at;
    text = look_up(path, addresses, 16, &inlined);
    for (size_t i = 0; i < 16; i++) {
        char line[64];

        snprintf(line, sizeof line, "0x%" PRIx64 "\n%s%s", addresses[i],
                 expected[i].name ? expected[i].name : "", expected[i].name ? "\n" : "");
        CHECKF((strstr(text, line) != NULL) == (expected[i].name != NULL), "%s is not in:\n%s", line, text);
    }
    free(text);
}

/* Without memory, libdw would end the process. */
CP_TEST(without_memory_nothing_is_looked_up)
{
    char *path = strdup(build("gcc -O2 -g -DPROGRAM", "target"));
    struct answers answers = {0};
    struct cp__mapping mapping = map_code(path, &answers.bias);

    if (TEST_ASAN || TEST_TSAN)
        SKIP("A sanitizer takes more address space than there is memory.");
    limit_memory(32 << 20);
    CHECK_EQ(cp__symbolise(&mapping, &mapping.start, 1, print_answer, &answers), -ENOMEM);
    limit_memory(UINT64_MAX);
    CHECK_EQ(cp__symbolise(&mapping, &mapping.start, 0, print_answer, &answers), 0);
    free(path);
}

/* Some distributions keep a compressed symbol table in stripped programs. */
CP_TEST(the_small_symbol_table_of_a_stripped_program_is_read)
{
    char *path = strdup(build("gcc -O2 -g -DPROGRAM", "target"));
    uint64_t addresses[4096];
    size_t n = list_addresses(path, addresses, 4096);
    unsigned inlined;
    char *text;

    if (!is_there("xz"))
        SKIP("There is no xz here.");
    free(test_command(
        NULL,
        "cd %s && objcopy --only-keep-debug target symbols && objcopy -S --remove-section .comment "
        "--keep-symbol hidden --keep-symbol store symbols && xz symbols && strip target && "
        "objcopy --add-section .gnu_debugdata=symbols.xz target",
        test_dir()));
    text = look_up(path, addresses, n, &inlined);
    CHECK(count_lines(text, "hidden") > 10);
    CHECK(count_lines(text, "store") > 3);
    free(text);
    free(path);
}
