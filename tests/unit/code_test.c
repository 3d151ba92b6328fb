/* Which addresses are code, and which code can be read. */
#include "tests/support/burn.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "runtime/base/os.h"
#include "runtime/m.h"
#include "runtime/prepare.h"
#include "runtime/slot.h"
#include "runtime/unwind/code.h"
#include "runtime/unwind/objects.h"
#include "runtime/unwind/unwind.h"
#include "tests/support/lone_page.h"

/* ---- Code that the test maps ----------------------------------------------------------------- */

/* Position-independent, like all code that uses no data and calls nothing by name: the code runs wherever it
 * is copied to. */
__attribute__((noinline, aligned(64))) static void call_it(void (*fn)(void *), void *arg)
{
    fn(arg);
    __asm__ volatile("");
}

struct looping {
    char *code;
    pid_t tid;
    int entered, stop; /* atomic */
};

__attribute__((noinline, aligned(64))) static void loop(struct looping *looping)
{
    __atomic_store_n(&looping->entered, 1, __ATOMIC_RELEASE);      /* pairs with the acquire in await() */
    while (__atomic_load_n(&looping->stop, __ATOMIC_ACQUIRE) == 0) /* pairs with the release in run_in() */
        __asm__ volatile("");
}

#define PAGE ((size_t)4096)
#define COPIED 256 /* more than either function takes; the bytes that follow in the program are code too */

/* Makes a page with a copy of the code at from, which can be executed and read. */
static char *map_code(const void *from)
{
    char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(page != MAP_FAILED);
    memcpy(page, from, COPIED);
    __builtin___clear_cache(page, page + COPIED);
    CHECK_EQ(mprotect(page, PAGE, PROT_READ | PROT_EXEC), 0);
    return page;
}

/* A sanitizer puts calls into the code, relative to the code's own address. */
static void need_plain_code(void)
{
    if (TEST_ASAN || TEST_TSAN)
        SKIP("code with a sanitizer in it runs at one address only");
}

static bool is_code(const void *address)
{
    struct cp__code_range range = {.size = 0};

    return cp__code_find_from_handler((uintptr_t)address, &range);
}

static void *run_for_long(void *arg)
{
    SIM_RUN(1000 * MS); /* no table rests for longer */
    return arg;
}

/* So that the next look may make a table. */
static void let_time_pass(void)
{
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, run_for_long, NULL), 0);
    pthread_join(thread, NULL);
}

/* ---- The table ------------------------------------------------------------------------------- */

CP_TEST(without_a_table_any_address_may_be_code)
{
    struct cp__code_range range = {.size = 0};

    CHECK(cp__code_holds_from_handler(&range, 4096) && cp__code_holds_from_handler(&range, 0x12345678));
    CHECK(!is_code(NULL) && !is_code((void *)4095) && !is_code((void *)UINTPTR_MAX));
    CHECK(!is_code((void *)((uintptr_t)1 << 63)));
}

/* Checks both ends of all executable mappings, as the C library's functions read the same file. */
CP_TEST(the_table_has_what_can_be_executed)
{
    static int data;
    FILE *file = fopen("/proc/self/maps", "re");
    char line[600], permissions[5];
    unsigned long start, end;
    int n = 0;

    cp__code_update();
    while (fgets(line, sizeof line, file) != NULL) {
        struct cp__code_range range = {.size = 0};
        bool is_executable;

        CHECK_EQ(sscanf(line, "%lx-%lx %4s", &start, &end, permissions), 3);
        is_executable = permissions[2] == 'x' && (long)start > 0;
        CHECKF(cp__code_holds_from_handler(&range, start) == is_executable, "%s", line);
        CHECKF(!is_executable || range.is_readable == (permissions[0] == 'r'), "%s", line);
        CHECKF(cp__code_holds_from_handler(&range, end - 1) == is_executable, "%s", line);
        n += is_executable;
    }
    fclose(file);
    CHECK(n >= 3); /* the program, the C library, the kernel's vDSO */
    CHECK(is_code((void *)(uintptr_t)loop) && is_code((void *)(uintptr_t)printf));
    CHECK(!is_code(&data) && !is_code(&start) && !is_code(NULL) && !is_code((void *)UINTPTR_MAX));
}

SIM_TEST(code_that_is_mapped_later_is_known_after_a_look)
{
    char *code;

    cp__code_update();
    code = map_code((const void *)(uintptr_t)loop);
    CHECK(!is_code(code));
    let_time_pass();
    CHECK(!is_code(code));
    cp__code_look();
    CHECK(is_code(code + PAGE - 1) && is_code((void *)(uintptr_t)loop));
    munmap(code, PAGE);
    cp__code_update();
    CHECK(!is_code(code));
}

