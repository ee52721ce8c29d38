/* What the service answers. The table of endpoints is made of schema/api/openapi.json when dovetail is built: method,
 * path (`*` stands for one segment, handed to the handler as a parameter), handler, body, parameters of the query.
 *
 * All that the description says of a request is checked here, before a handler sees it, and before its body is read:
 * a path that exists with another method gets 405 and an Allow header, every other path 404; HEAD is GET without a
 * body; what is for admins is refused to others; an encoded body is 415; a parameter that is not listed, or not of its
 * type, is 400. What a value means is the handler's business.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/str.h"
#include "daemon/service/http-priv.h"
#include "daemon/service/service.h"

#include "api-routes.inc"

#define NO_BODY_MAX 4096        /* of a body that nobody wants */
#define QUEUE_SMALL (1u << 20)  /* of a body that no share of the queue's memory refuses */
#define BUNDLE_MAX (256u << 20) /* admins only */

void dtd_reply_json(struct dtd_req *r, int status, const char *headers, json_t *o)
{
    char *text = o ? dt_json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (text)
        dtd_reply_take(r, status, "application/json", headers, text, strlen(text));
    else
        dtd_reply_err(r, DT_E_NOMEM, "out of memory");
}

/* No row has this path and this method: the request is answered. */
static void refuse_route(struct dtd_req *r)
{
    struct dt_str allow = {0};
    for (const struct dtd_route *t = dtd_routes; t->path; t++) {
        if (!dtd_path_match(t->path, r->path, r->pathbuf, sizeof r->pathbuf, r->param))
            continue;
        dt_str_addf(&allow, "%s%s", allow.len ? ", " : "Allow: ", llhttp_method_name(t->method));
        if (t->method == HTTP_GET)
            dt_str_add(&allow, ", HEAD");
    }
    struct dt_err e = {0};
    if (allow.len) {
        dt_str_add(&allow, "\r\n");
        dt_err_set(&e, DT_E_METHOD, "%s is not possible here", llhttp_method_name(r->method));
    } else {
        dt_err_set(&e, DT_E_NOT_FOUND, "there is nothing at this path");
    }
    dtd_reply_problem(r, 0, allow.len && !allow.failed ? allow.s : NULL, &e);
    dt_str_done(&allow);
}

/* The row of a request. NULL: the request has been answered. */
static const struct dtd_route *find_route(struct dtd_req *r)
{
    unsigned method = r->method == HTTP_HEAD ? HTTP_GET : r->method;
    for (const struct dtd_route *t = dtd_routes; t->path; t++)
        if (t->method == method && dtd_path_match(t->path, r->path, r->pathbuf, sizeof r->pathbuf, r->param))
            return t;
    refuse_route(r);
    return NULL;
}

/* ---- the query -------------------------------------------------------------------------------------------------- */
static bool one_of(const char *words, const char *value)
{
    size_t n = strlen(value);
    for (const char *w = words;; w += strcspn(w, "|") + 1) {
        if (strcspn(w, "|") == n && !strncmp(w, value, n))
            return true;
        if (!w[strcspn(w, "|")])
            return false;
    }
}

static int value_ok(const struct dtd_param *p, const char *value, struct dt_err *e)
{
    char *end = NULL, range[80] = "";
    if (p->kind == DTD_TEXT || (p->kind == DTD_WORD && one_of(p->words, value)))
        return 0;
    if (p->kind == DTD_WORD)
        return dt_err_set(e, DT_E_USAGE, "%s is one of %s", p->name, p->words);
    errno = 0;
    double v = strtod(value, &end);
    bool digits = value[strspn(value, "-0123456789")] == 0;
    if (*value && !*end && isfinite(v) && v >= p->min && v <= p->max && (p->kind == DTD_NUMBER || (digits && !errno)))
        return 0;
    if (isfinite(p->min) && isfinite(p->max))
        snprintf(range, sizeof range, " from %g to %.12g", p->min, p->max);
    else if (isfinite(p->min))
        snprintf(range, sizeof range, " from %g", p->min);
    return dt_err_set(e, DT_E_USAGE, "%s takes a %snumber%s", p->name, p->kind == DTD_INTEGER ? "whole " : "", range);
}

