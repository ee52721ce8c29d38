/* dovetail cache …: the service's cache, or with --local that of --cache FILE.
 *
 *   stats                                   figures
 *   list [--limit N]                        entries, the last used first
 *   show SIGNATURE                          its entries, with what the signature is made of, and recipes that were
 *                                           imported for it
 *   verify                                  every row against its checksum; exit status 1 when something is damaged
 *   gc [--max-age TIME] [--max-bytes SIZE]  removes what is damaged, too old, too much
 *   export -o FILE | import FILE            plans as JSON lines (cache/bundle.c), imported as recipes; `-` is stdout or
 *                                           stdin
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "client/cli.h"

static void flat(struct table *t, const char *prefix, const json_t *o)
{
    const char *name;
    const json_t *v;
    json_object_foreach ((json_t *)o, name, v) {
        dt_free_ char *key = NULL;
        if (asprintf(&key, "%s%s%s", prefix, *prefix ? "." : "", name) < 0)
            return;
        if (json_is_object(v)) {
            flat(t, key, v);
            continue;
        }
        dt_free_ char *text =
            json_is_string(v) ? dt_strdup(json_string_value(v)) : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        table_row(t, 2, key, text ? text : "");
    }
}

static int human_flat(struct cli *c, const json_t *doc, const struct outcome *o)
{
    struct table t = {0};
    table_row(&t, 2, "figure", "value");
    flat(&t, "", doc);
    table_print(&t, c);
    return 0;
}

static void age(double s, char out[32])
{
    if (s < 120)
        snprintf(out, 32, "%.0f s", s);
    else if (s < 7200)
        snprintf(out, 32, "%.0f min", s / 60);
    else if (s < 172800)
        snprintf(out, 32, "%.0f h", s / 3600);
    else
        snprintf(out, 32, "%.0f d", s / 86400);
}

void print_recipes(const json_t *list)
{
    const json_t *v;
    size_t i;
    json_array_foreach (list, i, v) {
        bool waits = !strcmp(dt_json_text(v, "state"), "recipe");
        printf("imported plan %s on ", dt_json_text(v, "signature"));
        print_clean(stdout, dt_json_text(v, "device"));
        fputs(" by ", stdout);
        print_clean(stdout, dt_json_text(v, "origin"));
        fputs(waits ? ": a recipe that was not tried yet\n" : ": its recipe does not hold here: ", stdout);
        if (!waits) {
            print_clean(stdout, dt_json_text(v, "reason"));
            fputc('\n', stdout);
        }
    }
}

static int human_list(struct cli *c, const json_t *doc, const struct outcome *o)
{
    struct table t = {0};
    const json_t *list = json_object_get(doc, "entries"), *v;
    size_t i;
    table_row(&t, 6, "want", "signature", "device", ">bytes", ">unused for", ">hits");
    json_array_foreach (list, i, v) {
        char bytes[32], old[32], hits[32];
        snprintf(bytes, sizeof bytes, "%.0f", jnum(v, "bytes"));
        snprintf(hits, sizeof hits, "%.0f", jnum(v, "hits"));
        age(jnum(v, "age_s"), old);
        table_row(&t, 6, dt_json_text(v, "want"), dt_json_text(v, "signature"), dt_json_text(v, "device"), bytes, old,
                  hits);
    }
    table_print(&t, c);
    print_recipes(json_object_get(doc, "recipes"));
    printf("%zu of %.0f entries; footprints of %.0f launches, %.0f trials of rewrites\n", json_array_size(list),
           jnum(doc, "total"), jnum(doc, "footprints"), jnum(doc, "trials"));
    return 0;
}

static int human_show(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *v;
    size_t i;
    json_array_foreach (json_object_get(doc, "entries"), i, v) {
        if (i)
            fputc('\n', stdout);
        human_flat(c, v, o);
    }
    json_array_foreach (json_object_get(doc, "recipes"), i, v) {
        if (i || json_array_size(json_object_get(doc, "entries")))
            fputc('\n', stdout);
        human_flat(c, v, o);
    }
    return 0;
}

static int human_verify(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *list = json_object_get(doc, "damaged"), *v;
    size_t i;
    json_array_foreach (list, i, v) {
        printf("damaged: %s ", dt_json_text(v, "table"));
        print_clean(stdout, dt_json_text(v, "key"));
        fputc('\n', stdout);
    }
    printf("%.0f rows checked, %zu damaged; file: ", jnum(doc, "checked"), json_array_size(list));
    print_clean(stdout, dt_json_text(doc, "file"));
    fputc('\n', stdout);
    return json_is_true(json_object_get(doc, "ok")) ? 0 : 1;
}

/* A whole number with one of the units behind it. */
static int scaled(const char *option, const char *text, const char *units, const long long *factor, long long *ret,
                  struct dt_err *e)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10), k = 1;
    const char *u = *end ? strchr(units, *end) : NULL;
    if (u) {
        k = factor[u - units];
        end++;
    }
    if (end == text || *end || errno || v < 0 || __builtin_mul_overflow(v, k, ret))
        return dt_err_set(e, DT_E_USAGE, "--%s takes a number, with one of %s behind it or nothing", option, units);
    return 0;
}

