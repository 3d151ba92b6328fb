#include <stdio.h>
#include <string.h>

#include "naming.h"

void cp__boot_id(char id[CP__BOOT_ID])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file == NULL || fgets(id, CP__BOOT_ID, file) == NULL)
        snprintf(id, CP__BOOT_ID, "unknown");
    id[strcspn(id, "\n")] = '\0';
    if (file != NULL)
        fclose(file);
}
