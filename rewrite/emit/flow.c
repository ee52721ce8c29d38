/* Flags between blocks of one launch: the static check, the table, and the text around the bodies.
 *
 *   if (t == 0) slot = atom.relaxed.gpu.add(scratch, 1);
 *   barrier;  v = slot;                                        if v >= n the scratch was not cleared: assertion,
 *                                                              "flag:4294967295"
 *   for (i = wait_at[v] + t; i < wait_at[v + 1]; i += threads) each flag is awaited by one thread
 *       for (polls = 0; ld.acquire.gpu(flag(wait[i])) < count[wait[i]]; polls++) {
 *           if (polls == RW_FLOW_POLLS) assertion, "flag:N";   __assertfail: the driver prints it, and so does the
 *           nanosleep 200;                                     software device
 *       }
 *   barrier;                                                   what one thread acquired, all threads have
 *   … bodies …
 *   barrier;
 *   if (t == 0 && signal[v] is a flag) { fence.acq_rel.gpu; red.release.gpu.add(flag(signal[v]), 1); }
 *
 * Why it is ordered (PTX memory model, causality order): stores and loads of all threads of the producer come before
 * its barrier, and the barrier comes before thread 0's fence and release. A thread of the consumer reads the release
 * with acquire at the same scope. That comes before the consumer's barrier, and so before what its other threads do.
 * The fence is more than the release needs; it costs little, and the argument does not lean on cumulativity.
 */
#include "rewrite/emit/flow.h"

#include <string.h>

enum { HEAD = 16 };
static const enum ptx_type arg_type[] = {PTX_B64, PTX_B64, PTX_B32, PTX_B64, PTX_B64}; /* of __assertfail */

uint64_t rw_flow_scratch_bytes(const struct rw_flow *f) { return RW_FLOW_STRIDE * (1 + (uint64_t)f->nflag); }

bool rw_flow_sound(const struct rw_flow *f, struct dt_str *why)
{
    struct dt_arena a = {0};
    uint32_t *sent = dt_new_array(&a, uint32_t, f->nflag + 1), *last = dt_new_array(&a, uint32_t, f->nflag + 1);
    bool ok = sent && last;
    for (uint32_t v = 0; v < f->n && ok; v++) {
        if (f->signal[v] == UINT32_MAX)
            continue;
        if (f->signal[v] >= f->nflag) {
            dt_str_addf(why, "block %u signals flag %u of %u", v, f->signal[v], f->nflag);
            ok = false;
            break;
        }
        sent[f->signal[v]]++;
        last[f->signal[v]] = v;
    }
    for (uint32_t v = 0; v < f->n && ok; v++)
        for (uint32_t i = f->wait_at[v]; i < f->wait_at[v + 1] && ok; i++) {
            uint32_t k = f->wait[i];
            ok = k < f->nflag && f->count[k] && f->count[k] == sent[k] && last[k] < v;
            if (ok)
                continue;
            if (k >= f->nflag)
                dt_str_addf(why, "block %u waits for flag %u of %u", v, k, f->nflag);
            else if (f->count[k] != sent[k] || !sent[k])
                dt_str_addf(why, "block %u waits for %u signals of flag %u, which gets %u", v, f->count[k], k, sent[k]);
            else
                dt_str_addf(why, "block %u waits for flag %u, which block %u signals, not before it", v, k, last[k]);
        }
    dt_arena_done(&a);
    return ok;
}

