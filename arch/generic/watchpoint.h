/* What the debug registers of any processor can watch. Only the kernel knows, so the constant allows
 * everything. */
#ifndef COUNTERPOINT_ARCH_WATCHPOINT_H
#define COUNTERPOINT_ARCH_WATCHPOINT_H

/* Whether the debug registers can trap reads without trapping writes. If not, only writes can be watched
 * alone. */
#define CP__WATCHPOINTS_READ_ALONE true

#endif
