/* x86-64: what its debug registers can watch. */
#ifndef COUNTERPOINT_ARCH_WATCH_H
#define COUNTERPOINT_ARCH_WATCH_H

/* Whether they can tell reads from writes; where not, only writes can be watched alone. */
#define CP__WATCHES_READS_ALONE false

#endif
