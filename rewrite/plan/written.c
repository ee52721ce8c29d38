/* Is the plan document what was verified? It is read back by the ordinary reader (graph/), and compared with the newest
 * state.
 *
 * The document is printed from several places (plan.c, kinds/document.c, graph/print.c), and none of them runs what it
 * prints. A cluster, an argument or an `after` that is lost on the way would be a plan that nobody tried. So these are
 * compared, member by member, not by printing the state once more:
 *   * launches in the same order: name, kind, module's PTX, entry, grid, block, cluster, shared memory, every argument;
 *     what a memset or a copy does
 *   * stream and programmatic; every `after` that the state has, besides those that the document adds
 *   * each hazard of the state's analysis is waited for: the earlier launch is reached from the later one by `after`. A
 *     programmatic launch has whatever is earlier on its stream before it, too: it waits for that in its kernel, and an
 *     event would make it an ordinary launch
 *   * buffers and scratch: bytes, role, constant, content
 * Members that only tell something (times, rewrites, assumes) are not compared. A difference is a bug of ours: rw_plan
 * then gives the posted launches back.
 */
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

struct sides {
    const struct dt_graph *read; /* the document */
    const struct rw_state *state;
    struct dt_str *why;
};

static bool no(const struct sides *s, const char *launch, const char *what)
{
    dt_str_addf(s->why, "%s%s%s%s", launch ? "launch '" : "", launch ? launch : "", launch ? "': " : "", what);
    return false;
}

static bool same_name(const struct sides *s, uint32_t a, uint32_t b)
{
    const struct dt_graph *g = s->state->graph;
    return a < s->read->nbuffer && b < g->nbuffer && !strcmp(s->read->buffer[a].name, g->buffer[b].name);
}

static bool same_arg(const struct sides *s, const struct dt_arg *a, const struct dt_arg *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case DT_ARG_BUFFER: return same_name(s, a->buffer, b->buffer) && a->offset == b->offset;
    case DT_ARG_SCALAR: return a->dtype == b->dtype && a->bits == b->bits;
    case DT_ARG_TENSOR_MAP:
        return same_name(s, a->buffer, b->buffer) && a->offset == b->offset && !memcmp(a->map, b->map, sizeof *a->map);
    case DT_ARG_BYTES: break;
    }
    bool same = a->nbytes == b->nbytes && !memcmp(a->bytes, b->bytes, a->nbytes) && a->npointer == b->npointer;
    for (uint32_t k = 0; k < a->npointer && same; k++)
        same = a->pointer[k].at == b->pointer[k].at && a->pointer[k].offset == b->pointer[k].offset &&
               same_name(s, a->pointer[k].buffer, b->pointer[k].buffer);
    return same;
}

static bool same_kernel(const struct sides *s, const struct dt_launch *a, const struct dt_launch *b)
{
    const struct dt_module *m = &s->read->module[a->module];
    const struct dev_module *n = &s->state->prog->module[b->module];
    if (!m->is_ptx || m->len != n->len || memcmp(m->source, n->ptx, n->len))
        return no(s, b->name, "its module");
    if (strcmp(a->entry, b->entry))
        return no(s, b->name, "its entry");
    if (memcmp(a->grid, b->grid, sizeof a->grid) || memcmp(a->block, b->block, sizeof a->block) ||
        memcmp(a->cluster, b->cluster, sizeof a->cluster))
        return no(s, b->name, "grid, block or cluster");
    if (a->shared != b->shared)
        return no(s, b->name, "shared memory");
    bool same = a->narg == b->narg;
    for (uint32_t k = 0; k < b->narg && same; k++)
        same = same_arg(s, &a->arg[k], &b->arg[k]);
    return same || no(s, b->name, "its arguments");
}

static bool same_step(const struct sides *s, const struct dt_launch *a, const struct dt_launch *b)
{
    bool same = a->bytes == b->bytes && same_name(s, a->dst, b->dst) && a->dst_offset == b->dst_offset;
    if (a->kind == DT_MEMSET)
        same &= a->value == b->value;
    else
        same &= same_name(s, a->src, b->src) && a->src_offset == b->src_offset;
    return same || no(s, b->name, "what it does");
}

static bool has_after(const struct dt_launch *l, const char *name)
{
    for (uint32_t k = 0; k < l->nafter; k++)
        if (!strcmp(l->after[k], name))
            return true;
    return false;
}

static bool same_launch(const struct sides *s, uint32_t i)
{
    const struct dt_launch *a = &s->read->launch[i], *b = &s->state->graph->launch[i];
    if (strcmp(a->name, b->name) || a->kind != b->kind)
        return no(s, b->name, "another stands in its place");
    if (!(b->kind == DT_KERNEL ? same_kernel(s, a, b) : same_step(s, a, b)))
        return false;
    if (a->stream != b->stream)
        return no(s, b->name, "its stream");
    if (a->programmatic != b->programmatic)
        return no(s, b->name, "programmatic");
    for (uint32_t k = 0; k < b->nafter; k++)
        if (!has_after(a, b->after[k]))
            return no(s, b->name, "an `after` is missing");
    return true;
}

