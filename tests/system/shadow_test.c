/*
 * What a call chain lacks is marked, without exception: chains at every instruction of libraries, of code
 * without call-frame information, and of thrown exceptions, with a shadow stack of real calls as the judge.
 */
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>
#if __has_include(<jpeglib.h>) && __has_include(<jconfig.h>)
#include <stdio.h>

#include <jpeglib.h>
#define HAS_JPEG
#endif

#include "tests/support/shadow_steps.h"

/* ---- Libraries ------------------------------------------------------------------------------- */

static void *library; /* the one that is looked at */

/* Finds a function of the library; a target must not call a function that is not there. */
static void *function(const char *name)
{
    void *found = dlsym(library, name);

    CHECKF(found != NULL, "%s", name);
    return found;
}
#define FUNCTION(type, local, name)                                                                          \
    type;                                                                                                    \
    *(void **)&local = function(name)

/* The numbers of libgmp, whose assembly has no call-frame information. */
struct gmp {
    int room, size;
    unsigned long *limbs;
};

static void run_gmp(void)
{
    struct gmp a, b, c;
    FUNCTION(void (*init)(struct gmp *), init, "__gmpz_init");
    FUNCTION(int (*set)(struct gmp *, const char *, int), set, "__gmpz_set_str");
    FUNCTION(void (*mul)(struct gmp *, const struct gmp *, const struct gmp *), mul, "__gmpz_mul");
    FUNCTION(void (*rest)(struct gmp *, const struct gmp *, const struct gmp *), rest, "__gmpz_mod");
    FUNCTION(void (*gcd)(struct gmp *, const struct gmp *, const struct gmp *), gcd, "__gmpz_gcd");
    FUNCTION(void (*power)(struct gmp *, const struct gmp *, const struct gmp *, const struct gmp *), power,
             "__gmpz_powm");
    char digits[300];

    memset(digits, '7', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    init(&a);
    init(&b);
    init(&c);
    set(&a, digits, 10);
    set(&b, digits + 150, 10);
    step_in();
    mul(&c, &a, &a);
    mul(&c, &a, &b);
    rest(&c, &a, &b);
    gcd(&c, &a, &b);
    power(&c, &a, &b, &b);
    step_to_here();
}

/* libcrypto's assembly computes the CFA from rax, r11 and rbp in functions that call others. */
static void run_cipher(const char *name)
{
    static unsigned char data[512], out[1024], key[64], iv[16];
    int n;
    FUNCTION(const void *(*find)(const char *), find, "EVP_get_cipherbyname");
    FUNCTION(void *(*make)(void), make, "EVP_CIPHER_CTX_new");
    FUNCTION(int (*start)(void *, const void *, void *, const unsigned char *, const unsigned char *, int),
             start, "EVP_CipherInit_ex");
    FUNCTION(int (*update)(void *, unsigned char *, int *, const unsigned char *, int), update,
             "EVP_CipherUpdate");
    void *context = make();

    CHECK_EQ(start(context, find(name), NULL, key, iv, 0), 1);
    step_in();
    update(context, out, &n, data, sizeof data);
    update(context, out, &n, data, 16);
    step_to_here();
}

static void run_cbc(void)
{
    run_cipher("AES-128-CBC");
}

static void run_ctr(void)
{
    run_cipher("AES-256-CTR");
}

static void run_xts(void)
{
    run_cipher("AES-128-XTS");
}

static void run_chacha(void)
{
    run_cipher("ChaCha20-Poly1305");
}

static void run_nettle_hash(const char *begin_name, const char *update_name, const char *end_name)
{
    static uint64_t context[128], data[64];
    uint8_t digest[64];
    FUNCTION(void (*start)(void *), start, begin_name);
    FUNCTION(void (*update)(void *, size_t, const void *), update, update_name);
    FUNCTION(void (*end)(void *, size_t, uint8_t *), end, end_name);

    step_in();
    start(context);
    update(context, sizeof data, data);
    end(context, 16, digest);
    step_to_here();
}

static void run_nettle(void)
{
    run_nettle_hash("nettle_sha1_init", "nettle_sha1_update", "nettle_sha1_digest");
    run_nettle_hash("nettle_sha256_init", "nettle_sha256_update", "nettle_sha256_digest");
    run_nettle_hash("nettle_sha512_init", "nettle_sha512_update", "nettle_sha512_digest");
    run_nettle_hash("nettle_md5_init", "nettle_md5_update", "nettle_md5_digest");
}

#ifdef HAS_JPEG
/* libjpeg-turbo's assembly has no call-frame information. */
static void run_jpeg(void)
{
    static unsigned char row[64 * 3];
    unsigned char *rows[] = {row}, *out = NULL;
    unsigned long size = 0;
    struct jpeg_compress_struct picture;
    struct jpeg_error_mgr errors;
    FUNCTION(struct jpeg_error_mgr * (*std)(struct jpeg_error_mgr *), std, "jpeg_std_error");
    FUNCTION(void (*make)(j_compress_ptr, int, size_t), make, "jpeg_CreateCompress");
    FUNCTION(void (*to_memory)(j_compress_ptr, unsigned char **, unsigned long *), to_memory,
             "jpeg_mem_dest");
    FUNCTION(void (*defaults)(j_compress_ptr), defaults, "jpeg_set_defaults");
    FUNCTION(void (*start)(j_compress_ptr, boolean), start, "jpeg_start_compress");
    FUNCTION(JDIMENSION(*put)(j_compress_ptr, JSAMPARRAY, JDIMENSION), put, "jpeg_write_scanlines");
    FUNCTION(void (*end)(j_compress_ptr), end, "jpeg_finish_compress");

    for (size_t i = 0; i < sizeof row; i++)
        row[i] = (unsigned char)(i * 7 ^ i * i >> 9);
    picture.err = std(&errors);
    make(&picture, JPEG_LIB_VERSION, sizeof picture);
    to_memory(&picture, &out, &size);
    picture.image_width = 64;
    picture.image_height = 16;
    picture.input_components = 3;
    picture.in_color_space = JCS_RGB;
    defaults(&picture);
    start(&picture, TRUE);
    while (picture.next_scanline < 15)
        put(&picture, rows, 1);
    step_in();
    put(&picture, rows, 1);
    end(&picture);
    step_to_here();
    free(out);
}
#endif

static void run_zlib(void)
{
    static unsigned char data[2000], out[4000];
    unsigned long size = sizeof out;
    FUNCTION(int (*pack)(unsigned char *, unsigned long *, const unsigned char *, unsigned long, int), pack,
             "compress2");

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i >> 5);
    step_in();
    pack(out, &size, data, sizeof data, 6);
    step_to_here();
}

