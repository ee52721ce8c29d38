/* analysis/: sets, strips, footprints, maps and classes, against brute force over bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analysis/footprint/footprint.h"
#include "analysis/maps/maps.h"
#include "base/hash.h"

static uint64_t seed, count;
static uint32_t rnd(uint32_t n) { return (uint32_t)(dt_splitmix64(seed, count++) >> 33) % n; }

/* ---- sets ---- */
enum { U = 96 };

static struct ana_set random_set(struct dt_arena *a, uint8_t *bytes)
{
    struct ana_interval iv[8];
    unsigned n = rnd(8);
    memset(bytes, 0, U);
    for (unsigned i = 0; i < n; i++) {
        uint32_t lo = rnd(U), len = rnd(12);
        if (lo + len > U)
            len = U - lo;
        iv[i] = (struct ana_interval){lo, lo + len};
        memset(bytes + lo, 1, len);
    }
    return ana_set_from(a, iv, n);
}

static void same(struct ana_set s, const uint8_t *bytes)
{
    uint8_t got[U] = {0};
    for (uint32_t i = 0; i < s.n; i++) {
        assert_true(s.iv[i].lo < s.iv[i].hi && s.iv[i].hi <= U);
        if (i)
            assert_true(s.iv[i - 1].hi < s.iv[i].lo);
        memset(got + s.iv[i].lo, 1, s.iv[i].hi - s.iv[i].lo);
    }
    assert_memory_equal(got, bytes, U);
}

static void sets_are_byte_sets(void **state)
{
    struct dt_arena a = {0};
    for (seed = 0; seed < 3000; seed++) {
        uint8_t x[U], y[U], z[U];
        bool over = false, inside = true;
        uint64_t n = 0;
        count = 0;
        struct ana_set s = random_set(&a, x), t = random_set(&a, y);
        same(s, x);
        for (int i = 0; i < U; i++)
            z[i] = x[i] | y[i];
        same(ana_set_union(&a, s, t), z);
        for (int i = 0; i < U; i++)
            z[i] = x[i] & !y[i];
        same(ana_set_minus(&a, s, t), z);
        for (int i = 0; i < U; i++) {
            over |= x[i] & y[i];
            inside &= x[i] || !y[i];
            n += x[i];
        }
        assert_int_equal(ana_set_overlaps(s, t), over);
        assert_int_equal(ana_set_contains(s, t), inside);
        assert_int_equal(ana_set_bytes(s), n);
    }
    dt_arena_done(&a);
}

/* ---- maps: random footprints against the definition ---- */
enum { L = 5, B = 3, K = 6, BYTES = 24 };

struct model { /* per launch, block, buffer, byte: bits 1 << (kind * 3 + evidence) */
    uint16_t at[L][K][B][BYTES];
    uint32_t blocks[L];
    bool wide[L][B][ANA_KINDS];
};
enum { PLANES_R = 7 << 0 | 7 << 6, PLANES_W = 7 << 3 | 7 << 6, MUST = 3 << 3 | 3 << 6 };

static bool reads(const struct model *m, int l, uint32_t k, int b, int i)
{
    return m->at[l][k][b][i] & PLANES_R || m->wide[l][b][ANA_READ] || m->wide[l][b][ANA_RED];
}
static bool writes(const struct model *m, int l, uint32_t k, int b, int i)
{
    return m->at[l][k][b][i] & PLANES_W || m->wide[l][b][ANA_WRITE] || m->wide[l][b][ANA_RED];
}
static bool killed(const struct model *m, int p, int c, int b, int i)
{
    for (int l = p + 1; l < c; l++)
        for (uint32_t k = 0; k < m->blocks[l]; k++)
            if (m->at[l][k][b][i] & MUST)
                return true;
    return false;
}

static void make_model(struct model *m)
{
    memset(m, 0, sizeof *m);
    for (int l = 0; l < L; l++) {
        m->blocks[l] = 1 + rnd(K);
        for (uint32_t k = 0; k < m->blocks[l]; k++)
            for (int n = rnd(4); n > 0; n--) {
                int b = rnd(B), lo = rnd(BYTES), len = 1 + rnd(8), kind = rnd(5), ev = rnd(8);
                kind = kind > 2 ? kind - 3 : kind; /* reads and writes twice as often as reductions */
                ev = ev < 6 ? 0 : ev - 5;
                for (int i = lo; i < lo + len && i < BYTES; i++)
                    m->at[l][k][b][i] |= 1 << (kind * 3 + ev);
            }
        if (rnd(6) == 0)
            m->wide[l][rnd(B)][rnd(3)] = true;
    }
}

