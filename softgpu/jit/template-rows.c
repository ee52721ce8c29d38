/* Rows of a basic block in vector registers: see template-priv.h.
 *
 * A piece is read into a register when it is first used, and written back at the end of the block or before a handler.
 * When registers run out, the piece goes that is used again last (the block is straight code, so that is known): what
 * an operation touches is found for the whole block before its code is made.
 */
#include "softgpu/jit/template-priv.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/alloc.h"

enum { RANGE_CANON = 4 }; /* vrangeps: the smaller one, its own sign; of a NaN and a number, the number */

int32_t sg_template_key(uint32_t ref, unsigned piece)
{
    unsigned base = (ref & 3) == 3 ? 0 : ref & 3;
    return (int32_t)(((ref >> 6) + piece) << 2 | base);
}

static struct piece *rows_piece_of(struct template *m, int32_t key)
{
    uint32_t base = (uint32_t)key & 3, at = (uint32_t)key >> 2;
    if (at < m->pieces[base])
        return &m->piece[base][at];
    static struct piece none;
    m->failed = true;
    none = (struct piece){.slot = -1, .next = UINT32_MAX};
    return &none;
}

/* ---- what comes when --------------------------------------------------------------------------------------------- */
static void occurs(struct template *m, uint32_t ref, unsigned kind, bool whole)
{
    if (kind == PRED || ref == SG_NONE)
        return;
    for (unsigned p = 0; p < (kind == ROW64 ? 4u : 2u); p++)
        if (!dt_push(&m->occ, (struct occurrence){sg_template_key(ref, p), whole, false, UINT32_MAX}))
            m->failed = true;
}

/* Of an operation's occurrences from `from` on: what is read is not written whole, whatever the order. */
static void occurs_read(struct template *m, size_t from)
{
    for (size_t k = from; k < m->occ.n; k++)
        for (size_t j = from; m->occ.p[k].whole && j < m->occ.n; j++)
            if (!m->occ.p[j].whole && m->occ.p[j].key == m->occ.p[k].key)
                m->occ.p[k].whole = false;
}

bool sg_template_scan(struct template *m, uint32_t from, uint32_t end)
{
    m->occ.n = m->occ_of.n = m->number.n = 0;
    m->first = from;
    for (uint32_t i = from; i < end && !m->failed; i++) {
        const struct sg_op *op = &m->c->op[i];
        int h = i == from ? -1 : sg_jit_lane_number(op->fn == sg_guarded ? op->inner : op->fn);
        if (h >= 0 && (!sg_template_knows(op, h) || (m->masked && h == SG_H_SHFL)))
            h = -1;
        if (!dt_push(&m->occ_of, (uint32_t)m->occ.n) || !dt_push(&m->number, (int16_t)h))
            return false;
        if (h < 0)
            continue;
        struct rows r;
        r.reads = r.writes = 0;
        r.all = false;
        sg_jit_lane_rows(h, op, m->c, &r);
        size_t begin = m->occ.n;
        for (unsigned k = 0; k < r.reads; k++)
            occurs(m, r.read[k], r.read_kind[k], false);
        for (unsigned k = 0; k < r.writes; k++)
            occurs(m, r.write[k], r.write_kind[k], !m->masked && op->fn != sg_guarded);
        occurs_read(m, begin);
    }
    if (m->failed || !dt_push(&m->occ_of, (uint32_t)m->occ.n))
        return false;
    uint32_t call = UINT32_MAX; /* the next operation whose handler is called: nothing stays in a register */
    for (uint32_t i = end; i-- > from;) {
        uint32_t a = m->occ_of.p[i - from], b = m->occ_of.p[i - from + 1];
        if (m->number.p[i - from] < 0)
            call = i;
        for (uint32_t k = a; k < b; k++) {
            const struct piece *q = rows_piece_of(m, m->occ.p[k].key);
            bool comes = q->next > i && q->next < end && q->next < call;
            m->occ.p[k].next = comes ? q->next : UINT32_MAX;
            m->occ.p[k].dead = comes && q->dead;
        }
        for (uint32_t k = a; k < b; k++) {
            struct piece *q = rows_piece_of(m, m->occ.p[k].key);
            q->next = i;
            q->dead = m->occ.p[k].whole;
        }
    }
    return !m->failed;
}

