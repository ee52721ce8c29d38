/* Any bytes as a bundle that is imported: packed, or plain text, of version 1 or 2. An input that begins with '=' or
 * '+' is the fields of one row of version 1 or 2, a line each; the target puts the right checksum to them, and so comes
 * past the check that a damaged row fails at. One that begins with '*' is the text of a bundle, which is packed and
 * signed first; one that begins with '@' is a file of signers.
 *
 * Inputs of even size come to a host that believes nobody, others to one that wants a signature. Nothing of a refused
 * bundle is in the cache, and the refusal has a reason; where a signature is wanted nothing is taken that has none.
 * Whatever was taken: no document can be got out under the keys that it named, and the cache is sound.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/str.h"
#include "cache/cache.h"
#include "sign/sign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIELDS 8
#define FIELDS2 (SIGN_BUNDLE_COLUMNS - 1)

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz-bundle: %s\n", what);
        abort();
    }
}

/* The bundle of one row whose fields are the lines of `text`; NULL: a field is no UTF-8. */
static char *one_row(char *text, size_t *ret_len, char *field[FIELDS])
{
    static char none[] = "";
    struct dt_sha256 h;
    char sum[DT_SHA256_TEXT];
    struct dt_str s = {0};
    json_t *row = json_array();
    check(dt_sha256_init(&h) == 0, "no memory");
    for (int i = 0; i < FIELDS; i++) {
        char *end = text ? strchr(text, '\n') : NULL;
        field[i] = text ? text : none;
        if (end)
            *end = 0;
        text = end ? end + 1 : NULL;
        dt_sha256_addstr(&h, field[i]);
        json_array_append_new(row, json_string(field[i]));
    }
    dt_sha256_final(&h, sum);
    json_array_append_new(row, json_string(sum));
    char *line = json_array_size(row) == FIELDS + 1 ? json_dumps(row, JSON_COMPACT) : NULL;
    json_decref(row);
    if (!line)
        return NULL;
    dt_str_addf(&s, "{\"dovetail_cache\": 1}\n{\"table\": \"entry\", \"row\": %s}\n{\"end\": 1}\n", line);
    free(line);
    *ret_len = s.len;
    return dt_str_take(&s);
}

/* The same of version 2. */
static char *one_row2(char *text, size_t *ret_len, char *field[FIELDS])
{
    static char none[] = "";
    struct dt_str s = {0};
    const char *column[FIELDS2];
    for (int i = 0; i < FIELDS2; i++) {
        char *end = text ? strchr(text, '\n') : NULL;
        column[i] = field[i] = text ? text : none;
        if (end)
            *end = 0;
        text = end ? end + 1 : NULL;
    }
    dt_str_add(&s, "{\"dovetail_cache\": 2}\n");
    int r = sign_row_write(column, NULL, &s);
    dt_str_add(&s, "{\"end\": 1}\n");
    *ret_len = s.len;
    if (r == 0)
        return dt_str_take(&s);
    dt_str_done(&s); /* a field is no UTF-8 */
    return NULL;
}

static struct sign_key *farm;
static struct sign_signers *believed;

static void make_key(void)
{
    char path[] = "/tmp/fuzz-bundle-XXXXXX", file[64], public[SIGN_PUBLIC_TEXT], line[128];
    check(mkdtemp(path) != NULL, "no folder");
    snprintf(file, sizeof file, "%s/key", path);
    check(sign_keygen("farm", file, public, NULL) == 0 && sign_key_read(file, &farm, NULL) == 0, "no key");
    snprintf(line, sizeof line, "farm %s", public);
    check(sign_signers_parse(line, "signers", &believed, NULL) == 0, "no signers");
    unlink(file);
    rmdir(path);
}

/* Text that is packed, signed as far as it can be. NULL: it cannot be. */
static char *packed(const uint8_t *data, size_t size, size_t *ret_len)
{
    struct sign_packer *p;
    char *bytes, *sealed;
    size_t n;
    check(sign_pack_new(&p, NULL) == 0, "no packer");
    int r = sign_pack_add(p, (const char *)data, size, SIGN_BUNDLE_TEXT, NULL);
    check(r == 0 && sign_pack_end(p, farm, 1, &bytes, &n, NULL) == 0, "it cannot be packed");
    sign_pack_free(p);
    *ret_len = n;
    if (sign_bundle(farm, 1, bytes, n, &sealed, ret_len, NULL) < 0) {
        *ret_len = n;
        return bytes;
    }
    free(bytes);
    return sealed;
}

static void signers(const uint8_t *data, size_t size)
{
    struct sign_signers *s = NULL;
    struct dt_err e = {0};
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    int r = sign_signers_parse(text, "fuzz", &s, &e);
    check(r == 0 ? s != NULL : r == DT_E_USAGE && e.detail && !s, "signers without a reason");
    dt_err_done(&e);
    sign_signers_free(s);
    free(text);
}

static json_int_t figure(struct cache *c, const char *name)
{
    json_t *o = NULL;
    check(cache_list(c, NULL, NULL, 100, &o, NULL) == 0, "the cache cannot be listed");
    json_t *v = json_object_get(o, name);
    json_int_t n = json_is_array(v) ? (json_int_t)json_array_size(v) : json_integer_value(v);
    json_decref(o);
    return n;
}

/* field NULL: not known. */
static void bring(const char *bytes, size_t n, bool require, char *const field[FIELDS], const char *want)
{
    struct cache *c = NULL;
    struct dt_err e = {0};
    json_t *o = NULL, *doc = NULL;
    struct cache_intake how = {"uid 1", {require ? believed : NULL, NULL, 1000, -1}, require, 4 << 20};
    check(cache_open(":memory:", &c, NULL) == 0, "no cache");
    int r = cache_import(c, bytes, n, &how, &o, &e);
    if (r < 0) {
        check(e.num == r && e.detail && *e.detail && !o, "a refusal without a reason");
        check(figure(c, "recipes") == 0, "a part of a refused bundle was taken");
    } else {
        check(r == 0 && json_is_object(o), "taken, and no figures");
        check(!require || !field || figure(c, "recipes") == 0, "taken without a signature");
        if (field) {
            struct cache_key k = {want, field[0], field[1], field[2], field[3]};
            check(cache_get(c, &k, &doc, NULL) == 0, "an imported plan is served");
        }
        json_decref(o);
    }
    check(figure(c, "total") == 0, "an import made an entry");
    check(cache_verify(c, &o, NULL) == 0 && json_is_true(json_object_get(o, "ok")), "the cache is damaged");
    json_decref(o);
    dt_err_done(&e);
    cache_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char plan[] = "plan";
    char *field[FIELDS], *copy = NULL, *bundle = NULL;
    size_t n = size;
    char kind = size ? (char)data[0] : 0;
    bool row = kind == '=' || kind == '+';
    if (!farm)
        make_key();
    if (kind == '@') {
        signers(data + 1, size - 1);
        return 0;
    }
    if (kind == '*')
        bundle = packed(data + 1, size - 1, &n);
    if (row) {
        copy = malloc(size);
        memcpy(copy, data + 1, size - 1);
        copy[size - 1] = 0;
        bundle = kind == '=' ? one_row(copy, &n, field) : one_row2(copy, &n, field);
        if (!bundle) {
            free(copy);
            return 0;
        }
    }
    bring(bundle ? bundle : (const char *)data, n, size % 2, row ? field + (kind == '=') : NULL,
          kind == '=' ? field[0] : plan);
    free(bundle);
    free(copy);
    return 0;
}
