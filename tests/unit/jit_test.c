/* The readers of the files by which just-in-time compilers name code. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pprof/symbol/jit.h"
#include "tests/support/jit_tools.h"

#define START UINT64_C(0x7f1234560000)

/* The addresses that the tests look up: 16 functions of 16 bytes may be there. */
enum { N = 256 };
static uint64_t wanted[N];

static void fill_wanted(void)
{
    for (int i = 0; i < N; i++)
        wanted[i] = START + (uint64_t)i;
}

/* The file in memory that a test writes. */
static struct {
    char *data;
    size_t size;
    FILE *file;
} made;

/* Begins a file, in the place of the one before. */
static FILE *begin(void)
{
    fill_wanted();
    if (made.file != NULL) {
        fclose(made.file);
        free(made.data);
    }
    made.file = open_memstream(&made.data, &made.size);
    CHECK(made.file != NULL);
    return made.file;
}

static FILE *begin_dump(void)
{
    FILE *file = begin();

    put_dump_header(file, 0);
    return file;
}

static struct cp__jit_answer answers[N];

/* Names the addresses by the first bytes of the file, which is flushed. */
static void name_all(size_t size, bool is_dump, int64_t ended_ns)
{
    struct cp__jit_hit hits[N] = {0};
    struct cp__jit_search search = {
        .addresses = wanted, .hits = hits, .n = N, .ended_ns = ended_ns, .file = NULL};
    const char empty = 0;

    search.file = fmemopen(size > 0 ? made.data : (char *)(uintptr_t)&empty, size > 0 ? size : 1, "r");
    CHECK(search.file != NULL);
    if (is_dump)
        CHECK_EQ(cp__jit_dump_scan(&search), 0);
    else
        cp__jit_map_scan(&search);
    for (size_t i = 0; i < N; i++) {
        answers[i] = (struct cp__jit_answer){0};
        if (hits[i].at != 0)
            (is_dump ? cp__jit_dump_answer : cp__jit_map_answer)(&search, i, &answers[i]);
    }
    fclose(search.file);
}

static void name_by_map(void)
{
    fflush(made.file);
    name_all(made.size, false, 0);
}

static void name_by_dump(int64_t ended_ns)
{
    fflush(made.file);
    name_all(made.size, true, ended_ns);
}

/* ---- Maps ------------------------------------------------------------------------------------ */

CP_TEST(lines_of_a_map_name_addresses)
{
    FILE *file = begin();

    fprintf(file, "%" PRIx64 " 10 first\n", START);
    fprintf(file, "0x%" PRIx64 " 0x10 with a space, and (more)\n", START + 0x10);
    fprintf(file, "%" PRIX64 " 8 no end", START + 0x28);
    name_by_map();
    CHECK_STR(answers[0].name, "first");
    CHECK_STR(answers[15].name, "first");
    CHECK_STR(answers[16].name, "with a space, and (more)");
    CHECK_STR(answers[0x1f].name, "with a space, and (more)");
    CHECK_STR(answers[0x20].name, "");
    CHECK_STR(answers[0x28].name, "no end");
    CHECK_STR(answers[0x2f].name, "no end");
    CHECK_STR(answers[0x30].name, "");
}

CP_TEST(the_last_line_of_a_map_counts)
{
    FILE *file = begin();

    fprintf(file, "%" PRIx64 " 40 old\n", START);
    fprintf(file, "%" PRIx64 " 8 new\n", START + 0x10);
    fprintf(file, "%" PRIx64 " 0 empty\n", START + 0x20);
    name_by_map();
    CHECK_STR(answers[0xf].name, "old");
    CHECK_STR(answers[0x10].name, "new");
    CHECK_STR(answers[0x18].name, "old");
    CHECK_STR(answers[0x20].name, "old");
}

