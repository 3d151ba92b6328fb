/* counterpoint/error.h: what a call says that has failed for a reason that a person must act on. */
#ifndef COUNTERPOINT_ERROR_H
#define COUNTERPOINT_ERROR_H

/* What failed, why, and what to do about it, in whole sentences. */
struct cp_error {
    int code; /* the negative errno value that the call returned; 0 where nothing failed */
    char message[508];
    char reason[64]; /* the cause in a phrase, such as "no hardware PMU", for lists; "" where there is none */
};

#endif
