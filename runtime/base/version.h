/* counterpoint/version.h: the version that a program was built for, and the one that it runs with. */
#ifndef COUNTERPOINT_VERSION_H
#define COUNTERPOINT_VERSION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers, as text and as major * 1000000 + minor * 1000 + patch. */
#define CP_VERSION "0.1.0"
#define CP_VERSION_NUMBER 1000

/* The CP_VERSION_NUMBER of the library that the program runs with. */
uint32_t cp_version(void);

#ifdef __cplusplus
}
#endif
#endif
