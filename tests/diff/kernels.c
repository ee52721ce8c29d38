/* Footprints of random kernels against an interpreter that knows nothing of dovetail.
 *
 * A kernel is a random tree of statements (kernel-make.c); kernel-print.c writes it as PTX, kernel-run.c executes the
 * tree itself, thread by thread, and traces every byte of global memory that it touches. The trace is taken for several
 * contents of all buffers that are no constant, of uninitialised shared and local memory and of what bulk copies carry,
 * for several addresses of the buffers, and with the blocks in several orders; the analysis is done once (every fourth
 * batch once more in small windows of blocks), and then held to it:
 *
 *   every byte read, or written, in any trace is in the block's footprint
 *   every byte that the footprint says is surely written is written in every trace
 *   where the evidence is `proved`, the footprint is the trace, exactly, in all of them; where it is `observed`, for
 *   the constants' content
 *   no footprint and no block map that is called proved changes when the kernels run on other data with their blocks in
 *   another order
 *   both recorders, instrumented PTX and the software device itself, give the same document, with launches summarised,
 *   as slices and whole
 *
 * In the kernels: affine and arbitrary indices, nested loops whose bounds depend on threads and on other loops, guards
 * joined by and/or, else branches, early exits, accesses of 1 to 16 bytes, vectors, generic and .nc and volatile loads,
 * atomics and reductions, staging through shared memory with barriers (also of what nobody wrote), local memory (also
 * by generic addresses, and unwritten), cp.async, bulk copies, copies of tensors, wmma loads and stores, shuffles,
 * votes, barrier reductions, device functions, indices from data and from constant tables and, in some kernels, from
 * what the launch itself writes, selected pointers, several parameters into one buffer at overlapping offsets, the low
 * bits of an address as an operand, 3-D grids and blocks, ranks in clusters. Not in them: other blocks' shared memory,
 * im2col, wgmma (tests/diff/kinds.py has the first).
 *
 *     test-kernels [COUNT [FIRST_SEED]]     mismatches as lines with the seed; how often data-dependent was said of
 *                                           what no trace showed
 *     SHOW=1 test-kernels 1 SEED            prints the PTX as well
 */
#include <stdio.h>

#include "analysis/analysis.h"
#include "base/base64.h"
#include "kernels.h"

#define BATCH 25 /* kernels of one graph: they are assembled together */

static unsigned wrong, checked, data_said, data_shown;

static void bad(uint64_t seed, uint32_t block, uint32_t buffer, const char *what)
{
    static const char *const names[] = {"in", "table", "out0", "out1", "out2"};
    printf("seed %llu: block %u, %s: %s\n", (unsigned long long)seed, block, names[buffer], what);
    wrong++;
}

static void bits(struct ana_set s, uint8_t *out)
{
    for (uint32_t i = 0; i < s.n; i++)
        for (uint64_t b = s.iv[i].lo; b < s.iv[i].hi && b < BYTES; b++)
            out[b / 8] |= (uint8_t)(1 << b % 8);
}

static bool subset(const uint8_t *x, const uint8_t *y)
{
    for (unsigned i = 0; i < BYTES / 8; i++)
        if (x[i] & ~y[i])
            return false;
    return true;
}

