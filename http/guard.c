/* Decides who may ask: checks the headers Host, Origin and Authorization. */
#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "exchange.h"

/* ---- Host ------------------------------------------------------------------------------------ */

static bool is_port(const char *text)
{
    size_t n = strspn(text, "0123456789");

    return text[n] == '\0' && n <= 5;
}

/* Copies the host of "HOST", "HOST:PORT" or "[HOST]:PORT". Returns false if the value has none of these
 * forms. */
static bool split_host(const char *value, char *host, size_t size)
{
    bool has_brackets = value[0] == '[';
    const char *from = value + has_brackets;
    size_t n = strcspn(from, has_brackets ? "]" : ":");
    const char *rest = from + n + has_brackets;

    if (n == 0 || n >= size || (has_brackets && from[n] != ']'))
        return false;
    memcpy(host, from, n);
    host[n] = '\0';
    return rest[0] == '\0' || (rest[0] == ':' && is_port(rest + 1));
}

static bool is_ip_address(const char *host)
{
    struct in6_addr address;

    return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

/* Returns whether the Host header names this server. An attacker's DNS may point a foreign name at this
 * address, which would give the attacker's page our origin; so only names from the options are accepted. IP
 * addresses and "localhost" are safe, because no name server decides about them. */
static bool is_own_host(const struct cp__exchange *exchange, const char *value)
{
    const struct cp_http_options *options = exchange->options;
    char host[256];

    if (!split_host(value, host, sizeof host))
        return false;
    if (is_ip_address(host) || strcasecmp(host, "localhost") == 0)
        return true;
    for (size_t i = 0; i < options->n_hosts; i++) {
        if (strcasecmp(host, options->hosts[i]) == 0)
            return true;
    }
    return false;
}

/* ---- Origin ---------------------------------------------------------------------------------- */

static bool has_value(const struct cp__exchange *exchange, const char *name, const char *value)
{
    const char *sent = cp__http_header(exchange, name);

    return sent != NULL && strcmp(sent, value) == 0;
}

/* Returns whether a person has followed a link to a page. The page is shown in a window of its own, and the
 * site with the link cannot read it. The profile endpoint is not a page, because the request alone would
 * start a recording. */
static bool is_link_to_page(const struct cp__exchange *exchange)
{
    return cp__http_is_page(exchange->request->path) && strcmp(exchange->request->method, "GET") == 0 &&
           has_value(exchange, "sec-fetch-mode", "navigate") &&
           has_value(exchange, "sec-fetch-dest", "document");
}

/* Returns whether a page of another site asks. Browsers send the Origin header with such requests, or say so
 * in Sec-Fetch-Site. Programs, and addresses that a person types, send neither. */
static bool is_cross_origin(const struct cp__exchange *exchange, const char *host)
{
    const char *origin = cp__http_header(exchange, "origin");
    const char *site = cp__http_header(exchange, "sec-fetch-site");
    const char *of_origin = origin == NULL ? NULL : strstr(origin, "://");

    if (origin != NULL && (of_origin == NULL || host == NULL || strcasecmp(of_origin + 3, host) != 0))
        return true;
    return site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0 &&
           !is_link_to_page(exchange);
}

/* ---- Token ----------------------------------------------------------------------------------- */

/* Compares in a time that depends on the length of what was sent, but not on the token. */
static bool is_same_secret(const char *sent, size_t n, const char *token)
{
    const size_t length = strlen(token);
    volatile unsigned char differs = n != length;

    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)(sent[i] ^ token[length == 0 ? 0 : i % length]);
    return differs == 0;
}

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c == '\0' ? NULL : strchr(digits, c);

    return at == NULL ? -1 : (int)(at - digits);
}

/* Decodes base64 up to the first character that is not a digit, or until the text is full. Returns the
 * length. */
static size_t decode_base64(const char *from, char *text, size_t size)
{
    unsigned bits = 0, n_bits = 0;
    size_t n = 0;

    for (int digit; n < size && (digit = base64_digit(*from)) >= 0; from++) {
        bits = bits << 6 | (unsigned)digit;
        n_bits += 6;
        if (n_bits < 8)
            continue;
        n_bits -= 8;
        text[n++] = (char)(bits >> n_bits & 0xff);
    }
    return n;
}

/* Returns whether the Basic credentials "USER:PASSWORD" have the token as the password. */
static bool has_password(const char *credentials, const char *token)
{
    char text[1024];
    size_t n = decode_base64(credentials, text, sizeof text);
    const char *colon = memchr(text, ':', n);

    return colon != NULL && is_same_secret(colon + 1, (size_t)(text + n - (colon + 1)), token);
}

/* Returns whether the request has the token, or no token is needed. */
static bool knows_token(const struct cp__exchange *exchange)
{
    const char *token = exchange->options->token;
    const char *value = cp__http_header(exchange, "authorization");

    if (token == NULL)
        return true;
    if (value == NULL)
        return false;
    if (strncasecmp(value, "Bearer ", 7) == 0)
        return is_same_secret(value + 7, strlen(value + 7), token);
    return strncasecmp(value, "Basic ", 6) == 0 && has_password(value + 6, token);
}

/* ---- The whole request ----------------------------------------------------------------------- */

bool cp__http_admit(struct cp__exchange *exchange, int *result)
{
    static const struct cp_http_header challenge = {"WWW-Authenticate", "Basic realm=\"counterpoint\""};
    const char *host = cp__http_header(exchange, "host");

    if (host != NULL && !is_own_host(exchange, host))
        *result =
            cp__http_refuse(exchange, 403,
                            "The endpoint does not know the host name of this request. Use an IP address or "
                            "localhost, or add the name to the endpoint's options.");
    else if (is_cross_origin(exchange, host))
        *result = cp__http_refuse(
            exchange, 403,
            "A page of another site has sent this request. Open the address by itself instead.");
    else if (!knows_token(exchange))
        *result =
            cp__http_refuse_with(exchange, 401, &challenge,
                                 "This endpoint needs a token: send \"Authorization: Bearer TOKEN\", or the "
                                 "token as the password: http://any:TOKEN@host/.");
    else
        return true;
    return false;
}
