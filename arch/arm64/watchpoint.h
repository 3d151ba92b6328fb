/* What the debug registers of arm64 can watch. */
#ifndef COUNTERPOINT_ARCH_WATCHPOINT_H
#define COUNTERPOINT_ARCH_WATCHPOINT_H

/* Whether the debug registers can trap reads without trapping writes. If not, only writes can be watched
 * alone. */
#define CP__WATCHPOINTS_READ_ALONE true

#endif