static void to_launch(const struct model *m, struct dt_arena *a, int l, struct ana_launch *ret)
{
    static const uint64_t bytes[B] = {BYTES, BYTES, BYTES};
    struct ana_foot *f = ana_foot_new(a, m->blocks[l], B, bytes);
    assert_non_null(f);
    for (uint32_t k = 0; k < m->blocks[l]; k++)
        for (int b = 0; b < B; b++)
            for (unsigned p = 0; p < 9; p++) {
                struct ana_interval iv[BYTES];
                uint32_t n = 0;
                for (int i = 0; i < BYTES; i++) {
                    if (!(m->at[l][k][b][i] >> p & 1))
                        continue;
                    if (n && iv[n - 1].hi == (uint64_t)i)
                        iv[n - 1].hi++;
                    else
                        iv[n++] = (struct ana_interval){(uint64_t)i, (uint64_t)i + 1};
                }
                assert_int_equal(ana_foot_add(f, k, b, p / 3, p % 3, iv, n), 0);
            }
    for (int b = 0; b < B; b++)
        for (int k = 0; k < ANA_KINDS; k++)
            if (m->wide[l][b][k])
                assert_int_equal(ana_foot_widen(f, b, k), 0);
    assert_int_equal(ana_foot_finish(f, ret, NULL), 0);
    ana_foot_free(f);
}

static bool in_rows(const struct ana_rows *r, uint32_t c, uint32_t p)
{
    for (uint32_t k = r->row ? r->row[c] : 0; r->row && k < r->row[c + 1]; k++)
        if (r->col[k] == p)
            return true;
    return false;
}

static void check_conflict(const struct model *m, int l, const struct ana_launch *got)
{
    bool want = false;
    for (uint32_t x = 0; x < m->blocks[l]; x++)
        for (uint32_t y = 0; y < m->blocks[l]; y++)
            for (int b = 0; b < B && x != y; b++)
                for (int i = 0; i < BYTES; i++) {
                    unsigned p = m->at[l][x][b][i], q = m->at[l][y][b][i];
                    for (unsigned k = 0; k < ANA_KINDS; k++) {
                        p |= m->wide[l][b][k] ? 7u << k * 3 : 0;
                        q |= m->wide[l][b][k] ? 7u << k * 3 : 0;
                    }
                    if (p & 7 << 3 && q)
                        want = true;
                    if (p & 7 << 6 && q & 7)
                        want = true;
                }
    assert_int_equal(got->self_conflict, want);
}

static uint32_t components(bool pair[K][K], uint32_t nc, uint32_t np)
{
    uint32_t colour[2 * K], n = 0;
    bool used[2 * K] = {0};
    for (uint32_t i = 0; i < 2 * K; i++)
        colour[i] = i;
    for (int round = 0; round < 2 * K; round++)
        for (uint32_t c = 0; c < nc; c++)
            for (uint32_t p = 0; p < np; p++)
                if (pair[c][p]) {
                    used[c] = used[K + p] = true;
                    uint32_t low = colour[c] < colour[K + p] ? colour[c] : colour[K + p];
                    colour[c] = colour[K + p] = low;
                }
    for (uint32_t i = 0; i < 2 * K; i++)
        n += used[i] && colour[i] == i;
    return n;
}

