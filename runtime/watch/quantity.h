/* The quantities of a watch, from the list that its options have. */
#ifndef COUNTERPOINT_RUNTIME_WATCH_QUANTITY_H
#define COUNTERPOINT_RUNTIME_WATCH_QUANTITY_H

#include "recorder.h"

/* Fills the watch's quantities, measures and meters: time, and what the list has. Takes references of the
 * meters, also if it fails; the caller releases watch->n_meters of them. Returns 0 or what cp_watch_open()
 * returns. */
int cp__quantities_parse(struct cp_watch *watch, const char *list, struct cp_error *err);

#endif
