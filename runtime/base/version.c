#include "version.h"

uint32_t cp_version(void)
{
    return CP_VERSION_NUMBER;
}