CP_TEST(lines_that_make_no_sense_are_passed_over)
{
    FILE *file = begin();

    fprintf(file, "\n%" PRIx64 "\n%" PRIx64 " \n%" PRIx64 " 10\nnonsense 10 name\n10  \n", START, START,
            START);
    fprintf(file, "%" PRIx64 " zz name\n", START);
    fprintf(file, "ffffffffffffffffffffff ffffffffffffffffffffff huge\n");
    for (int i = 0; i < 10000; i++)
        fprintf(file, "x");
    putc('\n', file);
    fwrite("1\0 2\0\n", 1, 6, file);
    fprintf(file, "%" PRIx64 " 10 sense\n", START + 0x20);
    name_by_map();
    for (int i = 0; i < N; i++)
        CHECK_STR(answers[i].name, i >= 0x20 && i < 0x30 ? "sense" : "");
}

CP_TEST(a_long_name_is_cut)
{
    FILE *file = begin();

    fprintf(file, "%" PRIx64 " 10 ", START);
    for (int i = 0; i < 10000; i++)
        fprintf(file, "x");
    fprintf(file, "\n%" PRIx64 " 10 after\n", START + 0x10);
    name_by_map();
    CHECK(strlen(answers[0].name) > 4000 && strspn(answers[0].name, "x") == strlen(answers[0].name));
    CHECK_STR(answers[0x10].name, "after");
}

/* ---- jitdump --------------------------------------------------------------------------------- */

CP_TEST(records_name_addresses_and_lines)
{
    FILE *file = begin_dump();

    put_load(file, 5, START, 0x10, 1, "plain");
    put_record(file, 4, 24, 6); /* unwinding information, which is passed over */
    for (int i = 0; i < 3; i++)
        put64(file, 0);
    put_lines(file, 7, START + 0x10, "one.js", "two.js");
    put_load(file, 8, START + 0x10, 0x10, 2, "with lines");
    put_lines(file, 9, START + 0x20, "same.js", "\xff");
    put_load(file, 10, START + 0x20, 0x10, 3, "in one file");
    put_lines(file, 11, START + 0x80, "other.js", "\xff");
    put_load(file, 12, START + 0x30, 0x10, 4, "lines of another");
    name_by_dump(0);
    CHECK_STR(answers[0].name, "plain");
    CHECK_STR(answers[0].file, "");
    CHECK_STR(answers[0x17].name, "with lines");
    CHECK_STR(answers[0x17].file, "one.js");
    CHECK_EQ(answers[0x17].line, 11);
    CHECK_STR(answers[0x18].file, "two.js");
    CHECK_EQ(answers[0x1f].line, 22);
    CHECK_STR(answers[0x2f].file, "same.js");
    CHECK_EQ(answers[0x2f].line, 22);
    CHECK_STR(answers[0x30].name, "lines of another");
    CHECK_STR(answers[0x30].file, "");
    CHECK_STR(answers[0x40].name, "");
}

CP_TEST(the_last_record_before_the_end_counts)
{
    FILE *file = begin_dump();

    put_load(file, 10, START, 0x20, 1, "first");
    put_load(file, 30, START, 0x10, 3, "third");
    put_load(file, 20, START, 0x18, 2, "second"); /* another thread was slower to write */
    name_by_dump(0);
    CHECK_STR(answers[0].name, "third");
    CHECK_STR(answers[0x17].name, "second");
    CHECK_STR(answers[0x18].name, "first");
    name_by_dump(29);
    CHECK_STR(answers[0].name, "second");
    name_by_dump(10);
    CHECK_STR(answers[0].name, "first");
    name_by_dump(9);
    CHECK_STR(answers[0].name, "");
}

/* The processor's own clock has another beginning. */
CP_TEST(times_of_another_clock_only_tell_the_order)
{
    FILE *file = begin();

    put_dump_header(file, 1);
    put_load(file, 1000, START, 0x20, 1, "first");
    put_load(file, 2000, START, 0x10, 2, "second");
    name_by_dump(5);
    CHECK_STR(answers[0].name, "second");
    CHECK_STR(answers[0x10].name, "first");
}

