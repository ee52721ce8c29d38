/* Bundles: the rows that they are made of, and signing one.
 *
 * The format is in sign.h. A row is read as a whole or not at all: its columns are texts, its checksum is right, its
 * digests are digests and its JSON is JSON. Who signs a bundle needs neither the store nor the service, so a secret key
 * never leaves the process of the user who has it.
 *
 * Not here: what an import keeps of a row (cache/bundle.c); bundles of version 1, which cannot be signed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/json.h"
#include "sign-priv.h"

#define LAST (SIGN_BUNDLE_COLUMNS - 1) /* the checksum */

int64_t sign_rewriter(const char *toolchain)
{
    const char *at = strstr(toolchain, "rewriter ");
    long long v = at ? strtoll(at + strlen("rewriter "), NULL, 10) : 0;
    return v > 0 ? (int64_t)v : 0;
}

static int bundle_row_sum(const char *const column[LAST], char sum[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0)
        return DT_E_NOMEM;
    for (int i = 0; i < LAST; i++)
        dt_sha256_addstr(&h, column[i]);
    dt_sha256_final(&h, sum);
    return 0;
}

static json_t *row_object(const char *text)
{
    json_t *o = NULL;
    if (dt_json_load(text, strlen(text), &o, NULL) == 0 && json_is_object(o))
        return o;
    json_decref(o);
    return NULL;
}

static const char *row_columns(const json_t *line, const char *column[SIGN_BUNDLE_COLUMNS])
{
    const json_t *row = json_object_get(line, "row");
    char sum[DT_SHA256_TEXT];
    if (strcmp(dt_json_text(line, "table"), "recipe") != 0 || json_array_size(row) != SIGN_BUNDLE_COLUMNS)
        return "is no row of a table that is known";
    for (size_t i = 0; i < SIGN_BUNDLE_COLUMNS; i++) {
        const json_t *v = json_array_get(row, i);
        column[i] = json_string_value(v);
        if (!column[i] || strlen(column[i]) != json_string_length(v))
            return "has a column that is no text";
    }
    if (!dt_sha256_ok(column[0]) || !dt_sha256_ok(column[4]) || !dt_sha256_ok(column[LAST]))
        return "has a digest that is no SHA-256";
    if (bundle_row_sum(column, sum) < 0)
        return "";
    return strcmp(sum, column[LAST]) != 0 ? "does not match its checksum" : NULL;
}

const char *sign_row_read(const json_t *line, struct sign_row *ret)
{
    struct sign_row r = {0};
    memset(ret, 0, sizeof *ret);
    const char *bad = row_columns(line, r.column);
    if (!bad && !(r.recipe = row_object(r.column[5])))
        bad = "has a recipe that is no JSON object";
    if (!bad && *r.column[6] && !(r.factors = row_object(r.column[6])))
        bad = "has factors that are no JSON object";
    r.sealed = json_object_get(line, "seal") || json_object_get(line, "signer");
    if (!bad && r.sealed && !sign_seal_get(line, &r.seal))
        bad = "has a signature that is none";
    if (bad) {
        sign_row_done(&r);
        return bad;
    }
    r.entry = (struct sign_entry){r.column[0], r.column[1], r.column[2], r.column[3],
                                  r.factors,   r.column[4], r.recipe,    sign_rewriter(r.column[2]),
                                  ""};
    *ret = r;
    return NULL;
}

void sign_row_done(struct sign_row *r)
{
    json_decref(r->recipe);
    json_decref(r->factors);
    memset(r, 0, sizeof *r);
}

int sign_row_write(const char *const column[LAST], const struct sign_seal *seal, struct dt_str *out)
{
    char sum[DT_SHA256_TEXT];
    json_t *o = json_object(), *row = json_array();
    if (bundle_row_sum(column, sum) < 0 || !o || !row) {
        json_decref(o);
        json_decref(row);
        return DT_E_NOMEM;
    }
    for (int i = 0; i < LAST; i++)
        json_array_append_new(row, json_string(column[i]));
    json_array_append_new(row, json_string(sum));
    bool bad =
        json_array_size(row) != SIGN_BUNDLE_COLUMNS || json_object_set_new(o, "table", json_string("recipe")) < 0;
    bad |= json_object_set_new(o, "row", row) < 0;
    bad = bad || (seal && sign_seal_put(o, seal) < 0);
    dt_free_ char *text = bad ? NULL : json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (!text)
        return DT_E_NOMEM;
    dt_str_add(out, text);
    dt_str_addc(out, '\n');
    return out->failed ? DT_E_NOMEM : 0;
}

/* ---- signing a bundle -------------------------------------------------------------------------------------------- */

struct signing {
    const struct sign_key *key;
    int64_t date;
    struct sign_packer *out;
    unsigned long line;
    bool ended;
};

/* The row with its seal into *out. */
static const char *sign_row(struct signing *s, const json_t *o, struct dt_str *out)
{
    struct sign_row row;
    struct sign_seal seal;
    const char *bad = sign_row_read(o, &row);
    if (!bad && (sign_entry_seal(s->key, &row.entry, s->date, &seal) < 0 || sign_row_write(row.column, &seal, out) < 0))
        bad = "";
    sign_row_done(&row);
    return bad;
}

static int sign_line(void *user, const char *text, size_t n, struct dt_err *e)
{
    struct signing *s = user;
    struct dt_str out = {0};
    json_t *o = NULL;
    const char *bad = NULL;
    s->line++;
    if (s->ended)
        bad = "stands behind the end";
    else if (dt_json_load(text, n, &o, NULL) < 0 || !json_is_object(o))
        bad = "is no JSON object";
    else if (s->line == 1 && json_integer_value(json_object_get(o, "dovetail_cache")) != SIGN_BUNDLE_VERSION)
        bad = "does not say \"dovetail_cache\": 2";
    else if (s->line == 1 || (s->ended = json_object_get(o, "end") != NULL))
        dt_str_addn(&out, text, n), dt_str_addc(&out, '\n');
    else
        bad = sign_row(s, o, &out);
    json_decref(o);
    int r = bad && *bad         ? dt_err_set(e, DT_E_JSON, "the bundle cannot be signed: line %lu %s", s->line, bad)
            : bad || out.failed ? dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle")
                                : sign_pack_add(s->out, out.s, out.len, SIGN_BUNDLE_TEXT, e);
    dt_str_done(&out);
    return r;
}

int sign_bundle(const struct sign_key *k, int64_t date, const char *bytes, size_t len, char **ret, size_t *ret_len,
                struct dt_err *e)
{
    struct signing s = {.key = k, .date = date};
    struct sign_packed file;
    int r = sign_pack_new(&s.out, e);
    if (r == 0)
        r = sign_packed_lines(bytes, len, SIGN_BUNDLE_TEXT, sign_line, &s, &file, e);
    if (r >= 0 && (file.broken || !s.ended))
        r = dt_err_set(e, DT_E_JSON, "the bundle cannot be signed: %s", file.broken ? file.broken : "it is cut off");
    if (r >= 0)
        r = sign_pack_end(s.out, k, date, ret, ret_len, e);
    sign_pack_free(s.out);
    return r < 0 ? r : 0;
}