static bool same_buffers(const struct sides *s)
{
    const struct dt_graph *g = s->state->graph;
    if (s->read->nbuffer != g->nbuffer)
        return no(s, NULL, "the number of buffers");
    for (uint32_t k = 0; k < g->nbuffer; k++) {
        const struct dt_buffer *b = &g->buffer[k];
        uint32_t at = dt_graph_find_buffer(s->read, b->name);
        const struct dt_buffer *a = at == DT_NAME_NONE ? NULL : &s->read->buffer[at];
        bool same = a && a->bytes == b->bytes && a->role == b->role && a->constant == b->constant &&
                    a->fill.kind == b->fill.kind;
        if (same && b->fill.kind == DT_FILL_UNIFORM)
            same = a->fill.lo == b->fill.lo && a->fill.hi == b->fill.hi && a->fill.dtype == b->fill.dtype &&
                   a->fill.seed == b->fill.seed;
        if (same && b->fill.kind == DT_FILL_DATA)
            same = !memcmp(a->fill.data, b->fill.data, b->bytes);
        if (!same) {
            dt_str_addf(s->why, "buffer " DT_BUFFER, b->name);
            return false;
        }
    }
    return true;
}

/* ---- what is waited for ------------------------------------------------------------------------------------------ */
static void take_in(uint64_t *to, const uint64_t *from, uint32_t launch, size_t words)
{
    for (size_t w = 0; w < words; w++)
        to[w] |= from[w];
    to[launch / 64] |= UINT64_C(1) << launch % 64;
}

/* 1, 0, or DT_E_NOMEM. */
static int waits(const struct sides *s)
{
    uint32_t n = s->read->nlaunch;
    size_t words = n / 64 + 1;
    /* by launch: those that have ended when it begins, or waits in its kernel */
    uint64_t *before = dt_calloc(n + 1, words * sizeof *before);
    /* and all that are earlier on its stream, with theirs */
    uint64_t *stream = dt_calloc(n + 1, words * sizeof *stream);
    int r = before && stream ? 1 : DT_E_NOMEM;
    for (uint32_t i = 0; i < n && r == 1; i++) {
        const struct dt_launch *l = &s->read->launch[i];
        uint32_t last = i;
        while (last > 0 && s->read->launch[last - 1].stream != l->stream)
            last--;
        if (last > 0) {
            memcpy(stream + i * words, stream + (last - 1) * words, words * sizeof *stream);
            take_in(stream + i * words, before + (last - 1) * words, last - 1, words);
        }
        if (l->programmatic)
            memcpy(before + i * words, stream + i * words, words * sizeof *before);
        for (uint32_t k = 0; k < l->nafter; k++)
            take_in(before + i * words, before + l->after_at[k] * words, l->after_at[k], words);
    }
    for (uint32_t k = 0; k < s->state->ana->nedge && r == 1; k++) {
        const struct ana_edge *x = &s->state->ana->edge[k];
        if (ana_find_edge(s->state->ana, x->producer, x->consumer) &&
            !(before[x->consumer * words + x->producer / 64] >> x->producer % 64 & 1)) {
            dt_str_addf(s->why, "launch " DT_LAUNCH ": it does not wait for " DT_LAUNCH,
                        s->read->launch[x->consumer].name, s->read->launch[x->producer].name);
            r = 0;
        }
    }
    free(before);
    free(stream);
    return r;
}

int rw_written(json_t *doc, const struct rw_state *state, struct dt_str *why, struct dt_err *e)
{
    struct dt_graph *read = NULL;
    struct dt_err bad = {0};
    int r = dt_graph_from_json(doc, &read, &bad);
    struct sides s = {read, state, why};
    if (r < 0 && r != DT_E_NOMEM) {
        dt_str_addf(why, "it cannot be read: %s", bad.detail ? dt_err_words(&bad) : dt_err_text(r));
        r = 0;
    } else if (r == 0) {
        r = read->nlaunch == state->graph->nlaunch || no(&s, NULL, "the number of launches");
        for (uint32_t k = 0; k < state->graph->nlaunch && r == 1; k++)
            r = same_launch(&s, k);
        r = r == 1 ? same_buffers(&s) : r;
        r = r == 1 ? waits(&s) : r;
    }
    dt_err_done(&bad);
    dt_graph_free(read);
    return r < 0 || why->failed ? dt_err_set(e, DT_E_NOMEM, "out of memory") : r;
}
