/* The performance library: results of trials, kept between plannings and across graphs (rw_options.library).
 *
 * A trial (trial.c) runs the launches S of an edit and the launches T in their place. Its result is that T leaves the
 * same bytes, the number of block orders that T passed without a race, and the cost of each launch of T in the timing
 * model. These depend on
 *
 *   S, T, the bytes that no later launch reads     trial.c's key: texts, geometry, arguments, buffer sizes; no names
 *   the contents of the buffers that they touch    unless every launch of S and T is steady (analysis/taint/steady.c)
 *   versions of dovetail, the rewriter, this file  and the planner's stamp: the device, its figures, the compilers
 *
 * The key is a SHA-256 of these. So planning with the library makes the same decisions as planning without it, and the
 * plan is the same byte for byte; it only runs less. The gate runs the whole plan in any case (plan/whole.c:
 * verify_final).
 *
 * An entry is "dovetail trial 1\n", the SHA-256 of key and body as text, a newline, and the body. The body has the
 * number of block orders passed, the number of launches of T, and for each launch its instructions and the 48 numbers
 * of its cost. Every number is eight bytes, lowest first. Entries may come from anywhere. An entry that does not read
 * back exactly so, or whose costs the device does not take for such a launch, counts as missing. What the plan rests on
 * is compared with the gate's own run of it. If they differ, planning starts over without the library, and its results
 * replace the old entries (plan/plan.c). A forged entry that makes a rewrite look worse than it is can hide the
 * rewrite. It cannot make a plan wrong, or slower than the plan says.
 */
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

#define HEAD "dovetail trial 1\n"
#define MOST_CONTENT (UINT64_C(256) << 20) /* bytes of buffers that are hashed */
#define MOST_ORDERS 64                     /* block orders that a planning asks for */
#define NUMBERS (sizeof((struct dev_cost *)0)->work / sizeof(uint64_t))
#define PER_LAUNCH (8 * (1 + NUMBERS))

/* ---- keys -------------------------------------------------------------------------------------------------------- */
static int all_steady(const struct rw_trial *t, bool *ret, struct dt_err *e)
{
    int r = 0;
    *ret = true;
    for (uint32_t k = 0; k < t->x->nlaunch && *ret && r == 0; k++)
        r = ana_steady(t->now->prog, t->x->launch[k], ret, NULL, e);
    for (uint32_t k = 0; k < t->n && *ret && r == 0; k++)
        r = ana_steady(t->next->prog, t->first + k, ret, NULL, e);
    return r;
}

/* Add to the hash what the buffers hold when T begins. False: that is too much, or out of memory. */
static bool add_content(const struct rw_trial *t, struct dt_sha256 *h)
{
    const struct dt_graph *g = t->now->graph;
    uint64_t all = 0;
    for (uint32_t b = 0; b < g->nbuffer; b++) {
        const struct dt_buffer *q = &g->buffer[b];
        const uint8_t *from = NULL;
        char sum[DT_SHA256_TEXT];
        if (!t->touched[b])
            continue;
        if ((all += q->bytes) > MOST_CONTENT)
            return false;
        int have = rw_trial_content(t, b, &from);
        uint8_t *fill = have == 0 ? dt_malloc(q->bytes + 8) : NULL;
        if (have < 0 || (have == 0 && !fill))
            return false;
        if (fill)
            dt_fill_bytes(q, 0, fill);
        bool ok = dt_sha256_text(fill ? fill : from, q->bytes, sum) == 0;
        free(fill);
        if (!ok)
            return false;
        dt_sha256_addu64(h, b);
        dt_sha256_addu64(h, q->role); /* a fill may be replaced by poison */
        dt_sha256_addu64(h, (uint64_t)have);
        dt_sha256_addstr(h, sum);
    }
    return true;
}

