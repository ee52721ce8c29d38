/* From strips that overlap to pairs of blocks.
 *
 * A link says which sets of consumer blocks share a live byte with which sets of producer blocks. A consumer block's
 * row is the union of the producer sets that its own sets are linked with. Consumers that are in the same sets have the
 * same row: they are grouped by a 128-bit sum over their sets, each group's row is computed once in a bit set, of which
 * only the words are looked at that it has, and counted as often as the group has members. Degrees and connected
 * components (union-find) come from the same pass, so that a relation with billions of pairs is counted and classified
 * without being written out; rows are kept up to ANA_MAX_PAIRS.
 */
#include "analysis/maps/maps-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/vec.h"

struct node { /* a consumer set of a link with its producer sets: pair[from] … pair[to - 1] */
    uint32_t link, from, to;
};

struct member {
    uint64_t a, b; /* sums over the nodes of the block */
    uint32_t block;
};

struct row {
    size_t at; /* in `col` */
    uint32_t n;
};

struct work {
    const struct ana_link *link;
    uint32_t nlink, nc, np;
    struct node *node;
    uint32_t nnode;
    uint32_t *first, *of; /* nodes of each consumer */
    struct member *member;
    uint64_t *bits; /* of a row; all 0 between two */
    uint32_t *word; /* which words of `bits` are not 0, ascending */
    uint32_t nword;
    uint32_t **seen; /* per link and producer set: stamp of the last group that took it */
    uint32_t *cpp, *root;
    struct dt_vec(uint32_t) col;
    struct row *row; /* by consumer */
};

static int by_sum(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    if (x->b != y->b)
        return x->b < y->b ? -1 : 1;
    return x->block < y->block ? -1 : x->block > y->block;
}

static uint32_t relation_find(uint32_t *root, uint32_t i)
{
    while (root[i] != i)
        i = root[i] = root[root[i]];
    return i;
}

static const uint32_t *set_blocks(const struct ana_strips *s, uint32_t set, uint32_t *n)
{
    *n = s->off[set + 1] - s->off[set];
    return s->block + s->off[set];
}

static bool relation_prepare(struct work *w)
{
    size_t npair = 0;
    for (uint32_t l = 0; l < w->nlink; l++)
        npair += w->link[l].npair;
    w->node = dt_calloc(npair + 1, sizeof *w->node);
    w->first = dt_calloc((size_t)w->nc + 2, sizeof *w->first);
    w->member = dt_calloc((size_t)w->nc + 1, sizeof *w->member);
    w->bits = dt_calloc((size_t)w->np / 64 + 1, sizeof *w->bits);
    w->word = dt_calloc((size_t)w->np / 64 + 1, sizeof *w->word);
    w->seen = dt_calloc((size_t)w->nlink + 1, sizeof *w->seen);
    w->cpp = dt_calloc((size_t)w->np + 1, sizeof *w->cpp);
    w->root = dt_calloc((size_t)w->nc + w->np + 1, sizeof *w->root);
    w->row = dt_calloc((size_t)w->nc + 1, sizeof *w->row);
    if (!w->node || !w->first || !w->member || !w->bits || !w->word || !w->seen || !w->cpp || !w->root || !w->row)
        return false;
    for (uint32_t i = 0; i < w->nc + w->np; i++)
        w->root[i] = i;
    size_t total = 0;
    for (uint32_t l = 0; l < w->nlink; l++) {
        const struct ana_link *k = &w->link[l];
        if (!(w->seen[l] = dt_calloc((size_t)k->p->nset + 1, sizeof **w->seen)))
            return false;
        for (uint32_t i = 0; i < k->npair;) {
            uint32_t j = i, n;
            while (j < k->npair && k->pair[j].c == k->pair[i].c)
                j++;
            const uint32_t *b = set_blocks(k->c, k->pair[i].c, &n);
            for (uint32_t q = 0; q < n; q++)
                w->first[b[q] + 2]++;
            total += n;
            w->node[w->nnode++] = (struct node){l, i, j};
            i = j;
        }
    }
    if (total > UINT32_MAX || !(w->of = dt_reallocarray(NULL, total + 1, sizeof *w->of)))
        return false;
    for (uint32_t c = 0; c < w->nc; c++)
        w->first[c + 2] += w->first[c + 1];
    for (uint32_t k = 0; k < w->nnode; k++) {
        uint32_t n;
        const struct ana_link *l = &w->link[w->node[k].link];
        const uint32_t *b = set_blocks(l->c, l->pair[w->node[k].from].c, &n);
        for (uint32_t q = 0; q < n; q++) {
            w->of[w->first[b[q] + 1]++] = k;
            w->member[b[q]].a += dt_splitmix64(1, k);
            w->member[b[q]].b += dt_splitmix64(2, k);
        }
    }
    for (uint32_t c = 0; c < w->nc; c++)
        w->member[c].block = c;
    return true;
}

static int relation_by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

/* w->word in order: sorted, or read off all words where it has many of them. */
static void order_words(struct work *w)
{
    uint32_t all = w->np / 64 + 1;
    if (w->nword < all / 16) {
        qsort(w->word, w->nword, sizeof *w->word, relation_by_number);
        return;
    }
    w->nword = 0;
    for (uint32_t i = 0; i < all; i++)
        if (w->bits[i])
            w->word[w->nword++] = i;
}

/* The producers of consumer `c` into w->bits; how many. A row may have a few of a million producers: only words that it
 * has are looked at. */
