/* The program's calls that wait for a time, and its jumps out of what waits. */
#include <setjmp.h>
#include <stddef.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "telling.h"

#define SLEEP(type, name, parameters, arguments)                                                             \
    CALL(type, name, parameters, arguments, true, CP_WAIT_SLEEP, NULL, 0)

SLEEP(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
SLEEP(int, clock_nanosleep, (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
      (clock, flags, time, left))
SLEEP(unsigned, sleep, (unsigned seconds), (seconds))
SLEEP(int, usleep, (useconds_t us), (us))
SLEEP(int, thrd_sleep, (const struct timespec *time, struct timespec *left), (time, left))

/* ---- Jumps ----------------------------------------------------------------------------------- */

void __longjmp_chk(struct __jmp_buf_tag place[1], int value) __attribute__((noreturn));

/* Only a handler can jump while its thread waits, and will most likely jump out of the wait. The frames
 * of that are still there. */
#define JUMP(name)                                                                                           \
    void name(struct __jmp_buf_tag place[1], int value)                                                      \
    {                                                                                                        \
        cp__telling_leave();                                                                                 \
        NEXT(name)(place, value);                                                                            \
        __builtin_unreachable();                                                                             \
    }

JUMP(longjmp)
JUMP(_longjmp)
JUMP(siglongjmp)
JUMP(__longjmp_chk)
