/* How often the table of code is made anew while a program maps more code: rarely if that takes long, and
 * soon if it only seemed to. */
#include <dlfcn.h>
#include <link.h>

#include "runtime/prepare.h"
#include "runtime/unwind/code.h"
#include "runtime/unwind/objects.h"
#include "tests/support/burn.h"
#include "tests/support/stub_syscall.h"

/* What the first look at the mappings takes. */
static unsigned away_ms;    /* the thread does not run */
static uint64_t working_ns; /* the thread runs */

static long stub_syscall(long number, const long a[6])
{
    static int maps = -1;
    long result = hand_on(number, a);

    if (number == SYS_openat && strcmp((const char *)a[1], "/proc/self/maps") == 0)
        maps = (int)result;
    if ((number == SYS_read || number == SYS_ioctl) && maps >= 0 && a[0] == maps) {
        maps = -1;
        sleep_ms(away_ms);
        SIM_RUN(working_ns);
    }
    return result;
}

static void map_an_object(void)
{
    static const char *const names[] = {"libresolv.so.2", "libnss_files.so.2", "libutil.so.1", "librt.so.1",
                                        "libanl.so.1"};
    size_t i = 0;

    while (i < ARRAY_SIZE(names) && dlopen(names[i], RTLD_NOW | RTLD_NOLOAD) != NULL)
        i++;
    if (i == ARRAY_SIZE(names) || dlopen(names[i], RTLD_NOW) == NULL)
        SKIP("no library of the C library's is left to load");
    CHECK(cp__objects_have_changed());
}

/* Returns whether the table is made anew when somebody looks. */
static bool looks(void)
{
    cp__code_look();
    return !cp__objects_have_changed();
}

SIM_TEST(a_thread_that_was_away_looks_again_at_once)
{
    cp__prepare();
    away_ms = 40;
    cp__code_update();
    map_an_object();
    CHECK(looks());
}

SIM_TEST(a_table_that_takes_a_millisecond_is_made_every_200)
{
    cp__prepare();
    working_ns = MS;
    cp__code_update();
    map_an_object();
    CHECK(!looks());
    SIM_RUN(100 * MS);
    CHECK(!looks());
    SIM_RUN(100 * MS);
    CHECK(looks());
}

SIM_TEST(no_rest_is_longer_than_a_second)
{
    cp__prepare();
    working_ns = 40 * MS;
    cp__code_update();
    map_an_object();
    SIM_RUN(900 * MS);
    CHECK(!looks());
    SIM_RUN(100 * MS);
    CHECK(looks());
}
