/* Bytes of a connection become a request: llhttp parses, its callbacks collect.
 *
 * The header goes to llhttp only as far as dtd_lines_take (http-head.c) allows, so that both agree where it ends. When
 * a message is complete the parser pauses; what follows it in `pending` is the next request's.
 *
 * Limits: header, target, fields, body, all bodies together, chunk extensions. Trailer fields are refused: nothing here
 * has a use for them, and they are a second header that proxies and servers read differently.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "daemon/service/http-priv.h"

#define EXTENSIONS_MAX 4096

static int broken(struct dtd_conn *c, int status, const char *why)
{
    if (!c->broken) {
        c->broken = status;
        c->why = why;
    }
    return HPE_USER;
}

static int on_url(llhttp_t *p, const char *at, size_t n)
{
    struct dtd_conn *c = p->data;
    if (c->url.len + n > DTD_TARGET_MAX)
        return broken(c, 414, "the target is longer than 8192 bytes");
    dt_str_addn(&c->url, at, n);
    return 0;
}

static int on_field(llhttp_t *p, const char *at, size_t n)
{
    struct dtd_conn *c = p->data;
    if (c->headers_done)
        return broken(c, 400, "trailer fields are not taken");
    dtd_fields_name(&c->fields, at, n);
    return 0;
}

static int on_field_complete(llhttp_t *p)
{
    struct dtd_conn *c = p->data;
    dtd_fields_between(&c->fields);
    return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t n)
{
    struct dtd_conn *c = p->data;
    dtd_fields_value(&c->fields, at, n);
    return 0;
}

static int on_value_complete(llhttp_t *p)
{
    struct dtd_conn *c = p->data;
    const char *why = NULL;
    if (dtd_fields_end(&c->fields, &why))
        return 0;
    broken(c, c->fields.n == DTD_MAX_FIELDS ? 431 : c->fields.text.failed ? 503 : 400, why);
    return -1;
}

static int on_headers(llhttp_t *p)
{
    struct dtd_conn *c = p->data;
    const char *why;
    c->headers_done = true;
    c->method = p->method;
    c->minor = p->http_minor;
    c->head_only = p->method == HTTP_HEAD;
    c->keep_alive = llhttp_should_keep_alive(p) && !p->upgrade;
    int status = p->http_major == 1 ? dtd_fields_check(&c->fields, p->http_minor, &why) : 505;
    if (status == 505)
        why = "only HTTP/1.0 and HTTP/1.1 are spoken here";
    if (status) {
        broken(c, status, why);
        return -1;
    }
    bool body = p->content_length || (p->flags & F_CHUNKED);
    return body ? HPE_PAUSED : 0; /* whether it is wanted is not decided here */
}

static int on_extension(llhttp_t *p, const char *at, size_t n)
{
    struct dtd_conn *c = p->data;
    c->extensions += n;
    return c->extensions > EXTENSIONS_MAX ? broken(c, 400, "the chunk extensions are too long") : 0;
}

static int on_chunk(llhttp_t *p)
{
    struct dtd_conn *c = p->data;
    if (p->content_length > c->rule.max - c->body.len)
        return broken(c, 413, "the body is larger than this service takes");
    return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
    struct dtd_conn *c = p->data;
    if (c->body.len + n > c->rule.max)
        return broken(c, 413, "the body is larger than this service takes");
    int r = dtd_account_bytes(c->account, n);
    if (r)
        return broken(c, r,
                      r == 429 ? "you have your share of the memory for bodies and replies already"
                               : "too many bytes are being received already");
    if (c->rule.graph && !c->late && (r = dtd_scan_feed(&c->scan, at, n, &c->err)) < 0)
        return broken(c, dt_err_http(r), NULL);
    if (c->sha.ctx)
        dt_sha256_add(&c->sha, at, n);
    dtd_account_add(c->account, n);
    c->counted += n;
    dt_str_addn(&c->body, at, n);
    return c->body.failed ? broken(c, 503, "out of memory") : 0;
}

static int on_message(llhttp_t *p)
{
    struct dtd_conn *c = p->data;
    c->complete = true;
    return HPE_PAUSED;
}

const llhttp_settings_t http_settings = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_field_complete = on_field_complete,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_headers,
    .on_chunk_extension_name = on_extension,
    .on_chunk_extension_value = on_extension,
    .on_chunk_header = on_chunk,
    .on_body = on_body,
    .on_message_complete = on_message,
};

/* One piece of `pending`, which is then gone. */
static llhttp_errno_t feed(struct dtd_conn *c, size_t n)
{
    llhttp_errno_t err = llhttp_execute(&c->parser, c->pending.s, n);
    const char *pos = err ? llhttp_get_error_pos(&c->parser) : NULL;
    size_t used = pos && pos >= c->pending.s && pos < c->pending.s + n ? (size_t)(pos - c->pending.s) : n;
    memmove(c->pending.s, c->pending.s + used, c->pending.len - used + 1);
    c->pending.len -= used;
    return err;
}

/* Why llhttp will not go on. */
static int refusal(struct dtd_conn *c, llhttp_errno_t err, const char **why)
{
    *why = c->broken ? c->why : llhttp_get_error_reason(&c->parser);
    if (c->broken)
        return c->broken;
    if (err != HPE_INVALID_VERSION && err != HPE_PAUSED_H2_UPGRADE)
        return 400;
    *why = "only HTTP/1.0 and HTTP/1.1 are spoken here";
    return 505;
}

int conn_parse(struct dtd_conn *c, const char **why)
{
    if (c->begun)
        llhttp_resume(&c->parser); /* it paused at the end of the header */
    while (c->pending.len) {
        const char *line = NULL;
        size_t n = c->pending.len;
        if (!dtd_lines_ended(&c->lines)) {
            n = dtd_lines_take(&c->lines, c->pending.s, n, &line);
            if (!n) {
                *why = "the header is larger than 16384 bytes";
                return 431;
            }
        }
        if (line) /* the byte that is wrong stays out */
            n--;
        llhttp_errno_t err = n ? feed(c, n) : HPE_OK;
        if (c->complete && (err == HPE_PAUSED || err == HPE_PAUSED_UPGRADE)) {
            llhttp_reset(&c->parser);
            return 1;
        }
        if (err == HPE_PAUSED && c->headers_done && !c->broken)
            return 2;
        if (err != HPE_OK)
            return refusal(c, err, why);
        if (line) {
            *why = line;
            return 400;
        }
    }
    return 0;
}