CP_TEST(moved_code_keeps_its_name_and_lines)
{
    FILE *file = begin_dump();

    put_lines(file, 1, START + 0x1000, "moved.js", "\xff");
    put_load(file, 1, START + 0x1000, 0x10, 7, "moved");
    put_load(file, 2, START + 0x20, 0x10, 8, "in its new place");
    put_move(file, 3, START + 0x1000, START + 0x20, 0x10, 7);
    put_move(file, 4, START + 0x1000, START + 0x40, 0x10, 9); /* nobody has loaded it */
    name_by_dump(0);
    CHECK_STR(answers[0x20].name, "moved");
    CHECK_EQ(answers[0x20].line, 11);
    CHECK_STR(answers[0x28].file, "moved.js");
    CHECK_EQ(answers[0x28].line, 22);
    CHECK_STR(answers[0x40].name, "");
    name_by_dump(2);
    CHECK_STR(answers[0x20].name, "in its new place");
}

/* Writes lines whose addresses have 0x40 added, and checks which addresses they name. */
static void check_shifted(uint32_t unused, uint64_t first)
{
    FILE *file = begin();

    put_header(file, unused, 0);
    put_record(file, 2, 16 + 2 * 16 + 5 + 5, 1);
    put64(file, START);
    put64(file, 2);
    for (unsigned i = 0; i < 2; i++) {
        put64(file, START + 0x40 + first + 8 * i);
        put32(file, 33 + i);
        put32(file, 0);
        fwrite("x.js", 5, 1, file);
    }
    put_load(file, 1, START, 0x20, 1, "shifted");
    name_by_dump(0);
    CHECK_EQ(answers[first].line, 33);
    CHECK_EQ(answers[first + 7].line, 33);
    CHECK_EQ(answers[first + 8].line, 34);
    if (first > 0)
        CHECK_EQ(answers[first - 1].line, 0);
}

/* V8 and LLVM add 0x40 to the addresses of lines. V8's first line may be behind the beginning of the code. */
CP_TEST(lines_of_v8_and_llvm_are_where_they_belong)
{
    check_shifted(0xDEADBEEF, 0);
    check_shifted(0xDEADBEEF, 4);
    check_shifted(0, 0);
}

CP_TEST(files_that_make_no_sense_are_left_out)
{
    static const char *const senseless[] = {"", "\x04Z", "x\n.js"};

    for (size_t i = 0; i < 2 * sizeof senseless / sizeof senseless[0]; i++) {
        const char *bad = senseless[i / 2];
        FILE *file = begin_dump();

        put_lines(file, 1, START, i % 2 == 0 ? bad : "good.js", i % 2 == 0 ? "good.js" : bad);
        put_load(file, 1, START, 0x10, 1, "named");
        name_by_dump(0);
        for (unsigned j = 0; j < 0x10; j++) {
            CHECK_STR(answers[j].name, "named");
            CHECK_STR(answers[j].file, "");
            CHECK_EQ(answers[j].line, 0);
        }
    }
}

