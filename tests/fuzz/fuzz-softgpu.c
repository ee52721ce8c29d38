/* The software device: whatever PTX comes, loading refuses it, or its kernels run into an end, a fault or the
 * instruction limit.
 *
 * Every entry is launched twice (in order, and with a seed and the race detector) with small geometry; parameters are
 * the address of a buffer, over and over, and a small number. Where the text has textures or surfaces, it is launched
 * again with each of a few handles as its first parameter. Accesses outside the buffer must be faults of the device,
 * never of this process.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/sg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { REFERENCES = 10 };
/* Textures and surfaces of every geometry over the buffer: 4 x 4 x 6 texels of 4 bytes, three levels in one place. */
static void references(struct sg_device *dev, uint64_t buffer, uint64_t ret[REFERENCES])
{
    static const struct {
        unsigned dims;
        bool layered, cube, surface;
    } shape[REFERENCES] = {{1},
                           {2},
                           {3},
                           {1, true},
                           {2, true},
                           {2, false, true},
                           {2, true, true},
                           {1, .surface = true},
                           {2, .surface = true},
                           {3, .surface = true}};
    for (unsigned k = 0; k < REFERENCES; k++) {
        struct sg_texture t = {.kind = shape[k].surface ? SG_REF_SURFACE : SG_REF_TEXTURE,
                               .bound = true,
                               .layered = shape[k].layered,
                               .cube = shape[k].cube,
                               .dims = shape[k].dims,
                               .texel = k % 2 ? SG_TEXEL_U8 : SG_TEXEL_F32,
                               .channels = k % 2 ? 4 : 1,
                               .nlevel = k < 6 ? 3 : 1,
                               .sampler = {.edge = {(enum sg_edge)(k % 4), (enum sg_edge)((k + 1) % 4), SG_EDGE_WRAP},
                                           .linear = k % 3 != 1,
                                           .mip_linear = k % 2,
                                           .normalized = k % 2,
                                           .most = 9}};
        for (unsigned j = 0; j < t.nlevel; j++) {
            uint32_t n = 4u >> j, h = t.dims > 1 ? n : 1;
            t.level[j] =
                (struct sg_level){buffer, 4 * n, 4 * n * h, n, h, t.cube || t.layered ? 6 : t.dims > 2 ? n : 1};
        }
        if (sg_texture_add(dev, &t, &ret[k]) < 0)
            abort();
    }
}

static bool has(const uint8_t *data, size_t size, const char *word) { return memmem(data, size, word, strlen(word)); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sg_device *dev;
    static uint8_t params[65536];
    static uint64_t buffer, handle[REFERENCES];
    if (!dev) {
        setenv("DOVETAIL_SOFTGPU_THREADS", "1", 1);
        if (sg_device_new(sg_model_find(NULL), &dev) < 0 || sg_mem_alloc(dev, 4096, &buffer) < 0)
            abort();
        references(dev, buffer, handle);
    }
    unsigned passes = has(data, size, "tex") || has(data, size, "su") ? 2 + REFERENCES : 2;
    struct dt_err e = {0};
    struct sg_module *m = NULL;
    int r = sg_module_load(dev, (const char *)data, size, &m, &e);
    if (r < 0 && (e.num != r || !e.detail)) {
        fprintf(stderr, "fuzz-softgpu: refused without a reason\n");
        abort();
    }
    dt_err_done(&e);
    for (unsigned k = 0; r == 0 && k < sg_module_kernels(m); k++) {
        struct sg_kernel *kernel = sg_module_kernel_at(m, k);
        const struct sg_kernel_info *i = sg_kernel_info(kernel);
        if (i->param_total > sizeof params)
            continue;
        for (unsigned p = 0; p < i->nparam; p++) {
            uint64_t v = i->param_bytes[p] == 8 ? buffer : 7;
            for (uint32_t b = 0; b < i->param_bytes[p]; b++)
                params[i->param_offset[p] + b] = (uint8_t)(v >> 8 * (b % 8));
        }
        for (unsigned pass = 0; pass < passes; pass++) {
            if (pass > 1 && i->nparam && i->param_bytes[0] == 8)
                memcpy(params + i->param_offset[0], &handle[pass - 2], 8);
            memset((void *)(uintptr_t)buffer, 0, 4096);
            struct sg_launch l = {.kernel = kernel,
                                  .grid = {2, 1, 1},
                                  .block = {i->max_threads < 48 ? i->max_threads : 48, 1, 1},
                                  .shared_dynamic = pass ? 0 : 64,
                                  .params = params,
                                  .seed = pass,
                                  .checks = pass % 2 ? SG_CHECK_ALL : 0,
                                  .max_instructions = 20000};
            struct sg_fault f = {0};
            struct sg_stats s;
            int x = sg_execute(dev, &l, &s, &f);
            char text[512];
            sg_fault_text(&f, text, sizeof text);
            if (x < 0 && (f.num != x || !f.text[0])) {
                fprintf(stderr, "fuzz-softgpu: a fault without words\n");
                abort();
            }
        }
    }
    sg_module_free(m);
    return 0;
}
