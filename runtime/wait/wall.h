/*
 * The event wall: a thread of the recording's own looks at accounts from time to time, whatever their Gs do.
 *
 * Each look draws some accounts at random (wall_draw.h), and says of each how its G stands: it runs, is
 * runnable or waits. A look stands for the time since the last one, and each account that was drawn for
 * several if others were passed over. So the sums are right in the mean, however late a look comes.
 *
 *     state       whose stack
 *     WAITING     of the G, copied while it stands still (wall_stack.h). If the G goes on meanwhile, that of
 *                 the same state a moment later; else none
 *     RUNNABLE    the same: where the G has given its M up
 *     RUNNING     the M takes it itself when its thread has computed until the next tick of its CPU clock
 *                 (runtime/asked.h). If the G has given its M up before, the stack from there; else none
 */
#ifndef COUNTERPOINT_RUNTIME_WAIT_WALL_H
#define COUNTERPOINT_RUNTIME_WAIT_WALL_H

#include "hooks.h"

/* Begins and ends the thread of a recording. */
int cp__wall_start(struct cp__recording *recording, struct cp_error *err);
void cp__wall_stop(struct cp__recording *recording);
/* Frees the memory. The thread has stopped, or is the parent process's. */
void cp__wall_free(struct cp__recording *recording);

#endif
