#include "prepare.h"

#include <pthread.h>

#include "engine.h"
#include "fork.h"
#include "runtime/base/fork_gate.h"
#include "runtime/unwind/code.h"

/* Reads files, which are cancellation points: a thread that ended here would leave half of this for the next
 * one to do again. */
static void prepare_once(void)
{
    int cancel_state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    cp__code_update();
    cp__fork_prepare();
    cp__fork_delay(); /* events are opened, and closed again */
    cp__engine.start();
    cp__fork_allow();
    pthread_setcancelstate(cancel_state, NULL);
}

void cp__prepare(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, prepare_once);
}