int32_t sg_template_bias(const struct sg_code *c)
{
    enum { GRAIN = 512, WINDOW = 2 * TEMPLATE_BIAS / GRAIN };
    const uint32_t n = (uint32_t)c->reg_bytes / GRAIN + 1;
    dt_free_ uint32_t *count = n > WINDOW ? dt_calloc(n, sizeof *count) : NULL;
    if (!count)
        return TEMPLATE_BIAS;
    for (uint32_t i = 0; i < c->nop; i++) {
        int h = sg_jit_lane_number(c->op[i].fn == sg_guarded ? c->op[i].inner : c->op[i].fn);
        const uint32_t ref[] = {c->op[i].d, c->op[i].a, c->op[i].b, c->op[i].c};
        for (unsigned k = 0; h >= 0 && k < 4; k++)
            if (!(ref[k] & 63) && ref[k] / GRAIN < n)
                count[ref[k] / GRAIN]++;
    }
    uint64_t most = 0, sum = 0;
    uint32_t best = 0;
    for (uint32_t end = 0; end < n; end++) {
        sum += count[end];
        if (end >= WINDOW)
            sum -= count[end - WINDOW];
        if (sum > most)
            most = sum, best = end < WINDOW ? 0 : end + 1 - WINDOW;
    }
    return (int32_t)(best * GRAIN) + TEMPLATE_BIAS;
}

void sg_template_begin(struct template *m, uint32_t op)
{
    m->at = op;
    for (uint32_t k = m->occ_of.p[op - m->first]; k < m->occ_of.p[op - m->first + 1]; k++) {
        struct piece *q = rows_piece_of(m, m->occ.p[k].key);
        q->next = m->occ.p[k].next;
        q->dead = m->occ.p[k].dead;
        q->seen = op;
    }
}

/* ---- registers --------------------------------------------------------------------------------------------------- */
struct sg_x86_mem sg_template_place(struct template *m, int32_t key)
{
    unsigned base = (unsigned)key & 3;
    int32_t at = (key >> 2) * 64;
    if (base == 2) {
        sg_x86_load(&m->x, RAX, SG_AT(RBX, offsetof(struct sg_warp, base) + 2 * sizeof(void *)), true);
        return SG_AT(RAX, at);
    }
    return base == 0 ? SG_AT(RBP, at - m->t->bias) : SG_AT(R12, at - TEMPLATE_BIAS);
}

struct sg_x86_mem sg_template_scalar(struct template *m, uint32_t ref)
{
    struct sg_x86_mem p = sg_template_place(m, sg_template_key(ref, 0));
    p.disp += (int32_t)(ref & 60);
    return p;
}

void sg_template_nan(struct template *m)
{
    if (!m->nan)
        sg_x86_vm(&m->x, V_SPREAD32, ZNAN, 0, TABLE(nan32), -1);
    m->nan = true;
}

void sg_template_canon(struct template *m, unsigned d, unsigned s, enum raw_kind raw)
{
    if (raw == RAW32) {
        sg_template_nan(m);
        sg_x86_v(&m->x, V_RANGEPS, d, ZNAN, s, RANGE_CANON);
    } else {
        sg_x86_vm(&m->x, V_SPREAD64, ZNAN, 0, TABLE(nan64), -1);
        sg_x86_v(&m->x, V_RANGEPD, d, ZNAN, s, RANGE_CANON);
        m->nan = false;
    }
}

static void clean(struct template *m, unsigned i)
{
    if (m->slot[i].raw)
        sg_template_canon(m, i, i, (enum raw_kind)m->slot[i].raw);
    m->slot[i].raw = NOT_RAW;
}

static void write_back(struct template *m, unsigned i)
{
    if (!m->slot[i].dirty)
        return;
    clean(m, i);
    sg_x86_vm(&m->x, V_STOREU32, i, 0, sg_template_place(m, m->slot[i].key), -1);
    m->slot[i].dirty = false;
}

/* Nobody reads what the piece holds. Before its first operation in the block, `dead` says what that one does. */
static bool rows_dead(const struct template *m, const struct piece *q) { return q->dead && q->seen != m->at; }

/* A register for the piece, whatever is in it; it is the piece's from now on. */
static unsigned slot_take(struct template *m, int32_t key)
{
    unsigned best = SLOTS;
    uint32_t far = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        const struct slot *s = &m->slot[i];
        if (s->key == NO_KEY) {
            best = i;
            break;
        }
        if (s->pinned == m->at + 1)
            continue;
        const struct piece *q = rows_piece_of(m, s->key);
        if (rows_dead(m, q)) {
            best = i;
            break;
        }
        uint32_t next = q->next;
        /* of those that do not come again, one that need not be written */
        uint64_t rank = 2 * (uint64_t)next + !s->dirty;
        if (best == SLOTS || rank > 2 * (uint64_t)far + !m->slot[best].dirty) {
            best = i;
            far = next;
        }
    }
    if (best == SLOTS) {
        m->failed = true;
        return 0;
    }
    if (m->slot[best].key != NO_KEY) {
        struct piece *q = rows_piece_of(m, m->slot[best].key);
        if (!rows_dead(m, q) && m->slot[best].dirty && m->slot[best].raw && q->next != UINT32_MAX) {
            sg_x86_vm(&m->x, V_STOREU32, best, 0, sg_template_place(m, m->slot[best].key), -1);
            q->raw = m->slot[best].raw;
            m->put_by++;
        } else if (!rows_dead(m, q)) {
            write_back(m, best);
        }
        q->slot = -1;
    }
    m->slot[best] = (struct slot){.key = key, .pinned = m->at + 1};
    rows_piece_of(m, key)->slot = (int8_t)best;
    return best;
}

