/* Bundles: plans as one file, to carry them to another machine.
 *
 * An export is a packed file (sign/pack.c) of the rows that sign/sign.h describes: of each plan that is selected its
 * key, its recipe, and the digest of its modules and launches. The plan itself is not in it, since no import would look
 * at it. Whoever exported it may sign it (sign/bundle.c); that is not done here, for the store has no secrets.
 *
 * A checksum shows that a row is whole, a signature who made it; neither shows that it is right. So an import keeps
 * recipes and digests (recipe.c), from which this host makes the plans itself. A row whose key is there already, as a
 * plan or as a recipe that waits, stays as it is. An import is one transaction.
 *
 * Every row is judged by itself: one that is damaged, forged, or signed by nobody whom this host believes where it
 * wants that, is set aside with the reason (table `aside`, the newest few) and costs the others nothing. `complete` in
 * the answer says whether all that was exported has come. The whole is refused only where nothing can be made of it:
 * its first line is no bundle's, or it is larger than it may be.
 *
 * Bundles of version 1 still come in. They are text: {"dovetail_cache": 1}, rows, {"end": ROWS}, and a row is
 *
 *   {"table": "entry", "row": ["plan", signature, device, toolchain, policy, digest, body, factors, sha256]}
 *
 * where body is the plan's document with its member `recipe`. They may also hold analyses, and rows of the tables
 * `graph` and `known`, which are left out, because an import would have to trust them; so are plans without a recipe.
 * Nothing of them is taken when a line is no JSON, a row does not match its checksum, or the end is wrong: they cannot
 * be signed, and so were never made to be taken in part.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "cache-priv.h"
#include "sign/sign.h"

#define MAX_COLUMNS 9
#define BODY 6
#define REASONS 16    /* that an answer has */
#define ASIDE_ROWS 64 /* of one import: as many as the table keeps */

