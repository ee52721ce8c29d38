/* Faults of a thread: where it was, at which instruction, and what happened; and the counters of a basic block.
 *
 * The first fault of a CPU thread stays. launch/ decides which thread's fault becomes the launch's.
 */
#include "softgpu/state/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void thread_of(const struct sg_launch *l, uint32_t linear, uint32_t ret[3])
{
    ret[0] = linear % l->block[0];
    ret[1] = linear / l->block[0] % l->block[1];
    ret[2] = linear / l->block[0] / l->block[1];
}

const struct sg_op *sg_fault_at(struct sg_warp *w, const struct sg_op *op, int num, unsigned lane, uint64_t addr,
                                uint32_t bytes, const char *what, ...)
{
    struct sg_worker *wk = w->wk;
    w->stop = SG_FAULT;
    if (wk->fault)
        return NULL;
    wk->fault = num;
    struct sg_fault *f = &wk->f;
    const struct sg_launch *l = wk->run->l;
    *f = (struct sg_fault){.num = num, .kernel = l->kernel->info.name, .address = addr, .bytes = bytes};
    memcpy(f->block, w->blk->id, sizeof f->block);
    thread_of(l, w->index * SG_LANES + lane, f->thread);
    struct dt_str s = {0};
    if (op && op->src < w->code->nsrc) { /* may be a copy of an operation */
        const struct sg_src *src = &w->code->src[op->src];
        if (src->f && src->inst < src->f->ninst) {
            f->line = src->f->inst[src->inst].line;
            ptx_print_inst(src->f, &src->f->inst[src->inst], &s);
        }
    }
    const char *text = s.s ? s.s : "";
    while (*text == ' ' || *text == '\t')
        text++;
    int n = snprintf(f->text, sizeof f->text / 2, "%s", text);
    if (n >= (int)sizeof f->text / 2)
        n = (int)sizeof f->text / 2 - 1;
    if (n > 0 && f->text[n - 1] == ';')
        n--;
    f->where = n > 0 ? (uint32_t)n : 0;
    if (n > 0)
        n += snprintf(f->text + n, sizeof f->text - (size_t)n, ": ");
    va_list ap;
    va_start(ap, what);
    vsnprintf(f->text + n, sizeof f->text - (size_t)n, what, ap);
    va_end(ap);
    dt_str_done(&s);
    return NULL;
}

/* The sentence but for `text`: how long it is. */
static int fault_place(const struct sg_fault *f, char *out, size_t n)
{
    char line[32] = "";
    if (f->line)
        snprintf(line, sizeof line, "PTX line %u: ", f->line);
    return snprintf(out, n, "kernel %s, block (%u,%u,%u), thread (%u,%u,%u), %s", f->kernel ? f->kernel : "?",
                    f->block[0], f->block[1], f->block[2], f->thread[0], f->thread[1], f->thread[2], line);
}

void sg_fault_text(const struct sg_fault *f, char *out, size_t n)
{
    int at = fault_place(f, out, n);
    if (at >= 0 && (size_t)at < n)
        snprintf(out + at, n - (size_t)at, "%s", f->text);
}

uint32_t sg_fault_where(const struct sg_fault *f, size_t n)
{
    int at = fault_place(f, NULL, 0);
    return at >= 0 && f->line && f->where && (size_t)at + f->where < n ? (uint32_t)at + f->where : 0;
}

void sg_count_bb(struct sg_stats *s, const struct sg_bb *bb, uint64_t n)
{
    s->fp32 += n * bb->count[SG_C_FP32];
    s->fp64 += n * bb->count[SG_C_FP64];
    s->integer += n * bb->count[SG_C_INT];
    s->sfu += n * bb->count[SG_C_SFU];
    s->memory += n * bb->count[SG_C_MEMORY];
    s->barriers += n * bb->count[SG_C_BARRIER];
    s->tensor_flops += n * bb->count[SG_C_TENSOR];
    s->shared_bytes += n * bb->count[SG_C_SHARED];
    s->cluster_accesses += n * bb->count[SG_C_CLUSTER];
    s->cluster_bytes += n * bb->count[SG_C_CLUSTER_BYTES];
    s->cluster_syncs += n * bb->count[SG_C_CLUSTER_SYNC];
}
