/* Profiles of what only the machine's own kernel does. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"
#include "tests/support/memory_inside.h"
#include "tests/support/session_tools.h"

static struct cp_cpu_profile_config config_for(const char *name, uint64_t period)
{
    struct cp_cpu_profile_config config = {.size = sizeof config};
    struct cp_event_spec spec = {.size = sizeof spec};
    struct cp_error err;

    CHECKF(cp_event_parse(name, &spec, &err) == 0, "%s", err.message);
    CHECKF(cp_cpu_profile_config_init(&config, &spec, period, &err) == 0, "%s", err.message);
    return config;
}

/* ---- Kernel frames --------------------------------------------------------------------------- */

/* Spends CPU time in the kernel. */
__attribute__((noinline)) static void read_zeros(long ns)
{
    int64_t end = (int64_t)cpu_ns() + ns;
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    static char zeros[1 << 20];

    while ((int64_t)cpu_ns() < end)
        CHECK(read(fd, zeros, sizeof zeros) > 0); /* a signal may cut the read short */
    close(fd);
}

/* The C library keeps no frame pointers, so a stack may lack the function that called it. This function's
 * caller is in the stack. */
__attribute__((noinline)) static void have_zeros_read(long ns)
{
    read_zeros(ns);
    __asm__ volatile(""); /* keeps the call from being a tail call */
}

CP_TEST(kernel_frames_are_in_the_profile)
{
    struct cp_cpu_profile_config config = config_for("taskClock", test_period(100000, 1));
    const char *path = file_in_dir("kernel.pb.gz");
    struct cp_error err;
    char *comments, *text;

    if (!config.is_kernel_included)
        SKIP("this user may not sample the kernel");
    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late, so that most samples are lost");
    attach();
    config.is_sample_callchain_included = true;
    config.is_callchain_kernel_included = true;
    CHECKF(cp_start_cpu_profile_with_config(
               &err, cp_option_config(cp_writer_path(path), "taskClock", &config)) == 0,
           "%s", err.message);
    have_zeros_read(200000000);
    CHECKF(cp_stop_cpu_profile(&err) == 0, "%s", err.message);
    comments = pprof("-comments", path);
    text = pprof("-traces", path);
    CHECK_CONTAINS(text, "             have_zeros_read\n");
    if (strstr(comments, "kernel_names: none") != NULL)
        CHECK_CONTAINS(text, "[[kernel.kallsyms]]");
    else
        CHECK_CONTAINS(text, "             vfs_read\n"); /* calls the device's function */
    free(comments);
    free(text);
}

/* ---- Page faults of the profiler's own ------------------------------------------------------- */

#define TOUCHED 1000

static struct {
    uintptr_t lo, hi;
} touched;
static struct own_memory own;
static uint64_t in_touched, in_own;

static void count_fault(void *context, const struct cp_sample *sample)
{
    (void)context;
    in_touched += sample->addr >= touched.lo && sample->addr < touched.hi;
    in_own += is_own_memory(&own, sample->addr);
}

static void touch(size_t page)
{
    char *pages = mmap(NULL, TOUCHED * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(pages != MAP_FAILED);
    madvise(pages, TOUCHED * page, MADV_NOHUGEPAGE);
    touched.lo = (uintptr_t)pages;
    touched.hi = touched.lo + TOUCHED * page;
    for (int i = 0; i < TOUCHED; i++)
        ((volatile char *)pages)[i * page] = 1;
}

/* The handler touches 20 pages of the sample buffer and some of the stack and the ring for the first time. No
 * sample may be of these faults. */
CP_TEST(page_faults_are_those_of_the_program)
{
    struct cp_slot_request faults = {.event = CP_CPUPROF_SW_PAGE_FAULTS,
                                     .config = config_for("pageFaults", 1)};
    struct cp_error err;
    int slot;

    if (TEST_TSAN)
        SKIP("ThreadSanitizer delivers signals late: a signal that finds one pending is no sample");
    faults.config.is_sample_addr_included = true;
    CHECKF(cp_slots_start(&faults, 1, &slot, &err) == 0, "%s", err.message);
    attach();
    touch((size_t)sysconf(_SC_PAGESIZE));
    CHECK(find_own_memory(&own, slot) > 10); /* the handler has faulted, too */
    cp_slots_read(slot, count_fault, NULL);
    CHECK_EQ(in_touched, TOUCHED);
    CHECK_EQ(in_own, 0);
    cp_slots_stop(&slot, 1);
    cp_slots_release(&slot, 1);
}