/* What memory has of the piece is nobody's any more; what it was. */
static enum raw_kind rows_overtaken(struct template *m, struct piece *q)
{
    enum raw_kind raw = (enum raw_kind)q->raw;
    m->put_by -= raw != NOT_RAW;
    q->raw = NOT_RAW;
    return raw;
}

static unsigned rows_fetch(struct template *m, int32_t key)
{
    unsigned s = slot_take(m, key);
    sg_x86_vm(&m->x, V_LOADU32, s, 0, sg_template_place(m, key), -1);
    m->slot[s].raw = (uint8_t)rows_overtaken(m, rows_piece_of(m, key));
    m->slot[s].dirty = m->slot[s].raw != NOT_RAW;
    return s;
}

unsigned sg_template_get(struct template *m, uint32_t ref, unsigned piece, bool bits)
{
    int32_t key = sg_template_key(ref, piece);
    int s = rows_piece_of(m, key)->slot;
    if (s < 0)
        s = (int)rows_fetch(m, key);
    m->slot[s].pinned = m->at + 1;
    if (bits)
        clean(m, (unsigned)s);
    return (unsigned)s;
}

/* The piece is written: what is known of it as an address is not true any more. */
static void facts_end(struct template *m, int32_t key)
{
    for (unsigned f = 0; f < FACTS; f++) {
        int32_t first = m->fact[f].key >> 2, at = key >> 2;
        if (m->fact[f].key != NO_KEY && !((key ^ m->fact[f].key) & 3) && at >= first &&
            at < first + (m->fact[f].wide ? 4 : 2))
            m->fact[f].key = NO_KEY;
    }
}

unsigned sg_template_out(struct template *m, uint32_t ref, unsigned piece, enum raw_kind raw, bool keep)
{
    int32_t key = sg_template_key(ref, piece);
    int s = rows_piece_of(m, key)->slot;
    facts_end(m, key);
    if (s < 0 && keep) {
        s = (int)rows_fetch(m, key);
    } else if (s < 0) {
        rows_overtaken(m, rows_piece_of(m, key));
        s = (int)slot_take(m, key);
    }
    if (keep && m->slot[s].raw && m->slot[s].raw != raw)
        clean(m, (unsigned)s);
    m->slot[s].pinned = m->at + 1;
    m->slot[s].dirty = true;
    m->slot[s].raw = (uint8_t)raw;
    return (unsigned)s;
}

bool sg_template_near(struct template *m, uint32_t ref, unsigned piece)
{
    const struct piece *p = rows_piece_of(m, sg_template_key(ref, piece));
    return p->slot >= 0 || p->raw || (!p->dead && p->next != UINT32_MAX && p->next - m->at < 200);
}

bool sg_template_become(struct template *m, uint32_t from, uint32_t to, unsigned piece, enum raw_kind raw,
                        unsigned *ret_slot)
{
    int32_t old = sg_template_key(from, piece), key = sg_template_key(to, piece);
    struct piece *p = rows_piece_of(m, old), *q = rows_piece_of(m, key);
    if (old == key || p->slot < 0 || !p->dead || (m->slot[p->slot].raw && m->slot[p->slot].raw != raw))
        return false;
    facts_end(m, key);
    facts_end(m, old);
    rows_overtaken(m, q);
    if (q->slot >= 0)
        m->slot[q->slot] = (struct slot){.key = NO_KEY};
    q->slot = p->slot;
    p->slot = -1;
    m->slot[q->slot] = (struct slot){.key = key, .dirty = true, .raw = (uint8_t)raw, .pinned = m->at + 1};
    *ret_slot = (unsigned)q->slot;
    return true;
}

bool sg_template_is_raw(struct template *m, uint32_t ref, unsigned piece)
{
    int s = rows_piece_of(m, sg_template_key(ref, piece))->slot;
    return s >= 0 && m->slot[s].raw;
}

struct operand sg_template_operand(struct template *m, uint32_t ref, unsigned piece, bool bits)
{
    if (sg_template_near(m, ref, piece))
        return (struct operand){.in_register = true, .slot = sg_template_get(m, ref, piece, bits)};
    return (struct operand){.at = sg_template_place(m, sg_template_key(ref, piece))};
}

