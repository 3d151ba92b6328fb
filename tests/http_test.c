/* The HTTP endpoint, asked by curl, go tool pprof, gperftools' pprof, and by hand. */
#include "http_tools.h"
#include "resources.h"

/* ---- Profiles -------------------------------------------------------------------------------- */

CP_TEST_TIMEOUT(go_tool_pprof_fetches_a_profile, 60)
{
    struct cp_http *http = start_http(NULL);
    char url[200];

    start_service();
    snprintf(url, sizeof url, "'http://%s" PPROF "/profile?seconds=2&event=taskClock&period=100000'",
             cp_http_address(http));
    char *top = pprof("-top", url);
    printf("%s", top);
    CHECK_CONTAINS(top, "burn_here");
    CHECK_CONTAINS(top, "serve_customers");
    CHECK_CONTAINS(top, "Duration: 2");
    free(top);
    stop_service();
    cp_http_stop(http);
}

CP_TEST_TIMEOUT(a_profile_has_the_headers_of_net_http_pprof, 60)
{
    struct cp_http *http = start_http(NULL);

    start_service();
    check_answer(http, "-D - -o /dev/null \"$base/profile?seconds=1\"", 200,
                 "\nContent-Type: application/octet-stream\n",
                 "\nContent-Disposition: attachment; filename=\"profile\"\n",
                 "\nX-Content-Type-Options: nosniff\n", "\nContent-Length: ", NULL);
    check_answer(http, "\"$base/profile?seconds=1&debug=1&event=taskClock&unknown=x\"", 200,
                 "\nContent-Type: text/plain; charset=utf-8\n", "samples profile: total ", "\tburn_here\t",
                 "# labels: {\"role\":\"service\"}", NULL);
    stop_service();
    cp_http_stop(http);
}
