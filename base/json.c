/* JSON text to a document, exactly.
 *
 * jansson does the parsing: duplicate members, NUL characters, bad UTF-8, over-deep nesting and trailing text are
 * errors with line and column. jansson holds whole numbers as 64 signed bits and refuses larger ones; graph documents
 * may say u64 values up to 2^64 - 1 and careless ones say 10^20 bytes, which must be "too large" and not "bad JSON".
 * So, and only after jansson said "overflow", the text is copied with each such number replaced: by a string of its
 * digits when it fits 64 unsigned bits (dt_json_big() knows them), else by a real. Strings in the text are skipped, so
 * nothing inside one changes.
 */
#include "base/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* Value of n decimal digits; false when it does not fit. */
static bool decimal(const char *s, size_t n, uint64_t *ret)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        if (s[i] < '0' || s[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s[i] - '0'), &v))
            return false;
    *ret = v;
    return n > 0;
}

bool dt_json_big(const json_t *v, uint64_t *ret)
{
    uint64_t u;
    if (!json_is_string(v) || json_string_length(v) < 19 || *json_string_value(v) == '0' ||
        !decimal(json_string_value(v), json_string_length(v), &u) || u <= INT64_MAX)
        return false;
    *ret = u;
    return true;
}

static void copy_number(const char *s, size_t n, struct dt_str *out)
{
    bool minus = *s == '-';
    size_t digits = n - minus;
    uint64_t v;
    bool whole = digits > 0 && s[minus] != '0';
    for (size_t i = minus; i < n; i++)
        whole = whole && s[i] >= '0' && s[i] <= '9';
    bool fits = decimal(s + minus, digits, &v) && v <= (uint64_t)INT64_MAX + minus;
    if (!whole || fits) {
        dt_str_addn(out, s, n);
    } else if (!minus && decimal(s, n, &v)) {
        dt_str_addc(out, '"');
        dt_str_addn(out, s, n);
        dt_str_addc(out, '"');
    } else {
        dt_str_addn(out, s, n);
        dt_str_add(out, ".0");
    }
}

/* `text` need not end in NUL. */
static void rewrite(const char *text, size_t len, struct dt_str *out)
{
    size_t i = 0;
    while (i < len) {
        size_t start = i;
        if (text[i] == '"') {
            for (i++; i < len && text[i] != '"'; i++)
                if (text[i] == '\\')
                    i++;
            i = i < len ? i + 1 : len;
            dt_str_addn(out, text + start, i - start);
        } else if (text[i] == '-' || (text[i] >= '0' && text[i] <= '9')) {
            while (i < len && text[i] && strchr("0123456789+-.eE", text[i]))
                i++;
            copy_number(text + start, i - start, out);
        } else {
            dt_str_addc(out, text[i++]);
        }
    }
}

static int failed(const json_error_t *j, struct dt_err *e)
{
    if (json_error_code(j) == json_error_out_of_memory)
        return dt_err_set(e, DT_E_NOMEM, "out of memory while reading JSON");
    return dt_err_set(e, DT_E_JSON, "line %d, column %d: %s", j->line, j->column, j->text);
}

int dt_json_load(const char *text, size_t len, json_t **ret, struct dt_err *e)
{
    json_error_t j;
    if (len > DT_JSON_MAX)
        return dt_err_set(e, DT_E_TOO_LARGE, "the document has %zu bytes; the limit is %u", len, DT_JSON_MAX);
    json_t *doc = json_loadb(text, len, JSON_REJECT_DUPLICATES, &j);
    if (!doc && json_error_code(&j) == json_error_numeric_overflow) {
        struct dt_str copy = {0};
        rewrite(text, len, &copy);
        if (copy.failed) {
            dt_str_done(&copy);
            return dt_err_set(e, DT_E_NOMEM, "out of memory while reading JSON");
        }
        doc = json_loadb(copy.s, copy.len, JSON_REJECT_DUPLICATES, &j);
        dt_str_done(&copy);
    }
    if (!doc)
        return failed(&j, e);
    *ret = doc;
    return 0;
}

const char *dt_json_text(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}