static void check_edge(const struct model *m, const struct ana_result *r, int p, int c)
{
    bool raw[K][K] = {0}, war[K][K] = {0}, waw[K][K] = {0}, any[K][K] = {0}, buffer[B] = {0};
    unsigned worst = 0;
    for (int b = 0; b < B; b++)
        for (int i = 0; i < BYTES; i++) {
            if (killed(m, p, c, b, i))
                continue;
            for (uint32_t x = 0; x < m->blocks[c]; x++)
                for (uint32_t y = 0; y < m->blocks[p]; y++) {
                    bool h[3] = {writes(m, p, y, b, i) && reads(m, c, x, b, i),
                                 reads(m, p, y, b, i) && writes(m, c, x, b, i),
                                 writes(m, p, y, b, i) && writes(m, c, x, b, i)};
                    raw[x][y] |= h[0], war[x][y] |= h[1], waw[x][y] |= h[2];
                    any[x][y] |= h[0] | h[1] | h[2];
                    buffer[b] |= h[0] | h[1] | h[2];
                    for (int k = 0; k < 3; k++) {
                        if (!h[k])
                            continue;
                        unsigned sp = k == 1 ? PLANES_R : PLANES_W, sc = k == 0 ? PLANES_R : PLANES_W;
                        for (unsigned q = 0; q < 9; q++) {
                            if ((sp >> q & 1) && (m->at[p][y][b][i] >> q & 1) && q % 3 > worst)
                                worst = q % 3;
                            if ((sc >> q & 1) && (m->at[c][x][b][i] >> q & 1) && q % 3 > worst)
                                worst = q % 3;
                        }
                        for (unsigned q = 0; q < 3; q++)
                            if ((m->wide[p][b][q] && (sp >> q * 3 & 7)) || (m->wide[c][b][q] && (sc >> q * 3 & 7)))
                                worst = ANA_DATA_DEPENDENT;
                    }
                }
        }
    const struct ana_edge *e = NULL;
    for (uint32_t i = 0; i < r->nedge; i++)
        if (r->edge[i].producer == (uint32_t)p && r->edge[i].consumer == (uint32_t)c)
            e = &r->edge[i];
    assert_non_null(e); /* all_edges */
    uint32_t nc = m->blocks[c], np = m->blocks[p], pairs = 0, nraw = 0, with = 0, with_raw = 0;
    uint32_t pmin = 99, pmax = 0, cmin = 99, cmax = 0, rpmax = 0, rcmax = 0;
    for (uint32_t x = 0; x < nc; x++) {
        uint32_t n = 0, nr = 0;
        for (uint32_t y = 0; y < np; y++) {
            assert_int_equal(in_rows(&e->raw, x, y), raw[x][y]);
            assert_int_equal(in_rows(&e->war, x, y), war[x][y]);
            assert_int_equal(in_rows(&e->waw, x, y), waw[x][y]);
            assert_int_equal(in_rows(&e->any, x, y), any[x][y]);
            n += any[x][y], nr += raw[x][y];
        }
        pairs += n, nraw += nr, with += n > 0, with_raw += nr > 0;
        pmin = n && n < pmin ? n : pmin, pmax = n > pmax ? n : pmax;
        rpmax = nr > rpmax ? nr : rpmax;
    }
    for (uint32_t y = 0; y < np; y++) {
        uint32_t n = 0, nr = 0;
        for (uint32_t x = 0; x < nc; x++)
            n += any[x][y], nr += raw[x][y];
        cmin = n && n < cmin ? n : cmin, cmax = n > cmax ? n : cmax;
        rcmax = nr > rcmax ? nr : rcmax;
    }
    assert_int_equal(e->pairs, pairs);
    assert_int_equal(ana_find_edge(r, p, c) != NULL, pairs > 0);
    assert_int_equal(e->components, components(any, nc, np));
    assert_int_equal(e->evidence, worst);
    if (pairs) {
        assert_int_equal(e->ppc_min, pmin);
        assert_int_equal(e->cpp_min, cmin);
    }
    assert_int_equal(e->ppc_max, pmax);
    assert_int_equal(e->cpp_max, cmax);
    assert_int_equal(e->independent_blocks, nc - with_raw);
    uint32_t at = 0, nind = 0;
    for (int b = 0; b < B; b++) {
        uint64_t bytes = 0;
        for (int i = 0; i < BYTES; i++) {
            bool rd = false, wr = false;
            for (uint32_t x = 0; x < nc; x++)
                rd |= (m->at[c][x][b][i] & PLANES_R) != 0;
            for (int l = p; l < c; l++)
                for (uint32_t y = 0; y < m->blocks[l]; y++)
                    wr |= writes(m, l, y, b, i);
            bytes += rd && !wr;
        }
        if (bytes) {
            assert_true(nind < e->nindependent);
            assert_int_equal(e->independent[nind].buffer, b);
            assert_int_equal(e->independent[nind].bytes, bytes);
            nind++;
        }
        if (buffer[b]) {
            assert_true(at < e->nbuffer);
            assert_int_equal(e->buffer[at++], b);
        }
    }
    assert_int_equal(e->nindependent, nind);
    assert_int_equal(e->nbuffer, at);
    unsigned cls = !nraw                                        ? ANA_FULL_INDEPENDENCE
                   : rpmax == 1 && rcmax == 1 && with_raw == nc ? ANA_ONE_TO_ONE
                                                                : ANA_MANY_TO_MANY;
    if (nraw && (nc != with_raw || nind))
        cls |= ANA_PARTIAL_INDEPENDENCE;
    assert_int_equal(e->classes, cls);
    enum ana_fan fan = !nraw        ? ANA_FAN_NONE
                       : rpmax == 1 ? rcmax == 1 ? ANA_FAN_ONE_TO_ONE : ANA_FAN_ONE_TO_MANY
                       : rcmax == 1 ? ANA_FAN_MANY_TO_ONE
                                    : ANA_FAN_MANY_TO_MANY;
    assert_int_equal(e->fan, fan);
}