static void check(uint64_t seed, const struct kernel *k, const struct ana_launch *a)
{
    static struct trace t[TRACES];
    static struct world w;
    uint32_t align[BUFFERS];
    for (uint32_t b = 0; b < BUFFERS; b++) /* what the kernel tests of addresses, a plan assumes */
        align[b] = 16;
    for (uint32_t i = 0; i < a->naccess; i++)
        if (a->access[i].max_width > align[a->access[i].buffer])
            align[a->access[i].buffer] = a->access[i].max_width;
    for (unsigned v = 0; v < TRACES; v++) {
        kernel_world(&w, v, align);
        kernel_run(k, &w, &t[v], v);
    }
    checked++;
    for (uint32_t buf = 0; buf < BUFFERS; buf++) {
        enum ana_evidence read = ANA_PROVED, write = ANA_PROVED;
        bool moves_r = false, moves_w = false;
        for (uint32_t i = 0; i < a->naccess; i++)
            if (a->access[i].buffer == buf) {
                read = a->access[i].reads ? a->access[i].read : read;
                write = a->access[i].writes ? a->access[i].write : write;
            }
        for (uint32_t b = 0; b < k->blocks; b++) {
            uint8_t r[BYTES / 8] = {0}, must[BYTES / 8] = {0}, all[BYTES / 8] = {0};
            for (uint32_t i = 0; i < a->block[b].ntouch; i++)
                if (a->block[b].touch[i].buffer == buf) {
                    bits(a->block[b].touch[i].read, r);
                    bits(a->block[b].touch[i].must_write, must);
                    bits(a->block[b].touch[i].must_write, all);
                    bits(a->block[b].touch[i].may_write, all);
                }
            for (unsigned v = 0; v < TRACES; v++) {
                const uint8_t *tr = t[v].read[b][buf], *tw = t[v].written[b][buf];
                if (!subset(tr, r))
                    bad(seed, b, buf, "a byte is read that the footprint has not");
                else if (read != ANA_DATA_DEPENDENT && !subset(r, tr))
                    bad(seed, b, buf, "proved, and a byte is not read that the footprint has");
                if (!subset(tw, all))
                    bad(seed, b, buf, "a byte is written that the footprint has not");
                else if (write != ANA_DATA_DEPENDENT && !subset(all, tw))
                    bad(seed, b, buf, "proved, and a byte is not written that the footprint has");
                if (!subset(must, tw))
                    bad(seed, b, buf, "a byte is not written that the footprint says surely is");
                moves_r |= memcmp(tr, t[0].read[b][buf], BYTES / 8) != 0;
                moves_w |= memcmp(tw, t[0].written[b][buf], BYTES / 8) != 0;
            }
        }
        data_said += (read == ANA_DATA_DEPENDENT) + (write == ANA_DATA_DEPENDENT);
        data_shown += (read == ANA_DATA_DEPENDENT && moves_r) + (write == ANA_DATA_DEPENDENT && moves_w);
    }
}

