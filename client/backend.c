/* Where the work is done: by the service (libdovetail), or with --local by a worker that the command line starts
 * (local.c). Either way the outcome is the text of a document or of a problem document.
 */
#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "client/cli.h"

/* Options of a request, as members of a worker's request and in the service's query. */
static const struct option {
    const char *name;
    enum { SWITCH, GIVEN, TEXT, LIST, SECONDS, NUMBER, QUERY_ONLY } kind; /* GIVEN: a text here, a switch there */
    size_t offset;
} options[] = {
    {"device", QUERY_ONLY, offsetof(struct cli, device)}, {"timeout", QUERY_ONLY, offsetof(struct cli, timeout)},
    {"maps", SWITCH, offsetof(struct cli, maps)},         {"all_edges", SWITCH, offsetof(struct cli, all_edges)},
    {"whole", SWITCH, offsetof(struct cli, whole)},       {"dump", GIVEN, offsetof(struct cli, dump)},
    {"allow", LIST, offsetof(struct cli, allow)},         {"deny", LIST, offsetof(struct cli, deny)},
    {"memory", NUMBER, offsetof(struct cli, memory)},     {"budget", SECONDS, offsetof(struct cli, budget)},
    {"seed", NUMBER, offsetof(struct cli, seed)},         {"schedule", NUMBER, offsetof(struct cli, schedule)},
    {"check", TEXT, offsetof(struct cli, check)},
};
#define NOPTIONS (sizeof options / sizeof *options)

/* What the command line says of an option, "1" for a switch; NULL: it was not given. */
static const char *value_of(const struct cli *c, const struct option *o)
{
    const void *p = (const char *)c + o->offset;
    if (o->kind == SWITCH)
        return *(const bool *)p ? "1" : NULL;
    const char *s = *(const char *const *)p;
    return s && o->kind == GIVEN ? "1" : s;
}

static void add_option(struct dt_str *q, const char *name, const char *value)
{
    dt_str_addf(q, "%s%s=", q->len ? "&" : "", name);
    for (; *value; value++)
        if (isalnum((unsigned char)*value) || strchr("-_.,:", *value))
            dt_str_addc(q, *value);
        else
            dt_str_addf(q, "%%%02x", (unsigned char)*value);
}

static json_t *list_json(const char *s)
{
    json_t *a = json_array();
    while (*s) {
        size_t n = strcspn(s, ",");
        if (n)
            json_array_append_new(a, json_stringn(s, n));
        s += n + (s[n] == ',');
    }
    return a;
}

static json_t *option_json(const struct option *o, const char *value)
{
    switch (o->kind) {
    case SWITCH:
    case GIVEN: return json_true();
    case TEXT: return json_string(value);
    case LIST: return list_json(value);
    case SECONDS: return json_real(strtod(value, NULL));
    case NUMBER: return json_integer(strtoll(value, NULL, 10));
    case QUERY_ONLY: break;
    }
    return NULL;
}

json_t *options_json(const struct cli *c)
{
    json_t *all = json_object();
    for (const struct option *o = options; o < options + NOPTIONS; o++)
        if (value_of(c, o) && o->kind != QUERY_ONLY)
            json_object_set_new(all, o->name, option_json(o, value_of(c, o)));
    return all;
}

static struct dovetail *open_service(struct cli *c, struct outcome *ret)
{
    struct dovetail *d = NULL;
    struct dt_err e = {0};
    if (dovetail_open(c->socket, &d) < 0) {
        dt_err_set(&e, DT_E_NOMEM, "out of memory");
        outcome_error(ret, &e);
    }
    return d;
}

static void problem_of(struct dovetail *d, struct outcome *ret)
{
    const char *p = dovetail_problem(d);
    ret->failed = true;
    ret->text = dt_strdup(p ? p : "{\"code\":\"out-of-memory\",\"detail\":\"out of memory\"}");
    ret->len = ret->text ? strlen(ret->text) : 0;
}

static void take_result(struct dovetail_result *r, struct outcome *ret)
{
    ret->text = r->document;
    ret->len = r->len;
    r->document = NULL;
    snprintf(ret->cache, sizeof ret->cache, "%s", r->cache ? r->cache : "miss");
    snprintf(ret->signature, sizeof ret->signature, "%s", r->signature ? r->signature : "");
    snprintf(ret->digest, sizeof ret->digest, "%s", r->digest ? r->digest : "");
    dovetail_result_done(r);
}

static void backend_on_event(const char *json, void *user)
{
    json_t *o = json_loads(json, 0, NULL);
    const char *what = dt_json_text(o, "event");
    if (!strcmp(what, "progress"))
        progress(user, dt_json_text(o, "stage"), dt_json_text(o, "message"), (long)jnum(o, "done"),
                 (long)jnum(o, "of"));
    else if (!strcmp(what, "queued"))
        progress(user, "queued", "", 0, 0);
    json_decref(o);
}

void backend_submit(struct cli *c, const char *want, const char *graph, size_t len, struct outcome *ret)
{
    static const char *const verbs[][2] = {
        {"plan", "optimize"}, {"analysis", "analyze"}, {"run", "run"}, {"explain", "explain"}};
    memset(ret, 0, sizeof *ret);
    if (c->local) {
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
            if (!strcmp(verbs[i][0], want))
                local_request(c, verbs[i][1], NULL, "graph", graph, len, ret);
        return;
    }
    struct dovetail *d = open_service(c, ret);
    if (!d)
        return;
    struct dovetail_result r = {0};
    struct dt_str q = {0};
    for (const struct option *o = options; o < options + NOPTIONS; o++)
        if (value_of(c, o))
            add_option(&q, o->name, value_of(c, o));
    if (q.failed || dovetail_submit(d, want, q.s, graph, len, backend_on_event, c, &r) < 0)
        problem_of(d, ret);
    else
        take_result(&r, ret);
    dt_str_done(&q);
    dovetail_close(d);
}

void backend_call(struct cli *c, const char *method, const char *path, const char *body, size_t len, const char *verb,
                  const char *members, struct outcome *ret)
{
    memset(ret, 0, sizeof *ret);
    if (c->local) {
        local_request(c, verb, members, NULL, NULL, 0, ret);
        return;
    }
    struct dovetail *d = open_service(c, ret);
    if (!d)
        return;
    struct dovetail_reply r = {0};
    if (dovetail_request(d, method, path, body, len, &r) < 0) {
        problem_of(d, ret);
    } else {
        ret->failed = r.status / 100 != 2;
        ret->text = r.body;
        ret->len = r.len;
        r.body = NULL;
    }
    dovetail_reply_done(&r);
    dovetail_close(d);
}

void backend_get(struct cli *c, const char *path, const char *verb, const char *signature, struct outcome *ret)
{
    char member[128];
    /* checked: nothing to escape */
    snprintf(member, sizeof member, "\"signature\":\"%.80s\"", signature ? signature : "");
    backend_call(c, "GET", path, NULL, 0, verb, signature ? member : NULL, ret);
}
