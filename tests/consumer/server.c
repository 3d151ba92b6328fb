/* Starts the endpoint on a free port, and stops it. */
#include <counterpoint/http.h>
#include <stdio.h>

int main(void)
{
    struct cp_http *http;
    struct cp_error err = {0};

    if (cp_http_start(&http, ":0", NULL, &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;
    cp_http_stop(http);
    puts("http");
    return 0;
}