static void run_zstd(void)
{
    static unsigned char data[2000], out[4000];
    FUNCTION(size_t(*pack)(void *, size_t, const void *, size_t, int), pack, "ZSTD_compress");
    FUNCTION(size_t(*unpack)(void *, size_t, const void *, size_t), unpack, "ZSTD_decompress");
    size_t size;

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * i >> 5);
    size = pack(out, sizeof out, data, sizeof data, 1);
    step_in();
    unpack(data, sizeof data, out, size);
    pack(out, sizeof out, data, sizeof data, 1);
    step_to_here();
}

static void run_sqlite(void)
{
    void *base = NULL;
    FUNCTION(int (*start)(const char *, void **), start, "sqlite3_open");
    FUNCTION(int (*run_text)(void *, const char *, int (*)(void *, int, char **, char **), void *, char **),
             run_text, "sqlite3_exec");
    FUNCTION(int (*end)(void *), end, "sqlite3_close");

    CHECK_EQ(start(":memory:", &base), 0);
    step_in();
    run_text(base, "CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 'x'), (2, 'y'); SELECT sum(a) FROM t",
             NULL, NULL, NULL);
    step_to_here();
    end(base);
}

static void run_xml(void)
{
    static const char text[] = "<a x='1'><b>text &amp; more</b><b/><!-- no --><c y='z'>&#65;</c></a>";
    FUNCTION(void *(*parse)(const char *, int), parse, "xmlParseMemory");
    FUNCTION(void (*release)(void *), release, "xmlFreeDoc");
    void *document;

    step_in();
    document = parse(text, sizeof text - 1);
    release(document);
    step_to_here();
}