static int unlisted(const struct dtd_route *t, const char *name, struct dt_err *e)
{
    struct dt_str s = {0};
    for (const struct dtd_param *p = t->params; p->name; p++)
        dt_str_addf(&s, "%s%s", p == t->params ? "" : ", ", p->name);
    int r = s.len ? dt_err_set(e, DT_E_USAGE, "there is no option %.40s here; there are %s", name, s.s)
                  : dt_err_set(e, DT_E_USAGE, "there is no option %.40s here, nor any other", name);
    dt_str_done(&s);
    return r;
}

static int check_query(const struct dtd_route *t, const char *query, struct dt_err *e)
{
    char name[64], value[2048];
    int q, r = 0;
    for (const char *at = query; !r && (q = dtd_query_next(&at, name, sizeof name, value, sizeof value));) {
        const struct dtd_param *p = t->params;
        if (q < 0)
            return dt_err_set(e, DT_E_USAGE, "the query is broken or too long");
        while (p->name && strcmp(p->name, name))
            p++;
        r = p->name ? value_ok(p, value, e) : unlisted(t, name, e);
    }
    return r;
}

/* ---- the request ------------------------------------------------------------------------------------------------ */
/* All that can be said of it without its body. False: it has been answered. */
static bool right(struct dtd_service *s, const struct dtd_route *t, struct dtd_req *r)
{
    struct dt_err e = {0};
    const char *coding = dtd_req_header(r, "content-encoding");
    if (t->admin && !dtd_peer_admin(s, r)) {
        dt_err_set(&e, DT_E_FORBIDDEN, DTD_ADMINS_ONLY "change the cache");
    } else if (coding && *coding && strcasecmp(coding, "identity")) {
        dt_err_set(&e, DT_E_ENCODING, "a body is taken as it is, without Content-Encoding");
    } else {
        check_query(t, r->query, &e);
    }
    bool ok = !e.num;
    if (!ok)
        dtd_reply_problem(r, 0, e.num == DT_E_ENCODING ? "Accept-Encoding: identity\r\n" : NULL, &e);
    return ok;
}

/* Large bodies that wait in the queue count for their user too: may one more come? 0, 429 or 503. A small one always
 * may: it is likely to be a hit, and the queue's own share bounds how many of them wait. */
static int queue_room(const struct dtd_service *s, const struct dtd_req *r)
{
    const char *length = dtd_req_header(r, "content-length");
    unsigned uid = dtd_peer_uid(r);
    size_t mine = 0, all = 0;
    for (const struct dtd_job *j = s->jobs.head; j; j = j->next) {
        size_t n = j->request ? j->request_len : 0;
        all += n;
        mine += dtd_job_owned(j, uid) ? n : 0;
    }
    size_t more = length ? strtoull(length, NULL, 10) : 0;
    return mine && more > QUEUE_SMALL ? dtd_share_of(mine, all, (size_t)s->cfg.max_bodies_mb << 20, all > mine, more)
                                      : 0;
}

bool dtd_begin(struct dtd_req *r, struct dtd_body_rule *body)
{
    const struct dtd_route *t = find_route(r);
    if (!t || !right(r->user, t, r))
        return false;
    int status = t->body == DTD_BODY_GRAPH ? queue_room(r->user, r) : 0;
    if (status) {
        dtd_reply_later(r, status, "your graphs that wait in the queue take your share of the memory already");
        return false;
    }
    body->graph = t->body == DTD_BODY_GRAPH;
    body->late = t->fn == api_post_job ? DTD_HASH_HERE : 0;
    body->digest = t->keyed && dtd_req_header(r, "idempotency-key");
    if (t->body != DTD_BODY_GRAPH)
        body->max = t->body == DTD_BODY_BUNDLE ? BUNDLE_MAX : NO_BODY_MAX;
    return true;
}

bool dtd_vital(const struct dtd_req *r)
{
    for (const struct dtd_route *t = dtd_routes; t->path; t++)
        if (t->vital && !strcmp(t->path, r->path) && (r->method == t->method || r->method == HTTP_HEAD))
            return true;
    return false;
}

void dtd_serve(struct dtd_req *r)
{
    const struct dtd_route *t = find_route(r);
    struct dtd_service *s = r->user;
    dt_json_fresh();
    if (t && right(s, t, r) && (!t->keyed || dtd_key_first(s, r)))
        t->fn(s, r);
}
