#include "configs.h"

#include <string.h>

struct cp__lock cp__configs_lock = CP__LOCK_INIT(CP__RANK_CONFIGS);
struct cp__running cp__running[CP_CPUPROF_EVENT_COUNT];

void cp__configs_forget(void)
{
    cp__lock_reset(&cp__configs_lock);
    memset(cp__running, 0, sizeof cp__running);
}