/* Multiplications of the C library's long numbers, part of whose rows are wrong. */
static void run_numbers(void)
{
    char text[200];
    double sum;

    library = NULL;
    step_in();
    snprintf(text, sizeof text, "%.30f %Lg %e", 1e22 / 7, (long double)1 / 3, 1e-300);
    sum = strtod("123456789012345678901234567890.125e-20", NULL);
    sum += (double)strtold("2.2250738585072014e-308", NULL);
    step_to_here();
    CHECK(sum > 0);
}

static const struct {
    const char *name;
    void (*run)(void);
    const char *what;
} libraries[] = {
    {"libgmp.so.10", run_gmp, ""},
    {"libnettle.so.8", run_nettle, ""},
    {"libcrypto.so.3", run_cbc, ", AES-CBC"},
    {"libcrypto.so.3", run_ctr, ", AES-CTR"},
    {"libcrypto.so.3", run_xts, ", AES-XTS"},
    {"libcrypto.so.3", run_chacha, ", ChaCha20"},
    {"libc.so.6", run_numbers, ", numbers"},
#ifdef HAS_JPEG
    {"libjpeg.so.62", run_jpeg, ""},
#else
    {"jpeglib.h", NULL, ""}, /* no library has that name, so the line "not here" follows */
#endif
    {"libz.so.1", run_zlib, ""},
    {"libzstd.so.1", run_zstd, ""},
    {"libsqlite3.so.0", run_sqlite, ""},
    {"libxml2.so.2", run_xml, ""},
};

static void run_library(void *library_and_run)
{
    const size_t i = *(const size_t *)library_and_run;
    char name[100];

    library = dlopen(libraries[i].name, RTLD_LAZY);
    if (library == NULL) {
        printf("not here: %s\n", libraries[i].name);
        return;
    }
    begin();
    run.stack = cp__thread_stack();
    libraries[i].run();
    snprintf(name, sizeof name, "%s%s", libraries[i].name, libraries[i].what);
    finish(name);
}

static size_t which;

static void run_on_thread(void)
{
    run_library(&which);
}

CP_TEST(what_a_chain_in_libraries_lacks_is_marked, .timeout_s = 120 * TEST_SLOWDOWN)
{
    for (which = 0; which < sizeof libraries / sizeof libraries[0]; which++)
        on_thread(run_on_thread);
}

/* ---- Code that is built here ----------------------------------------------------------------- */

static void step_libraries(void)
{
    begin();
    run.stack = cp__thread_stack();
    step_in();
    target_libraries(1);
    step_to_here();
}

/* The dynamic linker's code for a first call computes the CFA from rbx. */
CP_TEST(a_first_call_through_the_linker_is_exact, .timeout_s = 60 * TEST_SLOWDOWN)
{
    load("gcc", "-O2 -Wl,-z,lazy", "tests/support/unwind_target.c");
    on_thread(step_libraries);
    finish("gcc -O2, first calls");
    CHECK(!KNOWS_CODE || run.marked == 0);
}

#define WITHOUT "-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions -fomit-frame-pointer"

/* Only the code itself tells callers, if it tells. */
CP_TEST(what_a_chain_lacks_in_code_without_information_is_marked, .timeout_s = 60 * TEST_SLOWDOWN)
{
    load("gcc", "-O2 " WITHOUT, "tests/support/unwind_target.c");
    on_thread(step_target);
    finish("gcc -O2 " WITHOUT);
    CHECK(run.marked > 0 && run.exact > 0);
    load("gcc", "-O0 " WITHOUT, "tests/support/unwind_target.c");
    on_thread(step_target);
    finish("gcc -O0 " WITHOUT);
}

/* cp__thread_stack() blocks signals, so it runs without steps. */
static void find_stack(void)
{
    step_to_here();
    run.stack = cp__thread_stack();
    step_from_here();
    target(1);
}

/* At first the chain goes to the first function of the system's, as it does later, too. */
static void step_from_outermost(void)
{
    pthread_attr_t attributes;
    void *lo;
    size_t size;

    begin();
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &lo, &size);
    pthread_attr_destroy(&attributes);
    run.stack = (struct cp__stack){.lo = (uintptr_t)lo, .hi = (uintptr_t)lo + size};
    step_in();
    call(find_stack);
    step_to_here();
}