static void maps_follow_the_definition(void **state)
{
    for (seed = 1; seed <= 400; seed++) {
        struct model m;
        struct ana_result r = {{0}};
        count = 0;
        make_model(&m);
        r.launch = dt_new_array(&r.arena, struct ana_launch, L);
        for (int l = 0; l < L; l++) {
            to_launch(&m, &r.arena, l, &r.launch[l]);
            check_conflict(&m, l, &r.launch[l]);
        }
        assert_int_equal(ana_maps(&r, L, B, true, NULL, NULL), 0);
        assert_int_equal(r.nedge, L * (L - 1) / 2);
        for (int c = 0; c < L; c++)
            for (int p = 0; p < c; p++)
                check_edge(&m, &r, p, c);
        dt_arena_done(&r.arena);
    }
}

/* Edges that are taken over from a result with some of the launches elsewhere, new or gone are those that are found
 * without it. */
static void edges_of_another_result_hold(void **state)
{
    for (seed = 1; seed <= 400; seed++) {
        struct model m;
        struct ana_result was = {{0}}, now = {{0}}, alone = {{0}};
        uint32_t same[L], n = 0, taken = 0;
        count = 0;
        make_model(&m);
        was.launch = dt_new_array(&was.arena, struct ana_launch, L);
        now.launch = dt_new_array(&now.arena, struct ana_launch, L);
        alone.launch = dt_new_array(&alone.arena, struct ana_launch, L);
        for (int l = 0; l < L; l++)
            to_launch(&m, &was.arena, l, &was.launch[l]);
        assert_int_equal(ana_maps(&was, L, B, seed % 2, NULL, NULL), 0);
        for (uint32_t l = 0; l < L; l++) { /* one goes, one comes anew, two change places */
            uint32_t at = seed % 3 == 0 && l < 2 ? 1 - l : l;
            if (seed % 4 == 1 && l == seed % L)
                continue;
            bool fresh = seed % 5 == 2 && l == seed / 5 % L;
            same[n] = fresh ? UINT32_MAX : at;
            if (fresh)
                to_launch(&m, &now.arena, (at + 1) % L, &now.launch[n]);
            else
                now.launch[n] = was.launch[at];
            alone.launch[n] = now.launch[n];
            n++;
        }
        struct ana_base base = {&was, L, same};
        assert_int_equal(ana_maps(&now, n, B, false, &base, NULL), 0);
        assert_int_equal(ana_maps(&alone, n, B, false, NULL, NULL), 0);
        assert_int_equal(now.nedge, alone.nedge);
        for (uint32_t k = 0; k < now.nedge; k++) {
            struct ana_edge *x = &now.edge[k], *y = &alone.edge[k];
            assert_true(x->producer == y->producer && x->consumer == y->consumer && x->pairs == y->pairs);
            assert_true(x->classes == y->classes && x->fan == y->fan && x->evidence == y->evidence);
            assert_true(x->components == y->components && x->nbuffer == y->nbuffer);
            assert_memory_equal(x->buffer, y->buffer, x->nbuffer * sizeof *x->buffer);
            assert_int_equal(x->nindependent, y->nindependent);
            for (uint32_t q = 0; q < x->nindependent; q++)
                assert_true(x->independent[q].buffer == y->independent[q].buffer &&
                            x->independent[q].bytes == y->independent[q].bytes);
            assert_true(x->any.npairs == y->any.npairs && x->raw.npairs == y->raw.npairs);
            for (uint32_t q = 0; q < was.nedge; q++)
                taken += was.edge[q].buffer == x->buffer;
        }
        if (!(seed % 3 == 0) && seed % 4 != 1 && seed % 5 != 2)
            assert_true(taken >= now.nedge); /* nothing is new: all are taken over */
        dt_arena_done(&now.arena);
        dt_arena_done(&alone.arena);
        dt_arena_done(&was.arena);
    }
}

