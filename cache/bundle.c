/* Bundles: plans as one text, to carry them to another machine.
 *
 * A bundle is JSON lines. The first is {"dovetail_cache": 1}, the last {"end": ROWS}; between them each line is a row:
 *
 *   {"table": "entry", "row": ["plan", signature, device, toolchain, policy, digest, body, factors, sha256]}
 *
 * All columns are strings as in the table (schema/db/sqlite/). sha256 is the row's own checksum, body the plan's
 * document with its member `recipe`. An export holds all plans, or those of graphs that one user posted. Older bundles
 * also hold analyses, and rows of the tables `graph` and `known`.
 *
 * A checksum shows that a row is whole, not who made it. So an import trusts nothing: it keeps of a plan the recipe and
 * a digest (recipe.c), from which this host makes the plan itself. Analyses, graphs, and which digest has which
 * signature are left out, because an import would have to trust them; so are plans without a recipe.
 *
 * An import is one transaction. Nothing is changed when a line is no JSON, a row does not match its checksum, a digest
 * in it is none, a body is no JSON object, or the end is wrong. A row whose key is there already, as a plan or as a
 * recipe that waits, stays as it is.
 *
 * Not here: compression (zstd FILE does it).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "cache-priv.h"

#define MAX_COLUMNS 9
#define BODY 6
#define ENTRY                                                                                                          \
    "SELECT want, signature, device, toolchain, policy, digest, body, factors, sha256 FROM entry WHERE want = 'plan'"

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

struct counts {
    unsigned long imported, present, left_out;
};

static int bundle_nomem(struct dt_err *e) { return dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle"); }

/* The row that `s` stands on, as a line. 1, 0: it is damaged; negative: error. */
static int export_row(sqlite3_stmt *s, struct dt_str *out, struct dt_err *e)
{
    const int n = tables[0].columns;
    const char *text[MAX_COLUMNS];
    for (int i = 0; i < n; i++)
        text[i] = cache_column(s, i);
    int sound = cache_row_check(text, n - 1);
    if (sound < 0)
        return bundle_nomem(e);
    if (!sound)
        return 0; /* a miss here, and no gift to others */
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_string(text[i]));
    dt_free_ char *line = json_array_size(list) == (size_t)n ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    if (!line)
        return bundle_nomem(e);
    dt_str_add(out, "{\"table\": \"entry\", \"row\": ");
    dt_str_add(out, line);
    dt_str_add(out, "}\n");
    if (out->failed)
        return bundle_nomem(e);
    if (out->len > DT_JSON_MAX / 2)
        return dt_err_set(e, DT_E_TOO_LARGE,
                          "the cache is larger than a bundle may be (%u MB): copy the file, or run cache gc first",
                          DT_JSON_MAX / 2 >> 20);
    return 1;
}

int cache_export(struct cache *c, const unsigned *uid, char **ret, size_t *ret_len, struct dt_err *e)
{
    struct dt_str out = {0};
    unsigned long rows = 0;
    char number[16] = "";
    const char *text[] = {number};
    sqlite3_stmt *s;
    int r = 0, rc;
    if (uid)
        snprintf(number, sizeof number, "%u", *uid);
    dt_str_add(&out, "{\"dovetail_cache\": 1}\n");
    rc = cache_prepare(c,
                       uid ? ENTRY
                           " AND signature IN (SELECT signature FROM owner WHERE uid = CAST(?1 AS INTEGER)) ORDER BY id"
                           : ENTRY " ORDER BY id",
                       text, uid ? 1 : 0, &s);
    if (rc != SQLITE_OK) {
        dt_str_done(&out);
        return cache_unreadable(c, e);
    }
    while (r >= 0 && (rc = sqlite3_step(s)) == SQLITE_ROW)
        if ((r = export_row(s, &out, e)) > 0)
            rows++;
    sqlite3_finalize(s);
    if (r >= 0 && rc != SQLITE_DONE)
        r = cache_unreadable(c, e);
    dt_str_addf(&out, "{\"end\": %lu}\n", rows);
    if (r >= 0 && out.failed)
        r = bundle_nomem(e);
    if (r < 0) {
        dt_str_done(&out);
        return r;
    }
    *ret_len = out.len;
    *ret = dt_str_take(&out);
    return 0;
}

static int wrong(struct dt_err *e, unsigned long line, const char *what)
{
    return dt_err_set(e, DT_E_JSON, "the bundle is refused, nothing was imported: line %lu %s", line, what);
}

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

static int import_row(struct cache *c, const json_t *o, unsigned long line, const char *origin, struct counts *n,
                      struct dt_err *e)
{
    const char *text[MAX_COLUMNS];
    const struct table *t = check_row(o, line, text, e);
    if (!t)
        return e->num; /* set by it */
    if (t != &tables[0] || strcmp(text[0], "plan")) {
        n->left_out++;
        return 0;
    }
    struct cache_key k = {"plan", text[1], text[2], text[3], text[4]};
    json_t *plan = object(text[BODY]);
    if (!plan)
        return bundle_nomem(e);
    int r = 0;
    if (!json_is_object(json_object_get(plan, "recipe")))
        n->left_out++;
    else if ((r = cache_recipe_put(c, &k, plan, origin, e)) >= 0)
        *(r ? &n->imported : &n->present) += 1;
    json_decref(plan);
    return r < 0 ? r : 0;
}

static int import(struct cache *c, const char *text, size_t len, const char *origin, struct counts *counts,
                  struct dt_err *e)
{
    unsigned long line = 0;
    bool ended = false;
    for (const char *p = text, *end = text + len; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        json_t *o = NULL;
        int r = 0;
        line++;
        if (ended)
            return wrong(e, line, "stands behind the end");
        if (dt_json_load(p, n, &o, NULL) < 0 || !json_is_object(o))
            r = wrong(e, line, "is no JSON object");
        else if (line == 1)
            r = json_integer_value(json_object_get(o, "dovetail_cache")) == 1
                    ? 0
                    : wrong(e, line, "does not say \"dovetail_cache\": 1");
        else if (json_object_get(o, "end")) {
            ended = true;
            if ((unsigned long)json_integer_value(json_object_get(o, "end")) !=
                counts->imported + counts->present + counts->left_out)
                r = wrong(e, line, "counts other rows than there are");
        } else {
            r = import_row(c, o, line, origin, counts, e);
        }
        json_decref(o);
        if (r < 0)
            return r;
        p += n + 1;
    }
    return ended ? 0 : wrong(e, line + 1, "should be the end: the bundle is cut off");
}

int cache_import(struct cache *c, const char *text, size_t len, const char *origin, json_t **ret, struct dt_err *e)
{
    struct counts counts = {0};
    struct dt_err mine = {0};
    if (cache_run(c, "BEGIN IMMEDIATE", NULL, 0) != SQLITE_OK)
        return cache_unwritable(c, e);
    int r = import(c, text, len, origin, &counts, &mine);
    if (r == 0 && cache_run(c, "COMMIT", NULL, 0) != SQLITE_OK)
        r = cache_unwritable(c, &mine);
    json_t *o = r < 0 ? NULL
                      : json_pack("{s:I, s:I, s:I}", "imported", (json_int_t)counts.imported, "present",
                                  (json_int_t)counts.present, "left_out", (json_int_t)counts.left_out);
    if (r < 0)
        cache_rollback(c);
    if (mine.num && e)
        dt_err_move(e, &mine);
    dt_err_done(&mine);
    if (r == 0 && !o)
        return bundle_nomem(e);
    if (r == 0)
        *ret = o;
    return r;
}
