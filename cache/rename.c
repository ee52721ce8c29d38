/* Names out of, and into, a plan or analysis document.
 *
 * In a stored document buffers are "b0", modules "m0", launches "l0", numbered by first use (dt_graph_canon), so that
 * graphs which differ only in names share it. Names stand in these places and nowhere else:
 *
 *   analysis  launches[].name; edges[].producer, .consumer, .buffers[] and the keys of .independent_bytes
 *   plan      launches[].name, .module, .after[], .args[].buffer, .args[].pointers[].buffer,
 *             .args[].tensor_map.buffer, memset and copy steps, in `launches` and `original.launches`;
 *             rewrites[].launches[]; the keys of modules, original.modules, buffers, scratch, assumes.align,
 *             assumes.constant, verified.special.dropped; verified.special.range[]; and, between marks
 *             (base/subject.h), in
 *             rewrites[].reason
 *   both      warnings[].launch and .buffer
 *
 * A fused launch is named after its parts, "gemm0+bias", perhaps with "~2" behind: each part is a name. Any other name
 * is one that a rewrite made (f0, t0), and stays, with two exceptions. When storing, one that looks like a canonical
 * name gets a leading "_". When loading, one that the caller's graph uses for something of its own gets trailing "_"
 * until it is free. So a document that was stored for a graph comes back for that graph as it was, and for another
 * graph two things never get one name.
 *
 * `buffers` of a plan holds fills and data. They are the poster's and no part of the signature: they are not stored
 * (except constants), and are rebuilt from the caller's graph when loading. Members about what the graph does not use
 * (a buffer that no launch names) are dropped when storing. The graph's own `name`, where the document has one, is
 * treated in the same way.
 *
 * Buffers and modules are put in order: canonical when storing, the graph's when loading; names that rewrites made come
 * last, in their order. So an entry that was made for the same graph with its members in another order reads as if it
 * had been made for the caller's.
 *
 * The work is done on a copy, which replaces `doc` at the end: after an error the document is as before.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/subject.h"
#include "cache/cache.h"

enum kind { BUFFER, MODULE, LAUNCH, NKIND };
static const char letter[NKIND] = {'b', 'm', 'l'};

struct renamer {
    struct dt_graph *g;
    struct dt_err *e;
    bool out;
    struct dt_names own[NKIND]; /* the graph's names */
    const uint32_t *canon[NKIND];
    uint32_t n[NKIND], used[NKIND];
    uint32_t *back[NKIND]; /* canonical number -> index */
    json_t *chosen[NKIND]; /* loading: generated or joined name -> what it became */
    json_t *taken[NKIND];  /* loading: those, as keys */
};

static const char *own_name(const struct renamer *r, enum kind k, uint32_t i)
{
    return k == BUFFER ? r->g->buffer[i].name : k == MODULE ? r->g->module[i].name : r->g->launch[i].name;
}

static int rename_nomem(struct renamer *r) { return dt_err_set(r->e, DT_E_NOMEM, "out of memory"); }

/* The number of a canonical name of kind k, or DT_NAME_NONE. */
static uint32_t canonical(const char *s, size_t n, enum kind k)
{
    uint64_t v = 0;
    if (n < 2 || n > 8 || s[0] != letter[k] || (s[1] == '0' && n > 2))
        return DT_NAME_NONE;
    for (size_t i = 1; i < n; i++) {
        if (!isdigit((unsigned char)s[i]))
            return DT_NAME_NONE;
        v = v * 10 + (uint64_t)(s[i] - '0');
    }
    return (uint32_t)v;
}

/* Length without a trailing "~2" (any digits); n when there is none. */
static size_t without_count(const char *s, size_t n)
{
    size_t i = n;
    while (i && isdigit((unsigned char)s[i - 1]))
        i--;
    return i && i < n && s[i - 1] == '~' ? i - 1 : n;
}

static bool looks_canonical(const char *s, size_t n)
{
    n = without_count(s, n);
    while (n && *s == '_') {
        s++;
        n--;
    }
    for (int k = 0; k < NKIND; k++)
        if (canonical(s, n, (enum kind)k) != DT_NAME_NONE)
            return true;
    return false;
}

/* ---- storing ------------------------------------------------------------------------------------------------- */