/* The memory that is first mapped for the table is too small for so many ranges. */
CP_TEST(a_table_grows)
{
    enum { MANY = 3000 };
    char *memory = mmap(NULL, 2 * MANY * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(memory != MAP_FAILED);
    cp__code_update();
    for (size_t i = 0; i < MANY; i++)
        CHECK_EQ(mprotect(memory + 2 * i * PAGE, PAGE, PROT_READ | PROT_EXEC), 0);
    for (int times = 0; times < 3; times++) {
        cp__code_update();
        for (size_t i = 0; i < MANY; i++)
            CHECK(is_code(memory + 2 * i * PAGE) && !is_code(memory + (2 * i + 1) * PAGE));
        CHECK(is_code((void *)(uintptr_t)loop));
    }
}

/* No handler has asked for an address of the object. The library is one that nothing here has loaded. */
SIM_TEST(an_object_that_is_mapped_later_is_known_after_a_look)
{
    struct cp__code_range range = {.size = 0};
    void *object;

    cp__code_update();
    CHECK(!cp__objects_have_changed());
    object = dlopen("libresolv.so.2", RTLD_NOW);
    if (object == NULL)
        SKIP("%s", dlerror());
    CHECK(cp__objects_have_changed());
    let_time_pass();
    cp__code_look();
    CHECK(!cp__objects_have_changed());
    CHECK(cp__code_find_from_handler((uintptr_t)dlsym(object, "ns_name_compress"), &range));
    CHECK(range.rows != NULL);
    dlclose(object);
    CHECK(cp__objects_have_changed());
}

/* The linker's counts are of all namespaces. */
CP_TEST(an_object_of_another_namespace_is_known_after_a_look)
{
    struct cp__code_range range = {.size = 0};
    void *object;

    if (TEST_ASAN || TEST_TSAN)
        SKIP("The sanitizer allows no other namespaces.");
    cp__code_update();
    CHECK(!cp__objects_have_changed());
    object = dlmopen(LM_ID_NEWLM, "libresolv.so.2", RTLD_NOW);
    if (object == NULL)
        SKIP("%s", dlerror());
    CHECK(cp__objects_have_changed());
    cp__code_update();
    CHECK(!cp__objects_have_changed());
    CHECK(cp__code_find_from_handler((uintptr_t)dlsym(object, "ns_name_compress"), &range));
    CHECK(range.rows != NULL);
    dlclose(object);
    CHECK(cp__objects_have_changed());
}

/* A child may be forked while another thread makes the table. */
CP_TEST(a_child_makes_its_own_table)
{
    char *code;

    cp__prepare();
    code = map_code((const void *)(uintptr_t)loop);
    if (fork() == 0) {
        cp__code_update();
        _exit(is_code(code) ? 0 : 1);
    }
    int status;
    CHECK(wait(&status) > 0 && status == 0);
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static unsigned flags;

static unsigned unwind(uintptr_t pc, uintptr_t *words, uintptr_t *frames)
{
    const struct cp__registers regs = {.pc = pc, .sp = (uintptr_t)words, .fp = (uintptr_t)words};
    struct cp__stack bounds = {.lo = (uintptr_t)words, .hi = (uintptr_t)(words + WORDS)};

    return cp__unwind_from_handler(&regs, &bounds, NULL, frames, CP_MAX_FRAMES, &flags, NULL);
}

/* Each frame's pointer points at the next frame. */
CP_TEST(an_address_of_data_is_no_return_address)
{
    static uintptr_t data[2];
    uintptr_t *words = lone_page();
    uintptr_t frames[CP_MAX_FRAMES];
    /* code of no object: only frame pointers tell callers. The code ahead tells nothing. */
    uintptr_t made = (uintptr_t)map_code((const void *)(uintptr_t)loop) + PAGE / 2;
    char *code;

    cp__code_update();
    code = map_code((const void *)(uintptr_t)loop); /* the table does not have this code */
    for (int i = 0; i + 2 < WORDS; i += 2) {
        words[i] = (uintptr_t)&words[i + 2];
        words[i + 1] = made;
    }
    CHECK_EQ(unwind((uintptr_t)code, words, frames), 1);
    CHECK_EQ(flags, CP_SAMPLE_INCOMPLETE | CP_SAMPLE_NEW_CODE);
    CHECK(unwind(made, words, frames) > 100);
    words[21] = (uintptr_t)data;
    CHECK(unwind(made, words, frames) <= 12);
    CHECK_EQ(flags, CP_SAMPLE_INCOMPLETE);
}

static int slot;

static void start_timer(void)
{
    struct cp_slot_request made = request("timer", 1000 * MS);
    struct cp_error err;

    CHECKF(cp_slots_start(&made, 1, &slot, &err) == 0, "%s", err.message);
}

static void end_timer(void)
{
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
}

/* Sends a tick of the timer to a thread, as the kernel would. */
static void send_tick_to(pid_t tid)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_code = SI_TIMER;
    info.si_value.sival_ptr = (void *)(uintptr_t)cp__slot_seq_from_handler(slot);
    CHECK_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, SIGPROF, &info), 0);
}

