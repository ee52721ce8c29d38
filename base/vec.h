/* Typed growable arrays as a struct of three members: `struct dt_vec(int) v = {0}; dt_push(&v, 3)`.
 * dt_push is true on success, false when memory is out (the array is unchanged). Release with free(v.p). */
#ifndef DT_BASE_VEC_H
#define DT_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"

#define dt_vec(type)                                                                                                   \
    {                                                                                                                  \
        type *p;                                                                                                       \
        size_t n, cap;                                                                                                 \
    }

static inline bool dt_vec_grow_(void **p, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap)
        return true;
    size_t c = *cap ? *cap * 2 : 8;
    if (c < need)
        c = need;
    void *q = dt_reallocarray(*p, c, size);
    if (!q)
        return false;
    *p = q;
    *cap = c;
    return true;
}

#define dt_reserve(v, need) dt_vec_grow_((void **)&(v)->p, &(v)->cap, (need), sizeof *(v)->p)
#define dt_push(v, ...) (dt_reserve((v), (v)->n + 1) ? ((v)->p[(v)->n++] = (__VA_ARGS__), true) : false)

#endif