/* The M was attached in such code, so that nobody knows where the thread's outermost frame ends. */
CP_TEST(what_a_chain_lacks_beyond_code_without_information_is_marked, .timeout_s = 60 * TEST_SLOWDOWN)
{
    load("gcc", "-O2 " WITHOUT, "tests/support/unwind_target.c");
    CHECK(call != NULL);
    on_thread(step_from_outermost);
    finish("a thread that was attached in code without information");
    CHECK(run.marked > 0);
}

static ucontext_t outside, inside;

static void run_inside(void)
{
    step_in();
    target(3);
    step_to_here();
}

static void step_coroutine(void)
{
    static char memory[1 << 18] __attribute__((aligned(64)));

    begin();
    /* the library's own bounds of a G: see G_SLACK in moment.c */
    run.stack =
        (struct cp__stack){.lo = (uintptr_t)memory, .hi = (uintptr_t)memory + sizeof memory, .slack = 512};
    getcontext(&inside);
    inside.uc_stack.ss_sp = memory;
    inside.uc_stack.ss_size = sizeof memory;
    inside.uc_link = &outside;
    makecontext(&inside, run_inside, 0);
    swapcontext(&outside, &inside);
}

CP_TEST(what_a_chain_on_a_small_stack_lacks_is_marked, .timeout_s = 60 * TEST_SLOWDOWN)
{
    load("gcc", "-O2 " WITHOUT, "tests/support/unwind_target.c");
    on_thread(step_coroutine);
    finish("a coroutine in code without information");
    CHECK(run.exact > 0 && run.marked > 0);
    load("gcc", "-O2", "tests/support/unwind_target.c");
    on_thread(step_coroutine);
    finish("a coroutine in code with information");
    CHECK_EQ(run.marked, 0);
}

/* Functions that align their stack find it by a register behind `leave`. */
CP_TEST(chains_in_functions_that_align_their_stack_are_exact, .timeout_s = 60 * TEST_SLOWDOWN)
{
    load("gcc", "-O2 -mstackrealign -mpreferred-stack-boundary=5 -mincoming-stack-boundary=4",
         "tests/support/unwind_target.c");
    on_thread(step_target);
    finish("gcc -O2 with aligned stacks");
    CHECK(!KNOWS_CODE || run.marked == 0);
}

/* Programs link with a build id of their choice; two objects may have the same one, and code of the same
 * size. */
CP_TEST(objects_with_one_build_id_have_rows_of_their_own)
{
    static const char path[] = "tests/support/frames_target.c";

    load("gcc", "-O2 -fomit-frame-pointer -Wl,--build-id=0x0123456789abcdef -DSIZE=192", path);
    on_thread(step_target);
    finish("192 bytes");
    load("gcc", "-O2 -fomit-frame-pointer -Wl,--build-id=0x0123456789abcdef -DSIZE=512", path);
    on_thread(step_target);
    finish("512 bytes, and the same build id");
    CHECK_EQ(run.marked, 0);
}

/* Words in the frame lead back to unwind_target() at any place where the return address may be looked for. */
static const char returns[] =
    "static volatile long sink;\n"
    "long labs(long);\n"
    "__attribute__((noinline)) static long leaf(long n) { return sink + labs(n); }\n"
    "__attribute__((noinline)) static long middle(long n)\n"
    "{\n"
    "    void *volatile room[SIZE / 8];\n"
    "    for (int i = 0; i < SIZE / 8; i++)\n"
    "        room[i] = __builtin_return_address(0);\n"
    "    return leaf(n) + (room[n] != 0);\n"
    "}\n"
    "long unwind_target(int n) { return middle(n) + 1; }\n";

static void do_nothing(void)
{
}

static void step_unseen_target(void)
{
    begin_with(do_nothing);
    run.stack = cp__thread_stack();
    step_in();
    target(3);
    step_to_here();
}

