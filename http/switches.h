/* How often the program's threads are switched, which takes longer with the events that it is asked for. */
#ifndef COUNTERPOINT_HTTP_SWITCHES_H
#define COUNTERPOINT_HTTP_SWITCHES_H

#include <stdint.h>

/* Returns how many switches this process has had so far for each ns of its CPU time, or of its age if that is
 * more; 0 if they cannot cost a hundredth of that with any event. */
double cp__http_switches_a_ns(void);
/* Returns the time since the process began; 0 if the system does not tell. */
uint64_t cp__http_process_age_ns(void);

#endif