static uint32_t fill_row(struct work *w, uint32_t c, uint32_t stamp)
{
    bool sorted = true;
    w->nword = 0;
    for (uint32_t i = w->first[c]; i < w->first[c + 1]; i++) {
        const struct node *k = &w->node[w->of[i]];
        const struct ana_link *l = &w->link[k->link];
        for (uint32_t j = k->from; j < k->to; j++) {
            uint32_t set = l->pair[j].p, n;
            if (w->seen[k->link][set] == stamp)
                continue;
            w->seen[k->link][set] = stamp;
            const uint32_t *b = set_blocks(l->p, set, &n);
            for (uint32_t q = 0; q < n; q++) {
                uint32_t at = b[q] / 64;
                if (!w->bits[at]) {
                    sorted = sorted && (!w->nword || w->word[w->nword - 1] < at);
                    w->word[w->nword++] = at;
                }
                w->bits[at] |= UINT64_C(1) << b[q] % 64;
            }
        }
    }
    if (!sorted)
        order_words(w);
    uint32_t n = 0;
    for (uint32_t k = 0; k < w->nword; k++)
        n += (uint32_t)__builtin_popcountll(w->bits[w->word[k]]);
    return n;
}

static bool relation_group(struct work *w, const struct member *m, uint32_t count, uint32_t stamp, struct ana_degree *d,
                           bool keep)
{
    uint32_t n = fill_row(w, m[0].block, stamp), head = UINT32_MAX;
    if (!n)
        return true;
    d->pairs += (uint64_t)n * count;
    d->consumers += count;
    if (!d->ppc_min || n < d->ppc_min)
        d->ppc_min = n;
    if (n > d->ppc_max)
        d->ppc_max = n;
    keep = keep && d->pairs <= ANA_MAX_PAIRS;
    struct row r = {w->col.n, n};
    if (keep && !dt_reserve(&w->col, w->col.n + n))
        return false;
    for (uint32_t i = 0; i < w->nword; i++) {
        uint64_t v = w->bits[w->word[i]];
        w->bits[w->word[i]] = 0;
        for (; v; v &= v - 1) {
            uint32_t p = w->word[i] * 64 + (uint32_t)__builtin_ctzll(v);
            w->cpp[p] += count;
            uint32_t root = relation_find(w->root, w->nc + p);
            if (head == UINT32_MAX)
                head = root;
            else if (root != head)
                w->root[root] = head;
            if (keep)
                w->col.p[w->col.n++] = p;
        }
    }
    for (uint32_t k = 0; k < count; k++) {
        w->root[relation_find(w->root, m[k].block)] = head;
        w->row[m[k].block] = r;
    }
    return true;
}

static int write_rows(const struct work *w, struct dt_arena *a, uint64_t pairs, struct ana_rows *rows)
{
    *rows = (struct ana_rows){.nrow = w->nc, .npairs = pairs};
    if (!pairs || pairs > ANA_MAX_PAIRS)
        return 0;
    uint32_t *row = dt_new_array(a, uint32_t, (size_t)w->nc + 1), *col = dt_new_array(a, uint32_t, pairs);
    if (!row || !col)
        return DT_E_NOMEM;
    for (uint32_t c = 0; c < w->nc; c++) {
        if (w->row[c].n)
            memcpy(col + row[c], w->col.p + w->row[c].at, w->row[c].n * sizeof *col);
        row[c + 1] = row[c] + w->row[c].n;
    }
    rows->row = row;
    rows->col = col;
    return 0;
}

int ana_relation(struct dt_arena *a, const struct ana_link *link, uint32_t nlink, uint32_t nconsumer,
                 uint32_t nproducer, struct ana_rows *rows, struct ana_degree *ret, struct dt_err *e)
{
    struct work w = {.link = link, .nlink = nlink, .nc = nconsumer, .np = nproducer};
    struct ana_degree d = {0};
    int rc = DT_E_NOMEM;
    if ((uint64_t)nconsumer + nproducer >= UINT32_MAX || !relation_prepare(&w))
        goto out;
    qsort(w.member, w.nc, sizeof *w.member, by_sum);
    for (uint32_t i = 0, stamp = 0; i < w.nc;) {
        uint32_t j = i + 1;
        while (j < w.nc && w.member[j].a == w.member[i].a && w.member[j].b == w.member[i].b)
            j++;
        if (!relation_group(&w, w.member + i, j - i, ++stamp, &d, rows != NULL))
            goto out;
        i = j;
    }
    for (uint32_t p = 0; p < w.np; p++) {
        if (!w.cpp[p])
            continue;
        d.producers++;
        if (!d.cpp_min || w.cpp[p] < d.cpp_min)
            d.cpp_min = w.cpp[p];
        if (w.cpp[p] > d.cpp_max)
            d.cpp_max = w.cpp[p];
        d.components += relation_find(w.root, w.nc + p) == w.nc + p; /* heads are producers */
    }
    rc = rows ? write_rows(&w, a, d.pairs, rows) : 0;
    if (!rc)
        *ret = d;
out:
    for (uint32_t l = 0; w.seen && l < nlink; l++)
        free(w.seen[l]);
    free(w.node), free(w.first), free(w.of), free(w.member), free(w.bits), free(w.word), free(w.seen);
    free(w.cpp), free(w.root), free(w.col.p), free(w.row);
    return rc ? dt_err_set(e, rc, "no memory for the map of %u by %u blocks", nconsumer, nproducer) : 0;
}
