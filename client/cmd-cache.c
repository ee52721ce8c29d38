/* dovetail cache …: the service's cache, or with --local that of --cache FILE.
 *
 *   stats                                   figures
 *   list [--limit N]                        entries, the last used first
 *   show SIGNATURE                          its entries, with what the signature is made of, and recipes that were
 *                                           imported for it
 *   verify                                  every row against its checksum; exit status 1 when something is damaged
 *   gc [--max-age TIME] [--max-bytes SIZE]  removes what is damaged, too old, too much
 *   export -o FILE [--signature S]… [--device D] [--newer-than TIME] [--used-within TIME] [--min-hits N]
 *          [--sign KEYFILE]                 recipes of plans as one file (cache/bundle.c); `-` is stdout
 *   import FILE [--require-signer NAME] [--max-age TIME] [--max-bytes SIZE] [--signers FILE]
 *                                           imported as recipes; `-` is stdin; exit status 1 when not all was taken
 *   keygen NAME -o FILE                     a key to sign with; prints its line for the file of signers
 *
 * A bundle is signed here, after it was exported: the secret key stays in this process.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/nearest.h"
#include "base/json.h"
#include "base/str.h"
#include "client/cli.h"
#include "sign/sign.h"

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

static const long long times[] = {1, 60, 3600, 86400};

static int gc(struct cli *c, struct dt_err *e)
{
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
        if (scaled("max-bytes", c->max_bytes, "KMG", cli_sizes, &v, e) < 0)
            return fail(c, e);
        snprintf(query + strlen(query), sizeof query - strlen(query), "%cmax_bytes=%lld", *query ? '&' : '?', v);
        snprintf(members + strlen(members), sizeof members - strlen(members), ",\"max_bytes\":%lld", v);
    }
    char path[160];
    snprintf(path, sizeof path, "/v1/cache/gc%s", query);
    backend_call(c, "POST", path, "", 0, "cache", members, &o);
    return finish(c, &o, human_flat);
}

/* A request's options, as a query and as members for a worker. */
struct asked {
    struct dt_str query, members;
};

static void ask(struct asked *a, const char *name, const char *value, bool number)
{
    json_t *v = number ? NULL : json_string(value);
    dt_free_ char *quoted = v ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
    json_decref(v);
    dt_str_addf(&a->query, "%s%s=", a->query.len ? "&" : "?", name);
    for (const unsigned char *p = (const unsigned char *)value; *p; p++)
        if (isalnum(*p) || strchr("-_.:", *p))
            dt_str_addc(&a->query, (char)*p);
        else
            dt_str_addf(&a->query, "%%%02x", *p);
    dt_str_addf(&a->members, ",\"%s\":%s", name, number ? value : quoted ? quoted : "\"\"");
}

/* An option that is a number with a unit; NULL: not given. */
static int ask_number(struct asked *a, const char *option, const char *name, const char *text, const char *units,
                      const long long *factor, struct dt_err *e)
{
    long long v = 0;
    char number[24];
    if (!text)
        return 0;
    int r = scaled(option, text, units, factor, &v, e);
    if (r < 0)
        return r;
    snprintf(number, sizeof number, "%lld", v);
    ask(a, name, number, true);
    return 0;
}

static void asked_done(struct asked *a)
{
    dt_str_done(&a->query);
    dt_str_done(&a->members);
}

/* ---- export ------------------------------------------------------------------------------------------------------ */

static int ask_selection(struct cli *c, struct asked *a, struct dt_err *e)
{
    struct dt_str list = {0};
    dt_str_add(&a->members, "\"op\":\"export\"");
    for (int i = 0; i < c->nsignature; i++) {
        if (!dt_sha256_ok(c->signature[i])) {
            dt_str_done(&list);
            return dt_err_set(e, DT_E_USAGE, "a signature is sha256: and 64 hexadecimal digits");
        }
        dt_str_addf(&list, "%s\"%s\"", i ? "," : "", c->signature[i]);
        dt_str_addf(&a->query, "%ssignature=%s", i ? "&" : "?", c->signature[i]);
    }
    if (c->nsignature)
        dt_str_addf(&a->members, ",\"signature\":[%s]", list.s ? list.s : "");
    dt_str_done(&list);
    if (c->device_given)
        ask(a, "device", c->device, false);
    int r = ask_number(a, "newer-than", "newer_than", c->newer_than, "smhd", times, e);
    if (r >= 0)
        r = ask_number(a, "used-within", "used_within", c->used_within, "smhd", times, e);
    if (r >= 0)
        r = ask_number(a, "min-hits", "min_hits", c->min_hits, "", times, e);
    if (r >= 0 && (a->query.failed || a->members.failed))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    return r;
}

