/* The events that cp_set_cpu_profile_config() started, over a fork. */
#ifndef COUNTERPOINT_RUNTIME_PROPOSAL_H
#define COUNTERPOINT_RUNTIME_PROPOSAL_H

/* In the child of a fork: there are none. */
void cp__proposal_forget(void);

#endif
