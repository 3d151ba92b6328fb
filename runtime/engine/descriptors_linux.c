#include "descriptors_linux.h"

#include <errno.h>

#include "perf_m_linux.h"
#include "runtime/base/sys_linux.h"
#include "runtime/perf/perf_linux.h"

bool cp__descriptor_is_ours_from_handler(struct cp__m *m, int slot, int which)
{
    const struct cp__perf_event *event = &cp__perf_of(m)->handles[slot].events[which];
    bool is_ours = cp__perf_is_event_from_handler(event->fd, event->id);

    if (!is_ours)
        cp_store_relaxed(&m->stats[slot].closed, 1u); /* relaxed: whoever stores it stores the same */
    return is_ours;
}

int cp__descriptor_control_from_handler(struct cp__m *m, int slot, int which, unsigned long request,
                                        unsigned long argument)
{
    if (!cp__descriptor_is_ours_from_handler(m, slot, which))
        return -EBADF;
    return cp__sys_ioctl_from_handler(cp__perf_of(m)->handles[slot].events[which].fd, request, argument);
}

bool cp__descriptor_read_from_handler(struct cp__m *m, int slot, int which, struct cp__count *count)
{
    *count = (struct cp__count){.lost = 0}; /* older kernels do not tell it */
    return cp__descriptor_is_ours_from_handler(m, slot, which) &&
           cp__sys_read_from_handler(cp__perf_of(m)->handles[slot].events[which].fd, count, sizeof *count) >
               0;
}

void cp__descriptor_close_from_handler(struct cp__m *m, int slot, int which)
{
    if (cp__descriptor_is_ours_from_handler(m, slot, which))
        cp__sys_close_from_handler(cp__perf_of(m)->handles[slot].events[which].fd);
}
