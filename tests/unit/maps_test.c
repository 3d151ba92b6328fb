/* The mappings of the process: those that the kernel answers for one by one, and those of the text that older
 * kernels write. */
#include "runtime/unwind/maps_linux.h"
#include "tests/support/refuse.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGES 3 /* of this program, each in a mapping of its own */

struct list {
    size_t n;
    struct cp__mapped *mappings;
    char **paths;
};

static struct list noted_now(void)
{
    const struct cp__mapped *mappings;
    struct list list;

    cp__maps_note();
    mappings = cp__maps_noted(&list.n);
    list.mappings = calloc(list.n, sizeof *list.mappings);
    list.paths = calloc(list.n, sizeof *list.paths);
    for (size_t i = 0; i < list.n; i++) {
        list.mappings[i] = mappings[i];
        list.paths[i] = strdup(cp__maps_path(&mappings[i]));
    }
    return list;
}

static void free_list(struct list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->paths[i]);
    free(list->paths);
    free(list->mappings);
}

/* Returns the place of the mapping that begins there. */
static size_t place_of(const struct list *list, const void *start)
{
    size_t i = 0;

    while (i < list->n && list->mappings[i].start != (uintptr_t)start)
        i++;
    CHECKF(i < list->n, "No mapping begins at %p.", start);
    return i;
}

static void check_same(const struct list *a, const struct list *b, size_t i)
{
    const struct cp__mapped *one = &a->mappings[i], *other = &b->mappings[i];

    CHECK_EQ(one->start, other->start);
    CHECK_EQ(one->end, other->end);
    CHECK_EQ(one->offset, other->offset);
    CHECK_EQ(one->device, other->device);
    CHECK_EQ(one->inode, other->inode);
    CHECK_EQ(one->is_readable, other->is_readable);
    CHECK_EQ(one->is_executable, other->is_executable);
    CHECK_STR(a->paths[i], b->paths[i]);
}

static void check_known(const struct list *list, const void *code, void *const *pages)
{
    const long size = sysconf(_SC_PAGESIZE);
    char path[4096] = "";
    size_t at = place_of(list, code);

    CHECK(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    CHECK_EQ(list->mappings[at].inode, 0);
    CHECK_EQ(list->mappings[at].end - list->mappings[at].start, (uint64_t)size);
    CHECK(list->mappings[at].is_executable && !list->mappings[at].is_readable);
    CHECK_STR(list->paths[at], "");
    for (int i = 0; i < PAGES; i++) {
        at = place_of(list, pages[i]);
        CHECK(list->mappings[at].inode != 0 && !list->mappings[at].is_executable);
        CHECK_EQ(list->mappings[at].is_readable, i % 2 == 0);
        CHECK_EQ(list->mappings[at].offset, (uint64_t)(i * size));
        CHECK_STR(list->paths[at], path);
    }
}

/* Stacks and heaps are not in the list: the kernel is asked for one mapping after the other because programs
 * may have many of these. */
CP_TEST(mappings_are_the_same_whether_the_kernel_answers_or_writes_them)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    void *code = mmap(NULL, size, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *pages[PAGES], *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct list answered, written;

    CHECK(exe >= 0 && code != MAP_FAILED && data != MAP_FAILED);
    for (int i = 0; i < PAGES; i++) {
        pages[i] = mmap(NULL, size, i % 2 == 0 ? PROT_READ : PROT_NONE, MAP_PRIVATE, exe, (off_t)(i * size));
        CHECK(pages[i] != MAP_FAILED);
    }
    answered = noted_now();
    refuse_call(SYS_ioctl, EPERM);
    written = noted_now();
    CHECK(answered.n > PAGES && written.n >= answered.n);
    for (size_t i = 0; i < answered.n; i++)
        check_same(&answered, &written, i);
    CHECK(written.n - answered.n <=
          1); /* the text may have a page of the kernel's own half last, for old programs */
    if (written.n > answered.n)
        CHECK((intptr_t)written.mappings[answered.n].start < 0);
    check_known(&answered, code, pages);
    for (size_t i = 0; i < answered.n; i++)
        CHECK(answered.mappings[i].start != (uintptr_t)data);
    free_list(&answered);
    free_list(&written);
    close(exe);
}