/* Make the trial's key. 1: t->library has it; 0: the trial has none; negative: error. */
static int library_make_key(struct rw_trial *t, struct dt_err *e)
{
    struct dt_sha256 h;
    bool steady;
    int r = all_steady(t, &steady, e);
    if (r < 0 || dt_sha256_init(&h) < 0)
        return r < 0 ? r : dt_err_set(e, DT_E_NOMEM, "out of memory");
    dt_sha256_addstr(&h, HEAD DOVETAIL_VERSION "; rewriter " RW_VERSION);
    dt_sha256_addstr(&h, t->gate->opt->stamp ? t->gate->opt->stamp : "");
    dt_sha256_addstr(&h, t->key);
    dt_sha256_addu64(&h, steady);
    if (!steady && !add_content(t, &h)) {
        dt_sha256_done(&h);
        return 0;
    }
    dt_sha256_final(&h, t->library);
    return 1;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */
void rw_put_number(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

uint64_t rw_number(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static int sign(const char *key, const void *body, size_t n, char sum[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0)
        return DT_E_NOMEM;
    dt_sha256_addstr(&h, key);
    dt_sha256_add(&h, body, n);
    dt_sha256_final(&h, sum);
    return 0;
}

uint8_t *rw_kept_get(const struct ana_memo *m, const char *head, const char *key, size_t bytes)
{
    const size_t front = strlen(head), sum_len = DT_SHA256_TEXT - 1;
    char sum[DT_SHA256_TEXT];
    void *got = NULL;
    size_t n = 0;
    if (m->get(m->user, key, &got, &n) != 1)
        return NULL;
    uint8_t *p = got;
    const char *why = NULL;
    if (n != front + sum_len + 1 + bytes || memcmp(p, head, front) || p[front + sum_len] != '\n')
        why = "its form is another";
    else if (sign(key, p + front + sum_len + 1, bytes, sum) < 0 || memcmp(sum, p + front, sum_len))
        why = "its checksum is another";
    if (why) {
        if (m->bad)
            m->bad(m->user, key, why);
        free(p);
        return NULL;
    }
    memmove(p, p + front + sum_len + 1, bytes);
    return p;
}

void rw_kept_put(const struct ana_memo *m, const char *head, const char *key, const uint8_t *body, size_t bytes)
{
    const size_t front = strlen(head), sum_len = DT_SHA256_TEXT - 1;
    uint8_t *p = dt_malloc(front + sum_len + 1 + bytes);
    char sum[DT_SHA256_TEXT];
    if (p && sign(key, body, bytes, sum) == 0) {
        memcpy(p, head, front);
        memcpy(p + front, sum, sum_len);
        p[front + sum_len] = '\n';
        memcpy(p + front + sum_len + 1, body, bytes);
        m->put(m->user, key, p, front + sum_len + 1 + bytes);
    }
    free(p);
}

static bool library_decode(const struct rw_trial *t, const uint8_t *at, struct dev_cost *cost, unsigned *ret_orders)
{
    if (rw_number(at) > MOST_ORDERS || rw_number(at + 8) != t->n)
        return false;
    *ret_orders = (unsigned)rw_number(at);
    at += 16;
    for (uint32_t k = 0; k < t->n; k++, at += PER_LAUNCH) {
        bool kernel = t->next->graph->launch[t->first + k].kind == DT_KERNEL;
        cost[k] = (struct dev_cost){.known = kernel, .kept = kernel, .instructions = rw_number(at)};
        for (size_t i = 0; i < NUMBERS; i++)
            cost[k].work[i] = rw_number(at + 8 + 8 * i);
        if (kernel && !dev_cost_fits(t->gate->dev, t->next->prog, t->first + k, &cost[k]))
            return false;
    }
    return true;
}

int rw_library_get(struct rw_trial *t, struct dev_cost *cost, struct dt_err *e)
{
    const struct ana_memo *m = t->gate->opt->library;
    int r = m ? library_make_key(t, e) : 0;
    uint8_t *p = r == 1 && !t->gate->no_library ? rw_kept_get(m, HEAD, t->library, 16 + t->n * PER_LAUNCH) : NULL;
    if (!p)
        return r < 0 ? r : 0;
    r = library_decode(t, p, cost, &t->orders);
    if (!r) {
        memset(cost, 0, t->n * sizeof *cost);
        if (m->bad)
            m->bad(m->user, t->library, "it is no cost of these launches on this device");
    }
    free(p);
    t->gate->from_library |= r;
    return r;
}

void rw_library_put(const struct rw_trial *t, const struct dev_cost *cost, unsigned orders)
{
    const struct ana_memo *m = t->gate->opt->library;
    if (!m || !*t->library)
        return;
    for (uint32_t k = 0; k < t->n; k++) /* some costs cannot be kept in a file */
        if (cost[k].known && !dev_cost_fits(t->gate->dev, t->next->prog, t->first + k, &cost[k]))
            return;
    uint8_t *p = dt_malloc(16 + t->n * PER_LAUNCH);
    if (!p)
        return;
    rw_put_number(p, orders);
    rw_put_number(p + 8, t->n);
    for (uint32_t k = 0; k < t->n; k++) {
        uint8_t *q = p + 16 + k * PER_LAUNCH;
        rw_put_number(q, cost[k].instructions);
        for (size_t i = 0; i < NUMBERS; i++)
            rw_put_number(q + 8 + 8 * i, cost[k].work[i]);
    }
    rw_kept_put(m, HEAD, t->library, p, 16 + t->n * PER_LAUNCH);
    free(p);
}
