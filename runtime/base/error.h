/* counterpoint/error.h: why a call has failed, for the person who must act on the reason. */
#ifndef COUNTERPOINT_ERROR_H
#define COUNTERPOINT_ERROR_H

/* What failed, why, and what to do about it, in whole sentences. */
struct cp_error {
    int code; /* the negative errno value that the call returned; 0: nothing failed */
    char message[508];
    char reason[64]; /* the cause as a phrase for lists, such as "no hardware PMU"; "": none */
};

#endif
