/* Functions without a body that kernels call: vprintf, __assertfail, malloc, free. __dovetail_touch is in record.c.
 *
 * Arguments and results lie in the caller's parameter variables, in local memory (sg_call_param). vprintf formats its
 * text and appends it to what the launch printed (struct sg_launch). malloc and free work on the heap of the device
 * (memory/heap.c). malloc gives 0 for 0 bytes and when there is no room. To free memory that is not allocated, or is no
 * longer, is undefined in CUDA and a fault (trap) here.
 */
#include "softgpu/exec/exec-priv.h"

#include <stdio.h>
#include <string.h>

/* A string at a generic address, for messages. */
static void text_at(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t addr, char *out, size_t n)
{
    size_t i = 0;
    struct sg_op byte = *op;
    byte.space = PTX_GENERIC;
    if (addr >> SG_WINDOW_SHIFT == 0 && !sg_find_range(w, op, addr, 1))
        n = 1;
    for (; i + 1 < n; i++) {
        if (addr >> SG_WINDOW_SHIFT == 0 && !sg_find_range(w, op, addr + i, 1))
            break;
        const uint8_t *p = sg_resolve(w, &byte, lane, addr + i, 1, false);
        if (!p || !*p)
            break;
        out[i] = (char)*p;
    }
    out[i] = 0;
}

/* Parameter `k` of an extern call, results behind arguments: where it lies in the lane's local memory. */
static uint8_t *sg_call_param(struct sg_warp *w, const struct sg_op *op, unsigned lane, unsigned k)
{
    uint32_t at = w->code->ext[op->x + k];
    return w->local + lane * w->local_bytes + (at & ~SG_IN_FRAME) +
           (at & SG_IN_FRAME ? SG_P(uint64_t, w->code->fp)[lane] : 0);
}

static uint64_t call_param(struct sg_warp *w, const struct sg_op *op, unsigned lane, unsigned k, unsigned bytes)
{
    uint64_t v = 0;
    memcpy(&v, sg_call_param(w, op, lane, k), bytes);
    return v;
}

/* __assertfail(message, file, line, function, char size) */
const struct sg_op *sg_assertfail(struct sg_warp *w, const struct sg_op *op)
{
    unsigned l = (unsigned)__builtin_ctz(w->mask);
    char what[96], file[64], fn[64];
    text_at(w, op, l, call_param(w, op, l, 0, 8), what, sizeof what);
    text_at(w, op, l, call_param(w, op, l, 1, 8), file, sizeof file);
    text_at(w, op, l, call_param(w, op, l, 3, 8), fn, sizeof fn);
    bool first = !w->wk->fault;
    sg_fault_at(w, op, DT_E_TRAP, l, 0, 0, "assertion `%s` failed in %s, %s:%u", what, fn, file,
                (unsigned)call_param(w, op, l, 2, 4));
    w->wk->f.asserted |= first;
    return NULL;
}

/* Of more text than the launch keeps, the last is kept, as CUDA's buffer does. */
static void print_out(const struct sg_launch *l, const char *text, size_t n)
{
    struct dt_str *to = l->print;
    size_t most = l->print_bytes;
    if (!to || !most)
        return;
    dt_str_addn(to, text, n);
    if (!to->failed && to->len / 2 >= most) {
        memmove(to->s, to->s + to->len - most, most + 1);
        to->len = most;
    }
}

/* vprintf(format, arguments): each conversion takes 4 bytes (int) or 8 (long, double, pointer), aligned. */
const struct sg_op *sg_vprintf(struct sg_warp *w, const struct sg_op *op)
{
    struct sg_op arg = *op;
    arg.space = PTX_GENERIC;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        char fmt[1024], out[4096], spec[32];
        size_t n = 0;
        text_at(w, op, l, call_param(w, op, l, 0, 8), fmt, sizeof fmt);
        uint64_t at = call_param(w, op, l, 1, 8);
        uint32_t count = 0;
        for (const char *p = fmt; *p && n + 64 < sizeof out;) {
            if (*p != '%' || p[1] == '%') {
                out[n++] = *p;
                p += *p == '%' ? 2 : 1;
                continue;
            }
            size_t s = 0, longs = 0;
            spec[s++] = *p++;
            while (*p && strchr("-+ #0123456789.", *p) && s < 16)
                spec[s++] = *p++;
            for (; *p && strchr("hlLzjt", *p); p++)
                longs += strchr("lzjt", *p) != NULL;
            char c = *p ? *p++ : 'd';
            bool wide = longs || strchr("sp", c) || strchr("eEfFgGaA", c);
            unsigned bytes = wide ? 8 : 4;
            at = (at + bytes - 1) & ~(uint64_t)(bytes - 1);
            const uint8_t *q = sg_resolve(w, &arg, l, at, bytes, false);
            if (!q)
                return NULL;
            uint64_t v = 0;
            memcpy(&v, q, bytes);
            at += bytes;
            count++;
            char one[256] = "";
            if (strchr("eEfFgGaA", c)) {
                double d;
                memcpy(&d, &v, 8);
                spec[s++] = c, spec[s] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                snprintf(one, sizeof one, spec, d);
            } else if (c == 's') {
                text_at(w, op, l, v, one, sizeof one);
            } else if (strchr("diuxXoc", c)) {
                if (c != 'c')
                    spec[s++] = 'l', spec[s++] = 'l';
                spec[s++] = c, spec[s] = 0;
                int64_t sv = wide ? (int64_t)v : c == 'd' || c == 'i' ? (int64_t)(int32_t)v : (int64_t)v;
                if (c == 'c')
                    snprintf(one, sizeof one, spec, (int)sv);
                else
                    snprintf(one, sizeof one, spec, (long long)sv);
#pragma GCC diagnostic pop
            } else if (c == 'p') {
                snprintf(one, sizeof one, "0x%llx", (unsigned long long)v);
            }
            size_t k = strlen(one);
            if (k > sizeof out - n - 64)
                k = sizeof out - n - 64;
            memcpy(out + n, one, k);
            n += k;
        }
        print_out(w->wk->run->l, out, n);
        memcpy(sg_call_param(w, op, l, 2), &count, 4);
    }
    return op + 1;
}

const struct sg_op *sg_malloc(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t bytes = 0, given = 0, at;
        memcpy(&bytes, sg_call_param(w, op, l, 0), 8);
        at = sg_heap_take(w->wk->run->device, bytes, &given);
        memcpy(sg_call_param(w, op, l, 1), &at, 8);
        if (at && w->wk->check)
            sg_check_fresh(w, (const uint8_t *)(uintptr_t)at, given);
    }
    return op + 1;
}

const struct sg_op *sg_free(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t at = 0;
        memcpy(&at, sg_call_param(w, op, l, 0), 8);
        const char *bad = at ? sg_heap_give(w->wk->run->device, at) : NULL;
        if (bad)
            return sg_fault_at(w, op, DT_E_TRAP, l, at, 0, "free of 0x%llx, %s", (unsigned long long)at, bad);
    }
    return op + 1;
}
