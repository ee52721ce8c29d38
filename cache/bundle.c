/* Bundles: a whole cache as one text, to carry it to another machine.
 *
 * JSON lines. The first is {"dovetail_cache": 1}, the last {"end": ROWS}, between them a row a line:
 *
 *   {"table": "entry", "row": [want, signature, device, toolchain, policy, digest, body, factors, sha256]}
 *   {"table": "graph", "row": [digest, body, sha256]}
 *   {"table": "known", "row": [digest, arch, signature, sha256]}
 *
 * All columns are strings as in the table (schema/sql/), sha256 the row's own checksum. Import is one transaction: a
 * line that is no JSON, a row that does not match its checksum, whose digests are none or whose body is no JSON object,
 * a wrong end: nothing is changed. A row whose key is there already is left as it is. Hits and times are not carried:
 * an imported entry was used now.
 *
 * A checksum says that a row is whole, not who made it: import what you trust. Not here: compression (zstd FILE does
 * it).
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "cache-priv.h"

#define MAX_COLUMNS 9

static const struct table {
    const char *name;
    int columns; /* sha256 is the last */
    const char *select, *insert;
    unsigned sha256, json; /* bits of columns that must be a SHA-256; that must be a JSON object */
} tables[] = {
    {"entry", 9,
     "SELECT want, signature, device, toolchain, policy, digest, body, factors, sha256 FROM entry ORDER BY id",
     "INSERT OR IGNORE INTO entry (want, signature, device, toolchain, policy, digest, body, factors, sha256, created, "
     "used) "
     "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, unixepoch(), unixepoch())",
     1 << 1 | 1 << 5 | 1 << 8, 1 << 6},
    {"graph", 3, "SELECT digest, body, sha256 FROM graph ORDER BY digest",
     "INSERT OR IGNORE INTO graph (digest, body, sha256, created) VALUES (?1, ?2, ?3, unixepoch())", 1 << 0 | 1 << 2,
     1 << 1},
    {"known", 4, "SELECT digest, arch, signature, sha256 FROM known ORDER BY digest, arch",
     "INSERT OR IGNORE INTO known (digest, arch, signature, sha256) VALUES (?1, ?2, ?3, ?4)", 1 << 0 | 1 << 2 | 1 << 3,
     0},
};
#define NTABLES (sizeof tables / sizeof *tables)