/* variant: what is in the buffers. */
static void document(struct dt_str *doc, const struct kernel *k, unsigned n, const char *ptx, unsigned variant)
{
    dt_str_add(doc, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (; *ptx; ptx++)
        if (*ptx == '\n')
            dt_str_add(doc, "\\n");
        else
            dt_str_addc(doc, *ptx);
    dt_str_add(doc, "\"}}, \"buffers\": {");
    static struct world w;
    kernel_world(&w, variant, (const uint32_t[BUFFERS]){16, 16, 16, 16, 16});
    for (unsigned b = 0; b < BUFFERS; b++) {
        static const char *const name[] = {"in", "table", "out0", "out1", "out2"};
        dt_str_addf(doc, "%s\"%s\": {\"bytes\": %u, \"role\": \"%s\"", b ? ", " : "", name[b], BYTES,
                    b < OUT0 ? "input" : "output");
        if (b < OUT0) {
            dt_str_addf(doc, "%s, \"data\": \"", b == TABLE ? ", \"constant\": true" : "");
            dt_base64_encode(w.memory[b], BYTES, doc);
            dt_str_addc(doc, '"');
        } else if (variant) {
            dt_str_addf(doc, ", \"fill\": {\"uniform\": [0, 4294967295], \"dtype\": \"u32\", \"seed\": %u}", variant);
        }
        dt_str_addc(doc, '}');
    }
    dt_str_add(doc, "}, \"launches\": [");
    for (unsigned i = 0; i < n; i++) {
        static const char *const name[] = {"in", "table", "out0", "out1", "out2"};
        dt_str_addf(doc,
                    "%s{\"name\": \"k%u\", \"module\": \"m\", \"entry\": \"k%u\", \"grid\": [%u,%u,%u], \"block\": "
                    "[%u,%u,%u], \"args\": [",
                    i ? "," : "", i, i, k[i].grid[0], k[i].grid[1], k[i].grid[2], k[i].block[0], k[i].block[1],
                    k[i].block[2]);
        for (int p = 0; p < PARAMS; p++)
            dt_str_addf(doc, "{\"buffer\": \"%s\", \"offset\": %u}, ", name[k[i].buffer[p]], k[i].offset[p]);
        for (int q = 0; q < 2; q++)
            dt_str_addf(doc,
                        "{\"tensor_map\": {\"buffer\": \"%s\", \"offset\": %u, \"tensorDataType\": 3, \"tensorRank\": "
                        "2, \"globalDim\": [%u, %u], \"globalStrides\": [%u], "
                        "\"boxDim\": [4, 4], \"elementStrides\": [1, %u]}}, ",
                        name[TILE_BUFFER(q)], tiles[q].offset, tiles[q].width, tiles[q].height, tiles[q].pitch,
                        tiles[q].step);
        dt_str_addf(doc, "{\"u32\": %u}]", k[i].scalar);
        dt_str_add(doc, k[i].pairs ? ", \"cluster\": [2, 1, 1]}" : "}");
    }
    dt_str_add(doc, "]}");
}

/* The other recorder, and every way to run the launches, must say the same, to the byte. */
static int other_ways(struct dev_device *d, uint64_t seed, const struct dev_prog *p, const struct ana_result *a)
{
    static const struct {
        struct ana_options o;
        const char *name;
    } way[] = {{{.way = ANA_WAY_INSTRUMENTED}, "instrumented"},
               {{.way = ANA_WAY_INSTRUMENTED, .no_slice = true}, "instrumented, whole"},
               {{.way = ANA_WAY_NATIVE, .no_slice = true}, "native, whole"},
               {{.way = ANA_WAY_NATIVE, .no_summary = true}, "native, slices"}};
    json_t *one = ana_to_json(a, dev_info(d), NULL, true);
    int r = one ? 0 : DT_E_NOMEM;
    for (unsigned i = 0; i < sizeof way / sizeof *way && r == 0; i++) {
        struct dt_err e = {0};
        struct ana_result *b = NULL;
        r = ana_run(d, p, &way[i].o, &b, &e);
        json_t *two = r == 0 ? ana_to_json(b, dev_info(d), NULL, true) : NULL;
        if (r < 0 || !json_equal(one, two)) {
            printf("seeds from %llu, %s: %s\n", (unsigned long long)seed, way[i].name,
                   r < 0 ? e.detail ? e.detail : "failed" : "another document");
            wrong++;
        }
        json_decref(two);
        ana_free(b);
        dt_err_done(&e);
    }
    json_decref(one);
    return r;
}

static bool same_set(struct ana_set x, struct ana_set y)
{
    return x.n == y.n && (!x.n || !memcmp(x.iv, y.iv, x.n * sizeof *x.iv));
}

static const struct ana_touch *touched(const struct ana_launch *l, uint32_t block, uint32_t buffer)
{
    static const struct ana_touch none;
    for (uint32_t i = 0; i < l->block[block].ntouch; i++)
        if (l->block[block].touch[i].buffer == buffer)
            return &l->block[block].touch[i];
    return &none;
}

/* What x calls proved, or rests on constants alone, is the same in y. */
static bool keeps(const struct ana_launch *x, const struct ana_launch *y)
{
    for (uint32_t i = 0; i < x->naccess; i++)
        for (uint32_t b = 0; b < x->nblock; b++) {
            const struct ana_touch *s = touched(x, b, x->access[i].buffer), *t = touched(y, b, x->access[i].buffer);
            if (x->access[i].read != ANA_DATA_DEPENDENT && !same_set(s->read, t->read))
                return false;
            if (x->access[i].write != ANA_DATA_DEPENDENT &&
                (!same_set(s->must_write, t->must_write) || !same_set(s->may_write, t->may_write)))
                return false;
        }
    return x->nblock == y->nblock;
}

static bool same_rows(const struct ana_rows *x, const struct ana_rows *y)
{
    if (x->npairs != y->npairs || !x->row != !y->row)
        return false;
    return !x->row || (!memcmp(x->row, y->row, ((size_t)x->nrow + 1) * sizeof *x->row) &&
                       !memcmp(x->col, y->col, x->npairs * sizeof *x->col));
}

/* The kernels really run on other data, with their blocks in another order: no footprint and no map changes that is
 * called proved. */
static int other_data(struct dev_device *d, uint64_t seed, const struct kernel *k, unsigned n, const char *ptx,
                      const struct dev_prog *p, const struct ana_result *a)
{
    struct ana_options o = {.way = seed / BATCH & 1 ? ANA_WAY_INSTRUMENTED : ANA_WAY_NATIVE, .no_slice = true};
    struct dt_str doc = {0};
    struct dt_err e = {0};
    struct dt_graph *g = NULL;
    struct dev_prog *q = NULL;
    struct ana_result *b = NULL;
    document(&doc, k, n, ptx, 1 + (unsigned)(seed % 1000));
    int r = dt_graph_parse(doc.s, doc.len, &g, &e);
    if (r == 0)
        r = dev_prog_derive(d, g, p, NULL, NULL, &q, &e);
    dev_set_schedule(d, seed + 1, false);
    if (r == 0)
        r = ana_run(d, q, &o, &b, &e);
    dev_set_schedule(d, 0, false);
    if (r < 0) {
        printf("seeds from %llu, other data: %s\n", (unsigned long long)seed, e.detail ? e.detail : "failed");
        wrong++;
    }
    for (unsigned i = 0; i < n && r == 0; i++)
        if (!keeps(&a->launch[i], &b->launch[i])) {
            printf("seed %llu: a proved footprint changes with data or the order of blocks\n",
                   (unsigned long long)(seed + i));
            wrong++;
        }
    for (uint32_t i = 0; i < a->nedge && r == 0; i++) {
        const struct ana_edge *x = &a->edge[i], *y = ana_find_edge(b, x->producer, x->consumer);
        if (x->evidence != ANA_DATA_DEPENDENT &&
            (!y || !same_rows(&x->raw, &y->raw) || !same_rows(&x->war, &y->war) || !same_rows(&x->waw, &y->waw))) {
            printf("seeds %llu and %llu: a proved map changes with data or the order of blocks\n",
                   (unsigned long long)seed + x->producer, (unsigned long long)seed + x->consumer);
            wrong++;
        }
    }
    ana_free(b);
    dev_prog_free(q);
    dt_graph_free(g);
    dt_err_done(&e);
    dt_str_done(&doc);
    return r;
}

/* With hardly any memory for the recorder; more may be data-dependent then. */
static int windows(struct dev_device *d, uint64_t seed, const struct kernel *k, unsigned n, const struct dev_prog *p)
{
    struct ana_options o = {.way = ANA_WAY_INSTRUMENTED, .no_summary = true, .max_bytes = 4096};
    struct ana_result *a = NULL;
    unsigned said = data_said, shown = data_shown, all = checked;
    int r = ana_run(d, p, &o, &a, NULL);
    for (unsigned i = 0; i < n && r == 0; i++)
        check(seed + i, &k[i], &a->launch[i]);
    data_said = said, data_shown = shown, checked = all;
    ana_free(a);
    return r;
}

static int batch(struct dev_device *d, uint64_t seed, unsigned n)
{
    static struct kernel k[BATCH];
    struct dt_str ptx = {0}, doc = {0};
    struct dt_err e = {0};
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct ana_result *a = NULL;
    struct ana_options o = {.no_slice = getenv("WHOLE") != NULL, .way = ANA_WAY_NATIVE};
    kernel_head(&ptx);
    for (unsigned i = 0; i < n; i++) {
        kernel_make(&k[i], seed + i);
        kernel_print(&ptx, &k[i], i);
    }
    if (getenv("SHOW"))
        puts(ptx.s);
    document(&doc, k, n, ptx.s, 0);
    int r = dt_graph_parse(doc.s, doc.len, &g, &e);
    if (r == 0)
        r = dev_prog_new(d, g, NULL, NULL, &p, &e);
    if (r == 0)
        r = ana_run(d, p, &o, &a, &e);
    if (r < 0 && n > 1) { /* one of them: which? */
        dev_reset(d, NULL);
        for (unsigned i = 0; i < n; i++)
            dt_arena_done(&k[i].arena);
        for (unsigned i = 0; i < n; i++)
            batch(d, seed + i, 1);
    } else if (r < 0) {
        printf("seed %llu: %s: %s\n", (unsigned long long)seed, dt_err_text(r), e.detail ? e.detail : "");
        wrong++;
        dev_reset(d, NULL);
    }
    for (unsigned i = 0; i < n && r == 0; i++)
        check(seed + i, &k[i], &a->launch[i]);
    if (r == 0)
        r = other_ways(d, seed, p, a);
    if (r == 0)
        r = other_data(d, seed, k, n, ptx.s, p, a);
    if (r == 0 && seed / BATCH % 4 == 3)
        r = windows(d, seed, k, n, p);
    for (unsigned i = 0; i < n; i++)
        dt_arena_done(&k[i].arena);
    ana_free(a);
    dev_prog_free(p);
    dt_graph_free(g);
    dt_err_done(&e);
    dt_str_done(&doc);
    dt_str_done(&ptx);
    return r;
}

int main(int argc, char **argv)
{
    unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 500;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct dev_device *d;
    struct dt_err e = {0};
    if (dev_open("soft:h200", &d, &e) < 0) {
        fprintf(stderr, "%s\n", e.detail ? e.detail : "no device");
        return 2;
    }
    for (unsigned i = 0; i < count; i += BATCH)
        batch(d, seed + i, count - i < BATCH ? count - i : BATCH);
    printf("%u kernels, %u wrong; data-dependent was said of %u reads and writes of a buffer, and seen in %u\n",
           checked, wrong, data_said, data_shown);
    dev_close(d);
    return wrong || checked != count;
}