/* s[0..n) as one name: its canonical one appended and 1; 0 if it is no name of the graph; -1 if it is one that nothing
 * uses. */
static int in_exact(const struct renamer *r, enum kind k, const char *s, size_t n, struct dt_str *to)
{
    uint32_t i = dt_names_get(&r->own[k], s, n);
    if (i == DT_NAME_NONE)
        return 0;
    if (r->canon[k][i] == DT_NAME_NONE)
        return -1;
    dt_str_addf(to, "%c%u", letter[k], r->canon[k][i]);
    return 1;
}

/* Launch names may themselves contain '+': the longest run of parts that is a name is taken each time. */
static int in_name(const struct renamer *r, enum kind k, const char *s, struct dt_str *to)
{
    size_t n = strlen(s);
    int x = in_exact(r, k, s, n, to);
    if (x)
        return x;
    while (n) {
        size_t len = k == LAUNCH ? n : 0;
        while (len && !(x = in_exact(r, k, s, len, to))) { /* shorten to the previous '+' */
            while (len && s[--len] != '+')
                ;
        }
        if (!len) {
            const char *plus = k == LAUNCH ? memchr(s, '+', n) : NULL;
            len = plus ? (size_t)(plus - s) : n;
            size_t stem = k == LAUNCH ? without_count(s, len) : len;
            if (stem < len && in_exact(r, k, s, stem, to) > 0) {
                dt_str_addn(to, s + stem, len - stem);
            } else {
                if (looks_canonical(s, len))
                    dt_str_addc(to, '_');
                dt_str_addn(to, s, len);
            }
        }
        s += len;
        n -= len;
        if (n) { /* at '+' */
            dt_str_addc(to, '+');
            s++;
            n--;
        }
    }
    return 1;
}

/* ---- loading ------------------------------------------------------------------------------------------------- */

static int out_part(struct renamer *r, enum kind k, const char *s, size_t n, bool *ret_made, struct dt_str *to)
{
    size_t stem = k == LAUNCH ? without_count(s, n) : n;
    uint32_t c = canonical(s, stem, k);
    if (c != DT_NAME_NONE) {
        if (c >= r->used[k])
            return dt_err_set(r->e, DT_E_CACHE, "the entry names '%.*s', which this graph does not have", (int)n, s);
        dt_str_add(to, own_name(r, k, r->back[k][c]));
        dt_str_addn(to, s + stem, n - stem);
        *ret_made |= stem < n;
        return 0;
    }
    *ret_made = true;
    if (n && *s == '_' && looks_canonical(s, n)) {
        s++;
        n--;
    }
    dt_str_addn(to, s, n);
    return 0;
}

static int out_name(struct renamer *r, enum kind k, const char *s, struct dt_str *to)
{
    struct dt_str name = {0};
    bool made = false;
    const char *known = json_string_value(json_object_get(r->chosen[k], s));
    int x = 0;
    if (known) {
        dt_str_add(to, known);
        return 0;
    }
    for (const char *at = s;; at++) {
        const char *plus = k == LAUNCH ? strchrnul(at, '+') : at + strlen(at);
        if ((x = out_part(r, k, at, (size_t)(plus - at), &made, &name)) < 0 || !*plus)
            break;
        made = true;
        dt_str_addc(&name, '+');
        at = plus;
    }
    while (x == 0 && made && name.s && !name.failed &&
           (dt_names_get(&r->own[k], name.s, name.len) != DT_NAME_NONE || json_object_get(r->taken[k], name.s)))
        dt_str_addc(&name, '_');
    if (x == 0 && (name.failed || (made && name.s &&
                                   (json_object_set_new_nocheck(r->chosen[k], s, json_string_nocheck(name.s)) < 0 ||
                                    json_object_set_new_nocheck(r->taken[k], name.s, json_true()) < 0))))
        x = rename_nomem(r);
    if (x == 0 && name.s)
        dt_str_add(to, name.s);
    dt_str_done(&name);
    return x;
}

/* ---- places -------------------------------------------------------------------------------------------------- */

