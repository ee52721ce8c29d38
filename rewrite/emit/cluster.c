/* Block fusion at level `cluster`: the blocks of a thread-block cluster run a component together, and the intermediate
 * is in their shared memory.
 *
 *   before                             after, in clusters of 4: rank r of cluster k
 *   gemm<<<(4, 16), 256>>>(x, w, h)    gemm's block (r, k) writes to its own shared memory; barrier.cluster;
 *   softmax<<<64, 128>>>(h, y)         softmax's blocks of row panel k that are r's load from the rank that has
 *                                      the bytes; barrier.cluster; the block exits
 *
 * At level `shared` one block runs a whole component, so few components leave SMs idle. Here a component keeps as many
 * blocks as the cluster has ranks. Each phase's list of blocks is cut into runs of equal length, one for each of the
 * first ranks (rw_cluster_lists). The barrier between the phases is of the whole cluster, with release and acquire. So
 * everything that the end of the launch ordered is still ordered: intermediates in global memory, WAR and WAW. A second
 * barrier keeps a block's shared memory until nobody reads it any more; it is left out if no intermediate is in shared
 * memory.
 *
 * Whose byte is it? The footprints of all ranks have the same shape (fit.c), and that of rank r begins r * step behind
 * that of rank 0: along a row of tiles or down a column of them. The offset o in the component's footprint gives
 *
 *   contiguous               rank = o / step            place = o % step
 *   rows, beside each other  rank = o % pitch / step    place = o / pitch * width + o % pitch % step
 *   rows, one below another  rank = o / step            place = o % step / pitch * width + o % pitch
 *
 * This is checked on every recorded interval. What does not have this form stays in global memory. A load becomes mapa
 * and ld.shared::cluster.
 *
 * A body may use clusters itself, whether it was posted so or fused before. It goes on in clusters of that size: rank r
 * of the fused cluster is rank r of its own, and a component has one of its clusters (`clusters`). It sees its own
 * numbers (copy.c), and its barriers stay. Threads that it does not have, and ranks of a component without a cluster of
 * it, pass as many barriers (join.c). So a chain has a barrier of the cluster between all of its phases. Shared memory
 * of earlier phases lies where that of later phases lies, except the intermediate between the two.
 *
 * If the consumers of each rank need only its own producers, the intermediate is in plain shared memory, as at level
 * `shared`. If that holds for all pairs of a launch in clusters and the one behind it, a barrier of the block stands
 * between them, and there is none at the end.
 *
 * Needs sm_90 (`cluster_device`), room for all blocks of a cluster at once (`cluster_room`), and what block fusion
 * needs.
 */
#include "rewrite/emit/emit-priv.h"
#include "rewrite/emit/join.h"
#include "rewrite/facts/hooks.h"

#include <stdlib.h>
#include <string.h>

/* ---- who runs what ----------------------------------------------------------------------------------------------- */

static uint32_t up(uint32_t n, uint32_t by) { return (n + by - 1) / by; }

uint32_t rw_cluster_size(const struct rw_cand *c, const double block_us[2], double *ret_us)
{
    const struct rw_comps *q = &c->lists;
    uint32_t most = q->list[0].max > q->list[1].max ? q->list[0].max : q->list[1].max, best = 0,
             own = rw_cluster_own(&c->facts);
    double least = 0;
    for (uint32_t size = own ? own : 2; own ? size == own : size <= RW_CLUSTER_MAX && size <= most; size++) {
        double longest = 0, all = 0;
        for (uint32_t k = 0; k < q->n; k++) {
            double t = 0;
            for (int s = 0; s < 2; s++)
                t += block_us[s] * up(up(q->list[s].row[k + 1] - q->list[s].row[k], size), c->abreast[s]);
            longest = t > longest ? t : longest;
            all += t * size;
        }
        all /= (double)(c->facts.dev->sms ? c->facts.dev->sms : 1);
        double us = all > longest ? all : longest;
        if (!best || us < least * (size > 8 && best <= 8 ? 0.9 : 0.999)) {
            best = size;
            least = us;
        }
    }
#ifdef RW_TEST_HOOKS
    best = rw_hooks.cluster && best && !own ? rw_hooks.cluster : best;
#endif
    *ret_us = least;
    return best;
}

/* Writes the list as a formula: block j of rank r of component k is a + b k + d r + c j. This needs components of equal
 * size, ranks that have either no block or the same number, and blocks that fit the formula; false otherwise. */