/* ---- sizes: 100,000 blocks one to one, and all to all without writing 10^10 pairs ---- */
static void large_maps_are_cheap(void **state)
{
    enum { N = 100000 };
    static const uint64_t bytes[1] = {4 * N};
    struct ana_result r = {{0}};
    r.launch = dt_new_array(&r.arena, struct ana_launch, 3);
    for (int l = 0; l < 3; l++) {
        struct ana_foot *f = ana_foot_new(&r.arena, N, 1, bytes);
        for (uint32_t k = 0; k < N && l < 2; k++) {
            struct ana_interval iv = {4 * k, 4 * k + 4};
            assert_int_equal(ana_foot_add(f, k, 0, l ? ANA_READ : ANA_WRITE, 0, &iv, 1), 0);
        }
        if (l == 2)
            ana_foot_widen(f, 0, ANA_READ);
        assert_int_equal(ana_foot_finish(f, &r.launch[l], NULL), 0);
        ana_foot_free(f);
    }
    assert_int_equal(ana_maps(&r, 3, 1, false, NULL, NULL), 0);
    assert_int_equal(r.nedge, 2);
    assert_int_equal(r.edge[0].classes, ANA_ONE_TO_ONE);
    assert_int_equal(r.edge[0].pairs, N);
    assert_int_equal(r.edge[0].components, N);
    assert_true(r.edge[1].pairs == (uint64_t)N * N);
    assert_int_equal(r.edge[1].fan, ANA_FAN_MANY_TO_MANY);
    assert_int_equal(r.edge[1].components, 1);
    assert_int_equal(r.edge[1].evidence, ANA_DATA_DEPENDENT);
    assert_false(ana_rows_kept(&r.edge[1].raw));
    dt_arena_done(&r.arena);
}

/* ---- a million blocks that each need two of a million, in no order: only words that a row has are looked at, with
 * all words for each row (2 * 10^10) the test runs out of its time ---- */
static void rows_of_many_are_cheap(void **state)
{
    enum { N = 1000003 };
    static const uint64_t bytes[1] = {4 * N};
    struct ana_result r = {{0}};
    r.launch = dt_new_array(&r.arena, struct ana_launch, 2);
    for (int l = 0; l < 2; l++) {
        struct ana_foot *f = ana_foot_new(&r.arena, N, 1, bytes);
        for (uint64_t k = 0; k < N; k++) {
            uint64_t at[2] = {l ? k * 7919 % N : k, (k * 7919 + N / 2) % N};
            for (int i = 0; i < 1 + l; i++) {
                struct ana_interval iv = {4 * at[i], 4 * at[i] + 4};
                assert_int_equal(ana_foot_add(f, (uint32_t)k, 0, l ? ANA_READ : ANA_WRITE, 0, &iv, 1), 0);
            }
        }
        assert_int_equal(ana_foot_finish(f, &r.launch[l], NULL), 0);
        ana_foot_free(f);
    }
    assert_int_equal(ana_maps(&r, 2, 1, false, NULL, NULL), 0);
    assert_int_equal(r.nedge, 1);
    assert_int_equal(r.edge[0].pairs, 2 * N);
    assert_true(ana_rows_kept(&r.edge[0].raw));
    for (uint64_t k = 0; k < N; k++) {
        const uint32_t *col = r.edge[0].raw.col + r.edge[0].raw.row[k];
        uint32_t a = (uint32_t)(k * 7919 % N), b = (a + N / 2) % N;
        assert_int_equal(r.edge[0].raw.row[k + 1] - r.edge[0].raw.row[k], 2);
        assert_true(col[0] == (a < b ? a : b) && col[1] == (a < b ? b : a));
    }
    dt_arena_done(&r.arena);
}

int main(void)
{
    const struct CMUnitTest t[] = {
        cmocka_unit_test(sets_are_byte_sets),           cmocka_unit_test(maps_follow_the_definition),
        cmocka_unit_test(edges_of_another_result_hold), cmocka_unit_test(large_maps_are_cheap),
        cmocka_unit_test(rows_of_many_are_cheap),
    };
    return cmocka_run_group_tests(t, NULL, NULL);
}
