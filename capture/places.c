/* Whose content says where: the buffers that `--data indices` keeps.
 *
 * A buffer is one of places where the memory that a launch's argument points to decides, by the analysis, what the
 * launch touches or which way it goes (`decides` of a launch, analysis/taint/deciders.c). What a copy on the device or
 * from the host puts there is, too. A buffer leads to places where a launch reads it that writes one of places, or one
 * that leads there: its content counts as far as it looks like whole numbers, since who computes places of numbers with
 * fractions (the largest of some scores) computes ones that exist whatever the numbers are, and who adds up lengths
 * does not.
 *
 * Of a launch of which the analysis does not know it, and of variables of modules, every buffer that it reads is in
 * doubt: the bits decide (cap_whole_numbers).
 */
#include "base/alloc.h"
#include "capture/capture-priv.h"

struct places {
    const struct cap_trace *t;
    const struct cap_range *r;
    struct cap_pieces *p;
    bool changed;
};

static void mark(struct places *s, struct cap_piece *x, enum cap_says says)
{
    if (x->says < says) {
        x->says = says;
        s->changed = true;
    }
}

static struct cap_piece *places_piece(const struct places *s, uint32_t op, uint32_t point)
{
    uint32_t k = s->p->of[op - s->r->begin][point];
    return k == CAP_NONE ? NULL : &s->p->piece.p[k];
}

/* Does the operation read, or write, bytes of the piece? */
static void places_touch(const struct cap_op *o, const struct cap_piece *x, bool *ret_reads, bool *ret_writes)
{
    *ret_reads = *ret_writes = false;
    for (uint32_t i = 0; i < o->ntouch; i++) {
        const struct cap_touch *m = &o->touch[i];
        if (m->mem != x->mem)
            continue;
        *ret_reads |= cap_set_meets(&m->read, x->lo, x->hi);
        *ret_writes |= cap_set_meets(&m->write, x->lo, x->hi) || cap_set_meets(&m->may, x->lo, x->hi);
    }
}

/* What the analysis says of a launch's own arguments. */
static void by_analysis(struct places *s, uint32_t op)
{
    const struct cap_op *o = &s->t->op.p[op];
    for (uint32_t k = 0; k < o->npoint && o->kind == CAP_KERNEL; k++) {
        struct cap_piece *x = places_piece(s, op, k);
        bool reads, writes;
        if (!x)
            continue;
        places_touch(o, x, &reads, &writes);
        if (!reads)
            continue;
        if (!o->decides || s->t->memory.p[x->mem].image != CAP_NONE)
            mark(s, x, CAP_IN_DOUBT);
        else if (o->decides[o->point[k].param])
            mark(s, x, CAP_PLACES);
    }
}

/* Backwards: who writes places, or what leads there, has its own from somewhere. */
static void backwards(struct places *s, uint32_t op)
{
    const struct cap_op *o = &s->t->op.p[op];
    enum cap_says most = CAP_NUMBERS;
    bool reads, writes;
    for (uint32_t k = 0; k < o->npoint; k++) {
        struct cap_piece *x = places_piece(s, op, k);
        if (x)
            places_touch(o, x, &reads, &writes);
        if (x && writes && x->says > most)
            most = x->says;
    }
    if (most == CAP_NUMBERS)
        return;
    for (uint32_t k = 0; k < o->npoint; k++) {
        struct cap_piece *x = places_piece(s, op, k);
        if (x)
            places_touch(o, x, &reads, &writes);
        if (x && reads)
            mark(s, x, o->kind == CAP_DEVICE_COPY ? most : CAP_IN_DOUBT);
    }
}

void cap_places(const struct cap_trace *t, const struct cap_range *r, struct cap_pieces *p)
{
    struct places s = {t, r, p, true};
    for (uint32_t i = r->begin; i < r->end; i++)
        by_analysis(&s, i);
    while (s.changed) {
        s.changed = false;
        for (uint32_t i = r->end; i-- > r->begin;)
            backwards(&s, i);
    }
}