/* 1: *to has the new name; 0: it is of something unused (storing only); negative: error. */
static int rename_name(struct renamer *r, enum kind k, const char *s, struct dt_str *to)
{
    int x = r->out ? out_name(r, k, s, to) : in_name(r, k, s, to);
    if (x >= 0 && to->failed)
        return rename_nomem(r);
    return r->out ? (x < 0 ? x : 1) : x > 0;
}

/* The new string for a string value; anything else stays. */
static int rename_value(struct renamer *r, enum kind k, json_t *v)
{
    struct dt_str to = {0};
    if (!json_is_string(v))
        return 0;
    int x = rename_name(r, k, json_string_value(v), &to);
    if (x == 0)
        x = dt_err_set(r->e, DT_E_INTERNAL, "the document names '%s', which no launch uses", json_string_value(v));
    else if (x > 0)
        x = json_string_set(v, to.s ? to.s : "") < 0 ? rename_nomem(r) : 0;
    dt_str_done(&to);
    return x;
}

static int rename_member(struct renamer *r, enum kind k, json_t *obj, const char *key)
{
    return rename_value(r, k, json_object_get(obj, key));
}

static int rename_list(struct renamer *r, enum kind k, json_t *array)
{
    size_t i;
    json_t *v;
    int x;
    json_array_foreach (array, i, v)
        if ((x = rename_value(r, k, v)) < 0)
            return x;
    return 0;
}

struct ranked {
    size_t rank, at; /* place in the order wanted, and where it stood */
    char *key;       /* owned, of keys() */
    json_t *v;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : (x->at > y->at) - (x->at < y->at);
}

/* Where a new name stands: the graph's or canonical number, made-up names behind. */
static size_t rank(const struct renamer *r, enum kind k, const char *s)
{
    uint32_t i = r->out ? dt_names_get(&r->own[k], s, strlen(s)) : canonical(s, strlen(s), k);
    return i == DT_NAME_NONE ? SIZE_MAX : i;
}

/* A list of buffers, renamed and in order. */
static int buffer_list(struct renamer *r, json_t *array)
{
    size_t n = json_array_size(array), i;
    json_t *v;
    int x = rename_list(r, BUFFER, array);
    if (x < 0 || n < 2)
        return x;
    dt_free_ struct ranked *all = dt_calloc(n, sizeof *all);
    if (!all)
        return rename_nomem(r);
    json_array_foreach (array, i, v)
        all[i] = (struct ranked){json_is_string(v) ? rank(r, BUFFER, json_string_value(v)) : SIZE_MAX, i, NULL,
                                 json_incref(v)};
    qsort(all, n, sizeof *all, by_rank);
    for (i = 0; i < n; i++)
        json_array_set_new(array, i, all[i].v);
    return 0;
}

/* Keys of obj[key]: the object is rebuilt in order; a member of something unused is dropped. */
static int keys(struct renamer *r, enum kind k, json_t *obj, const char *key)
{
    json_t *old = json_object_get(obj, key), *v, *fresh = NULL;
    const char *s;
    size_t n = 0;
    int x = 0;
    if (!json_is_object(old))
        return 0;
    struct ranked *all = dt_calloc(json_object_size(old) + 1, sizeof *all);
    if (!all || !(fresh = json_object())) {
        free(all);
        return rename_nomem(r);
    }
    json_object_foreach (old, s, v) {
        struct dt_str to = {0};
        if ((x = rename_name(r, k, s, &to)) <= 0) {
            dt_str_done(&to);
            if (x < 0)
                break;
            continue;
        }
        dt_str_add(&to, "");
        all[n] = (struct ranked){0, n, dt_str_take(&to), v};
        if (!all[n].key) {
            x = rename_nomem(r);
            break;
        }
        all[n].rank = rank(r, k, all[n].key);
        n++;
    }
    if (x >= 0)
        qsort(all, n, sizeof *all, by_rank);
    for (size_t i = 0; i < n; i++) {
        if (x >= 0 && json_object_set_nocheck(fresh, all[i].key, all[i].v) < 0)
            x = rename_nomem(r);
        free(all[i].key);
    }
    free(all);
    if (x >= 0 && json_object_set(obj, key, fresh) < 0)
        x = rename_nomem(r);
    json_decref(fresh);
    return x < 0 ? x : 0;
}

