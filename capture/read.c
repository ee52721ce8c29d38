/* Reads a trace: operations, and the memory that lives meanwhile.
 *
 * Nothing in it is trusted: a record that is torn, or says more than it has, ends the reading there, and what came
 * before is kept; an operation outside every allocation becomes CUT. Copies and memsets of several rows become an
 * operation a row where their rows do not touch. A memset whose value is not one byte again and again is what the host
 * gives (`ours`). Memory of the host counts as the device's where a kernel is given its address.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "capture/capture-priv.h"

#define MAX_TRACE ((size_t)16 << 30)
#define MAX_ROWS 4096u
#define MAX_PATTERN (64u << 20) /* bytes of a memset's pattern */

struct reader {
    struct cap_trace *t;
    struct dt_err *e;
    uint32_t by;                  /* of the record at hand */
    struct dt_vec(uint32_t) live; /* memory that lives now */
};

uint32_t cap_memory_at(const struct cap_trace *t, uint64_t at, uint32_t op)
{
    for (size_t i = t->memory.n; i-- > 0;) {
        const struct cap_memory *m = &t->memory.p[i];
        if (at >= m->at && at - m->at < m->bytes && m->born <= op && op < m->died)
            return (uint32_t)i;
    }
    return CAP_NONE;
}

static uint32_t now(const struct reader *r) { return (uint32_t)r->t->op.n; }

/* cap_memory_at, now. */
static uint32_t memory_now(const struct reader *r, uint64_t at)
{
    for (size_t i = r->live.n; i-- > 0;) {
        const struct cap_memory *m = &r->t->memory.p[r->live.p[i]];
        if (at >= m->at && at - m->at < m->bytes)
            return r->live.p[i];
    }
    return CAP_NONE;
}

static void memory_died(struct reader *r, uint32_t mem)
{
    r->t->memory.p[mem].died = now(r);
    for (size_t i = 0; i < r->live.n; i++)
        if (r->live.p[i] == mem)
            r->live.p[i--] = r->live.p[--r->live.n];
}

static int nomem(struct reader *r) { return dt_err_set(r->e, DT_E_NOMEM, "out of memory"); }

static int op_add(struct reader *r, struct cap_op o)
{
    if (r->t->op.n >= CAP_MAX_OPS)
        return dt_err_set(r->e, DT_E_TOO_LARGE, "the program makes more than %u launches and copies", CAP_MAX_OPS);
    o.by = r->by;
    return dt_push(&r->t->op, o) ? 0 : nomem(r);
}

static int op_cut(struct reader *r, const char *why) { return op_add(r, (struct cap_op){.kind = CAP_CUT, .why = why}); }

static int add_memory(struct reader *r, uint64_t at, uint64_t bytes, uint32_t how, uint32_t image, const char *name)
{
    uint32_t old = memory_now(r, at);
    if (old != CAP_NONE && image != CAP_NONE)
        return 0; /* a variable that was asked for before */
    if (old != CAP_NONE)
        memory_died(r, old);
    struct cap_memory m = {at, bytes, how, now(r), CAP_NONE, image, name, false, false, NULL, NULL, NULL};
    if (!bytes || bytes > UINT64_C(1) << 38)
        return 0;
    return dt_push(&r->live, (uint32_t)r->t->memory.n) && dt_push(&r->t->memory, m) ? 0 : nomem(r);
}

static bool add_point(struct reader *r, struct cap_op *o, uint32_t param, uint32_t at, uint64_t address)
{
    uint32_t mem = memory_now(r, address);
    if (mem == CAP_NONE)
        return true;
    struct cap_point *p = dt_new_array(&r->t->arena, struct cap_point, o->npoint + 1);
    if (!p)
        return false;
    if (o->npoint)
        memcpy(p, o->point, o->npoint * sizeof *p);
    p[o->npoint++] = (struct cap_point){address - r->t->memory.p[mem].at, 1, param, at, mem, CAP_NONE};
    o->point = p;
    r->t->memory.p[mem].used = true;
    return true;
}

