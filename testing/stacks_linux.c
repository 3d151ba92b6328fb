/* See stacks.h. libdwfl walks the stacks of the other process by ptrace(2) and the unwinding tables of its
 * objects. */
#include "stacks.h"

#include "pprof/symbol/debug_file.h"
#include "pprof/symbol/demangle.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum {
    FIRST_MAX =
        40, /* frames of a deep stack that are shown from its innermost end, the handler's included ... */
    LAST_MAX = 16,     /* ... and from its outermost end */
    WALK_MAX = 100000, /* frames; a walk that is longer is taken for an endless one */
};

struct frame {
    Dwarf_Addr pc;
    bool is_call; /* pc is a return address, so the call is just before it */
};

struct frames {
    struct frame first[FIRST_MAX];
    struct frame last[LAST_MAX]; /* a ring: frame i of those after the first ones is at [i % LAST_MAX] */
    int count;
    int interrupted; /* index, among the first frames, of the last frame that a signal interrupted; 0: none */
};

static struct frame *place_of(struct frames *frames, int i)
{
    return i < FIRST_MAX ? &frames->first[i] : &frames->last[i % LAST_MAX];
}

/* A callback of libdwfl: stores a frame, and aborts the walk after WALK_MAX frames. */
static int add_frame(Dwfl_Frame *state, void *arg)
{
    struct frames *frames = arg;
    struct frame *frame = place_of(frames, frames->count);
    bool is_activation;
    if (frames->count == WALK_MAX || !dwfl_frame_pc(state, &frame->pc, &is_activation))
        return DWARF_CB_ABORT;
    if (is_activation && frames->count < FIRST_MAX)
        frames->interrupted = frames->count;
    frame->is_call = !is_activation;
    frames->count++;
    return DWARF_CB_OK;
}

static const char *function_at(Dwfl *dwfl, Dwarf_Addr pc)
{
    Dwfl_Module *module = dwfl_addrmodule(dwfl, pc);
    return module ? dwfl_module_addrname(module, pc) : NULL;
}

/* Returns the line of an address. If the object lacks the table from addresses to units, as clang's do, all
 * units are searched. */
static Dwarf_Line *line_of(Dwfl_Module *module, Dwarf_Addr pc)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = dwfl_module_addrdie(module, pc, &bias);
    if (!unit)
        while ((unit = dwfl_module_nextcu(module, unit, &bias)) && dwarf_haspc(unit, pc - bias) <= 0)
            ;
    return unit ? dwarf_getsrc_die(unit, pc - bias) : NULL;
}

static void print_function(FILE *stream, const char *function)
{
    char *text = NULL;
    if (function)
        (void)cp__demangle(function, &text); /* without memory the linker's name will do */
    fprintf(stream, "    %s", text ? text : function ? function : "?");
    free(text);
}

static void print_crash_frame(FILE *stream, Dwfl *dwfl, const struct frame *frame)
{
    Dwarf_Addr pc = frame->pc - frame->is_call;
    Dwfl_Module *module = dwfl_addrmodule(dwfl, pc);
    const char *function = function_at(dwfl, pc);
    Dwarf_Line *line = module ? line_of(module, pc) : NULL;
    int number = 0;
    const char *file = line && dwarf_lineno(line, &number) == 0 ? dwarf_linesrc(line, NULL, NULL) : NULL;
    const char *object = module ? dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
    print_function(stream, function);
    if (file)
        fprintf(stream, "\n        %s:%d\n", file, number);
    else
        fprintf(stream, "\n        %s 0x%llx\n", object ? object : "", (unsigned long long)pc);
}

/* Returns whether the function is one of those in child.c that tell the runner of the end. */
static bool tells_end(const char *function)
{
    static const char *const functions[] = {"stop_from_handler", "die_from_handler", "tell_exit"};
    for (size_t i = 0; function && i < sizeof(functions) / sizeof(functions[0]); i++)
        if (strcmp(function, functions[i]) == 0)
            return true;
    return false;
}

