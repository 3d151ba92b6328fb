/* What a child of a fork finds of a sample buffer that another thread was making or giving back. */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/chunk.h"
#include "runtime/samplebuf.h"
#include "tests/support/test.h"

static struct cp__samplebuf *given_back; /* NULL: munmap() is not looked at */
static int unmapped;

int munmap(void *memory, size_t size)
{
    if (given_back != NULL) {
        CHECK(given_back->write == NULL);
        unmapped++;
    }
    return (int)syscall(SYS_munmap, memory, size);
}

/* Another thread may fork at any time, and the child's M would append where nothing is mapped. */
CP_TEST(nothing_leads_to_memory_that_is_given_back)
{
    struct cp__samplebuf buf = {0};

    CHECK_EQ(cp__pool_resize(0), 0);
    CHECK_EQ(cp__samplebuf_make(&buf), 0);
    given_back = &buf;
    cp__samplebuf_free(&buf);
    given_back = NULL;
    CHECK_EQ(unmapped, 1);
}

static void refuse(void *context, const struct cp_sample *sample)
{
    (void)context;
    (void)sample;
    TEST_FAIL("the buffer has a sample");
}

CP_TEST(a_buffer_that_is_half_made_is_empty)
{
    struct cp__samplebuf buf = {0};
    uint64_t *write;

    CHECK_EQ(cp__samplebuf_make(&buf), 0);
    write = buf.write;
    buf.write = NULL;
    CHECK(cp__samplebuf_is_read_up(&buf));
    CHECK_EQ(cp__samplebuf_read(&buf, 1, refuse, NULL), 0);
    buf.write = write;
    cp__samplebuf_free(&buf);
}