/* The bundle of an answer: bytes, from a worker as base64. */
static int bundle_bytes(struct cli *c, struct outcome *o, struct dt_err *e)
{
    if (!c->local)
        return 0;
    json_t *doc = json_loadb(o->text, o->len, 0, NULL), *m = json_object_get(doc, "bundle");
    size_t n = json_string_length(m);
    char *bytes = json_is_string(m) ? dt_malloc(dt_base64_room(n) + 1) : NULL;
    long len = bytes ? dt_base64_decode(json_string_value(m), n, (uint8_t *)bytes) : -1;
    json_decref(doc);
    if (len < 0) {
        free(bytes);
        return dt_err_set(e, DT_E_INTERNAL, "the worker's answer has no bundle");
    }
    free(o->text);
    o->text = bytes;
    o->len = (size_t)len;
    return 0;
}

static int bundle_sign(const struct sign_key *key, struct outcome *o, struct dt_err *e)
{
    char *bytes;
    size_t len;
    if (!key)
        return 0;
    int r = sign_bundle(key, time(NULL), o->text, o->len, &bytes, &len, e);
    if (r < 0)
        return r;
    free(o->text);
    o->text = bytes;
    o->len = len;
    return 0;
}

static int count_line(void *user, const char *line, size_t n, struct dt_err *e)
{
    ++*(size_t *)user;
    return 0;
}

/* To stderr, as the bundle may go to stdout. An empty one is a bundle too: of a quiet week, say. */
static int say_empty(struct cli *c, const struct outcome *o, struct dt_err *e)
{
    struct sign_packed file;
    size_t lines = 0;
    int r = sign_packed_lines(o->text, o->len, SIGN_BUNDLE_TEXT, count_line, &lines, &file, e);
    if (r >= 0 && !file.broken && lines <= 2) /* its first and its last */
        fputs("dovetail: nothing was selected: there is no recipe in the bundle\n", stderr);
    return r;
}

static int export_bundle(struct cli *c, const struct sign_key *key, struct dt_err *e)
{
    struct asked a = {0};
    struct outcome o;
    int r = ask_selection(c, &a, e);
    if (r < 0) {
        asked_done(&a);
        return fail(c, e);
    }
    dt_free_ char *path = NULL;
    if (asprintf(&path, "/v1/cache/export%s", a.query.s ? a.query.s : "") < 0)
        path = NULL;
    backend_call(c, "GET", path ? path : "/", NULL, 0, "cache", a.members.s, &o);
    asked_done(&a);
    if (!o.failed && (bundle_bytes(c, &o, e) < 0 || bundle_sign(key, &o, e) < 0 || say_empty(c, &o, e) < 0)) {
        outcome_done(&o);
        return fail(c, e);
    }
    return save_answer(c, NULL, true, &o);
}

static int export(struct cli *c, struct dt_err *e)
{
    struct sign_key *key = NULL;
    if (!c->output || (c->json && !strcmp(c->output, "-"))) {
        dt_err_set(e, DT_E_USAGE,
                   c->output ? "--json and -o - are both for stdout" : "usage: dovetail cache export -o FILE");
        return fail(c, e);
    }
    if (c->sign && sign_key_read(c->sign, &key, e) < 0)
        return fail(c, e);
    int r = export_bundle(c, key, e);
    sign_key_free(key);
    return r;
}

/* ---- import ------------------------------------------------------------------------------------------------------ */

static int human_import(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *list = json_object_get(doc, "reasons"), *v;
    size_t i;
    const char *signer = dt_json_text(doc, "signer"), *trouble = dt_json_text(doc, "trouble");
    printf("%.0f imported, %.0f there already, %.0f left out, %.0f refused", jnum(doc, "imported"),
           jnum(doc, "present"), jnum(doc, "left_out"), jnum(doc, "refused"));
    if (*signer) {
        fputs("; signed by ", stdout);
        print_clean(stdout, signer);
    }
    fputc('\n', stdout);
    json_array_foreach (list, i, v) {
        printf("refused: line %.0f, ", jnum(v, "line"));
        print_clean(stdout, *dt_json_text(v, "signature") ? dt_json_text(v, "signature") : "a row");
        fputs(": ", stdout);
        print_clean(stdout, dt_json_text(v, "reason"));
        fputc('\n', stdout);
    }
    if (*trouble) {
        fputs("the bundle is not complete: ", stdout);
        print_clean(stdout, trouble);
        fputc('\n', stdout);
    }
    return 0;
}