static int bundle_nomem(struct dt_err *e) { return dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle"); }

/* ---- export ------------------------------------------------------------------------------------------------------ */

/* A key's device is `want`, or begins with its words: "soft" and "soft:h200" are both of "soft:h200". As in other
 * commands, "cuda" is every real device, and "auto" every device. */
static bool device_is(const char *device, const char *want)
{
    if (!strcmp(want, "cuda"))
        return !device_is(device, "soft");
    if (!strcmp(want, "auto"))
        return true;
    size_t n = strlen(want);
    return !strncmp(device, want, n) && (!device[n] || strchr(":;, ", device[n]));
}

static bool selected(const struct cache_select *s, const char *signature, const char *device)
{
    bool named = !s->nsignature;
    for (size_t i = 0; i < s->nsignature && !named; i++)
        named = !strcmp(s->signature[i], signature);
    return named && (!s->device || device_is(device, s->device));
}

/* The plan that `s` stands on, as a line. 1, 0: it is damaged, not wanted, or has no recipe; negative: error. */
static int export_row(sqlite3_stmt *s, const struct cache_select *select, struct sign_packer *p, struct dt_err *e)
{
    const char *text[MAX_COLUMNS];
    char digest[DT_SHA256_TEXT];
    struct dt_str line = {0};
    json_t *plan = NULL;
    if (!selected(select, cache_column(s, 1), cache_column(s, 2)))
        return 0;
    for (int i = 0; i < MAX_COLUMNS; i++)
        text[i] = cache_column(s, i);
    int r = cache_row_check(text, MAX_COLUMNS - 1);
    if (r <= 0) /* a damaged row is a miss here, and no gift to others */
        return r < 0 ? bundle_nomem(e) : 0;
    if (dt_json_load(text[BODY], strlen(text[BODY]), &plan, NULL) < 0)
        return 0;
    const json_t *recipe = json_object_get(plan, "recipe");
    dt_free_ char *body = json_is_object(recipe) ? dt_json_dumps(recipe, JSON_COMPACT) : NULL;
    r = 0;
    if (body) {
        const char *column[] = {text[1], text[2], text[3], text[4], digest, body, text[7]};
        r = cache_plan_digest(plan, digest) < 0 || sign_row_write(column, NULL, &line) < 0 ? bundle_nomem(e) : 1;
    }
    if (r > 0 && (sign_pack_add(p, line.s, line.len, SIGN_BUNDLE_TEXT, e)) < 0)
        r = e->num;
    dt_str_done(&line);
    json_decref(plan);
    return r;
}

static int export_query(struct cache *c, const struct cache_select *s, sqlite3_stmt **ret, struct dt_err *e)
{
    char sql[600], own[CACHE_OWN_MAX], newer[64] = "1", used[64] = "1";
    cache_own_sql("entry", s->uid, own);
    if (s->newer_than >= 0)
        snprintf(newer, sizeof newer, "created >= unixepoch() - %lld", (long long)s->newer_than);
    if (s->used_within >= 0)
        snprintf(used, sizeof used, "used >= unixepoch() - %lld", (long long)s->used_within);
    snprintf(sql, sizeof sql,
             "SELECT want, signature, device, toolchain, policy, digest, body, factors, sha256 FROM entry "
             "WHERE want = 'plan' AND %s AND %s AND %s AND hits >= %lld ORDER BY id",
             own, newer, used, (long long)s->min_hits);
    return cache_prepare(c, sql, NULL, 0, ret) == SQLITE_OK ? 0 : cache_unreadable(c, e);
}

int cache_export(struct cache *c, const struct cache_select *select, char **ret, size_t *ret_len, struct dt_err *e)
{
    static const struct cache_select all = {.newer_than = -1, .used_within = -1};
    struct sign_packer *p;
    unsigned long rows = 0;
    sqlite3_stmt *s = NULL;
    char text[64];
    int rc = SQLITE_DONE, r = sign_pack_new(&p, e);
    if (r < 0)
        return r;
    int n = snprintf(text, sizeof text, "{\"dovetail_cache\": %d}\n", SIGN_BUNDLE_VERSION);
    r = sign_pack_add(p, text, (size_t)n, SIGN_BUNDLE_TEXT, e);
    if (r >= 0)
        r = export_query(c, select ? select : &all, &s, e);
    while (r >= 0 && (rc = sqlite3_step(s)) == SQLITE_ROW)
        if ((r = export_row(s, select ? select : &all, p, e)) > 0)
            rows++;
    sqlite3_finalize(s);
    if (r >= 0 && rc != SQLITE_DONE)
        r = cache_unreadable(c, e);
    n = snprintf(text, sizeof text, "{\"end\": %lu}\n", rows);
    if (r >= 0)
        r = sign_pack_add(p, text, (size_t)n, SIGN_BUNDLE_TEXT, e);
    if (r >= 0)
        r = sign_pack_end(p, NULL, 0, ret, ret_len, e);
    sign_pack_free(p);
    return r < 0 ? r : 0;
}

/* ---- import ------------------------------------------------------------------------------------------------------ */

struct intake {
    struct cache *c;
    const struct cache_intake *how;
    unsigned long line, rows;
    json_int_t version;
    unsigned long imported, present, left_out, refused;
    bool ended;
    const char *trouble; /* why not all of it has come */
    json_t *reasons;
};

static int wrong(struct dt_err *e, unsigned long line, const char *what)
{
    return dt_err_set(e, DT_E_JSON, "the bundle is refused, nothing was imported: line %lu %s", line, what);
}

/* One row is not taken: it is set aside, and the answer says why. */
static int intake_refuse(struct intake *in, const json_t *o, const char *text, size_t n, const char *reason,
                         struct dt_err *e)
{
    const char *signature = json_string_value(json_array_get(json_object_get(o, "row"), 0));
    if (signature && !dt_sha256_ok(signature))
        signature = NULL;
    if (in->refused++ < ASIDE_ROWS)
        cache_aside_put(in->c, "bundle", reason, text, n);
    if (json_array_size(in->reasons) >= REASONS)
        return 0;
    json_t *r = json_pack("{s:I, s:s, s:s*}", "line", (json_int_t)in->line, "reason", reason, "signature", signature);
    return json_array_append_new(in->reasons, r) < 0 ? bundle_nomem(e) : 0;
}

/* May a row with this verdict be taken? */
static bool intake_may(const struct intake *in, int verdict)
{
    return verdict == SIGN_GOOD ||
           (!in->how->require && in->how->demand.max_age < 0 && (verdict == SIGN_NONE || verdict == SIGN_UNKNOWN));
}

static int intake_put(struct intake *in, const struct cache_key *k, const json_t *recipe, const char *digest,
                      const char *signer, struct dt_err *e)
{
    char origin[SIGN_NAME_MAX + 64];
    snprintf(origin, sizeof origin, signer ? "%s, signed by %s" : "%s", in->how->origin, signer);
    int r = cache_recipe_take(in->c, k, recipe, digest, origin, e);
    if (r >= 0)
        *(r ? &in->imported : &in->present) += 1;
    return r < 0 ? r : 0;
}

static int intake_row(struct intake *in, const json_t *o, const char *text, size_t n, struct dt_err *e)
{
    struct sign_row row;
    const char *bad = o ? sign_row_read(o, &row) : "is no JSON object";
    if (!o || (bad && *bad))
        return intake_refuse(in, o, text, n, bad, e);
    if (bad)
        return bundle_nomem(e);
    int verdict = sign_entry_check(&in->how->demand, &row.entry, row.sealed ? &row.seal : NULL), r;
    struct cache_key k = {"plan", row.entry.signature, row.entry.device, row.entry.toolchain, row.entry.policy};
    if (verdict < 0)
        r = bundle_nomem(e);
    else if (!intake_may(in, verdict))
        r = intake_refuse(in, o, text, n, sign_verdict_text((enum sign_verdict)verdict), e);
    else
        r = intake_put(in, &k, row.recipe, row.entry.digest, verdict == SIGN_GOOD ? row.seal.signer : NULL, e);
    sign_row_done(&row);
    return r;
}

static int intake_line2(struct intake *in, const json_t *o, const char *text, size_t n, struct dt_err *e)
{
    const json_t *end = json_object_get(o, "end");
    if (in->ended)
        in->trouble = "something stands behind its end";
    if (end && in->ended)
        return 0;
    if (!end) {
        in->rows++;
        return intake_row(in, o, text, n, e);
    }
    in->ended = true;
    if (!json_is_integer(end) || (unsigned long)json_integer_value(end) != in->rows)
        in->trouble = "its end counts other rows than there are";
    return 0;
}

/* ---- version 1 --------------------------------------------------------------------------------------------------- */

static const struct table {
    const char *name;
    int columns;           /* sha256 is the last */
    unsigned sha256, json; /* bits of columns that must be a SHA-256; that must be a JSON object */
} tables[] = {
    {"entry", 9, 1 << 1 | 1 << 5 | 1 << 8, 1 << BODY},
    {"graph", 3, 1 << 0 | 1 << 2, 1 << 1},
    {"known", 4, 1 << 0 | 1 << 2 | 1 << 3, 0},
};
#define NTABLES (sizeof tables / sizeof *tables)

static json_t *object(const char *text)
{
    json_t *o;
    if (dt_json_load(text, strlen(text), &o, NULL) < 0)
        return NULL;
    if (json_is_object(o))
        return o;
    json_decref(o);
    return NULL;
}

static bool is_object(const char *text)
{
    json_t *o = object(text);
    json_decref(o);
    return o != NULL;
}

/* Check one row; text[] gets its columns. NULL: error. */
static const struct table *check_row(const json_t *o, unsigned long line, const char *text[MAX_COLUMNS],
                                     struct dt_err *e)
{
    const char *name = json_string_value(json_object_get(o, "table")), *bad = NULL;
    const json_t *row = json_object_get(o, "row");
    const struct table *t = NULL;
    for (size_t i = 0; name && i < NTABLES; i++)
        if (!strcmp(tables[i].name, name))
            t = &tables[i];
    if (!t || json_array_size(row) != (size_t)t->columns) {
        wrong(e, line, "is no row of a table that is known");
        return NULL;
    }
    for (int i = 0; i < t->columns && !bad; i++) {
        const json_t *v = json_array_get(row, (size_t)i);
        text[i] = json_string_value(v);
        if (!text[i] || strlen(text[i]) != json_string_length(v))
            bad = "has a column that is no text";
        else if ((t->sha256 & 1u << i) && !dt_sha256_ok(text[i]))
            bad = "has a digest that is no SHA-256";
    }
    int sound = bad ? 1 : cache_row_check(text, t->columns - 1);
    if (sound < 0) {
        bundle_nomem(e);
        return NULL;
    }
    if (!sound)
        bad = "does not match its checksum";
    for (int i = 0; i < t->columns && !bad; i++)
        if ((t->json & 1u << i) && !is_object(text[i]))
            bad = "has a document that is no JSON object";
    if (!bad && t == &tables[0] && *text[7] && !is_object(text[7]))
        bad = "has factors that are no JSON object";
    if (bad)
        wrong(e, line, bad);
    return bad ? NULL : t;
}

static int intake_row1(struct intake *in, const json_t *o, const char *line, size_t n, struct dt_err *e)
{
    const char *text[MAX_COLUMNS];
    char digest[DT_SHA256_TEXT];
    const struct table *t = check_row(o, in->line, text, e);
    if (!t)
        return e->num; /* set by it */
    if (t != &tables[0] || strcmp(text[0], "plan")) {
        in->left_out++;
        return 0;
    }
    if (!intake_may(in, SIGN_NONE))
        return intake_refuse(in, NULL, line, n, sign_verdict_text(SIGN_NONE), e);
    struct cache_key k = {"plan", text[1], text[2], text[3], text[4]};
    json_t *plan = object(text[BODY]);
    if (!plan)
        return bundle_nomem(e);
    const json_t *recipe = json_object_get(plan, "recipe");
    int r = 0;
    if (!json_is_object(recipe))
        in->left_out++;
    else if (cache_plan_digest(plan, digest) < 0)
        r = bundle_nomem(e);
    else
        r = intake_put(in, &k, recipe, digest, NULL, e);
    json_decref(plan);
    return r;
}

static int intake_line1(struct intake *in, const json_t *o, const char *text, size_t n, struct dt_err *e)
{
    if (in->ended)
        return wrong(e, in->line, "stands behind the end");
    if (!o)
        return wrong(e, in->line, "is no JSON object");
    if (!json_object_get(o, "end")) {
        in->rows++;
        return intake_row1(in, o, text, n, e);
    }
    in->ended = true;
    return (unsigned long)json_integer_value(json_object_get(o, "end")) == in->rows
               ? 0
               : wrong(e, in->line, "counts other rows than there are");
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static int intake_head(struct intake *in, const json_t *o, struct dt_err *e)
{
    const json_t *v = json_object_get(o, "dovetail_cache");
    in->version = json_integer_value(v);
    if (!o)
        return wrong(e, 1, "is no JSON object");
    if (in->version > SIGN_BUNDLE_VERSION)
        return wrong(e, 1, "is of a newer dovetail");
    return in->version < 1 ? wrong(e, 1, "does not say \"dovetail_cache\": 2") : 0;
}

static int intake_line(void *user, const char *text, size_t n, struct dt_err *e)
{
    struct intake *in = user;
    json_t *o = NULL;
    in->line++;
    int r = dt_json_load(text, n, &o, NULL);
    if (r == DT_E_NOMEM)
        return bundle_nomem(e);
    if (!json_is_object(o)) {
        json_decref(o);
        o = NULL;
    }
    r = in->line == 1      ? intake_head(in, o, e)
        : in->version == 1 ? intake_line1(in, o, text, n, e)
                           : intake_line2(in, o, text, n, e);
    json_decref(o);
    return r;
}

static int import(struct intake *in, const char *bytes, size_t len, struct sign_packed *file, struct dt_err *e)
{
    const size_t most = in->how->max_text ? in->how->max_text : SIGN_BUNDLE_TEXT;
    int r = sign_packed_lines(bytes, len, most, intake_line, in, file, e);
    if (r < 0)
        return r;
    bool cut = file->broken || !in->ended;
    if (cut && in->version != SIGN_BUNDLE_VERSION)
        return wrong(e, in->line + 1, "should be the end: the bundle is cut off");
    if (file->broken || (!in->ended && !in->trouble))
        in->trouble = file->broken ? file->broken : "it is cut off";
    int verdict = sign_file_check(&in->how->demand, file->digest, file->sealed ? &file->seal : NULL);
    if (verdict < 0)
        return bundle_nomem(e);
    if (!intake_may(in, verdict) && !in->trouble)
        in->trouble = sign_verdict_text((enum sign_verdict)verdict);
    file->sealed = verdict == SIGN_GOOD;
    return 0;
}

static json_t *intake_answer(const struct intake *in, const struct sign_packed *file)
{
    json_t *o =
        json_pack("{s:I, s:I, s:I, s:I, s:b}", "imported", (json_int_t)in->imported, "present", (json_int_t)in->present,
                  "left_out", (json_int_t)in->left_out, "refused", (json_int_t)in->refused, "complete", !in->trouble);
    bool bad = !o || (in->trouble && json_object_set_new(o, "trouble", json_string(in->trouble)) < 0) ||
               (json_array_size(in->reasons) && json_object_set(o, "reasons", in->reasons) < 0) ||
               (file->sealed && json_object_set_new(o, "signer", json_string(file->seal.signer)) < 0);
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

int cache_import(struct cache *c, const char *bytes, size_t len, const struct cache_intake *how, json_t **ret,
                 struct dt_err *e)
{
    struct intake in = {.c = c, .how = how, .reasons = json_array()};
    struct sign_packed file = {0};
    struct dt_err mine = {0};
    json_t *o = NULL;
    int r = in.reasons ? 0 : bundle_nomem(&mine);
    if (r == 0 && cache_run(c, "BEGIN IMMEDIATE", NULL, 0) != SQLITE_OK)
        r = cache_unwritable(c, &mine);
    else if (r == 0) {
        r = import(&in, bytes, len, &file, &mine);
        if (r == 0 && !(o = intake_answer(&in, &file)))
            r = bundle_nomem(&mine);
        if (r == 0 && cache_run(c, "COMMIT", NULL, 0) != SQLITE_OK)
            r = cache_unwritable(c, &mine);
        if (r < 0)
            cache_rollback(c);
    }
    json_decref(in.reasons);
    if (mine.num && e)
        dt_err_move(e, &mine);
    dt_err_done(&mine);
    if (r == 0)
        *ret = o;
    else
        json_decref(o);
    return r;
}
