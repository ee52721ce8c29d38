/* Analyses one graph in every way there is, and compares: summarised, as slices, whole, with paged bitmaps, by
 * instrumented PTX and by the device itself. All must agree. */
#ifndef ANALYSIS_FIXTURE_H
#define ANALYSIS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "base/str.h"
#include "softgpu/libcuda/extension.h"

static struct dev_device *device;
static unsigned kernels_, summarised_; /* of the graphs analysed so far */

/* ---- counting ---------------------------------------------------------------------------------------------------- */
static inline uint64_t last_instructions(void)
{
    void *h = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(h);
    CUresult (*get)(const char *, void **, int, cuuint64_t, void *) =
        (CUresult(*)(const char *, void **, int, cuuint64_t, void *))dlsym(h, "cuGetProcAddress_v2");
    assert_non_null(get);
    void *fn = NULL;
    assert_int_equal(get("dovetailLastStats", &fn, 13000, 0, NULL), 0);
    struct dovetail_launch_stats st;
    assert_int_equal(((dovetailLastStats_t)fn)(&st), 0);
    return st.instructions;
}

/* ---- analyses of one graph ------------------------------------------------------------------------------------
 */
static bool same_set(struct ana_set x, struct ana_set y)
{
    return x.n == y.n && (!x.n || !memcmp(x.iv, y.iv, x.n * sizeof *x.iv));
}

static void same_footprints(const char *name, const struct ana_result *x, const struct ana_result *y)
{
    for (uint32_t l = 0; l < x->prog->graph->nlaunch; l++) {
        const struct ana_launch *p = &x->launch[l], *q = &y->launch[l];
        if (p->nblock != q->nblock || p->naccess != q->naccess || p->self_conflict != q->self_conflict)
            fail_msg("%s: launch %u differs", name, l);
        for (uint32_t i = 0; i < p->naccess; i++) {
            const struct ana_access *a = &p->access[i], *b = &q->access[i];
            if (a->buffer != b->buffer || a->reads != b->reads || a->writes != b->writes || a->atomics != b->atomics ||
                (a->reads && a->read != b->read) || (a->writes && a->write != b->write) || a->widened != b->widened ||
                a->fp_atomics != b->fp_atomics || a->max_width != b->max_width || a->result_used != b->result_used)
                fail_msg("%s: launch %u, access %u differs", name, l, i);
        }
        for (uint32_t b = 0; b < p->nblock; b++) {
            if (p->block[b].ntouch != q->block[b].ntouch)
                fail_msg("%s: launch %u, block %u differs", name, l, b);
            for (uint32_t i = 0; i < p->block[b].ntouch; i++) {
                const struct ana_touch *s = &p->block[b].touch[i], *t = &q->block[b].touch[i];
                if (s->buffer != t->buffer || !same_set(s->read, t->read) || !same_set(s->must_write, t->must_write) ||
                    !same_set(s->may_write, t->may_write))
                    fail_msg("%s: launch %u, block %u, buffer %u differs", name, l, b, s->buffer);
            }
        }
    }
}

static inline void twice(const char *name, const char *json)
{
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    static const struct ana_options ways[] = {
        {.way = ANA_WAY_NATIVE}, /* summarised, where that can be */
        {.way = ANA_WAY_NATIVE, .no_slice = true},
        {.way = ANA_WAY_NATIVE, .no_summary = true},
        {.way = ANA_WAY_INSTRUMENTED, .no_slice = true},
        {.way = ANA_WAY_INSTRUMENTED, .no_summary = true},
        {.way = ANA_WAY_INSTRUMENTED, .no_summary = true, .max_bytes = 2048}, /* paged bitmaps */
    };
    enum { WAYS = sizeof ways / sizeof *ways };
    struct ana_result *r[WAYS] = {NULL};
    struct dt_err e = {0};
    int rc = dt_graph_parse(json, strlen(json), &g, &e);
    if (!rc)
        rc = dev_prog_new(device, g, NULL, NULL, &p, &e);
    for (unsigned k = 0; k < WAYS && !rc; k++) {
        struct ana_options o = ways[k];
        o.all_edges = true;
        if (o.max_bytes && strncmp(name, "random", 6))
            continue;
        rc = ana_run(device, p, &o, &r[k], &e);
    }
    if (rc)
        fail_msg("%s: %s: %s%s", name, dt_err_code(e.num), e.detail ? e.detail : "", e.log ? e.log : "");
    for (unsigned k = 0; k < WAYS; k++)
        if (r[k] && k != 1)
            same_footprints(name, r[k], r[1]);
    for (uint32_t l = 0; l < g->nlaunch; l++) {
        kernels_ += g->launch[l].kind == DT_KERNEL;
        summarised_ += r[0]->launch[l].summarised;
        assert_false(r[1]->launch[l].summarised || r[2]->launch[l].summarised);
        if (g->launch[l].kind == DT_KERNEL && getenv("SHOW"))
            fprintf(stderr, "%s.%s: %s\n", name, g->launch[l].name,
                    r[0]->launch[l].summarised     ? "summarised"
                    : r[0]->launch[l].unsummarised ? r[0]->launch[l].unsummarised
                                                   : "-");
    }
    json_t *x = ana_to_json(r[0], dev_info(device), NULL, true);
    assert_non_null(x);
    for (unsigned k = 1; k < WAYS; k++) {
        json_t *y = r[k] ? ana_to_json(r[k], dev_info(device), NULL, true) : NULL;
        if (r[k] && !json_equal(x, y))
            fail_msg("%s: the documents differ (way %u)", name, k);
        json_decref(y);
    }
    json_decref(x);
    for (unsigned k = 0; k < WAYS; k++)
        ana_free(r[k]);
    dev_prog_free(p);
    dt_graph_free(g);
    dt_err_done(&e);
}

static int open_device(void **state)
{
    struct dt_err e = {0};
    if (dev_open("soft", &device, &e)) {
        print_message("%s\n", e.detail ? e.detail : "no device");
        return -1;
    }
    return 0;
}

static int close_device(void **state)
{
    device = dev_close(device);
    return 0;
}

#endif