static int nomem(struct dt_err *e) { return dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle"); }

int cache_export(struct cache *c, char **ret, size_t *ret_len, struct dt_err *e)
{
    struct dt_str out = {0};
    unsigned long rows = 0;
    int r = 0;
    dt_str_add(&out, "{\"dovetail_cache\": 1}\n");
    /* one transaction: all three tables as they are at one time */
    if (cache_run(c, "BEGIN", NULL, 0) != SQLITE_OK)
        r = cache_db_error(c, "cannot be read", e);
    for (size_t t = 0; t < NTABLES && r == 0; t++) {
        sqlite3_stmt *s;
        int rc = cache_prepare(c, tables[t].select, NULL, 0, &s);
        if (rc != SQLITE_OK) {
            r = cache_db_error(c, "cannot be read", e);
            break;
        }
        while (r == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
            const char *text[MAX_COLUMNS];
            char sum[DT_SHA256_TEXT];
            for (int i = 0; i < tables[t].columns; i++)
                text[i] = cache_column(s, i);
            if (cache_row_sum(text, tables[t].columns - 1, sum) < 0)
                r = nomem(e);
            else if (strcmp(sum, text[tables[t].columns - 1]))
                continue; /* damaged: a miss here, and no gift to others */
            json_t *list = json_array();
            for (int i = 0; i < tables[t].columns; i++)
                json_array_append_new(list, json_string(text[i]));
            char *line = json_array_size(list) == (size_t)tables[t].columns ? json_dumps(list, JSON_COMPACT) : NULL;
            json_decref(list);
            if (line) {
                dt_str_addf(&out, "{\"table\": \"%s\", \"row\": ", tables[t].name);
                dt_str_add(&out, line);
                dt_str_add(&out, "}\n");
                rows++;
            }
            if (r == 0 && (!line || out.failed))
                r = nomem(e);
            free(line);
            if (r == 0 && out.len > DT_JSON_MAX / 2)
                r = dt_err_set(e, DT_E_TOO_LARGE,
                               "the cache is larger than a bundle may be (%u MB): copy the file, or run cache gc first",
                               DT_JSON_MAX / 2 >> 20);
        }
        sqlite3_finalize(s);
        if (r == 0 && rc != SQLITE_DONE)
            r = cache_db_error(c, "cannot be read", e);
    }
    cache_run(c, "ROLLBACK", NULL, 0);
    dt_str_addf(&out, "{\"end\": %lu}\n", rows);
    if (r == 0 && out.failed)
        r = nomem(e);
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

static bool is_object(const char *text)
{
    json_t *o;
    if (dt_json_load(text, strlen(text), &o, NULL) < 0)
        return false;
    bool ok = json_is_object(o);
    json_decref(o);
    return ok;
}

/* Insert one row; 1 it is new, 0 it was there. */
static int import_row(struct cache *c, const json_t *o, unsigned long line, struct dt_err *e)
{
    const char *name = json_string_value(json_object_get(o, "table")), *text[MAX_COLUMNS];
    const json_t *row = json_object_get(o, "row");
    const struct table *t = NULL;
    char sum[DT_SHA256_TEXT];
    for (size_t i = 0; name && i < NTABLES; i++)
        if (!strcmp(tables[i].name, name))
            t = &tables[i];
    if (!t || json_array_size(row) != (size_t)t->columns)
        return wrong(e, line, "is no row of a table that is known");
    for (int i = 0; i < t->columns; i++) {
        const json_t *v = json_array_get(row, (size_t)i);
        text[i] = json_string_value(v);
        if (!text[i] || strlen(text[i]) != json_string_length(v))
            return wrong(e, line, "has a column that is no text");
        if ((t->sha256 & 1u << i) && !cache_is_sha256(text[i]))
            return wrong(e, line, "has a digest that is no SHA-256");
    }
    if (cache_row_sum(text, t->columns - 1, sum) < 0)
        return nomem(e);
    if (strcmp(sum, text[t->columns - 1]))
        return wrong(e, line, "does not match its checksum");
    if (t == &tables[0] && strcmp(text[0], "plan") && strcmp(text[0], "analysis"))
        return wrong(e, line, "is neither a plan nor an analysis");
    for (int i = 0; i < t->columns; i++)
        if ((t->json & 1u << i) && !is_object(text[i]))
            return wrong(e, line, "has a document that is no JSON object");
    if (t == &tables[0] && *text[7] && !is_object(text[7]))
        return wrong(e, line, "has factors that are no JSON object");
    if (cache_run(c, t->insert, text, t->columns) != SQLITE_OK)
        return cache_db_error(c, "cannot be written", e);
    return sqlite3_changes(c->db) > 0;
}

static int import(struct cache *c, const char *text, size_t len, unsigned long counts[2], struct dt_err *e)
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
            if ((unsigned long)json_integer_value(json_object_get(o, "end")) != counts[0] + counts[1])
                r = wrong(e, line, "counts other rows than there are");
        } else if ((r = import_row(c, o, line, e)) >= 0) {
            counts[r ? 0 : 1]++;
            r = 0;
        }
        json_decref(o);
        if (r < 0)
            return r;
        p += n + 1;
    }
    return ended ? 0 : wrong(e, line + 1, "should be the end: the bundle is cut off");
}

int cache_import(struct cache *c, const char *text, size_t len, json_t **ret, struct dt_err *e)
{
    unsigned long counts[2] = {0, 0};
    if (cache_run(c, "BEGIN IMMEDIATE", NULL, 0) != SQLITE_OK)
        return cache_db_error(c, "cannot be written", e);
    int r = import(c, text, len, counts, e);
    if (r == 0 && cache_run(c, "COMMIT", NULL, 0) != SQLITE_OK)
        r = cache_db_error(c, "cannot be written", e);
    json_t *o =
        r < 0 ? NULL : json_pack("{s:I, s:I}", "imported", (json_int_t)counts[0], "present", (json_int_t)counts[1]);
    if (r == 0 && !o)
        return nomem(e);
    if (r < 0) {
        cache_run(c, "ROLLBACK", NULL, 0);
        return r;
    }
    *ret = o;
    return 0;
}