bool rw_flow_signals(const struct rw_cand *c, uint32_t body)
{
    for (uint32_t v = c->beside[body]; v < c->beside[body + 1]; v++)
        if (c->flow->signal[v] != UINT32_MAX)
            return true;
    return false;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static uint32_t signal_at(void) { return HEAD; }
static uint32_t rows_at(const struct rw_flow *f) { return signal_at() + 2 * f->n; }
static uint32_t waits_at(const struct rw_flow *f) { return rows_at(f) + 2 * (f->n + 1); }
static uint32_t counts_at(const struct rw_flow *f) { return waits_at(f) + 2 * f->wait_at[f->n]; }

static void emit_flow_put(uint8_t *p, uint32_t v, unsigned bytes)
{
    for (unsigned k = 0; k < bytes; k++)
        p[k] = (uint8_t)(v >> (8 * k));
}

static uint32_t emit_flow_get(const uint8_t *p, unsigned bytes)
{
    uint32_t v = 0;
    for (unsigned k = 0; k < bytes; k++)
        v |= (uint32_t)p[k] << (8 * k);
    return v;
}

int rw_flow_read(struct dt_arena *a, const struct ptx_function *entry, struct rw_flow *ret)
{
    char *name = dt_arena_printf(a, "%s_flow", entry->name);
    const struct ptx_var *t = name ? ptx_find_var(entry->module, name) : NULL;
    struct rw_flow f = {0};
    if (!name)
        return DT_E_NOMEM;
    if (!t || (t->space != PTX_CONST && t->space != PTX_GLOBAL))
        return 1;
    if (!t->init || t->bytes < HEAD)
        return DT_E_GRAPH;
    f.n = emit_flow_get(t->init, 4);
    f.nflag = emit_flow_get(t->init + 4, 4);
    uint32_t nwait = emit_flow_get(t->init + 8, 4);
    if (HEAD + 2 * (2 * (uint64_t)f.n + 1 + nwait + f.nflag) != t->bytes)
        return DT_E_GRAPH;
    f.signal = dt_new_array(a, uint32_t, (size_t)f.n + 1);
    f.wait_at = dt_new_array(a, uint32_t, (size_t)f.n + 2);
    f.wait = dt_new_array(a, uint32_t, (size_t)nwait + 1);
    f.count = dt_new_array(a, uint32_t, (size_t)f.nflag + 1);
    if (dt_arena_failed(a))
        return DT_E_NOMEM;
    const uint8_t *p = t->init + HEAD;
    for (uint32_t v = 0; v < f.n; v++, p += 2)
        f.signal[v] = emit_flow_get(p, 2) == RW_FLOW_NONE ? UINT32_MAX : emit_flow_get(p, 2);
    for (uint32_t v = 0; v <= f.n; v++, p += 2) {
        f.wait_at[v] = emit_flow_get(p, 2);
        if (f.wait_at[v] > nwait || (v && f.wait_at[v] < f.wait_at[v - 1]))
            return DT_E_GRAPH;
    }
    if (f.wait_at[f.n] != nwait)
        return DT_E_GRAPH;
    for (uint32_t i = 0; i < nwait; i++, p += 2)
        f.wait[i] = emit_flow_get(p, 2);
    for (uint32_t i = 0; i < f.nflag; i++, p += 2)
        f.count[i] = emit_flow_get(p, 2);
    *ret = f;
    return 0;
}

static struct ptx_var *emit_flow_data(struct rw_join *j, const char *suffix, size_t bytes, uint32_t align)
{
    char name[160];
    snprintf(name, sizeof name, "%s_%s", j->c->made.entry, suffix);
    struct ptx_var *v = ptx_var_new(j->m, NULL, name, PTX_CONST, PTX_B8, bytes, align);
    if (v && !(v->init = dt_arena_alloc(&j->m->arena, bytes)))
        return NULL;
    if (v)
        memset(v->init, 0, bytes);
    return v;
}

int rw_flow_module(struct rw_join *j)
{
    struct ptx_function *call = ptx_function_new(j->m, "__assertfail", false);
    bool ok = call != NULL;
    if (ok)
        call->is_extern = true, call->has_body = false;
    for (unsigned k = 0; k < 5 && ok; k++) {
        char name[24];
        unsigned size = ptx_type_bytes(arg_type[k]);
        snprintf(name, sizeof name, "dt_arg%u", k);
        ok = ptx_param_new(call, name, arg_type[k], size, size) != NULL;
    }
    return ok ? 0 : dt_err_set(j->e, DT_E_NOMEM, "out of memory");
}

int rw_flow_declare(struct rw_join *j)
{
    struct rw_flow *f = j->c->flow;
    char name[160], table[160];
    uint32_t nwait = f->wait_at[f->n];
    snprintf(name, sizeof name, "%s_param_%u", j->c->made.entry, j->f->nparam);
    snprintf(table, sizeof table, "%s_flow", j->c->made.entry);
    f->scratch = ptx_param_new(j->f, name, PTX_U64, 8, 8);
    f->table = rw_table_new(j->m, table, counts_at(f) + 2 * (size_t)f->nflag, RW_FLOW_SPARE);
    if (!f->scratch || !f->table)
        return dt_err_set(j->e, DT_E_NOMEM, "out of memory");
    uint8_t *p = f->table->init;
    emit_flow_put(p, f->n, 4);
    emit_flow_put(p + 4, f->nflag, 4);
    emit_flow_put(p + 8, nwait, 4);
    p += HEAD;
    for (uint32_t v = 0; v < f->n; v++, p += 2)
        emit_flow_put(p, f->signal[v] == UINT32_MAX ? RW_FLOW_NONE : f->signal[v], 2);
    for (uint32_t v = 0; v <= f->n; v++, p += 2)
        emit_flow_put(p, f->wait_at[v], 2);
    for (uint32_t i = 0; i < nwait; i++, p += 2)
        emit_flow_put(p, f->wait[i], 2);
    for (uint32_t i = 0; i < f->nflag; i++, p += 2)
        emit_flow_put(p, f->count[i], 2);
    return 0;
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

static const char *reg(struct rw_join *j, enum ptx_type t, const char *hint)
{
    uint32_t r = ptx_reg_new(j->f, t, hint);
    return r == PTX_NO_REG ? NULL : rw_rname(j, r);
}

static int emit_lookup(struct rw_join *j, const char *to, uint32_t at, const char *index, const char *wide)
{
    int r = rw_emit(j, "mul.wide.u32 %s, %s, 2;", wide, index);
    if (r < 0 || (r = rw_emit(j, "add.s64 %s, %s, %s;", wide, wide, rw_rname(j, j->c->flow->words))) < 0)
        return r;
    return rw_emit(j, "ld.%s.u16 %s, [%s+%u];", rw_table_space(j->c->flow->table), to, wide, at);
}

/* The address of a flag's word. */
static int emit_flag(struct rw_join *j, const char *wide, const char *flag)
{
    int r = rw_emit(j, "mul.wide.u32 %s, %s, %u;", wide, flag, RW_FLOW_STRIDE);
    return r < 0 ? r : rw_emit(j, "add.s64 %s, %s, %s;", wide, wide, rw_rname(j, j->c->flow->base));
}

int rw_flow_begin(struct rw_join *j, unsigned barrier)
{
    struct rw_flow *f = j->c->flow;
    uint32_t got = ptx_label_new(j->f, "GOT"), next = ptx_label_new(j->f, "WAIT"), poll = ptx_label_new(j->f, "POLL"),
             met = ptx_label_new(j->f, "MET"), over = ptx_label_new(j->f, "OVER"), run = ptx_label_new(j->f, "RUN");
    uint32_t pr = ptx_reg_new(j->f, PTX_PRED, "dt_p");
    /* addresses in the table and in the scratch buffer each have their register: nothing that is written may look like
     * the table */
    const char *wide = reg(j, PTX_B64, "dt_w"), *look = reg(j, PTX_B64, "dt_r"), *i = reg(j, PTX_U32, "dt_i"),
               *end = reg(j, PTX_U32, "dt_n"), *want = reg(j, PTX_U32, "dt_c"), *have = reg(j, PTX_U32, "dt_h"),
               *polls = reg(j, PTX_U32, "dt_q"), *T = rw_rname(j, j->t), *K = rw_rname(j, j->k);
    int r;
    f->tail = ptx_label_new(j->f, "TAIL");
    f->fail = ptx_label_new(j->f, "FAIL");
    f->base = ptx_reg_new(j->f, PTX_B64, "dt_f");
    f->words = ptx_reg_new(j->f, PTX_B64, "dt_tab");
    f->flag = ptx_reg_new(j->f, PTX_U32, "dt_flag");
    if (dt_arena_failed(&j->m->arena) || !wide || !look || !i || !end || !want || !have || !polls || pr == PTX_NO_REG ||
        f->flag == PTX_NO_REG)
        return dt_err_set(j->e, DT_E_NOMEM, "out of memory");
    const char *F = rw_rname(j, f->base), *P = rw_rname(j, pr), *FLAG = rw_rname(j, f->flag), *smem = j->smem->name;
    /* the ticket */
    if ((r = rw_emit(j, "ld.param.u64 %s, [%s];", F, f->scratch->name)) < 0 ||
        (r = rw_emit(j, "cvta.to.global.u64 %s, %s;", F, F)) < 0 ||
        (r = rw_emit(j, "mov.u64 %s, %s;", rw_rname(j, f->words), f->table->name)) < 0 ||
        (r = rw_emit(j, "setp.ne.u32 %s, %s, 0;", P, T)) < 0 || (r = rw_emit_bra(j, got, pr, false)) < 0 ||
        (r = rw_emit(j, "atom.relaxed.gpu.global.add.u32 %s, [%s], 1;", K, F)) < 0 ||
        (r = rw_emit(j, "st.shared.u32 [%s+%u], %s;", smem, f->slot_at, K)) < 0 || (r = rw_emit_label(j, got)) < 0 ||
        (r = rw_emit_phase_barrier(j, barrier)) < 0 ||
        (r = rw_emit(j, "ld.shared.u32 %s, [%s+%u];", K, smem, f->slot_at)) < 0 ||
        (r = rw_emit(j, "mov.u32 %s, -1;", FLAG)) < 0 || (r = rw_emit(j, "setp.ge.u32 %s, %s, %u;", P, K, f->n)) < 0 ||
        (r = rw_emit_bra(j, f->fail, pr, false)) < 0)
        return r;
    /* the waits */
    if ((r = emit_lookup(j, i, rows_at(f), K, look)) < 0 ||
        (r = rw_emit(j, "ld.%s.u16 %s, [%s+%u];", rw_table_space(f->table), end, look, rows_at(f) + 2)) < 0 ||
        (r = rw_emit(j, "setp.ge.u32 %s, %s, %s;", P, i, end)) < 0 || (r = rw_emit_bra(j, run, pr, false)) < 0 ||
        (r = rw_emit(j, "add.s32 %s, %s, %s;", i, i, T)) < 0 || (r = rw_emit_label(j, next)) < 0 ||
        (r = rw_emit(j, "setp.ge.u32 %s, %s, %s;", P, i, end)) < 0 || (r = rw_emit_bra(j, over, pr, false)) < 0 ||
        (r = emit_lookup(j, FLAG, waits_at(f), i, look)) < 0 ||
        (r = emit_lookup(j, want, counts_at(f), FLAG, look)) < 0 || (r = emit_flag(j, wide, FLAG)) < 0 ||
        (r = rw_emit(j, "mov.u32 %s, 0;", polls)) < 0 || (r = rw_emit_label(j, poll)) < 0 ||
        (r = rw_emit(j, "ld.acquire.gpu.global.u32 %s, [%s+%u];", have, wide, RW_FLOW_STRIDE)) < 0 ||
        (r = rw_emit(j, "setp.ge.u32 %s, %s, %s;", P, have, want)) < 0 || (r = rw_emit_bra(j, met, pr, false)) < 0 ||
        (r = rw_emit(j, "add.s32 %s, %s, 1;", polls, polls)) < 0 ||
        (r = rw_emit(j, "setp.ge.u32 %s, %s, %u;", P, polls, RW_FLOW_POLLS)) < 0 ||
        (r = rw_emit_bra(j, f->fail, pr, false)) < 0 || (r = rw_emit(j, "nanosleep.u32 200;")) < 0 ||
        (r = rw_emit_bra(j, poll, PTX_NO_REG, false)) < 0 || (r = rw_emit_label(j, met)) < 0 ||
        (r = rw_emit(j, "add.s32 %s, %s, %u;", i, i, j->c->threads)) < 0 ||
        (r = rw_emit_bra(j, next, PTX_NO_REG, false)) < 0 || (r = rw_emit_label(j, over)) < 0 ||
        (r = rw_emit_phase_barrier(j, barrier)) < 0)
        return r;
    return rw_emit_label(j, run);
}

/* __assertfail("…", "flag", number, entry, 1): "… in ENTRY, flag:17" on the software device, "flag:17: ENTRY: block: …
 * Assertion `…` failed." on another. */
static int emit_fail(struct rw_join *j)
{
    static const char *const file = "flag";
    struct rw_flow *f = j->c->flow;
    char say[160];
    size_t said =
        (size_t)snprintf(say, sizeof say, "dataflow-fusion: it has not come after %u polls", RW_FLOW_POLLS) + 1;
    size_t entry_at = said + strlen(file) + 1, bytes = entry_at + strlen(j->c->made.entry) + 1;
    struct ptx_var *text = emit_flow_data(j, "says", bytes, 1);
    const char *a = reg(j, PTX_B64, "dt_s"), *b = reg(j, PTX_B64, "dt_s");
    int r;
    if (!text || !a || !b)
        return dt_err_set(j->e, DT_E_NOMEM, "out of memory");
    memcpy(text->init, say, said);
    memcpy(text->init + said, file, strlen(file) + 1);
    memcpy(text->init + entry_at, j->c->made.entry, strlen(j->c->made.entry) + 1);
    for (unsigned k = 0; k < 5; k++) {
        char name[24];
        snprintf(name, sizeof name, "dt_fail%u", k);
        if (!ptx_var_new(j->m, j->f, name, PTX_PARAM, arg_type[k], 1, ptx_type_bytes(arg_type[k])))
            return dt_err_set(j->e, DT_E_NOMEM, "out of memory");
    }
    if ((r = rw_emit_label(j, f->fail)) < 0 || (r = rw_emit(j, "mov.u64 %s, %s;", a, text->name)) < 0 ||
        (r = rw_emit(j, "cvta.const.u64 %s, %s;", a, a)) < 0 ||
        (r = rw_emit(j, "st.param.b64 [dt_fail0], %s;", a)) < 0 ||
        (r = rw_emit(j, "add.s64 %s, %s, %zu;", b, a, said)) < 0 ||
        (r = rw_emit(j, "st.param.b64 [dt_fail1], %s;", b)) < 0 ||
        (r = rw_emit(j, "st.param.b32 [dt_fail2], %s;", rw_rname(j, f->flag))) < 0 ||
        (r = rw_emit(j, "add.s64 %s, %s, %zu;", b, a, entry_at)) < 0 ||
        (r = rw_emit(j, "st.param.b64 [dt_fail3], %s;", b)) < 0 || (r = rw_emit(j, "mov.u64 %s, 1;", b)) < 0 ||
        (r = rw_emit(j, "st.param.b64 [dt_fail4], %s;", b)) < 0 ||
        (r = rw_emit(j, "call.uni __assertfail, (dt_fail0, dt_fail1, dt_fail2, dt_fail3, dt_fail4);")) < 0)
        return r;
    return rw_emit(j, "trap;");
}

int rw_flow_end(struct rw_join *j, unsigned barrier)
{
    struct rw_flow *f = j->c->flow;
    uint32_t done = ptx_label_new(j->f, "DONE"), pr = ptx_reg_new(j->f, PTX_PRED, "dt_p");
    const char *wide = reg(j, PTX_B64, "dt_w"), *look = reg(j, PTX_B64, "dt_r");
    int r;
    if (done == UINT32_MAX || pr == PTX_NO_REG || !wide || !look)
        return dt_err_set(j->e, DT_E_NOMEM, "out of memory");
    const char *P = rw_rname(j, pr), *FLAG = rw_rname(j, f->flag);
    if ((r = rw_emit_label(j, f->tail)) < 0 || (r = rw_emit_phase_barrier(j, barrier)) < 0 ||
        (r = rw_emit(j, "setp.ne.u32 %s, %s, 0;", P, rw_rname(j, j->t))) < 0 ||
        (r = rw_emit_bra(j, done, pr, false)) < 0 ||
        (r = emit_lookup(j, FLAG, signal_at(), rw_rname(j, j->k), look)) < 0 ||
        (r = rw_emit(j, "setp.eq.u32 %s, %s, %u;", P, FLAG, RW_FLOW_NONE)) < 0 ||
        (r = rw_emit_bra(j, done, pr, false)) < 0 || (r = emit_flag(j, wide, FLAG)) < 0 ||
        (r = rw_emit(j, "fence.acq_rel.gpu;")) < 0 ||
        (r = rw_emit(j, "red.release.gpu.global.add.u32 [%s+%u], 1;", wide, RW_FLOW_STRIDE)) < 0 ||
        (r = rw_emit_label(j, done)) < 0 || (r = rw_emit(j, "ret;")) < 0)
        return r;
    return emit_fail(j);
}