static int rename_argument(struct renamer *r, json_t *a)
{
    size_t i;
    json_t *p;
    int x;
    if ((x = rename_member(r, BUFFER, a, "buffer")) < 0 ||
        (x = rename_member(r, BUFFER, json_object_get(a, "tensor_map"), "buffer")) < 0)
        return x;
    json_array_foreach (json_object_get(a, "pointers"), i, p)
        if ((x = rename_member(r, BUFFER, p, "buffer")) < 0)
            return x;
    return 0;
}

static int rename_launch(struct renamer *r, json_t *l)
{
    size_t i;
    json_t *a, *copy = json_object_get(l, "copy");
    int x;
    if ((x = rename_member(r, LAUNCH, l, "name")) < 0 || (x = rename_member(r, MODULE, l, "module")) < 0 ||
        (x = rename_list(r, LAUNCH, json_object_get(l, "after"))) < 0 ||
        (x = rename_member(r, BUFFER, json_object_get(l, "memset"), "buffer")) < 0 ||
        (x = rename_member(r, BUFFER, json_object_get(copy, "from"), "buffer")) < 0 ||
        (x = rename_member(r, BUFFER, json_object_get(copy, "to"), "buffer")) < 0)
        return x;
    json_array_foreach (json_object_get(l, "args"), i, a)
        if ((x = rename_argument(r, a)) < 0)
            return x;
    return 0;
}

/* fresh NULL: nothing uses it any more. */
static void put_subject(struct dt_str *to, char kind, const char *fresh, const char *word)
{
    if (fresh)
        dt_str_addf(to, "\001%c%s\002", kind, fresh);
    else
        dt_str_addf(to, dt_quoted(kind) ? "'%s'" : "%s", word);
}

/* The subjects of a sentence (base/subject.h). One that nothing uses any more stays as plain text. */
static int sentence(struct renamer *r, json_t *v)
{
    static const enum kind of[] = {['b'] = BUFFER, ['m'] = MODULE, ['l'] = LAUNCH, ['n'] = LAUNCH};
    struct dt_str to = {0};
    const char *s = json_string_value(v), *mark, *name_at, *next;
    size_t n;
    char kind;
    int x = 0;
    while (s && x == 0 && (next = dt_subject(s, &mark, &kind, &name_at, &n))) {
        dt_str_addn(&to, s, (size_t)((kind == 'r' ? next : mark) - s));
        if (kind == 'r') { /* a row has the same name everywhere */
            s = next;
            continue;
        }
        dt_free_ char *word = dt_calloc(n + 1, 1);
        struct dt_str fresh = {0};
        int hit = 0;
        if (!word)
            x = rename_nomem(r);
        else if ((hit = rename_name(r, of[(unsigned char)kind], memcpy(word, name_at, n), &fresh)) < 0)
            x = hit;
        else
            put_subject(&to, kind, hit ? fresh.s : NULL, word);
        dt_str_done(&fresh);
        s = next;
    }
    if (s && x == 0)
        dt_str_add(&to, s);
    if (x == 0 && json_is_string(v) && to.s && (to.failed || json_string_set(v, to.s) < 0))
        x = rename_nomem(r);
    dt_str_done(&to);
    return x;
}

/* `buffers` of a plan, from the graph. */
static int buffers(struct renamer *r, json_t *doc)
{
    json_t *fresh;
    char key[16];
    int x = 0;
    if (!json_object_get(doc, "buffers"))
        return 0;
    if (!(fresh = json_object()))
        return rename_nomem(r);
    for (uint32_t c = 0; c < (r->out ? r->n[BUFFER] : r->used[BUFFER]) && x == 0; c++) {
        struct dt_buffer b = r->g->buffer[r->out ? c : r->back[BUFFER][c]];
        if (b.role == DT_SCRATCH)
            continue;
        snprintf(key, sizeof key, "b%u", c);
        if (!r->out && !b.constant)
            b.fill.kind = DT_FILL_NONE;
        if (json_object_set_new_nocheck(fresh, r->out ? b.name : key, dt_buffer_to_json(r->g, &b)) < 0)
            x = rename_nomem(r);
    }
    if (x == 0 && json_object_set(doc, "buffers", fresh) < 0)
        x = rename_nomem(r);
    json_decref(fresh);
    return x;
}