/* Returns the index of the first frame to show: the one after the frames of the signal handler, which
 * ThreadSanitizer may call later than the kernel would, or after the frames of the function that exit()
 * called. */
static int first_frame(const struct frames *frames, Dwfl *dwfl)
{
    int first = frames->interrupted;
    for (int i = first; i < frames->count && i < FIRST_MAX; i++)
        if (tells_end(function_at(dwfl, frames->first[i].pc - frames->first[i].is_call)))
            first = i + 1;
    return first;
}

/* Prints a thread's stack; of a very deep stack only both ends. */
static void print_thread(FILE *stream, Dwfl *dwfl, pid_t tid)
{
    struct frames frames = {.count = 0};
    int result = dwfl_getthread_frames(dwfl, tid, add_frame, &frames);
    fprintf(stream, "thread %d:\n", (int)tid);
    if (frames.count == 0 && result != 0)
        fprintf(stream, "    no stack: %s\n", dwfl_errmsg(-1));
    int last = frames.count - LAST_MAX;
    for (int i = first_frame(&frames, dwfl); i < frames.count; i++) {
        if (i == FIRST_MAX && i < last) {
            fprintf(stream, "    ... %s%d more frames ...\n", frames.count == WALK_MAX ? "at least " : "",
                    last - i);
            i = last;
        }
        print_crash_frame(stream, dwfl, place_of(&frames, i));
    }
    fputc('\n', stream);
}

/* The threads of the process, collected before their stacks are walked. */
struct listing {
    FILE *stream;
    Dwfl *dwfl;
    pid_t tids[256];
    int count;
};

static int add_thread(Dwfl_Thread *thread, void *arg)
{
    struct listing *listing = arg;
    if (listing->count == sizeof(listing->tids) / sizeof(listing->tids[0]))
        return DWARF_CB_ABORT;
    listing->tids[listing->count++] = dwfl_thread_tid(thread);
    return DWARF_CB_OK;
}

static void interrupt_from_handler(int signal_number)
{
    (void)signal_number;
}

/* libdwfl waits until each thread has stopped, which a thread that waits in the kernel does not do, such
 * as a parent of vfork(). From the fifth second on, a signal interrupts each such wait, and the thread
 * then has no stack. */
static void limit_waits(bool is_begin)
{
    static struct sigaction old;
    const struct itimerval often = {{0, 200000}, {5, 0}}, never = {{0, 0}, {0, 0}};
    if (is_begin)
        sigaction(SIGALRM, &(struct sigaction){.sa_handler = interrupt_from_handler}, &old);
    setitimer(ITIMER_REAL, is_begin ? &often : &never, NULL);
    if (!is_begin)
        sigaction(SIGALRM, &old, NULL);
}

static void print_all_threads(FILE *stream, Dwfl *dwfl, pid_t first)
{
    struct listing listing = {.stream = stream, .dwfl = dwfl};
    dwfl_getthreads(dwfl, add_thread, &listing);
    print_thread(stream, dwfl, first);
    for (int i = 0; i < listing.count; i++)
        if (listing.tids[i] != first)
            print_thread(stream, dwfl, listing.tids[i]);
}

void cp__stacks_print(FILE *stream, pid_t pid, pid_t first)
{
    static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_linux_proc_find_elf,
        .find_debuginfo = cp__find_debug_file,
    };
    Dwfl *dwfl = dwfl_begin(&callbacks);
    int error = dwfl ? dwfl_linux_proc_report(dwfl, pid) : ENOMEM;
    if (error == 0 && dwfl_report_end(dwfl, NULL, NULL) == 0)
        error = dwfl_linux_proc_attach(dwfl, pid, false);
    if (error == 0) {
        limit_waits(true);
        print_all_threads(stream, dwfl, first);
        limit_waits(false);
    } else
        fprintf(stream, "no stacks: process %d cannot be examined: %s\n", (int)pid,
                error > 0 ? strerror(error) : dwfl_errmsg(-1));
    dwfl_end(dwfl);
}
