/* Footprints of launches, kept from one analysis to the next. The caller keeps them (ana_options.memo); this file makes
 * keys and bytes of them, and reads both back.
 *
 * The footprint of a launch that is summarised, or runs as its slice, depends on nothing but its key, a SHA-256 of
 *     the version of dovetail and of the analysis (ANA_FOOTPRINTS), and the device's model;
 *     the entry's canonical text; the text of its module, where that has variables in global or constant memory, with
 *     what may be believed of them;
 *     grid, block, cluster, dynamic shared memory; the arguments: numbers, offsets, tensor maps, buffers by order of
 *     appearance (which of them are the same is part of it; all lie at multiples of 256 bytes);
 *     of each buffer its size, whether it may be written, and its content where no launch changes it.
 * Launches that run whole, or of which the recorder gave up on something, are not kept.
 *
 * An entry is "dovetail footprints 1\n", the SHA-256 of key and body as text, a newline, and the body: numbers of seven
 * bits a byte, lowest first.
 *     flags, blocks, buffers, sets + 1;
 *     then each set: runs; of each run: bytes between it and what is before, length of a piece, pieces, and where there
 *     are several the bytes from the end of one to the next;
 *     accesses: buffer, evidence of reads and writes, bits, width, eight sets;
 *     blocks: of each row of equal ones how many, touches, and of each touch buffer, sets read, surely written, perhaps
 *     written.
 * Sets are named by number, 0 is the empty one. Bytes may come from anywhere: an entry that does not read back exactly
 * is treated as absent. A text without an end is cut off at MOST_BYTES, pieces at MOST_PIECES.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/record/record-priv.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "base/str.h"

#define HEAD "dovetail footprints 1\n"
#define MOST_BYTES (UINT64_C(8) << 20)
#define MOST_PIECES (UINT64_C(1) << 24)
#define MOST_CONTENT (UINT64_C(64) << 20) /* bytes of a constant buffer that is hashed */

/* ---- buffers by order of appearance ------------------------------------------------------------------------------ */
struct order {
    uint32_t *buffer, n; /* of the graph */
    uint32_t *number;    /* by buffer of the graph: place + 1 in `buffer` */
};

static uint32_t memo_number(struct order *o, uint32_t b)
{
    if (!o->number[b]) {
        o->buffer[o->n++] = b;
        o->number[b] = o->n;
    }
    return o->number[b] - 1;
}