static bool by_formula(struct rw_list *l, const struct rw_list *of, uint32_t n, uint32_t size)
{
    uint32_t count = n ? of->row[1] : 0, m = up(count, size);
    if (!m || count % m)
        return false;
    for (uint32_t k = 0; k < n; k++)
        if (of->row[k + 1] - of->row[k] != count)
            return false;
    l->a = of->col[0];
    l->b = n > 1 ? of->col[count] - l->a : 0;
    l->d = count > m ? of->col[m] - l->a : 0;
    l->c = m > 1 ? of->col[1] - l->a : 0;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < count; i++)
            if (of->col[(size_t)k * count + i] != l->a + l->b * k + l->d * (i / m) + l->c * (i % m))
                return false;
    l->m = l->max = m;
    l->ranks = count / m;
    l->affine = true;
    return true;
}

int rw_cluster_lists(struct rw_cand *c, uint32_t size, struct dt_err *e)
{
    if (c->cluster)
        c->lists = c->facts.comps;
    c->cluster = size;
    if (!size)
        return 0;
    uint32_t n = c->facts.comps.n;
    c->lists = (struct rw_comps){.n = n * size};
    for (int s = 0; s < 2; s++) {
        const struct rw_list *of = &c->facts.comps.list[s];
        struct rw_list *l = &c->lists.list[s];
        l->row = dt_new_array(&c->arena, uint32_t, (size_t)n * size + 2);
        l->col = of->col;
        if (!l->row)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        uint32_t m = up(of->max, size); /* blocks of a rank: the same in all components, so their bytes lie alike */
        for (uint32_t k = 0; k < n; k++) {
            uint32_t count = of->row[k + 1] - of->row[k];
            for (uint32_t r = 0; r < size; r++)
                l->row[k * size + r + 1] = of->row[k] + ((r + 1) * m < count ? (r + 1) * m : count);
        }
        if (!by_formula(l, of, n, size)) {
            l->ranks = 0;
            rw_list_fit(l, n * size);
        }
    }
    return 0;
}

bool rw_cluster_own_pairs(const struct rw_cand *c)
{
    const struct ana_rows *any = &c->facts.edge->any;
    const struct rw_list *p = &c->lists.list[0], *q = &c->lists.list[1];
    /* what the second has to do with other ranks is behind a barrier of its cluster */
    if (!c->facts.body[0].ranks || c->facts.body[1].ranks)
        return false;
    uint32_t *rank = dt_calloc((size_t)c->facts.body[0].step->blocks + 1, sizeof *rank);
    bool own = rank != NULL && any->row;
    for (uint32_t k = 0; k < c->lists.n && own; k++)
        for (uint32_t i = p->row[k]; i < p->row[k + 1]; i++)
            rank[p->col[i]] = k;
    for (uint32_t k = 0; k < c->lists.n && own; k++)
        for (uint32_t i = q->row[k]; i < q->row[k + 1]; i++)
            for (uint32_t x = q->col[i] < any->nrow ? any->row[q->col[i]] : 0;
                 q->col[i] < any->nrow && x < any->row[q->col[i] + 1]; x++)
                own = own && rank[any->col[x]] == k;
    free(rank);
    return own;
}

/* ---- whose byte it is -------------------------------------------------------------------------------------------- */

struct place {
    uint64_t rank, at;
};

static struct place cluster_place_of(const struct rw_redirect *r, uint64_t o)
{
    uint64_t row = r->pitch ? o / r->pitch : 0, x = r->pitch ? o % r->pitch : o;
    if (r->owners == 1)
        return (struct place){0, row * r->width + x};
    if (r->by_rows)
        return (struct place){o / r->step, o % r->step / r->pitch * r->width + x};
    return (struct place){x / r->step, row * r->width + x % r->step};
}

