/* What becomes in a fork of the events that cp_set_cpu_profile_config() started. */
#ifndef COUNTERPOINT_RUNTIME_PROPOSAL_H
#define COUNTERPOINT_RUNTIME_PROPOSAL_H

/* In the child of a fork: no event runs. */
void cp__proposal_forget(void);

#endif