CP_TEST(a_file_that_is_no_jitdump_names_nothing)
{
    FILE *file = begin();

    put32(file, 0x4454694a); /* the other order of bytes */
    for (int i = 0; i < 9; i++)
        put32(file, 40);
    put_load(file, 5, START, 0x10, 1, "plain");
    name_by_dump(0);
    CHECK_STR(answers[0].name, "");
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static void make_dump(void)
{
    FILE *file = begin_dump();

    put_lines(file, 1, START, "one.js", "two.js");
    put_load(file, 2, START, 0x10, 1, "first");
    put_move(file, 3, START, START + 0x20, 0x10, 1);
    put_lines(file, 4, START + 0x30, "three.js", "\xff");
    put_load(file, 5, START + 0x30, 0x10, 2, "second");
    fflush(file);
}

/* Checks that a name is the expected one or that the file lacked it. */
static void check_or_none(const char *name, const char *expected)
{
    CHECKF(name[0] == '\0' || strcmp(name, expected) == 0, "\"%s\" is neither \"%s\" nor empty", name,
           expected);
}

CP_TEST(a_jitdump_file_counts_up_to_where_it_ends)
{
    unsigned n_first = 0, n_second = 0;

    make_dump();
    for (size_t size = 0; size <= made.size; size++) {
        name_all(size, true, 0);
        check_or_none(answers[0].name, "first");
        check_or_none(answers[0].file, "one.js");
        check_or_none(answers[0x28].name, "first");
        check_or_none(answers[0x28].file, "two.js");
        check_or_none(answers[0x38].name, "second");
        check_or_none(answers[0x38].file, "three.js");
        n_first += answers[0].name[0] != '\0';
        n_second += answers[0x38].name[0] != '\0';
    }
    CHECK(n_first > n_second && n_second >= 1);
}

CP_TEST(a_damaged_jitdump_file_is_read_to_its_end)
{
    static const unsigned char damages[] = {0, 1, 0x7f, 0x80, 0xff};

    make_dump();
    for (size_t i = 0; i < made.size; i++) {
        const char was = made.data[i];

        for (size_t j = 0; j < sizeof damages; j++) {
            made.data[i] = (char)damages[j];
            name_all(made.size, true, 0);
        }
        made.data[i] = was;
    }
}

CP_TEST(a_damaged_map_is_read_to_its_end)
{
    static const char damages[] = {'\0', '\n', ' ', 'f', '-', '\xff'};
    FILE *file = begin();

    fprintf(file, "%" PRIx64 " 10 first\n%" PRIx64 " 10 second\n", START, START + 0x10);
    fflush(file);
    for (size_t i = 0; i < made.size; i++) {
        const char was = made.data[i];

        name_all(i, false, 0);
        for (size_t j = 0; j < sizeof damages; j++) {
            made.data[i] = damages[j];
            name_all(made.size, false, 0);
        }
        made.data[i] = was;
    }
}

/* ---- Whose file it is ------------------------------------------------------------------------ */

static int count_answer(void *context, size_t i, const struct cp__symbol *symbol)
{
    (void)i;
    CHECK_EQ(symbol->n, 1);
    ++*(unsigned *)context;
    return 0;
}

static unsigned n_named(void)
{
    const struct cp__mappings mappings = {0};
    unsigned n = 0;

    CHECK_EQ(cp__jit_symbolise(&mappings, wanted, N, 0, count_answer, &n), 0);
    return n;
}

static void write_own_map(void)
{
    FILE *file = fopen(jit_map_path(), "we");

    CHECK(file != NULL);
    fprintf(file, "%" PRIx64 " 10 own\n", START);
    fclose(file);
    CHECK_EQ(chmod(jit_map_path(), 0644), 0);
}

CP_TEST(only_files_of_this_process_are_read)
{
    const struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    char moved[256];

    fill_wanted();
    CHECK_EQ(n_named(), 0);
    write_own_map();
    CHECK_EQ(n_named(), 16);
    CHECK_EQ(chmod(jit_map_path(), 0646), 0); /* others may write */
    CHECK_EQ(n_named(), 0);
    CHECK_EQ(chmod(jit_map_path(), 0644), 0);
    CHECK_EQ(utimensat(AT_FDCWD, jit_map_path(), old, 0), 0); /* of an earlier process with this number */
    CHECK_EQ(n_named(), 0);
    unlink(jit_map_path());
    write_own_map();
    if (geteuid() == 0) {
        CHECK_EQ(chown(jit_map_path(), 1, (gid_t)-1), 0);
        CHECK_EQ(n_named(), 0);
        CHECK_EQ(chown(jit_map_path(), 0, (gid_t)-1), 0);
    }
    CHECK_EQ(n_named(), 16);
    snprintf(moved, sizeof moved, "%s/map", test_dir());
    free(test_command(NULL, "mv %s %s", jit_map_path(), moved));
    CHECK_EQ(symlink(moved, jit_map_path()), 0);
    CHECK_EQ(n_named(), 0);
    unlink(jit_map_path());
    CHECK_EQ(mkfifo(jit_map_path(), 0600), 0); /* nobody writes, so an open could wait */
    CHECK_EQ(n_named(), 0);
}

static int refuse_answer(void *context, size_t i, const struct cp__symbol *symbol)
{
    (void)context, (void)i, (void)symbol;
    return -EPIPE;
}

CP_TEST(an_error_of_the_caller_ends_the_search)
{
    const struct cp__mappings mappings = {0};

    fill_wanted();
    write_own_map();
    CHECK_EQ(cp__jit_symbolise(&mappings, wanted, N, 0, refuse_answer, NULL), -EPIPE);
}