static void send_tick(void *arg)
{
    (void)arg;
    send_tick_to(cp__os_tid());
}

struct found {
    uintptr_t lo, hi;  /* the addresses at which a frame is searched */
    int with, without; /* the number of samples */
};

static void look_for(void *context, const struct cp_sample *sample)
{
    struct found *found = context;
    bool has = false;

    for (unsigned i = 0; i < sample->depth; i++)
        has |= sample->frames[i] >= found->lo && sample->frames[i] < found->hi;
    if (has)
        found->with++;
    else
        found->without++;
}

/* A function in code that was made while the program is profiled calls a function that is sampled. */
SIM_TEST(code_that_is_mapped_later_is_in_stacks_after_a_pass)
{
    struct worker worker = {.body = NULL};
    struct found found = {.with = 0};
    struct cp_slot_stats stats = {.size = sizeof stats};
    char *code;

    need_plain_code();
    attach(&worker);
    start_timer();
    code = map_code((const void *)(uintptr_t)call_it);
    found.lo = (uintptr_t)code;
    found.hi = found.lo + PAGE;
    for (int i = 0; i < 2; i++) {
        ((void (*)(void (*)(void *), void *))(uintptr_t)code)(send_tick, NULL);
        let_time_pass();
        cp_slots_read(slot, look_for, &found);
        CHECK_EQ(found.without, 1); /* the code was not known at once */
        CHECK_EQ(found.with, i);
    }
    CHECK_EQ(cp_slots_stats(slot, &stats), 0);
    CHECK_EQ(stats.new_code, (uint64_t)found.without);
    end_timer();
    cp_m_detach(worker.m);
}

/* ---- Code that cannot be read ---------------------------------------------------------------- */

static bool is_text(const void *address)
{
    struct cp__text text = {.lo = 0};

    return cp__text_at_from_handler(&text, (uintptr_t)address, 16);
}

CP_TEST(code_is_readable_as_far_as_its_mapping_goes)
{
    struct cp__text text = {.lo = 0};
    char *memory = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t lo = (uintptr_t)memory + PAGE;

    CHECK_EQ(mprotect(memory + PAGE, 2 * PAGE, PROT_READ | PROT_EXEC), 0);
    for (int has_table = 0; has_table < 2; has_table++) {
        text = (struct cp__text){.lo = 0};
        CHECK(cp__text_at_from_handler(&text, lo + 16, 32));
        CHECK(text.lo == lo && text.hi == lo + PAGE);
        CHECK(cp__text_at_from_handler(&text, lo + PAGE - 1, 32));
        CHECK(text.lo == lo && text.hi == lo + 2 * PAGE);
        CHECK(cp__text_at_from_handler(&text, lo + 2 * PAGE - 1, 32));
        CHECK(text.lo == lo && text.hi == lo + 2 * PAGE);
        CHECK(!cp__text_at_from_handler(&text, lo + 2 * PAGE, 32));
        CHECK(!cp__text_at_from_handler(&text, lo - 1, 32));
        cp__code_update();
    }
}

/* The table tells whether code may be read, or else the kernel does. */
CP_TEST(code_that_may_not_be_read_is_not_read)
{
    char *code = map_code((const void *)(uintptr_t)loop);
    char *gone = map_code((const void *)(uintptr_t)loop);
    uintptr_t *words = lone_page();
    uintptr_t frames[CP_MAX_FRAMES];
    uint32_t rights;

    cp__code_update();
    CHECK(is_text(code) && is_text(gone));
    CHECK_EQ(mprotect(code, PAGE, PROT_NONE), 0);
    munmap(gone, PAGE);
    CHECK(is_code(code) && is_code(gone));
    CHECK(!is_text(code) && !is_text(gone));
    CHECK_EQ(unwind((uintptr_t)code, words, frames), 1);
    CHECK_EQ(unwind((uintptr_t)gone, words, frames), 1);
    CHECK_EQ(mprotect(code, PAGE, PROT_EXEC), 0);
    cp__code_update();
    rights = cp__code_open_from_handler();
    CHECK(is_code(code) && !is_text(code)); /* even if the processor allows reading */
    cp__code_keep_from_handler(rights);
}

