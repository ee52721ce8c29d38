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

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
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

static int failed(int r, const json_error_t *j, struct dt_err *e)
{
    if (r == DT_E_NOMEM || json_error_code(j) == json_error_out_of_memory)
        return dt_err_set(e, DT_E_NOMEM, "out of memory while reading JSON");
    return dt_err_set(e, DT_E_JSON, "line %d, column %d: %s", j->line, j->column, j->text);
}

/* ---- jansson without memory ----------------------------------------------------------------------------------- *
 * When an allocation fails, jansson says nothing at all, or that the text is wrong: a string that could not be copied
 * is "invalid token", and what reads a row of the cache would take that for damage. Worse, its lexer does not look
 * whether its buffer has grown, loses a character, and stops the program by an assertion (2.14, lex_unget_unsave).
 *
 * So its allocator notes that it failed, and serves growths of that buffer (16 bytes times a power of two) from a
 * spare, which is made before the text is read and is large enough for its longest token. The text goes in a few bytes
 * at a time; when the allocator has failed, no more of it comes, so that nothing else can use the spare up. A program
 * that gave jansson an allocator of its own keeps that, and does without all this.
 */
#define PIECE 64
#define SLACK 8192 /* for what a piece can ask for */

static _Thread_local struct {
    char *p;
    size_t n, used;
    bool starved; /* an allocation has failed since reading began */
} spare;
static _Thread_local bool lacking; /* one has failed since the last text, or dt_json_fresh() */

static void *json_memory(size_t n)
{
    void *p = dt_malloc(n);
    if (p)
        return p;
    spare.starved = lacking = true;
    if (!spare.p || n < 32 || (n & (n - 1)) || n > spare.n - spare.used)
        return NULL;
    p = spare.p + spare.used;
    spare.used += n;
    return p;
}

static void json_release(void *p)
{
    if (!spare.p || (uintptr_t)p < (uintptr_t)spare.p || (uintptr_t)p >= (uintptr_t)spare.p + spare.n)
        free(p);
}

static void use_memory(void)
{
    json_malloc_t take;
    json_free_t give;
    json_get_alloc_funcs(&take, &give);
    if (take == malloc && give == free)
        json_set_alloc_funcs(json_memory, json_release);
}

/* No token is longer than what lies between two quotes that end or begin a string. */
static size_t longest_token(const char *text, size_t len)
{
    size_t most = 0;
    const char *from = text, *end = text + len;
    for (const char *q = text; q < end && (q = memchr(q, '"', (size_t)(end - q))); q++) {
        const char *b = q;
        while (b > from && b[-1] == '\\')
            b--;
        if ((q - b) % 2)
            continue; /* a part of the string */
        most = (size_t)(q - from) > most ? (size_t)(q - from) : most;
        from = q;
    }
    return (size_t)(end - from) > most ? (size_t)(end - from) : most;
}

struct source {
    const char *at, *end;
};

static size_t next_piece(void *buffer, size_t room, void *user)
{
    struct source *s = user;
    size_t n = (size_t)(s->end - s->at) < PIECE ? (size_t)(s->end - s->at) : PIECE;
    n = spare.starved ? 0 : n < room ? n : room;
    memcpy(buffer, s->at, n);
    s->at += n;
    return n;
}

static int load(const char *text, size_t len, json_t **ret, json_error_t *j)
{
    struct source s = {text, text + len};
    const bool before = lacking; /* who reads is told */
    size_t size = 64, longest = longest_token(text, len);
    while (size < longest + PIECE)
        size *= 2;
    spare.starved = false;
    spare.used = 0;
    spare.n = 2 * size + SLACK;
    spare.p = dt_malloc(spare.n);
    json_t *doc = spare.p ? json_load_callback(next_piece, &s, JSON_REJECT_DUPLICATES, j) : NULL;
    int r = !spare.p || spare.starved ? DT_E_NOMEM : doc ? 0 : DT_E_JSON;
    if (r < 0)
        json_decref(doc);
    free(spare.p);
    spare.p = NULL;
    lacking = before;
    if (r == 0)
        *ret = doc;
    return r;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

void dt_json_fresh(void)
{
    pthread_once(&once, use_memory);
    lacking = false;
}

int dt_json_load(const char *text, size_t len, json_t **ret, struct dt_err *e)
{
    json_error_t j;
    if (len > DT_JSON_MAX)
        return dt_err_set(e, DT_E_TOO_LARGE, "the document has %zu bytes; the limit is %u", len, DT_JSON_MAX);
    pthread_once(&once, use_memory);
    int r = load(text, len, ret, &j);
    if (r == DT_E_JSON && json_error_code(&j) == json_error_numeric_overflow) {
        struct dt_str copy = {0};
        rewrite(text, len, &copy);
        r = copy.failed ? DT_E_NOMEM : load(copy.s, copy.len, ret, &j);
        dt_str_done(&copy);
    }
    return r < 0 ? failed(r, &j, e) : 0;
}

const char *dt_json_text(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

static int dump_piece(const char *p, size_t n, void *user)
{
    struct dt_str *s = user;
    dt_str_addn(s, p, n);
    return s->failed ? -1 : 0;
}

char *dt_json_dumps(const json_t *o, size_t flags)
{
    struct dt_str s = {0};
    if (json_dump_callback(o, dump_piece, &s, flags) || lacking)
        s.failed = true; /* a piece that failed stays so, whether jansson says it or not */
    lacking = false;
    return dt_str_take(&s);
}
