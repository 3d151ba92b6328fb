/* Writes all profiles of the command line as one. */
#include "report.h"

enum status print_merged(const struct view *view, FILE *out)
{
    enum status status = sources_merge(view->sources, view->n_sources, view->argument);

    if (status == STATUS_OK)
        fprintf(out, "%s has %zu profile%s.\n", view->argument, view->n_sources,
                view->n_sources == 1 ? "" : "s, merged");
    return status;
}