static void *run_loop(void *arg)
{
    struct looping *looping = arg;
    struct worker worker = {.body = NULL};

    attach(&worker);
    looping->tid = worker.tid;
    ((void (*)(struct looping *))(uintptr_t)looping->code)(looping);
    cp_m_detach(worker.m);
    return NULL;
}

#define TICKS 20

/* Samples a thread that runs in code. */
static void run_in(char *code)
{
    struct looping looping = {.code = code};
    struct found found = {.lo = (uintptr_t)code, .hi = (uintptr_t)code + PAGE};
    pthread_t thread;

    start_timer();
    CHECK_EQ(pthread_create(&thread, NULL, run_loop, &looping), 0);
    await(&looping.entered, 1);
    for (uint64_t i = 1; i <= TICKS; i++) {
        send_tick_to(looping.tid);
        while (sampled(slot) < i)
            sched_yield();
    }
    cp_store_release(&looping.stop, 1); /* pairs with the acquire in loop() */
    pthread_join(thread, NULL);
    cp_slots_read(slot, look_for, &found);
    CHECK_EQ(found.with, TICKS);
    CHECK_EQ(found.without, 0);
    end_timer();
}

SIM_TEST(execute_only_code_is_sampled)
{
    char *code = map_code((const void *)(uintptr_t)loop);

    need_plain_code();
    CHECK_EQ(mprotect(code, PAGE, PROT_EXEC), 0);
    run_in(code);
}

static int some_key(void)
{
    int key = pkey_alloc(0, 0);

    if (key < 0)
        SKIP("this machine has no protection keys: pkey_alloc says %s", strerror(errno));
    return key;
}

/* A signal handler begins with the right to read only memory of key 0. */
SIM_TEST(code_with_a_protection_key_is_sampled)
{
    char *code = map_code((const void *)(uintptr_t)loop);

    need_plain_code();
    CHECK_EQ(pkey_mprotect(code, PAGE, PROT_READ | PROT_EXEC, some_key()), 0);
    run_in(code);
}

static ucontext_t outside, inside;

static void run_inside(void)
{
    for (int i = 0; i < TICKS; i++)
        send_tick(NULL);
    swapcontext(&inside, &outside);
}

/* The stack is a green thread's, because the kernel must read data that the C library stores on a thread's
 * own stack. */
SIM_TEST(a_stack_with_a_protection_key_is_walked)
{
    struct found found = {.lo = (uintptr_t)run_inside, .hi = (uintptr_t)run_inside + COPIED};
    size_t size = 64 * PAGE;
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct worker worker = {.body = NULL};
    struct cp_g g;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer calls handlers later, with other rights");
    CHECK_EQ(pkey_mprotect(stack, size, PROT_READ | PROT_WRITE, some_key()), 0);
    attach(&worker);
    start_timer();
    getcontext(&inside);
    inside.uc_stack = (stack_t){.ss_sp = stack, .ss_size = size};
    makecontext(&inside, run_inside, 0);
    cp_g_init(&g, stack, stack + size, NULL);
    cp_execute(worker.m, &g);
    swapcontext(&outside, &inside);
    cp_execute(worker.m, NULL);
    cp_g_fini(&g);
    cp_slots_read(slot, look_for, &found);
    CHECK_EQ(found.with, TICKS);
    CHECK_EQ(found.without, 0);
    end_timer();
    cp_m_detach(worker.m);
}

/* The host's own handler has the rights that the kernel gave it. */
static uint32_t host_rights;

static void host_handler(int signal)
{
    (void)signal;
    host_rights = cp__keys_from_handler();
}

SIM_TEST(the_hosts_handler_has_its_rights)
{
    const struct sigaction action = {.sa_handler = host_handler};
    struct worker worker = {.body = NULL};
    uint32_t alone;

    some_key();
    CHECK_EQ(sigaction(SIGPROF, &action, NULL), 0);
    raise(SIGPROF);
    alone = host_rights;
    host_rights = 0;
    attach(&worker);
    start_timer();
    raise(SIGPROF);
    CHECK_EQ(host_rights, alone);
    end_timer();
    cp_m_detach(worker.m);
}
