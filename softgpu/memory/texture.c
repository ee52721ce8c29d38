/* Textures, samplers and surfaces that kernels may name: a table of descriptions by handle.
 *
 * A handle has the number of a slot, plus 1, in its low 20 bits and above them how often that slot had been given out,
 * so that a handle of what is gone names nothing, mostly. Changes wait for launches (exec_lock), which read the table
 * as it is. Not here: what a description means (exec/sample.c), who owns the memory that it names (libcuda/array.c).
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "softgpu/memory/memory.h"

enum { SLOT_BITS = 20, SLOTS = (1 << SLOT_BITS) - 1 };

unsigned sg_texel_bytes(enum sg_texel t)
{
    switch (t) {
    case SG_TEXEL_U8:
    case SG_TEXEL_S8: return 1;
    case SG_TEXEL_U16:
    case SG_TEXEL_S16:
    case SG_TEXEL_F16: return 2;
    default: return 4;
    }
}

static struct sg_reference_slot *texture_slot(const struct sg_device *d, uint64_t handle)
{
    uint64_t k = handle & SLOTS, round = handle >> SLOT_BITS;
    struct sg_reference_slot *s = k && k <= d->ntexture ? &d->texture[k - 1] : NULL;
    return s && s->texture && s->round == round ? s : NULL;
}

const struct sg_texture *sg_texture_find(const struct sg_device *d, uint64_t handle)
{
    const struct sg_reference_slot *s = texture_slot(d, handle);
    return s ? s->texture : NULL;
}

static int texture_take(struct sg_device *d, struct sg_texture *t, uint64_t *ret)
{
    size_t k = 0;
    while (k < d->ntexture && d->texture[k].texture)
        k++;
    if (k == d->texture_cap) {
        size_t cap = k ? 2 * k : 16;
        struct sg_reference_slot *more = k < SLOTS ? dt_reallocarray(d->texture, cap, sizeof *more) : NULL;
        if (!more)
            return DT_E_NOMEM;
        memset(more + k, 0, (cap - k) * sizeof *more);
        d->texture = more;
        d->texture_cap = cap;
    }
    if (k == d->ntexture)
        d->ntexture++;
    d->texture[k].texture = t;
    d->texture[k].round++;
    *ret = (uint64_t)d->texture[k].round << SLOT_BITS | (k + 1);
    return 0;
}

int sg_texture_add(struct sg_device *d, const struct sg_texture *t, uint64_t *ret)
{
    struct sg_texture *copy = dt_malloc(sizeof *copy);
    if (!copy)
        return DT_E_NOMEM;
    *copy = *t;
    pthread_mutex_lock(&d->exec_lock);
    int r = texture_take(d, copy, ret);
    pthread_mutex_unlock(&d->exec_lock);
    if (r < 0)
        free(copy);
    return r;
}

int sg_texture_set(struct sg_device *d, uint64_t handle, const struct sg_texture *t)
{
    pthread_mutex_lock(&d->exec_lock);
    struct sg_reference_slot *s = texture_slot(d, handle);
    bool found = s && s->texture->kind == t->kind;
    if (found)
        *s->texture = *t;
    pthread_mutex_unlock(&d->exec_lock);
    return found ? 0 : DT_E_NOT_FOUND;
}

int sg_texture_remove(struct sg_device *d, uint64_t handle)
{
    pthread_mutex_lock(&d->exec_lock);
    struct sg_reference_slot *s = texture_slot(d, handle);
    if (s) {
        free(s->texture);
        s->texture = NULL;
    }
    pthread_mutex_unlock(&d->exec_lock);
    return s ? 0 : DT_E_NOT_FOUND;
}

void sg_textures_free(struct sg_device *d)
{
    for (size_t k = 0; k < d->ntexture; k++)
        free(d->texture[k].texture);
    free(d->texture);
}