/* The point of a copy's side; false: it is in no memory, or reaches over its end. */
static bool read_side(struct reader *r, struct cap_op *o, uint32_t which, uint64_t address, uint64_t bytes)
{
    uint32_t mem = memory_now(r, address);
    if (mem == CAP_NONE || bytes > r->t->memory.p[mem].bytes - (address - r->t->memory.p[mem].at))
        return false;
    bool used = r->t->memory.p[mem].used;
    if (!add_point(r, o, which, 0, address))
        return false;
    /* the host's own copies are no use of its memory by the device */
    r->t->memory.p[mem].used = used || r->t->memory.p[mem].how != CAP_HOST;
    return true;
}

/* ---- records ---- */
/* What a record begins with, into `head`; *p and *n are what is behind it. false: the record is shorter. */
static bool take_head(void *head, size_t bytes, const uint8_t **p, size_t *n)
{
    if (*n < bytes)
        return false;
    memcpy(head, *p, bytes);
    *p += bytes;
    *n -= bytes;
    return true;
}

static int read_launch(struct reader *r, const uint8_t *p, size_t n)
{
    struct cap_op o = {.kind = CAP_KERNEL};
    if (!take_head(&o.launch, sizeof o.launch, &p, &n))
        return 1;
    size_t params = (size_t)o.launch.nparam * sizeof *o.param;
    if (o.launch.nparam > 4096 || o.launch.total > 32764 || n != params + o.launch.total)
        return 1;
    o.stream = o.launch.stream;
    o.param = (const struct cap_param *)p;
    o.block = p + params;
    for (uint32_t i = 0; i < o.launch.nparam; i++)
        if (o.param[i].at > o.launch.total || o.param[i].bytes > o.launch.total - o.param[i].at)
            return 1;
    for (uint32_t i = 0; i < o.launch.nparam; i++)
        for (uint32_t at = 0; at + 8 <= o.param[i].bytes; at += 8) {
            uint64_t v;
            memcpy(&v, o.block + o.param[i].at + at, 8);
            if (!add_point(r, &o, i, at, v))
                return nomem(r);
        }
    return op_add(r, o);
}

static int read_set(struct reader *r, const uint8_t *p, size_t n)
{
    struct cap_set s;
    if (n != sizeof s)
        return 1;
    memcpy(&s, p, sizeof s);
    if ((s.element != 1 && s.element != 2 && s.element != 4) || s.width > UINT64_C(1) << 38 || s.height > UINT32_MAX)
        return 1;
    uint64_t row = s.width * s.element, rows = s.height;
    if (row == s.pitch || rows == 1)
        row *= rows, rows = 1;
    if (rows > MAX_ROWS)
        return op_cut(r, "a memset of very many rows");
    uint8_t b[4];
    memcpy(b, &s.value, 4);
    bool even = true;
    for (uint32_t i = 1; i < s.element; i++)
        even = even && b[i] == b[0];
    uint8_t *pattern = NULL;
    if (!even) {
        pattern = row <= MAX_PATTERN ? dt_arena_alloc(&r->t->arena, row) : NULL;
        if (!pattern)
            return row <= MAX_PATTERN ? nomem(r) : op_cut(r, "a memset of a pattern over very many bytes");
        for (uint64_t i = 0; i < row; i++)
            pattern[i] = b[i % s.element];
    }
    int err = 0;
    for (uint64_t i = 0; i < rows && !err; i++) {
        struct cap_op o = {.kind = even ? CAP_MEMSET : CAP_GIVE,
                           .stream = s.stream,
                           .bytes = row,
                           .value = b[0],
                           .data = pattern,
                           .ours = !even};
        err = read_side(r, &o, 0, s.at + i * s.pitch, row) ? op_add(r, o)
                                                           : op_cut(r, "a memset of memory that is not known");
    }
    return err;
}

static bool host_memory(const struct reader *r, uint64_t at)
{
    uint32_t m = memory_now(r, at);
    return m != CAP_NONE && r->t->memory.p[m].how == CAP_HOST && r->t->memory.p[m].used;
}