bool rw_cluster_owners(const struct rw_cand *c, struct rw_redirect *r, const struct ana_set *box, const uint64_t *base,
                       uint32_t align, struct dt_str *why)
{
    uint32_t n = c->lists.n, first = UINT32_MAX;
    r->owners = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (!box[i].n)
            continue;
        if (i % c->cluster + 1 > r->owners)
            r->owners = i % c->cluster + 1;
        if (i % c->cluster == 1 && first == UINT32_MAX)
            first = i;
    }
    if (r->owners > 1) {
        uint64_t step = first == UINT32_MAX || base[first] < base[first - 1] ? 0 : base[first] - base[first - 1];
        r->by_rows = r->pitch && step >= r->pitch;
        r->step = step < UINT32_MAX ? (uint32_t)step : 0;
        if (!r->step || r->step % align || (r->by_rows && r->step % r->pitch)) {
            dt_str_add(why, "the parts of its footprint do not follow each other from rank to rank");
            return false;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t zero = base[i / c->cluster * c->cluster];
        for (uint32_t k = 0; k < box[i].n; k++) {
            uint64_t lo = box[i].iv[k].lo - zero, len = box[i].iv[k].hi - box[i].iv[k].lo;
            struct place p = cluster_place_of(r, lo), q = cluster_place_of(r, lo + len - 1);
            struct rw_redirect own = *r;
            own.owners = 1;
            uint64_t mine = cluster_place_of(&own, box[i].iv[k].lo - base[i]).at; /* where rank i puts it by itself */
            if (box[i].iv[k].lo < zero || lo + len > (UINT64_C(1) << 30) || p.rank != i % c->cluster ||
                q.rank != p.rank || p.at != mine || q.at != p.at + len - 1 || q.at >= r->bytes) {
                dt_str_add(why, "the ranks of a cluster do not have equal parts of its footprint at equal distances");
                return false;
            }
        }
    }
    return true;
}

/* ---- a load, or a store, of the consumer ------------------------------------------------------------------------- */

/* out = v / by; with `rest` also v = v % by */
static int cluster_divide(struct rw_join *j, const char *out, const char *v, uint32_t by, bool rest)
{
    int r = (by & (by - 1)) == 0 ? rw_emit(j, "shr.u32 %s, %s, %d;", out, v, __builtin_ctz(by))
                                 : rw_emit(j, "div.u32 %s, %s, %u;", out, v, by);
    if (r < 0 || !rest)
        return r;
    if ((by & (by - 1)) == 0)
        return rw_emit(j, "and.b32 %s, %s, %u;", v, v, by - 1);
    uint32_t t = ptx_reg_new(j->f, PTX_B32, "dt_m");
    if (t == PTX_NO_REG)
        return dt_err_set(j->e, DT_E_NOMEM, "out of memory");
    r = rw_emit(j, "mul.lo.u32 %s, %s, %u;", rw_rname(j, t), out, by);
    return r < 0 ? r : rw_emit(j, "sub.s32 %s, %s, %s;", v, v, rw_rname(j, t));
}

int rw_cluster_address(struct rw_join *j, const struct rw_redirect *q, uint32_t s, uint32_t origin, uint32_t pred,
                       bool neg)
{
    uint32_t rank = ptx_reg_new(j->f, PTX_B32, "dt_rk"), row = ptx_reg_new(j->f, PTX_B32, "dt_q");
    if (rank == PTX_NO_REG || row == PTX_NO_REG)
        return dt_err_set(j->e, DT_E_NOMEM, "out of memory");
    const char *S = rw_rname(j, s), *RK = rw_rname(j, rank), *Q = rw_rname(j, row), *O = rw_rname(j, origin);
    int r = q->owners == 1 ? rw_emit(j, "mov.b32 %s, 0;", RK) : 0;
    if (r == 0 && q->by_rows)
        r = cluster_divide(j, RK, S, q->step, true);
    if (r == 0 && q->pitch)
        r = cluster_divide(j, Q, S, q->pitch, true);
    if (r == 0 && q->owners > 1 && !q->by_rows)
        r = cluster_divide(j, RK, S, q->step, true);
    if (r == 0 && q->pitch)
        r = rw_emit(j, "mad.lo.s32 %s, %s, %u, %s;", S, Q, q->width, S);
    if (r < 0 || (r = rw_emit(j, "add.s32 %s, %s, %s;", S, S, O)) < 0)
        return r;
    /* The guard of the access: where it does not hold, the address may be anything, and so may the rank. */
    if (pred == PTX_NO_REG)
        return rw_emit(j, "mapa.shared::cluster.u32 %s, %s, %s;", S, S, RK);
    return rw_emit(j, "@%s%s mapa.shared::cluster.u32 %s, %s, %s;", neg ? "!" : "", rw_rname(j, pred), S, S, RK);
}
