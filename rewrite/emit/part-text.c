/* What a part of a kernel has before its body (part.h): predicates that say which of its instructions a thread makes,
 * and zeros in shared memory where nobody writes any more.
 *
 *   and.b32 %bits, T, 4;               the threads with bit 2 of their number clear
 *   setp.eq.u32 %among, %bits, 0;
 *   mad.lo.u32 %to, T, 16, SMEM;       8192 bytes by 128 threads
 *   st.shared.v4.b32 [%to], {0, …};    four of these, 2048 bytes apart
 */
#include "rewrite/emit/join.h"

#include <stdio.h>

static int text_nomem(struct rw_join *j) { return dt_err_set(j->e, DT_E_NOMEM, "out of memory"); }

int rw_emit_among(struct rw_join *j, struct rw_phase *p, const struct ptx_function *f, uint32_t t)
{
    int r = 0;
    if (!p->only)
        return 0;
    p->among = dt_new_array(&j->c->arena, struct rw_among, f->ninst + 1);
    uint32_t bits = ptx_reg_new(j->f, PTX_B32, "dt_bits");
    if (!p->among || bits == PTX_NO_REG)
        return text_nomem(j);
    for (uint32_t n = 0; n < f->ninst && r == 0; n++) {
        struct rw_among q = {p->only[n], PTX_NO_REG};
        uint32_t k = 0;
        while (k < p->namong && (p->among[k].set.bits != q.set.bits || p->among[k].set.value != q.set.value))
            k++;
        if (!p->mask[n] || !q.set.bits || k < p->namong)
            continue;
        if ((q.pred = ptx_reg_new(j->f, PTX_PRED, "dt_among")) == PTX_NO_REG)
            return text_nomem(j);
        const char *B = rw_rname(j, bits);
        r = rw_emit(j, "and.b32 %s, %s, %u;", B, rw_rname(j, t), q.set.bits);
        if (r == 0)
            r = rw_emit(j, "setp.eq.u32 %s, %s, %u;", rw_rname(j, q.pred), B, q.set.value);
        p->among[p->namong++] = q;
    }
    return r;
}

/* One range: thread t has its places at t times the width, and so on by as many as all threads have. */
static int emit_zero(struct rw_join *j, const struct rw_zero *z, uint32_t t, uint32_t threads)
{
    uint32_t width = rw_zero_width(z), to = ptx_reg_new(j->f, PTX_B32, "dt_to"),
             inside = ptx_reg_new(j->f, PTX_PRED, "dt_inside");
    if (to == PTX_NO_REG || inside == PTX_NO_REG)
        return text_nomem(j);
    const char *TO = rw_rname(j, to), *IN = rw_rname(j, inside);
    int r = rw_emit(j, "mov.u32 %s, %s;", TO, j->smem->name);
    if (r == 0)
        r = rw_emit(j, "mad.lo.u32 %s, %s, %u, %s;", TO, rw_rname(j, t), width, TO);
    for (uint32_t at = 0; at < z->bytes && r == 0; at += width * threads) {
        uint32_t left = (z->bytes - at) / width;
        char guard[160] = "";
        if (left < threads) {
            r = rw_emit(j, "setp.lt.u32 %s, %s, %u;", IN, rw_rname(j, t), left);
            snprintf(guard, sizeof guard, "@%s ", IN);
        }
        if (r == 0 && width == 16)
            r = rw_emit(j, "%sst.shared.v4.b32 [%s+%u], {0, 0, 0, 0};", guard, TO, z->at + at);
        else if (r == 0)
            r = rw_emit(j, "%sst.shared.b%u [%s+%u], 0;", guard, width * 8, TO, z->at + at);
    }
    return r;
}

int rw_emit_zeros(struct rw_join *j, int side, uint32_t t)
{
    const struct rw_share *s = j->c->shares ? &j->c->shares[side] : NULL;
    int r = 0;
    for (uint32_t k = 0; s && s->keep && k < s->nzero && r == 0; k++)
        r = emit_zero(j, &s->zero[k], t, j->c->facts.body[side].threads);
    return r;
}