static int rename_document(struct renamer *r, json_t *doc)
{
    json_t *special = json_object_get(json_object_get(doc, "verified"), "special");
    json_t *v, *assumes = json_object_get(doc, "assumes"), *original = json_object_get(doc, "original");
    size_t i;
    int x;
    json_array_foreach (json_object_get(doc, "launches"), i, v)
        if ((x = rename_launch(r, v)) < 0)
            return x;
    json_array_foreach (json_object_get(original, "launches"), i, v)
        if ((x = rename_launch(r, v)) < 0)
            return x;
    json_array_foreach (json_object_get(doc, "edges"), i, v)
        if ((x = rename_member(r, LAUNCH, v, "producer")) < 0 || (x = rename_member(r, LAUNCH, v, "consumer")) < 0 ||
            (x = buffer_list(r, json_object_get(v, "buffers"))) < 0 ||
            (x = keys(r, BUFFER, v, "independent_bytes")) < 0)
            return x;
    json_array_foreach (json_object_get(doc, "rewrites"), i, v)
        if ((x = rename_list(r, LAUNCH, json_object_get(v, "launches"))) < 0 ||
            (x = sentence(r, json_object_get(v, "reason"))) < 0)
            return x;
    json_array_foreach (json_object_get(doc, "warnings"), i, v)
        if ((x = rename_member(r, LAUNCH, v, "launch")) < 0 || (x = rename_member(r, BUFFER, v, "buffer")) < 0)
            return x;
    if ((x = keys(r, MODULE, doc, "modules")) < 0 || (x = keys(r, MODULE, original, "modules")) < 0 ||
        (x = keys(r, BUFFER, doc, "scratch")) < 0 || (x = keys(r, BUFFER, assumes, "align")) < 0 ||
        (x = keys(r, BUFFER, assumes, "constant")) < 0 || (x = keys(r, BUFFER, special, "dropped")) < 0 ||
        (x = buffer_list(r, json_object_get(special, "range"))) < 0)
        return x;
    if (json_is_string(json_object_get(doc, "name")) &&
        json_object_set_new(doc, "name", json_string(r->out ? r->g->name : "")) < 0)
        return rename_nomem(r);
    return buffers(r, doc);
}

/* ---- the renamer --------------------------------------------------------------------------------------------- */

static int rename_prepare(struct renamer *r)
{
    struct dt_canon c;
    struct dt_graph *g = r->g;
    if (dt_graph_canon(g, &c) < 0)
        return rename_nomem(r);
    r->canon[BUFFER] = c.buffer;
    r->canon[MODULE] = c.module;
    r->canon[LAUNCH] = c.launch;
    r->n[BUFFER] = g->nbuffer;
    r->n[MODULE] = g->nmodule;
    r->n[LAUNCH] = g->nlaunch;
    for (int k = 0; k < NKIND; k++) {
        r->back[k] = dt_new_array(&g->arena, uint32_t, r->n[k]);
        r->chosen[k] = json_object();
        r->taken[k] = json_object();
        if (!r->back[k] || !r->chosen[k] || !r->taken[k])
            return rename_nomem(r);
        for (uint32_t i = 0; i < r->n[k]; i++) {
            if (dt_names_put(&r->own[k], own_name(r, (enum kind)k, i), i) < 0)
                return rename_nomem(r);
            if (r->canon[k][i] != DT_NAME_NONE) {
                r->back[k][r->canon[k][i]] = i;
                r->used[k]++;
            }
        }
    }
    return 0;
}

int cache_rename(json_t *doc, struct dt_graph *g, bool out, struct dt_err *e)
{
    struct renamer r = {.g = g, .e = e, .out = out};
    json_t *copy = json_deep_copy(doc);
    int x = copy ? rename_prepare(&r) : rename_nomem(&r);
    if (x == 0)
        x = rename_document(&r, copy);
    if (x == 0 && json_object_update(doc, copy) < 0) /* the same members: no room is needed */
        x = rename_nomem(&r);
    for (int k = 0; k < NKIND; k++) {
        dt_names_done(&r.own[k]);
        json_decref(r.chosen[k]);
        json_decref(r.taken[k]);
    }
    json_decref(copy);
    return x;
}
