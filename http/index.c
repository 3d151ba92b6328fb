/* /debug/pprof/: the index page, which lists the endpoints and the events that work here. */
#include <inttypes.h>
#include <string.h>

#include "events.h"
#include "share.h"

enum { SECONDS = 10 }; /* the length of the profiles that the page links to, unless the limit is lower */

int cp__http_style(struct cp__exchange *exchange)
{
    static const char css[] =
        ":root { color-scheme: light dark; --soft: #59636e; --line: #d1d9e0; --link: #0757ba; }\n"
        "@media (prefers-color-scheme: dark) {\n"
        "  :root { --soft: #9198a1; --line: #3d444d; --link: #6cb0ff; }\n"
        "}\n"
        "body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; "
        "}\n"
        "table { border-collapse: collapse; width: 100%; }\n"
        "caption, th, td { text-align: left; }\n"
        "caption, .soft { color: var(--soft); }\n"
        "th, td { border-bottom: 1px solid var(--line); padding: .3rem 1rem .3rem 0; vertical-align: top; }\n"
        "a { color: var(--link); }\n"
        "code { font-size: .9em; overflow-wrap: anywhere; }\n";

    return cp__http_reply_body(exchange, "text/css; charset=utf-8", css, sizeof css - 1);
}

/* Prints text with the characters escaped that HTML gives a meaning. */
static void print_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* The context of print_event(). */
struct events {
    FILE *out;
    bool works; /* list the events that work, or the others */
    unsigned seconds;
};

static void print_working_row(FILE *out, const struct cp__http_event *event, unsigned seconds)
{
    fprintf(out, "<tr><td><a href=\"profile?event=%s&amp;period=%" PRIu64 "&amp;seconds=%u\">",
            event->info->name, event->period, seconds);
    print_escaped(out, event->info->name);
    fprintf(out, "</a></td><td>%" PRIu64 "%s</td><td>", event->period, event->is_time ? " ns" : "");
    print_escaped(out, event->info->description != NULL ? event->info->description : "");
    if (event->use[0] != '\0')
        fprintf(out, "<br><span class=\"soft\">%s</span>", event->use);
    fputs("</td></tr>\n", out);
}

static void print_event_row(void *context, const struct cp__http_event *event)
{
    const struct events *events = context;

    if ((event->refusal == NULL) != events->works)
        return;
    if (event->refusal == NULL) {
        print_working_row(events->out, event, events->seconds);
        return;
    }
    fputs("<tr><td>", events->out);
    print_escaped(events->out, event->info->name);
    fputs("</td><td>", events->out);
    print_escaped(events->out, event->refusal);
    fputs("</td></tr>\n", events->out);
}

/* ---- The page -------------------------------------------------------------------------------- */

static const char head[] =
    "<!DOCTYPE html>\n"
    "<html lang=\"en\">\n"
    "<head>\n"
    "<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>" CP__HTTP_ROOT "/</title>\n"
    "<link rel=\"stylesheet\" href=\"index.css\">\n"
    "</head>\n"
    "<body>\n"
    "<main>\n"
    "<h1>" CP__HTTP_ROOT "/</h1>\n"
    "<table>\n"
    "<caption>The state of this program</caption>\n"
    "<tbody>\n"
    "<tr><td><a href=\"ui/\">ui</a></td>"
    "<td>Records profiles and shows them in the browser, also as flame graphs</td></tr>\n"
    "<tr><td><a href=\"goroutine?debug=1\">goroutine</a></td>"
    "<td>Where all Gs are (<a href=\"goroutine?debug=2\">each</a>, "
    "<a href=\"goroutine\">as a profile</a>)</td></tr>\n"
    "<tr><td><a href=\"goroutineleak?debug=2&amp;age=10m\">goroutineleak</a></td>"
    "<td>The Gs that have waited for 10 minutes, and who started them "
    "(<a href=\"goroutineleak?age=10m\">as a profile</a>)</td></tr>\n"
    "<tr><td><a href=\"stalls?debug=1\">stalls</a></td>"
    "<td>Where Gs held their thread for too long "
    "(<a href=\"stalls?seconds=10&amp;threshold=10ms\">in the next 10 seconds, as a profile</a>)</td></tr>\n"
    "<tr><td><a href=\"threadcreate?debug=1\">threadcreate</a></td>"
    "<td>The threads that are profiled, and the stacks that attached them "
    "(<a href=\"threadcreate\">as a profile</a>)</td></tr>\n"
    "<tr><td><a href=\"block?seconds=10\">block</a></td>"
    "<td>Where the program waits, recorded for ten seconds (<a href=\"block?debug=1\">since the program has "
    "begun to record</a>, if it does)</td></tr>\n"
    "<tr><td><a href=\"mutex?seconds=10\">mutex</a></td>"
    "<td>Who makes others wait, recorded for ten seconds (<a href=\"mutex?debug=1\">since the program has "
    "begun to record</a>, if it does)</td></tr>\n"
    "<tr><td>watch?name=<i>NAME</i></td>"
    "<td>Where the rounds of a watch began that the program has opened with has_stacks, as a profile; "
    "with &amp;debug=1 as text</td></tr>\n"
    "<tr><td><a href=\"watches\">watches</a></td>"
    "<td>What the program's watches have measured "
    "(<a href=\"watches?format=json\">as JSON</a>)</td></tr>\n"
    "<tr><td><a href=\"metrics\">metrics</a></td>"
    "<td>What the profiler did and holds, and what watches have measured, for Prometheus</td></tr>\n"
    "<tr><td><a href=\"cmdline\">cmdline</a></td><td>The program's arguments</td></tr>\n"
    "<tr><td><a href=\"symbol\">symbol</a></td>"
    "<td>Names for addresses, as pprof tools ask for them</td></tr>\n"
    "</tbody>\n"
    "</table>\n"
    "<h2>Profiles</h2>\n";

