/* Names and words of errors, by errors.def. */
#include "softgpu/runtime/rt-priv.h"

static const struct row {
    cudaError_t error;
    const char *name, *words;
} row[] = {
#define ROW(name, words) {name, #name, words},
#include "softgpu/runtime/errors.def"
#undef ROW
};

static const struct row *row_of(cudaError_t e)
{
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].error == e)
            return &row[i];
    return NULL;
}

const char *cudaGetErrorName(cudaError_t e)
{
    const struct row *r = row_of(e);
    return r ? r->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t e)
{
    const struct row *r = row_of(e);
    return r ? r->words : "unrecognized error code";
}
