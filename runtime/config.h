/* The events that cp_set_cpu_profile_config() started, over a fork. */
#ifndef COUNTERPOINT_RUNTIME_CONFIG_H
#define COUNTERPOINT_RUNTIME_CONFIG_H

#include <stdbool.h>

/* Keeps other threads from changing them until after; a child has none of them. */
void cp__configs_before_fork(void);
void cp__configs_after_fork(bool in_child);

#endif