static const char working[] = "<table>\n"
                              "<caption>Events that work here</caption>\n"
                              "<thead><tr><th scope=\"col\">Event</th><th scope=\"col\">Period</th>"
                              "<th scope=\"col\">What the event counts</th></tr></thead>\n"
                              "<tbody>\n";

static const char between[] =
    "</tbody>\n"
    "</table>\n"
    "<p>There are more events, with names such as <code>r1c2</code>, "
    "<code>tracepoint:sched:sched_switch</code> or "
    "<code>cycles:k</code>: <code>counterpoint events</code> lists them. A period may follow the "
    "name: <code>event=taskClock:1ms</code>.</p>\n"
    "<details>\n"
    "<summary>Events that do not work here</summary>\n"
    "<table>\n"
    "<thead><tr><th scope=\"col\">Event</th><th scope=\"col\">Why not</th></tr></thead>\n"
    "<tbody>\n";

static const char tail[] = "</tbody>\n"
                           "</table>\n"
                           "</details>\n"
                           "</main>\n"
                           "</body>\n"
                           "</html>\n";

/* Prints the command for a pprof tool. The token is left for the user to fill in, so that nobody can read it
 * from a screen. */
static void print_example(FILE *out, const struct cp__exchange *exchange, unsigned seconds)
{
    const struct cp_http_options *options = exchange->options;
    const char *host = cp__http_header(exchange, "host"), *event = cp__http_recommended(exchange);

    fprintf(
        out,
        "<p>A link records for %u s and downloads the profile; with <code>&amp;debug=1</code> it is text. "
        "Or let a tool ask:</p>\n"
        "<p><code>go tool pprof -http=: '%s%s",
        seconds, options->certificate != NULL ? "https+insecure://" : "http://",
        options->token != NULL ? "any:TOKEN@" : "");
    print_escaped(out, host != NULL ? host : "HOST");
    fprintf(out, CP__HTTP_ROOT "/profile?event=%s&amp;period=%" PRIu64 "&amp;seconds=%u'</code>%s</p>\n",
            event, cp__http_period(exchange, event), seconds,
            options->token != NULL ? ", with the endpoint's token for TOKEN" : "");
    if (strcmp(event, cp_event_name(CP_CPUPROF_OS_TIMER)) == 0)
        fputs(
            "<p>The threads of this program give the CPU to each other so often that a clock of the kernel's "
            "may take more than a hundredth of the program's time there. The timer takes nothing.</p>\n",
            out);
}

int cp__http_index(struct cp__exchange *exchange)
{
    static const struct cp_http_header headers[] = {
        {"Content-Type", "text/html; charset=utf-8"},
        {"Content-Security-Policy",
         "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'"},
        {"Referrer-Policy", "no-referrer"}};
    const unsigned seconds =
        cp__http_max_seconds(exchange) < SECONDS ? cp__http_max_seconds(exchange) : SECONDS;
    struct cp__http_page page;
    int result;

    if (!cp__http_turn_or_refuse(exchange, &result))
        return result;
    cp__http_page_open(&page);
    if (page.out != NULL) {
        fputs(head, page.out);
        print_example(page.out, exchange, seconds);
        fputs(working, page.out);
        cp__http_events(exchange, print_event_row, &(struct events){page.out, true, seconds});
        fputs(between, page.out);
        cp__http_events(exchange, print_event_row, &(struct events){page.out, false, seconds});
        fputs(tail, page.out);
    }
    cp__http_turn_give();
    return cp__http_page_send(exchange, &page, headers, 3);
}