/* The linker puts a library where another one was, and nobody has looked at the mappings since. */
CP_TEST(what_a_chain_lacks_in_a_library_that_took_the_place_of_another_is_marked)
{
    char path[500];
    const char *first;
    void *object, *where;

    test_write_file("returns.c", returns);
    snprintf(path, sizeof path, "%s/returns.c", test_dir());
    cp__loads_prepare();
    first = build("gcc", "-O2 -fomit-frame-pointer -DSIZE=192", path);
    object = dlopen(first, RTLD_LAZY);
    find_targets(object);
    where = (void *)target;
    on_thread(step_target);
    finish("the library before");
    CHECK_EQ(dlclose(object), 0);
    free(test_command(NULL, "rm %s", first));
    load("gcc", "-O2 -fomit-frame-pointer -DSIZE=512", path);
    if ((void *)target != where)
        SKIP("The linker has put the second library elsewhere.");
    on_thread(step_unseen_target);
    finish("the library in its place");
    CHECK(run.marked > 0);
    on_thread(step_target);
    finish("the same, after a look");
    CHECK_EQ(run.marked, 0);
}

#if defined(__x86_64__)
/* A jump by `ret`, as clang's -mretpoline makes them, without information. */
static const char jumps[] = "__attribute__((noinline)) long middle(long n) { return n + 1; }\n"
                            "long jump(long);\n"
                            "__asm__(\".type jump,@function\\njump: lea 1f(%rip), %rax\\npush %rax\\n\"\n"
                            "        \"nop\\nret\\nnop\\n1: mov $3, %eax\\nret\\n.size jump, .-jump\\n\");\n"
                            "long unwind_target(int n) { return middle(n) + jump(n) + 1; }\n";

CP_TEST(code_that_jumps_by_a_return_has_not_been_called_from_there)
{
    char path[500];

    test_write_file("jumps.c", jumps);
    snprintf(path, sizeof path, "%s/jumps.c", test_dir());
    load("gcc", "-O2", path);
    on_thread(step_target);
    finish("a jump by ret");
    CHECK(run.marked > 0 && run.exact > run.marked);
}
#endif

static const char throws[] = "#include <stdexcept>\n"
                             "struct held { held(); ~held(); };\n"
                             "static volatile int sink;\n"
                             "__attribute__((noinline)) held::held() { sink = 1; }\n"
                             "__attribute__((noinline)) held::~held() { sink = 2; }\n"
                             "__attribute__((noinline)) static long deep(int n)\n"
                             "{\n"
                             "    held h;\n"
                             "    if (n == 0)\n"
                             "        throw std::runtime_error(\"x\");\n"
                             "    return deep(n - 1) + sink;\n"
                             "}\n"
                             "extern \"C\" long unwind_target(int n)\n"
                             "{\n"
                             "    try {\n"
                             "        return deep(n);\n"
                             "    } catch (const std::exception &) {\n"
                             "        return sink;\n"
                             "    }\n"
                             "}\n";

/* While the unwinder leaves for the code that catches, its own frame has that code's registers. */
CP_TEST(what_a_chain_lacks_while_an_exception_is_thrown_is_marked, .timeout_s = 60 * TEST_SLOWDOWN)
{
    char path[500];

    if (TEST_ASAN)
        SKIP("AddressSanitizer stands in the way of exceptions of a library that is loaded later.");
    test_write_file("throws.cc", throws);
    snprintf(path, sizeof path, "%s/throws.cc", test_dir());
    load("g++", "-O2 -fexceptions", path);
    target(3); /* so that the unwinder has read what it caches */
    on_thread(step_target);
    finish("g++, exceptions");
    CHECK(run.marked > 0 && (!KNOWS_CODE || run.exact > 10 * run.marked));
}

/* ---- Static programs ------------------------------------------------------------------------- */

CP_TEST(chains_in_a_static_program_are_whole)
{
    static const char *const ways[] = {"-static", "-static -Wl,--eh-frame-hdr", "-static-pie"};
    int status;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("The library has a sanitizer in it.");
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char *text = test_command(
            &status,
            "gcc -O2 %s -D_GNU_SOURCE -iquote . -iquote arch/$(uname -m | sed "
            "'s/x86_64/amd64/;s/aarch64/arm64/')"
            " -iquote runtime/base -o %s/program tests/support/static_target.c %s/lib/libcounterpoint.a &&"
            " %s/program && strip %s/program && strip -R .comment %s/program && %s/program",
            ways[i], test_dir(), test_build_dir(), test_dir(), test_dir(), test_dir(), test_dir());

        printf("%s: %s", ways[i], text);
        CHECKF(status == 0, "%s", text);
        free(text);
    }
}