static int ask_intake(struct cli *c, struct asked *a, struct dt_err *e)
{
    const char *signers = c->signers ? c->signers : getenv("DOVETAIL_SIGNERS");
    if (c->signers && !c->local)
        return dt_err_set(e, DT_E_USAGE, "--signers goes with --local: the service has its own");
    dt_str_add(&a->members, "\"op\":\"import\"");
    int r = ask_number(a, "max-age", "max_age", c->max_age, "smhd", times, e);
    if (r >= 0)
        r = ask_number(a, "max-bytes", "max_bytes", c->max_bytes, "KMG", cli_sizes, e);
    if (c->require_signer)
        ask(a, "require", c->require_signer, false);
    if (c->local && signers && *signers)
        ask(a, "signers", signers, false);
    if (r >= 0 && (a->query.failed || a->members.failed))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    return r;
}

static void import_local(struct cli *c, const struct asked *a, const char *bytes, size_t n, struct outcome *ret)
{
    struct dt_str text = {0};
    struct dt_err e = {0};
    dt_str_addc(&text, '"');
    dt_base64_encode((const uint8_t *)bytes, n, &text);
    dt_str_addc(&text, '"');
    if (text.failed) {
        dt_err_set(&e, DT_E_NOMEM, "out of memory");
        memset(ret, 0, sizeof *ret);
        outcome_error(ret, &e);
    } else {
        local_request(c, "cache", a->members.s, "bundle", text.s, text.len, ret);
    }
    dt_str_done(&text);
}

static int import(struct cli *c, const char *file, struct dt_err *e)
{
    struct asked a = {0};
    struct outcome o;
    dt_free_ char *bytes = NULL, *path = NULL;
    size_t n;
    if (ask_intake(c, &a, e) < 0 || dt_read_file(file, DT_JSON_MAX / 2, &bytes, &n, e) < 0) {
        if (e->num == DT_E_IO)
            e->num = DT_E_USAGE;
        asked_done(&a);
        return fail(c, e);
    }
    if (c->local)
        import_local(c, &a, bytes, n, &o);
    else {
        if (asprintf(&path, "/v1/cache/import%s", a.query.s ? a.query.s : "") < 0)
            path = NULL;
        backend_call(c, "POST", path ? path : "/", bytes, n, NULL, NULL, &o);
    }
    asked_done(&a);
    bool all = o.failed || (strstr(o.text, "\"complete\":true") && strstr(o.text, "\"refused\":0"));
    int r = finish(c, &o, human_import);
    return r ? r : !all;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static int human_keygen(struct cli *c, const json_t *doc, const struct outcome *o)
{
    printf("%s\n", dt_json_text(doc, "line"));
    return 0;
}

static int keygen(struct cli *c, const char *name, struct dt_err *e)
{
    char public[SIGN_PUBLIC_TEXT], line[SIGN_NAME_MAX + SIGN_PUBLIC_TEXT + 2];
    struct outcome o = {0};
    if (!c->output)
        dt_err_set(e, DT_E_USAGE, "usage: dovetail cache keygen NAME -o FILE");
    if (!c->output || sign_keygen(name, c->output, public, e) < 0)
        return fail(c, e);
    snprintf(line, sizeof line, "%s %s", name, public);
    outcome_set(&o,
                json_pack("{s:s, s:s, s:s, s:s}", "file", c->output, "signer", name, "public", public, "line", line));
    return finish(c, &o, human_keygen);
}

int cmd_cache(struct cli *c)
{
    struct dt_err e = {0};
    struct outcome o;
    char path[160], members[160];
    const char *op = c->arg[0], *arg = c->narg > 1 ? c->arg[1] : NULL;
    bool takes = !strcmp(op, "show") || !strcmp(op, "import") || !strcmp(op, "keygen");
    if (takes != (arg != NULL)) {
        dt_err_set(&e, DT_E_USAGE, takes ? "usage: dovetail cache %s %s" : "dovetail cache %s takes no argument%.0s",
                   op,
                   *op == 's'   ? "SIGNATURE"
                   : *op == 'k' ? "NAME"
                                : "FILE");
        return fail(c, &e);
    }
    if (!strcmp(op, "gc"))
        return gc(c, &e);
    if (!strcmp(op, "export"))
        return export(c, &e);
    if (!strcmp(op, "import"))
        return import(c, arg, &e);
    if (!strcmp(op, "keygen"))
        return keygen(c, arg, &e);
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
    static const char ops[] = "stats, list, show, verify, gc, export, import, keygen";
    size_t n;
    const char *meant = dt_nearest_in(op, ops, &n);
    if (!strcmp(op, "show"))
        dt_err_set(&e, DT_E_USAGE, "a signature is sha256: and 64 hexadecimal digits");
    else if (meant)
        dt_err_set(&e, DT_E_USAGE, "dovetail cache has no %s; did you mean %.*s?", op, (int)n, meant);
    else
        dt_err_set(&e, DT_E_USAGE, "dovetail cache takes one of %s", ops);
    return fail(c, &e);
}