static int gc(struct cli *c, struct dt_err *e)
{
    static const long long times[] = {1, 60, 3600, 86400}, sizes[] = {1 << 10, 1 << 20, 1 << 30};
    char query[128] = "", members[160] = "\"op\":\"gc\"";
    long long v;
    struct outcome o;
    if (c->max_age) {
        if (scaled("max-age", c->max_age, "smhd", times, &v, e) < 0)
            return fail(c, e);
        snprintf(query, sizeof query, "?max_age=%lld", v);
        snprintf(members + strlen(members), sizeof members - strlen(members), ",\"max_age\":%lld", v);
    }
    if (c->max_bytes) {
        if (scaled("max-bytes", c->max_bytes, "KMG", sizes, &v, e) < 0)
            return fail(c, e);
        snprintf(query + strlen(query), sizeof query - strlen(query), "%cmax_bytes=%lld", *query ? '&' : '?', v);
        snprintf(members + strlen(members), sizeof members - strlen(members), ",\"max_bytes\":%lld", v);
    }
    char path[160];
    snprintf(path, sizeof path, "/v1/cache/gc%s", query);
    backend_call(c, "POST", path, "", 0, "cache", members, &o);
    return finish(c, &o, human_flat);
}

static int export(struct cli *c, struct dt_err *e)
{
    struct outcome o;
    if (!c->output || (c->json && !strcmp(c->output, "-"))) {
        dt_err_set(e, DT_E_USAGE,
                   c->output ? "--json and -o - are both for stdout" : "usage: dovetail cache export -o FILE");
        return fail(c, e);
    }
    backend_call(c, "GET", "/v1/cache/export", NULL, 0, "cache", "\"op\":\"export\"", &o);
    return save_answer(c, "bundle", true, &o);
}

static int import(struct cli *c, const char *file, struct dt_err *e)
{
    struct outcome o;
    dt_free_ char *text = NULL, *quoted = NULL;
    size_t n;
    if (dt_read_file(file, DT_JSON_MAX / 2, &text, &n, e) < 0) {
        if (e->num == DT_E_IO)
            e->num = DT_E_USAGE;
        return fail(c, e);
    }
    if (c->local) {
        json_t *s = json_stringn(text, n);
        quoted = s ? json_dumps(s, JSON_ENCODE_ANY) : NULL;
        json_decref(s);
        if (!quoted) {
            dt_err_set(e, DT_E_JSON, "the bundle is refused: it is no UTF-8 text");
            return fail(c, e);
        }
        local_request(c, "cache", "\"op\":\"import\"", "bundle", quoted, strlen(quoted), &o);
    } else {
        backend_call(c, "POST", "/v1/cache/import", text, n, NULL, NULL, &o);
    }
    return finish(c, &o, human_flat);
}

int cmd_cache(struct cli *c)
{
    struct dt_err e = {0};
    struct outcome o;
    char path[160], members[160];
    const char *op = c->arg[0], *arg = c->narg > 1 ? c->arg[1] : NULL;
    bool takes = !strcmp(op, "show") || !strcmp(op, "import");
    if (takes != (arg != NULL)) {
        dt_err_set(&e, DT_E_USAGE, takes ? "usage: dovetail cache %s %s" : "dovetail cache %s takes no argument%.0s",
                   op, *op == 's' ? "SIGNATURE" : "FILE");
        return fail(c, &e);
    }
    if (!strcmp(op, "gc"))
        return gc(c, &e);
    if (!strcmp(op, "export"))
        return export(c, &e);
    if (!strcmp(op, "import"))
        return import(c, arg, &e);
    if (!strcmp(op, "stats")) {
        backend_get(c, "/v1/cache", "cache", NULL, &o);
        return finish(c, &o, human_flat);
    }
    if (!strcmp(op, "verify")) {
        backend_call(c, "GET", "/v1/cache/verify", NULL, 0, "cache", "\"op\":\"verify\"", &o);
        bool ok = o.failed || strstr(o.text, "\"ok\":true");
        int r = finish(c, &o, human_verify);
        return r ? r : !ok;
    }
    if (!strcmp(op, "list")) {
        long limit = c->limit ? strtol(c->limit, NULL, 10) : 1000; /* checked */
        snprintf(path, sizeof path, "/v1/cache/entries?limit=%ld", limit);
        snprintf(members, sizeof members, "\"op\":\"list\",\"limit\":%ld", limit);
        backend_call(c, "GET", path, NULL, 0, "cache", members, &o);
        return finish(c, &o, human_list);
    }
    if (!strcmp(op, "show") && dt_sha256_ok(arg)) {
        snprintf(path, sizeof path, "/v1/cache/entries?signature=%s", arg);
        snprintf(members, sizeof members, "\"op\":\"list\",\"signature\":\"%s\"", arg);
        backend_call(c, "GET", path, NULL, 0, "cache", members, &o);
        return finish(c, &o, human_show);
    }
    dt_err_set(&e, DT_E_USAGE,
               strcmp(op, "show") ? "dovetail cache takes stats, list, show, verify, gc, export or import"
                                  : "a signature is sha256: and 64 hexadecimal digits");
    return fail(c, &e);
}