static int read_copy(struct reader *r, const uint8_t *p, size_t n)
{
    struct cap_copy c;
    if (!take_head(&c, sizeof c, &p, &n))
        return 1;
    const uint8_t *data = c.flags & CAP_BYTES ? p : NULL;
    if (c.width > UINT64_C(1) << 38 || c.height > UINT32_MAX || (data && n != c.width * c.height))
        return 1;
    bool own = c.to == c.from; /* the host wrote there itself */
    bool from_host = c.flags & CAP_FROM_HOST && (own || !host_memory(r, c.from));
    bool to_host = c.flags & CAP_TO_HOST && !host_memory(r, c.to);
    uint32_t at = own ? memory_now(r, c.to) : CAP_NONE;
    if ((from_host && to_host) || (at != CAP_NONE && r->t->memory.p[at].how == CAP_HOST && !r->t->memory.p[at].used))
        return 0;
    uint64_t row = c.width, rows = c.height;
    if (rows == 1 || (row == c.to_pitch && row == c.from_pitch))
        row *= rows, rows = 1;
    if (rows > MAX_ROWS)
        return op_cut(r, "a copy of very many rows");
    int err = 0;
    for (uint64_t i = 0; i < rows && !err; i++) {
        struct cap_op o = {.kind = from_host ? CAP_GIVE
                                   : to_host ? CAP_TAKE
                                             : CAP_DEVICE_COPY,
                           .stream = c.stream,
                           .host = own,
                           .bytes = row,
                           .data = from_host && data ? data + i * c.width : NULL,
                           .number = c.number};
        bool ok = (to_host || read_side(r, &o, 0, c.to + i * c.to_pitch, row)) &&
                  (from_host || read_side(r, &o, 1, c.from + i * c.from_pitch, row));
        err = ok ? op_add(r, o) : op_cut(r, "a copy of memory that is not known");
    }
    return err;
}

static int read_seen(struct reader *r, const uint8_t *p, size_t n)
{
    struct cap_seen s;
    if (!take_head(&s, sizeof s, &p, &n))
        return 1;
    uint64_t at = 0;
    size_t i = r->t->op.n;
    while (i > 0 && !(r->t->op.p[i - 1].kind == CAP_TAKE && r->t->op.p[i - 1].number == s.number))
        i--;
    while (i > 1 && r->t->op.p[i - 2].kind == CAP_TAKE && r->t->op.p[i - 2].number == s.number)
        i--;
    for (; i > 0 && i <= r->t->op.n && r->t->op.p[i - 1].number == s.number; i++) {
        struct cap_op *o = &r->t->op.p[i - 1];
        if (o->bytes > n - at)
            break;
        o->data = p + at;
        at += o->bytes;
    }
    return 0;
}

static const char *read_text(struct reader *r, const uint8_t *p, size_t n)
{
    return dt_arena_strndup(&r->t->arena, (const char *)p, n);
}

static int read_image(struct reader *r, const uint8_t *p, size_t n)
{
    struct cap_image_head h;
    if (!take_head(&h, sizeof h, &p, &n))
        return 1;
    struct cap_image i = {.form = h.form, .data = p, .len = n, .number = CAP_NONE};
    return h.image != r->t->image.n ? 1 : dt_push(&r->t->image, i) ? 0 : nomem(r);
}

static int read_function(struct reader *r, const uint8_t *p, size_t n)
{
    struct cap_function f;
    if (!take_head(&f, sizeof f, &p, &n))
        return 1;
    struct cap_entry x = {read_text(r, p, n), f.image < r->t->image.n ? f.image : CAP_NONE, NULL};
    return f.function != r->t->entry.n ? 1 : dt_push(&r->t->entry, x) ? 0 : nomem(r);
}

static int read_variable(struct reader *r, const uint8_t *p, size_t n)
{
    struct cap_variable v;
    if (!take_head(&v, sizeof v, &p, &n))
        return 1;
    const char *name = read_text(r, p, n);
    return v.image < r->t->image.n ? add_memory(r, v.at, v.bytes, CAP_DEVICE_MEMORY, v.image, name) : 0;
}

