#include "prepare.h"

#include <pthread.h>

#include "fork.h"
#include "handler.h"
#include "runtime/base/loads.h"
#include "runtime/base/os.h"
#include "runtime/base/signals.h"
#include "runtime/unwind/code.h"
#include "runtime/unwind/switches.h"

/* Reading files is a cancellation point. A thread that ended here would leave the work half done for the next
 * thread. */
static void prepare_once(void)
{
    int cancel_state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    cp__loads_prepare();
    cp__os_barrier_prepare();
    cp__code_prepare();
    cp__switches_prepare();
    cp__fork_prepare();
    cp__signals_use(cp__on_signal_from_handler);
    pthread_setcancelstate(cancel_state, NULL);
}

void cp__prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, prepare_once);
}
