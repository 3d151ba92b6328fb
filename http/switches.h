/* How often the program's threads are switched, which takes longer with the events that it is asked for. */
#ifndef COUNTERPOINT_HTTP_SWITCHES_H
#define COUNTERPOINT_HTTP_SWITCHES_H

#include <stdint.h>

/* Returns how many switches this process has had for each ns of its CPU time, or of the time that went by if
 * that is more: so far or, if they are more, at present, for which the call looks for 50 ms unless somebody
 * has looked in the last second. A program that has idled for days may be busy now. Returns 0 if switches
 * cannot cost a hundredth of that time with any event. */
double cp__http_switches_a_ns(void);
/* Returns the time since the process began; 0 if the system does not tell. */
uint64_t cp__http_process_age_ns(void);

#endif