void sg_template_op(struct template *m, enum sg_x86_v v, unsigned d, unsigned a, const struct operand *b, int imm)
{
    if (b->in_register)
        sg_x86_v(&m->x, v, d, a, b->slot, imm);
    else
        sg_x86_vm(&m->x, v, d, a, b->at, imm);
}

void sg_template_write_row(struct template *m, uint32_t ref, bool wide)
{
    for (unsigned p = 0; p < (wide ? 4u : 2u); p++) {
        const struct piece *q = rows_piece_of(m, sg_template_key(ref, p));
        if (q->raw)
            sg_template_get(m, ref, p, true);
        if (q->slot >= 0)
            write_back(m, (unsigned)q->slot);
    }
}

void sg_template_drop_row(struct template *m, uint32_t ref, bool wide)
{
    for (unsigned p = 0; p < (wide ? 4u : 2u); p++) {
        int32_t key = sg_template_key(ref, p);
        struct piece *x = rows_piece_of(m, key);
        facts_end(m, key);
        rows_overtaken(m, x);
        if (x->slot >= 0)
            m->slot[x->slot] = (struct slot){.key = NO_KEY};
        x->slot = -1;
    }
}

void sg_template_trim(struct template *m)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (m->slot[i].key != NO_KEY && m->slot[i].pinned != m->at + 1) {
            struct piece *q = rows_piece_of(m, m->slot[i].key);
            if (!rows_dead(m, q) && q->next != UINT32_MAX)
                continue;
            if (!rows_dead(m, q))
                write_back(m, i);
            q->slot = -1;
            m->slot[i] = (struct slot){.key = NO_KEY};
        }
}

void sg_template_flush(struct template *m)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (m->slot[i].key != NO_KEY)
            write_back(m, i);
    if (m->put_by) /* it does not happen: they have come again */
        m->failed = true;
}

void sg_template_forget(struct template *m)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        if (m->slot[i].key != NO_KEY)
            rows_piece_of(m, m->slot[i].key)->slot = -1;
        m->slot[i] = (struct slot){.key = NO_KEY};
    }
    for (unsigned f = 0; f < FACTS; f++)
        m->fact[f].key = NO_KEY;
    m->nan = false;
}

void sg_template_save(struct template *m, const struct slot *slot, int32_t key)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (slot[i].key != NO_KEY && slot[i].dirty && (key == NO_KEY || slot[i].key == key)) {
            if (slot[i].raw)
                sg_template_canon(m, i, i, (enum raw_kind)slot[i].raw);
            sg_x86_vm(&m->x, V_STOREU32, i, 0, sg_template_place(m, slot[i].key), -1);
        }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
/* Where piece p of the result is made: a temporary where it is merged afterwards. */
unsigned sg_template_to(struct template *m, uint32_t ref, unsigned p, enum raw_kind raw)
{
    return m->guard ? T0 : sg_template_out(m, ref, p, raw, false);
}

/* Lanes that the guard leaves out may have any bits, those of NaNs, too: what is merged with them is not raw. */
void sg_template_done(struct template *m, uint32_t ref, unsigned p, enum raw_kind raw, bool wide)
{
    if (!m->guard)
        return;
    if (raw)
        sg_template_canon(m, T0, T0, raw);
    sg_x86_vk(&m->x, wide ? V_LOAD64 : V_LOAD32, sg_template_out(m, ref, p, NOT_RAW, true), 0, T0, -1, m->guard + p,
              false);
}

/* Subnormals of register s to zero, in register d. */
void sg_template_flushed(struct template *m, unsigned d, unsigned s)
{
    if (d != s)
        sg_x86_v(&m->x, V_LOAD32, d, 0, s, -1);
    sg_x86_vmb(&m->x, V_TESTN32, 7, s, TABLE(exponent), -1);
    sg_x86_vmk(&m->x, V_AND32, d, s, TABLE(sign), -1, 7, false, true);
}

/* The result is in T0. */
void sg_template_made(struct template *m, uint32_t ref, unsigned p, enum raw_kind raw, bool wide)
{
    if (!m->guard)
        sg_x86_v(&m->x, V_LOAD32, sg_template_out(m, ref, p, raw, false), 0, T0, -1);
    sg_template_done(m, ref, p, raw, wide);
}

/* A NaN of memory may be a signalling one: with the other operand a NaN, vrangeps makes it quiet. */
unsigned sg_template_quiet(struct template *m, unsigned t, uint32_t ref, unsigned p)
{
    unsigned s = sg_template_get(m, ref, p, false);
    if (sg_template_is_raw(m, ref, p))
        return s;
    sg_template_canon(m, t, s, RAW32);
    return t;
}
