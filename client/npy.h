/* Arrays as NumPy saves them: what the head of a .npy file says. */
#ifndef DOVETAIL_NPY_H
#define DOVETAIL_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct npy {
    size_t at;      /* where the elements begin */
    uint64_t bytes; /* of all elements */
    char kind;      /* of an element: b bool, i u f c as numpy has them, V bytes */
    unsigned size;  /* bytes of one */
    char descr[32]; /* "<f4" */
};
bool npy_is(const void *p, size_t n); /* does it begin as one? */
/* DT_E_GRAPH with a sentence that says what is wrong, or not taken. The file's size is not looked at. */
int npy_head(const void *p, size_t n, struct npy *ret, struct dt_err *e);
/* May its elements be those of a dtype of graphs ("f32")? */
bool npy_fits(const struct npy *a, const char *dtype);

#endif