static bool order_of(const struct ana_rec *s, uint32_t launch, struct dt_arena *a, struct order *o)
{
    const struct dt_launch *l = &s->g->launch[launch];
    const struct ptx_module *ir = s->p->module[l->module].ir;
    o->buffer = dt_new_array(a, uint32_t, (size_t)s->g->nbuffer + 1);
    o->number = dt_new_array(a, uint32_t, (size_t)s->g->nbuffer + 1);
    if (a->failed)
        return false;
    for (uint32_t i = 0; i < l->narg; i++)
        for (uint32_t k = 0; k < arg_buffers(&l->arg[i], NULL, 0); k++)
            memo_number(o, arg_buffer(&l->arg[i], k));
    for (uint32_t v = 0; v < ir->nvar; v++)
        if (s->mod[l->module].buffer[v] != UINT32_MAX)
            memo_number(o, s->mod[l->module].buffer[v]);
    return true;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */
static int kernel_key(struct ana_rec *s, uint32_t launch, struct ana_variant *v)
{
    const struct ptx_module *ir = s->p->module[v->module].ir;
    struct dt_str text = {0};
    bool vars = false;
    int rc = ptx_print_canonical(s->p->step[launch].entry, &text);
    for (uint32_t k = 0; k < ir->nvar; k++)
        vars |= ir->var[k]->space == PTX_GLOBAL || ir->var[k]->space == PTX_CONST;
    if (!rc && vars)
        rc = ptx_print(ir, &text);
    for (uint32_t k = 0; k < ir->nvar && vars; k++)
        dt_str_addf(&text, "%u ", s->mod[v->module].var[k]);
    if (!rc && !text.failed)
        rc = dt_sha256_text(text.s ? text.s : "", text.len, v->memo);
    rc = text.failed ? DT_E_NOMEM : rc;
    dt_str_done(&text);
    return rc;
}

static int content_key(struct ana_rec *s, uint32_t b, char sum[DT_SHA256_TEXT])
{
    uint8_t *p = dt_malloc(s->bytes[b] + 8);
    int rc = p ? 0 : DT_E_NOMEM;
    if (!rc) {
        dt_fill_bytes(&s->g->buffer[b], 0, p);
        rc = dt_sha256_text(p, s->bytes[b], sum);
    }
    free(p);
    return rc;
}

static void add_argument(struct dt_sha256 *h, struct order *o, const struct dt_arg *a)
{
    struct dt_str map = {0};
    dt_sha256_addu64(h, a->kind);
    for (uint32_t k = 0; k < arg_buffers(a, NULL, 0); k++)
        dt_sha256_addu64(h, memo_number(o, arg_buffer(a, k)));
    switch (a->kind) {
    case DT_ARG_BUFFER: dt_sha256_addu64(h, a->offset); break;
    case DT_ARG_SCALAR:
        dt_sha256_addu64(h, a->dtype);
        dt_sha256_addu64(h, a->bits);
        break;
    case DT_ARG_BYTES:
        dt_sha256_addu64(h, a->nbytes);
        dt_sha256_add(h, a->bytes, a->nbytes);
        dt_sha256_addu64(h, a->npointer);
        for (uint32_t k = 0; k < a->npointer; k++) {
            dt_sha256_addu64(h, a->pointer[k].at);
            dt_sha256_addu64(h, a->pointer[k].offset);
        }
        break;
    case DT_ARG_TENSOR_MAP:
        dt_tensor_map_text(a->map, &map);
        dt_sha256_addu64(h, a->offset);
        dt_sha256_addu64(h, map.failed);
        dt_sha256_addstr(h, map.s ? map.s : "");
        dt_str_done(&map);
        break;
    }
}

/* 1: key is there. 0: the launch has none. */
static int memo_make_key(struct ana_rec *s, uint32_t launch, struct order *o, char key[DT_SHA256_TEXT])
{
    const struct dt_launch *l = &s->g->launch[launch];
    const struct dev_info *d = dev_info(s->d);
    struct ana_variant *v = &s->variant.p[s->of[launch]];
    const uint32_t *dims[] = {l->grid, l->block, l->cluster};
    struct dt_sha256 h;
    int rc = *v->memo ? 0 : kernel_key(s, launch, v);
    if (rc || dt_sha256_init(&h))
        return rc ? rc : DT_E_NOMEM;
    dt_sha256_addstr(&h, HEAD DOVETAIL_VERSION "; " ANA_FOOTPRINTS);
    dt_sha256_addstr(&h, dev_kind(d));
    dt_sha256_addstr(&h, d->arch);
    dt_sha256_addstr(&h, d->model);
    dt_sha256_addu64(&h, d->sms);
    dt_sha256_addstr(&h, v->memo);
    for (unsigned k = 0; k < 9; k++)
        dt_sha256_addu64(&h, dims[k / 3][k % 3]);
    dt_sha256_addu64(&h, l->shared);
    dt_sha256_addu64(&h, l->narg);
    for (uint32_t i = 0; i < l->narg; i++)
        add_argument(&h, o, &l->arg[i]);
    for (uint32_t k = 0; k < s->p->module[l->module].ir->nvar; k++)
        if (s->mod[l->module].buffer[k] != UINT32_MAX) {
            dt_sha256_addu64(&h, k);
            dt_sha256_addu64(&h, memo_number(o, s->mod[l->module].buffer[k]));
        }
    dt_sha256_addu64(&h, o->n);
    for (uint32_t k = 0; k < o->n && !rc; k++) {
        uint32_t b = o->buffer[k];
        char *sum = s->memo.content[b];
        dt_sha256_addu64(&h, s->bytes[b]);
        dt_sha256_addu64(&h, protected_buffer(s, b));
        dt_sha256_addu64(&h, s->g->buffer[b].constant);
        if (!s->g->buffer[b].constant)
            continue;
        if (s->bytes[b] > MOST_CONTENT) {
            dt_sha256_done(&h);
            return 0;
        }
        if (!*sum)
            rc = content_key(s, b, sum);
        dt_sha256_addstr(&h, sum);
    }
    dt_sha256_final(&h, key);
    return rc ? rc : 1;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */
struct writer {
    struct dt_str out;
    struct dt_arena a;
    struct slot {
        struct ana_set set;
        uint32_t at; /* + 1 */
    } * slot;
    size_t nslot;
    struct dt_vec(struct ana_set) set;
    bool failed;
};

static void memo_put(struct dt_str *s, uint64_t v)
{
    for (; v >> 7; v >>= 7)
        dt_str_addc(s, (char)(v | 0x80));
    dt_str_addc(s, (char)v);
}

static bool memo_grow(struct writer *w)
{
    size_t n = w->nslot ? 2 * w->nslot : 256;
    struct slot *s = dt_calloc(n, sizeof *s);
    for (size_t i = 0; s && i < w->nslot; i++) {
        size_t k = dt_splitmix64((uintptr_t)w->slot[i].set.iv, 0) & (n - 1);
        while (w->slot[i].at && s[k].at)
            k = (k + 1) & (n - 1);
        if (w->slot[i].at)
            s[k] = w->slot[i];
    }
    if (s) {
        free(w->slot);
        w->slot = s;
        w->nslot = n;
    }
    return s != NULL;
}

/* The set's number; sets are numbered as they are met. */
static uint32_t memo_name(struct writer *w, struct ana_set x)
{
    if (!x.n || w->failed)
        return 0;
    if (2 * w->set.n >= w->nslot && !memo_grow(w)) {
        w->failed = true;
        return 0;
    }
    size_t k = dt_splitmix64((uintptr_t)x.iv, 0) & (w->nslot - 1);
    for (; w->slot[k].at; k = (k + 1) & (w->nslot - 1))
        if (w->slot[k].set.iv == x.iv && w->slot[k].set.n == x.n)
            return w->slot[k].at;
    if (!dt_push(&w->set, x)) {
        w->failed = true;
        return 0;
    }
    w->slot[k] = (struct slot){x, (uint32_t)w->set.n};
    return (uint32_t)w->set.n;
}

static void put_set(struct dt_str *s, struct ana_set x)
{
    struct dt_str runs = {0};
    uint64_t before = 0, n = 0;
    for (uint32_t i = 0, j; i < x.n; i = j, n++) {
        uint64_t len = x.iv[i].hi - x.iv[i].lo, gap = i + 1 < x.n ? x.iv[i + 1].lo - x.iv[i].hi : 0;
        for (j = i + 1; j < x.n && x.iv[j].hi - x.iv[j].lo == len && x.iv[j].lo - x.iv[j - 1].hi == gap;)
            j++;
        memo_put(&runs, x.iv[i].lo - before);
        memo_put(&runs, len);
        memo_put(&runs, j - i);
        if (j - i > 1)
            memo_put(&runs, gap);
        before = x.iv[j - 1].hi;
    }
    memo_put(s, n);
    dt_str_addn(s, runs.s ? runs.s : "", runs.len);
    s->failed |= runs.failed;
    dt_str_done(&runs);
}

static bool same_touches(const struct ana_block *x, const struct ana_block *y)
{
    bool same = x->ntouch == y->ntouch;
    for (uint32_t k = 0; same && k < x->ntouch; k++) {
        const struct ana_touch *t = &x->touch[k], *u = &y->touch[k];
        same = t->buffer == u->buffer && t->read.iv == u->read.iv && t->must_write.iv == u->must_write.iv &&
               t->may_write.iv == u->may_write.iv;
    }
    return same;
}

/* All but the sets themselves. False: it touches a buffer that the launch does not name. */
static bool put_uses(struct writer *w, struct dt_str *out, struct order *o, const struct ana_launch *l)
{
    memo_put(out, l->naccess);
    for (uint32_t i = 0; i < l->naccess; i++) {
        const struct ana_access *x = &l->access[i];
        if (!o->number[x->buffer])
            return false;
        memo_put(out, memo_number(o, x->buffer));
        memo_put(out, x->read);
        memo_put(out, x->write);
        memo_put(out, (unsigned)(x->reads | x->writes << 1 | x->atomics << 2 | x->fp_atomics << 3 | x->widened << 4 |
                                 x->result_used << 5));
        memo_put(out, x->max_width);
        for (unsigned ev = 0; ev < ANA_EVIDENCES; ev++)
            memo_put(out, memo_name(w, x->read_by[ev]));
        for (unsigned ev = 0; ev < ANA_EVIDENCES; ev++)
            memo_put(out, memo_name(w, x->write_by[ev]));
        memo_put(out, memo_name(w, x->must));
        memo_put(out, memo_name(w, x->exact_read));
    }
    for (uint32_t b = 0, end; b < l->nblock; b = end) {
        for (end = b + 1; end < l->nblock && same_touches(&l->block[b], &l->block[end]);)
            end++;
        memo_put(out, end - b);
        memo_put(out, l->block[b].ntouch);
        for (uint32_t k = 0; k < l->block[b].ntouch; k++) {
            const struct ana_touch *t = &l->block[b].touch[k];
            if (!o->number[t->buffer])
                return false;
            memo_put(out, memo_number(o, t->buffer));
            memo_put(out, memo_name(w, t->read));
            memo_put(out, memo_name(w, t->must_write));
            memo_put(out, memo_name(w, t->may_write));
        }
        if (out->len > MOST_BYTES)
            return false;
    }
    return true;
}

static int sign(const char *key, const void *body, size_t n, char sum[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    if (dt_sha256_init(&h))
        return DT_E_NOMEM;
    dt_sha256_addstr(&h, key);
    dt_sha256_add(&h, body, n);
    dt_sha256_final(&h, sum);
    return 0;
}

void ana_memo_keep(struct ana_rec *s, uint32_t launch)
{
    const struct ana_launch *l = &s->r->launch[launch];
    const char *key = s->memo.key ? s->memo.key[launch] : "";
    struct writer w = {0};
    struct order o = {0};
    struct dt_str uses = {0}, body = {0};
    char sum[DT_SHA256_TEXT];
    uint64_t pieces = 0;
    bool ok = *key && order_of(s, launch, &w.a, &o) && put_uses(&w, &uses, &o, l);
    if (ok) {
        memo_put(&body, (unsigned)(l->summarised | l->self_conflict << 1));
        memo_put(&body, l->nblock);
        memo_put(&body, o.n);
        memo_put(&body, w.set.n + 1);
    }
    for (size_t i = 0; ok && i < w.set.n; i++) {
        put_set(&body, w.set.p[i]);
        pieces += w.set.p[i].n;
        ok = body.len <= MOST_BYTES && pieces <= MOST_PIECES;
    }
    if (ok) {
        dt_str_addn(&body, uses.s, uses.len);
        ok = !w.failed && !uses.failed && !body.failed && body.len <= MOST_BYTES && !sign(key, body.s, body.len, sum);
    }
    if (ok) {
        struct dt_str all = {0};
        dt_str_addf(&all, HEAD "%s\n", sum);
        dt_str_addn(&all, body.s, body.len);
        if (!all.failed)
            s->o->memo->put(s->o->memo->user, key, all.s, all.len);
        dt_str_done(&all);
    }
    dt_str_done(&uses);
    dt_str_done(&body);
    free(w.slot);
    free(w.set.p);
    dt_arena_done(&w.a);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
struct reader {
    const uint8_t *p, *end;
    bool bad;
    struct ana_set *set;
    uint64_t nset;
};

static uint64_t memo_get(struct reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; r->p < r->end && shift < 64; shift += 7) {
        uint8_t c = *r->p++;
        v |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80)) {
            r->bad |= shift == 63 && c > 1;
            return r->bad ? 0 : v;
        }
    }
    r->bad = true;
    return 0;
}

static uint64_t get_below(struct reader *r, uint64_t limit)
{
    uint64_t v = memo_get(r);
    r->bad |= v >= limit;
    return r->bad ? 0 : v;
}

static struct ana_set get_name(struct reader *r, uint64_t bytes)
{
    uint64_t k = get_below(r, r->nset);
    struct ana_set x = r->set[k];
    r->bad |= x.n && x.iv[x.n - 1].hi > bytes;
    return r->bad ? (struct ana_set){0} : x;
}

static struct ana_set get_set(struct reader *r, struct dt_arena *a, uint64_t *room)
{
    struct dt_vec(struct ana_interval) v = {0};
    struct ana_set out = {0};
    uint64_t at = 0;
    for (uint64_t n = memo_get(r), k = 0; k < n && !r->bad; k++) {
        uint64_t gap = memo_get(r), len = memo_get(r), pieces = memo_get(r), apart = pieces > 1 ? memo_get(r) : 1;
        r->bad |= (k && !gap) || !len || !pieces || !apart || pieces > *room;
        *room -= r->bad ? 0 : pieces;
        r->bad |= !r->bad && !dt_reserve(&v, v.n + pieces);
        for (uint64_t q = 0; q < pieces && !r->bad; q++) {
            uint64_t lo, hi;
            r->bad |= __builtin_add_overflow(at, q ? apart : gap, &lo) || __builtin_add_overflow(lo, len, &hi);
            if (!r->bad)
                v.p[v.n++] = (struct ana_interval){lo, at = hi};
        }
    }
    r->bad |= !v.n;
    if (!r->bad && (out.iv = dt_new_array(a, struct ana_interval, v.n))) {
        memcpy(out.iv, v.p, v.n * sizeof *v.p);
        out.n = (uint32_t)v.n;
    }
    free(v.p);
    return out;
}

static void get_access(struct ana_rec *s, struct reader *r, const struct order *o, struct ana_access *x)
{
    x->buffer = o->buffer[get_below(r, o->n)];
    uint64_t bytes = s->bytes[x->buffer];
    x->read = (enum ana_evidence)get_below(r, ANA_EVIDENCES);
    x->write = (enum ana_evidence)get_below(r, ANA_EVIDENCES);
    uint64_t bits = get_below(r, 64);
    x->reads = bits & 1, x->writes = bits & 2, x->atomics = bits & 4, x->fp_atomics = bits & 8, x->widened = bits & 16;
    x->result_used = bits & 32;
    x->max_width = (uint32_t)get_below(r, UINT32_MAX);
    for (unsigned ev = 0; ev < ANA_EVIDENCES; ev++)
        x->read_by[ev] = get_name(r, bytes);
    for (unsigned ev = 0; ev < ANA_EVIDENCES; ev++)
        x->write_by[ev] = get_name(r, bytes);
    x->must = get_name(r, bytes);
    x->exact_read = get_name(r, bytes);
}

static void get_blocks(struct ana_rec *s, struct reader *r, const struct order *o, struct dt_arena *a,
                       struct ana_launch *l)
{
    for (uint64_t b = 0; b < l->nblock && !r->bad && !a->failed;) {
        uint64_t alike = get_below(r, l->nblock - b + 1), n = get_below(r, (uint64_t)o->n + 1);
        struct ana_touch *t = dt_new_array(a, struct ana_touch, n + 1);
        r->bad |= !alike;
        for (uint64_t k = 0; t && k < n && !r->bad; k++) {
            t[k].buffer = o->buffer[get_below(r, o->n)];
            t[k].read = get_name(r, s->bytes[t[k].buffer]);
            t[k].must_write = get_name(r, s->bytes[t[k].buffer]);
            t[k].may_write = get_name(r, s->bytes[t[k].buffer]);
        }
        if (!t || r->bad)
            return;
        ana_touch_sort(t, n);
        for (uint64_t k = 1; k < n; k++)
            r->bad |= t[k].buffer == t[k - 1].buffer;
        for (uint64_t k = 0; k < alike; k++)
            l->block[b++] = (struct ana_block){n ? t : NULL, (uint32_t)n};
    }
}

/* 1: the launch as the bytes have it, in `a`. 0: they are not right. */
static int memo_decode(struct ana_rec *s, uint32_t launch, const struct order *o, const char *key, const uint8_t *p,
                       size_t n, struct dt_arena *a, struct ana_launch *ret)
{
    const size_t head = sizeof HEAD - 1, sum_len = DT_SHA256_TEXT - 1;
    char sum[DT_SHA256_TEXT];
    if (n < head + sum_len + 1 || n > MOST_BYTES + head + sum_len + 1 || memcmp(p, HEAD, head) ||
        p[head + sum_len] != '\n')
        return 0;
    struct reader r = {.p = p + head + sum_len + 1, .end = p + n};
    if (sign(key, r.p, (size_t)(r.end - r.p), sum))
        return DT_E_NOMEM;
    if (memcmp(sum, p + head, sum_len))
        return 0;
    struct ana_launch l = {.nblock = s->p->step[launch].blocks};
    uint64_t flags = get_below(&r, 4), room = MOST_PIECES;
    l.summarised = flags & 1;
    l.self_conflict = flags & 2;
    r.bad |= memo_get(&r) != l.nblock;
    r.bad |= memo_get(&r) != o->n || !o->n;
    r.nset = get_below(&r, MOST_PIECES);
    r.bad |= !r.nset || r.nset > n;
    if (r.bad)
        return 0;
    r.set = dt_new_array(a, struct ana_set, r.nset);
    l.block = dt_new_array(a, struct ana_block, (size_t)l.nblock + 1);
    l.access = dt_new_array(a, struct ana_access, (size_t)o->n + 1);
    if (a->failed)
        return DT_E_NOMEM;
    for (uint64_t k = 1; k < r.nset && !r.bad; k++)
        r.set[k] = get_set(&r, a, &room);
    l.naccess = (uint32_t)get_below(&r, (uint64_t)o->n + 1);
    for (uint32_t k = 0; k < l.naccess && !r.bad; k++)
        get_access(s, &r, o, &l.access[k]);
    if (!r.bad) {
        ana_access_sort(l.access, l.naccess);
        for (uint32_t k = 1; k < l.naccess; k++)
            r.bad |= l.access[k].buffer == l.access[k - 1].buffer;
        get_blocks(s, &r, o, a, &l);
    }
    if (a->failed)
        return DT_E_NOMEM;
    if (r.bad || r.p != r.end)
        return 0;
    l.unsummarised = l.summarised ? NULL : "it was recorded before";
    *ret = l;
    return 1;
}

int ana_memo_find(struct ana_rec *s, uint32_t launch)
{
    if (!s->memo.key)
        return 0;
    struct dt_arena tmp = {0}, mine = {0};
    struct order o = {0};
    char *key = s->memo.key[launch];
    void *p = NULL;
    size_t n = 0;
    int rc = order_of(s, launch, &tmp, &o) ? memo_make_key(s, launch, &o, key) : DT_E_NOMEM;
    if (rc < 1)
        *key = 0;
    if (rc == 1 && s->o->memo->get(s->o->memo->user, key, &p, &n) != 1)
        rc = 0;
    if (rc == 1 && (rc = memo_decode(s, launch, &o, key, p, n, &mine, &s->r->launch[launch])) == 0 && s->o->memo->bad)
        s->o->memo->bad(s->o->memo->user, key, "it is no footprint of this launch");
    if (rc == 1) {
        dt_arena_adopt(&s->r->arena, &mine);
        s->summed[launch] = true;
        *key = 0; /* nothing to keep */
    }
    free(p);
    dt_arena_done(&mine);
    dt_arena_done(&tmp);
    return rc;
}
