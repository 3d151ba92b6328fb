/*
 * Where a thread's stack ends, for unwinding.
 *
 * A chain of frame pointers does not end by itself. The C library's code that calls a thread's function, or
 * main(), keeps no frame pointer. So the frame pointer that the function saves may be any value, even an
 * address of this very stack, and the chain would continue there. The profiler therefore takes the end of the
 * program's outermost frame as the end of the stack. The unwinder of the compiler's library finds that frame,
 * by call-frame information, outside of the signal handler.
 */
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>
#include <unwind.h>

#include "runtime/base/fork_gate.h"
#include "runtime/base/os.h"
#include "runtime/base/sys_linux.h"
#include "unwind.h"

/* ---- The C library --------------------------------------------------------------------------- */

struct range {
    uintptr_t lo;
    uintptr_t hi;
};
static struct range c_library; /* set once; empty if the C library is part of the program or unknown */
static uintptr_t entry;        /* the address of the program's _start(), which is the C library's code too */

static bool holds(const struct range *range, uintptr_t address)
{
    return address >= range->lo && address < range->hi;
}

#ifdef __GLIBC__
#include <gnu/libc-version.h>

/* Returns the addresses from the first to the last segment of an object. */
static struct range extent_of(const struct dl_phdr_info *object)
{
    struct range extent = {UINTPTR_MAX, 0};

    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[i];
        uintptr_t lo = object->dlpi_addr + header->p_vaddr;

        if (header->p_type != PT_LOAD)
            continue;
        extent.lo = lo < extent.lo ? lo : extent.lo;
        extent.hi = lo + header->p_memsz > extent.hi ? lo + header->p_memsz : extent.hi;
    }
    return extent;
}

/* Finds the object that contains a string of the C library. A string is safer than a function: another object
 * may have replaced the function. */
static int find_c_library(struct dl_phdr_info *object, size_t size, void *arg)
{
    struct range extent = extent_of(object);

    (void)size;
    (void)arg;
    if (!holds(&extent, (uintptr_t)gnu_get_libc_version()))
        return 0;
    if (!holds(&extent, entry))
        c_library = extent;
    return 1;
}
#else
static int find_c_library(struct dl_phdr_info *object, size_t size, void *arg)
{
    (void)object;
    (void)size;
    (void)arg;
    return 1;
}
#endif

static void find_once(void)
{
    entry = getauxval(AT_ENTRY);
    if (cp__linker_begin())
        dl_iterate_phdr(find_c_library, NULL);
    cp__linker_end();
}

/* ---- The outermost frame --------------------------------------------------------------------- */

/* The outermost frame of the program. */
struct outermost {
    uintptr_t fp;
    uintptr_t end; /* the end of the frame; 0 while the last frame seen is the program's */
};

/* Looks at one frame; the unwinder starts with the innermost. What the unwinder calls the CFA of a frame is
 * that frame's stack pointer, so it is the end of the frame that was called. */
static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *arg)
{
    struct outermost *outermost = arg;
    uintptr_t pc = _Unwind_GetIP(context);

    if (pc == 0)
        return _URC_NO_REASON; /* past the last frame */
    if (!holds(&c_library, pc) && _Unwind_GetRegionStart(context) != entry)
        *outermost = (struct outermost){.fp = _Unwind_GetGR(context, CP__FP_NUMBER)};
    else if (outermost->end == 0)
        outermost->end = _Unwind_GetCFA(context);
    return _URC_NO_REASON;
}

/* Finds the outermost frame of the program on this stack. The result's end is 0 if the frame is unknown. */
static struct outermost find_outermost(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct outermost outermost = {.end = 0};

    pthread_once(&once, find_once);
    if (c_library.hi == 0 || _Unwind_Backtrace(look_at_frame, &outermost) != _URC_END_OF_STACK)
        outermost.end = 0;
    return outermost;
}

/* ---- The stack ------------------------------------------------------------------------------- */

/* The kernel keeps at least this much below the first thread's stack free of other mappings. */
#define LEAST_GAP ((uintptr_t)128 << 20)

/* Returns the stack of the first thread without the help of /proc, which the C library needs for that. The
 * stack ends with the path of the program, behind which there is one more word, and the rest of the page. */
static struct cp__stack first_stack(void)
{
    const char *path = (const char *)getauxval(AT_EXECFN);
    struct cp__stack stack = {.may_grow = true};
    uintptr_t size = LEAST_GAP;
    struct rlimit limit;

    if (path == NULL || cp__os_tid() != getpid())
        return stack;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < size)
        size = limit.rlim_cur;
    stack.hi = ((uintptr_t)path + strlen(path) + 1 + sizeof(uintptr_t) + CP__SYS_PAGE - 1) & -CP__SYS_PAGE;
    stack.lo = stack.hi > size ? stack.hi - size : 0;
    return stack;
}

/* Returns the calling thread's stack as the C library knows it. For the C library, the first thread's stack
 * goes as far as its limit, and thus over other mappings if the limit was raised since the program began. */
static struct cp__stack whole_stack(void)
{
    struct cp__stack stack = {.hi = 0};
    pthread_attr_t attributes;
    void *lo;
    size_t size;

    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return first_stack();
    if (pthread_attr_getstack(&attributes, &lo, &size) == 0)
        stack = (struct cp__stack){
            .lo = (uintptr_t)lo, .hi = (uintptr_t)lo + size, .may_grow = cp__os_tid() == getpid()};
    pthread_attr_destroy(&attributes);
    if (stack.may_grow && stack.hi - stack.lo > LEAST_GAP)
        stack.lo = stack.hi - LEAST_GAP;
    return stack;
}

/* The size of a frame record: a frame pointer points at two words. */
#define FRAME_RECORD (2 * sizeof(uintptr_t))

/* In a program that links libunwind, the unwinder is libunwind's. Its preparation, at the first call, is not
 * ordered with the calls of other threads. */
static void prepare_unwinder(void)
{
    find_outermost();
}

struct cp__stack cp__thread_stack(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct cp__stack stack = whole_stack();
    uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
    struct outermost outermost;

    if (!cp__stack_holds(&stack, sp))
        return stack; /* the caller runs on a stack that the program made itself */
    pthread_once(&once, prepare_unwinder);
    outermost = find_outermost();
    if (outermost.end <= sp || !cp__stack_holds(&stack, outermost.end))
        return stack;
    stack.hi = outermost.end;
    stack.ends_there = true;
    /* A frame record may lie below the end of its frame, and its end is what a walk by frame pointers
     * sees. */
    if (!CP__RECORD_ENDS_FRAME && outermost.fp >= sp && outermost.fp < stack.hi - FRAME_RECORD)
        stack.slack = stack.hi - FRAME_RECORD - outermost.fp;
    return stack;
}
