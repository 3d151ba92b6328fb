/*
 * The descriptors of an M's events.
 *
 * A program may close all descriptors that it does not know, as daemons and sandboxes do, at any time and on
 * any thread. The kernel ends such an event, and its number may be a file of the program's from then on, or
 * another event. So the library asks for the id of the event that a number stands for (PERF_EVENT_IOC_ID)
 * before it reads, controls or closes that number. If the event is not the M's, the slot's figures say so
 * (closed), and the number is left alone.
 *
 * Nothing keeps another thread from closing a descriptor between the question and the call after it, so the
 * two follow each other without anything in between, wherever a number is older than the function that uses
 * it.
 */
#ifndef COUNTERPOINT_RUNTIME_ENGINE_DESCRIPTORS_LINUX_H
#define COUNTERPOINT_RUNTIME_ENGINE_DESCRIPTORS_LINUX_H

#include "runtime/m.h"

/* Returns whether the number of the slot's event is still that event. */
bool cp__descriptor_is_ours_from_handler(struct cp__m *m, int slot, int which);
/* Makes an ioctl() call for the event. Returns 0 or a negative errno value, -EBADF if the event is gone. */
int cp__descriptor_control_from_handler(struct cp__m *m, int slot, int which, unsigned long request,
                                        unsigned long argument);
/* Reads the event's count. Returns false if there is none. */
bool cp__descriptor_read_from_handler(struct cp__m *m, int slot, int which, struct cp__count *count);
/* Closes the event. */
void cp__descriptor_close_from_handler(struct cp__m *m, int slot, int which);

#endif