static int read_one(struct reader *r, uint32_t kind, const uint8_t *p, size_t n)
{
    struct cap_alloc a;
    struct cap_free f;
    struct cap_event x = {.op = now(r), .by = r->by};
    struct cap_device d;
    switch (kind) {
    case CAP_DEVICE:
        if (n != sizeof d)
            return 1;
        memcpy(&d, p, sizeof d);
        r->t->cc = d.cc;
        return 0;
    case CAP_ALLOC:
        if (n != sizeof a)
            return 1;
        memcpy(&a, p, sizeof a);
        return add_memory(r, a.at, a.bytes, a.how, CAP_NONE, NULL);
    case CAP_FREE:
        if (n != sizeof f)
            return 1;
        memcpy(&f, p, sizeof f);
        uint32_t m = memory_now(r, f.at);
        if (m != CAP_NONE && r->t->memory.p[m].at == f.at)
            memory_died(r, m);
        return 0;
    case CAP_LAUNCH: return read_launch(r, p, n);
    case CAP_SET: return read_set(r, p, n);
    case CAP_COPY: return read_copy(r, p, n);
    case CAP_SEEN: return read_seen(r, p, n);
    case CAP_ORDER:
        if (n != sizeof x.order)
            return 1;
        memcpy(&x.order, p, n);
        return dt_push(&r->t->event, x) ? 0 : nomem(r);
    case CAP_UNTAKEN: return op_cut(r, read_text(r, p, n));
    case CAP_MAP:
        if (n != sizeof(struct cap_map))
            return 1;
        struct cap_map map;
        memcpy(&map, p, n);
        return map.rank < 1 || map.rank > 5 ? 1 : dt_push(&r->t->map, map) ? 0 : nomem(r);
    case CAP_END: r->t->ended = true; return 0;
    case CAP_IMAGE: return read_image(r, p, n);
    case CAP_FUNCTION: return read_function(r, p, n);
    case CAP_VARIABLE: return read_variable(r, p, n);
    default: return 1;
    }
}

/* used: which memory kernels are given, of n that an earlier reading found. */
static int read_all(struct reader *r, const uint8_t *p, size_t len, const struct cap_memory *found, size_t n)
{
    int err = 0;
    for (size_t at = 16, i = 0; !err && len - at >= sizeof(struct cap_head);) {
        struct cap_head h;
        memcpy(&h, p + at, sizeof h);
        at += sizeof h;
        if (!h.kind || h.kind >= CAP_KINDS || h.bytes > len - at)
            break;
        r->by = h.by;
        err = read_one(r, h.kind, p + at, h.bytes);
        for (; i < r->t->memory.n && i < n; i++)
            r->t->memory.p[i].used = found[i].used;
        size_t room = h.bytes + (-h.bytes & 7);
        at += room < len - at ? room : len - at;
    }
    if (err > 0) { /* a record that is none: what came before it counts */
        r->t->ended = false;
        err = 0;
    }
    return err < 0 ? err : dt_arena_failed(&r->t->arena) ? nomem(r) : 0;
}

int cap_read(const char *path, struct cap_trace **ret, struct dt_err *e)
{
    size_t len;
    struct cap_trace *t = dt_calloc(1, sizeof *t);
    struct reader r = {.t = t, .e = e};
    if (!t)
        return nomem(&r);
    int err = dt_read_file(path, MAX_TRACE, &t->file, &len, e);
    const uint8_t *p = (const uint8_t *)t->file;
    if (!err && (len < 16 || memcmp(p, CAP_MAGIC, 16) != 0))
        err = dt_err_set(e, DT_E_IO, "%s: no trace", path);
    if (!err)
        err = read_all(&r, p, len, NULL, 0);
    if (!err) { /* again: copies before the launch that shows what the host's memory is for */
        struct cap_memory *found = t->memory.p;
        size_t n = t->memory.n;
        memset(&t->memory, 0, sizeof t->memory);
        t->op.n = t->image.n = t->entry.n = t->event.n = t->map.n = r.live.n = 0;
        t->ended = false;
        err = read_all(&r, p, len, found, n);
        free(found);
    }
    free(r.live.p);
    if (err < 0)
        t = cap_trace_free(t);
    *ret = t;
    return err;
}
