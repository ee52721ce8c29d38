/* Any bytes as a bundle that is imported. An input that begins with '=' is the fields of one row, a line each; the
 * target puts the right checksum to them, and so comes past the check that a damaged bundle fails at.
 *
 * Nothing of a refused bundle is in the cache, and the refusal has a reason. Whatever was taken: no document can be got
 * out under the keys that it named, and the cache is sound.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "cache/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIELDS 8

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

static json_int_t figure(struct cache *c, const char *name)
{
    json_t *o = NULL;
    check(cache_list(c, NULL, NULL, 100, &o, NULL) == 0, "the cache cannot be listed");
    json_t *v = json_object_get(o, name);
    json_int_t n = json_is_array(v) ? (json_int_t)json_array_size(v) : json_integer_value(v);
    json_decref(o);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cache *c = NULL;
    struct dt_err e = {0};
    json_t *o = NULL, *doc = NULL;
    char *field[FIELDS], *copy = NULL, *bundle = NULL;
    size_t n = size;
    if (size && data[0] == '=') {
        copy = malloc(size);
        memcpy(copy, data + 1, size - 1);
        copy[size - 1] = 0;
        bundle = one_row(copy, &n, field);
        if (!bundle) {
            free(copy);
            return 0;
        }
    }
    check(cache_open(":memory:", &c, NULL) == 0, "no cache");
    int r = cache_import(c, bundle ? bundle : (const char *)data, n, "uid 1", &o, &e);
    if (r < 0) {
        check(e.num == r && e.detail && *e.detail && !o, "a refusal without a reason");
        check(figure(c, "recipes") == 0, "a part of a refused bundle was taken");
    } else {
        check(r == 0 && json_is_object(o), "taken, and no figures");
        if (bundle) {
            struct cache_key k = {field[0], field[1], field[2], field[3], field[4]};
            check(cache_get(c, &k, &doc, NULL) == 0, "an imported plan is served");
        }
        json_decref(o);
    }
    check(figure(c, "total") == 0, "an import made an entry");
    check(cache_verify(c, &o, NULL) == 0 && json_is_true(json_object_get(o, "ok")), "the cache is damaged");
    json_decref(o);
    dt_err_done(&e);
    cache_close(c);
    free(bundle);
    free(copy);
    return 0;
}
