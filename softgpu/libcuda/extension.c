/* The entries that only this device has (extension.h).
 *
 * dovetail reaches them through cuGetProcAddress. Two of them let times be computed without running: a launch's work in the model is handed
 * out as it is (dovetailLastWork), and a timeline made from such works (dovetailTimeline).
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

CUresult dovetailDeviceByModel(CUdevice *ret, const char *id)
{
    CU_READY();
    CU_REQUIRE(ret && id, CUDA_ERROR_INVALID_VALUE);
    const struct sg_model *m = sg_model_find(id);
    CU_REQUIRE(m, CUDA_ERROR_NOT_FOUND);
    size_t n = strlen(m->id);
    for (CUdevice i = 0; cu_device_at(i); i++)
        if (!strncmp(cu_device_at(i)->model->id, m->id, n) && strchr("~", cu_device_at(i)->model->id[n])) { /* with figures of its own: id~hash */
            *ret = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult dovetailDeviceModel(const char **ret, CUdevice dev)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    *ret = cu_device_at(dev)->model->id;
    return CUDA_SUCCESS;
}

CUresult dovetailDeviceL2Halves(unsigned *ret, CUdevice dev)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    *ret = cu_device_at(dev)->model->l2_halves;
    return CUDA_SUCCESS;
}

CUresult dovetailSetSchedule(uint64_t seed, int race_check)
{
    CU_CONTEXT(c);
    c->seed = seed;
    c->race_check = race_check != 0;
    return CUDA_SUCCESS;
}

CUresult dovetailSetChecks(const char *modes)
{
    CU_CONTEXT(c);
    unsigned bits = 0;
    CU_REQUIRE(sg_checks_parse(modes ? modes : cu_environment_checks(), &bits), CUDA_ERROR_INVALID_VALUE);
    c->checks = bits;
    sg_mem_track(c->dev->sg, bits & SG_CHECK_UNINIT);
    return CUDA_SUCCESS;
}

CUresult dovetailNextBlocks(const uint32_t *block, unsigned n, uint64_t unique_read_bytes, uint64_t unique_write_bytes)
{
    CU_CONTEXT(c);
    CU_REQUIRE(block || !n, CUDA_ERROR_INVALID_VALUE);
    uint32_t *copy = dt_reallocarray(NULL, (size_t)n + 1, sizeof *copy);
    CU_REQUIRE(copy, CUDA_ERROR_OUT_OF_MEMORY);
    if (n)
        memcpy(copy, block, n * sizeof *copy);
    free((void *)c->some.block);
    c->some = (struct sg_some){copy, n, unique_read_bytes, unique_write_bytes};
    return CUDA_SUCCESS;
}

CUresult dovetailForget(CUdeviceptr p, size_t bytes)
{
    CU_CONTEXT(c);
    CU_REQUIRE(sg_mem_ok(c->dev->sg, p, bytes), CUDA_ERROR_INVALID_VALUE);
    sg_mem_forget(c->dev->sg, p, bytes);
    return CUDA_SUCCESS;
}

CUresult dovetailNameMemory(CUdeviceptr p, const char *name)
{
    CU_CONTEXT(c);
    CU_REQUIRE(sg_mem_ok(c->dev->sg, p, 1), CUDA_ERROR_INVALID_VALUE);
    sg_mem_name(c->dev->sg, p, name);
    return CUDA_SUCCESS;
}

CUresult dovetailSetDeadline(unsigned ms)
{
    CU_CONTEXT(c);
    c->deadline_ms = ms;
    return CUDA_SUCCESS;
}

CUresult dovetailGetFault(struct dovetail_fault *ret)
{
    CU_READY();
    CUcontext c;
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cuCtxGetCurrent(&c));
    CU_REQUIRE(c && cu_is(c, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    *ret = c->fault;
    if (!c->fault.num && c->refused.num) {
        *ret = c->refused;
        c->refused.num = 0;
    }
    return CUDA_SUCCESS;
}

CUresult dovetailFuncSetResources(CUfunction handle, unsigned registers)
{
    CU_CONTEXT(c);
    struct CUfunc_st *f;
    CU_TRY(cu_function(c, handle, &f));
    CU_REQUIRE(registers && registers <= 255, CUDA_ERROR_INVALID_VALUE);
    sg_kernel_set_resources(f->kernel, registers);
    return CUDA_SUCCESS;
}

CUresult dovetailRecord(struct dovetail_recorder *r)
{
    CU_CONTEXT(c);
    CU_REQUIRE(!r || sg_record_ok(r), CUDA_ERROR_INVALID_VALUE);
    c->record = r;
    return CUDA_SUCCESS;
}

CUresult dovetailLastStats(struct dovetail_launch_stats *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    const struct sg_stats *s = &c->last;
    *ret = (struct dovetail_launch_stats){
        .instructions = s->instructions, .fp32 = s->fp32, .fp64 = s->fp64, .integer = s->integer, .sfu = s->sfu,
        .memory = s->memory, .barriers = s->barriers, .tensor_flops = s->tensor_flops, .global_read_bytes = s->global_read_bytes,
        .global_write_bytes = s->global_write_bytes, .shared_bytes = s->shared_bytes,
        .unique_read_bytes = s->unique_read_bytes, .unique_write_bytes = s->unique_write_bytes};
    return CUDA_SUCCESS;
}

_Static_assert(sizeof(struct sg_work) <= sizeof(struct dovetail_work), "dovetail_work holds one sg_work");

static void wrap(struct dovetail_work *to, const struct sg_work *from)
{
    memset(to, 0, sizeof *to);
    memcpy(to, from, sizeof *from);
}

CUresult dovetailLastWork(struct dovetail_work *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    wrap(ret, &c->last_work);
    return CUDA_SUCCESS;
}

CUresult dovetailSetWork(struct dovetail_work *ret, size_t bytes, int is_copy)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    wrap(ret, &(struct sg_work){.kind = SG_WORK_SET, .bytes = is_copy ? 2 * bytes : bytes});
    return CUDA_SUCCESS;
}

CUresult dovetailTimeline(unsigned n, const struct dovetail_work *work, const unsigned *at, const unsigned *after,
                          const unsigned char *early, double *start_us, double *end_us)
{
    CU_CONTEXT(c);
    CU_REQUIRE(n && work && at && start_us && end_us, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < n; i++) {
        CU_REQUIRE(at[i] <= at[i + 1] && (after || at[i] == at[i + 1]), CUDA_ERROR_INVALID_VALUE);
        for (unsigned k = at[i]; k < at[i + 1]; k++)
            CU_REQUIRE(after[k] < i, CUDA_ERROR_INVALID_VALUE);
    }
    struct sg_work *w = dt_calloc(n, sizeof *w);
    CU_REQUIRE(w, CUDA_ERROR_OUT_OF_MEMORY);
    for (unsigned i = 0; i < n; i++) {
        memcpy(&w[i], &work[i], sizeof w[i]);
        w[i].in_graph = true;
        w[i].after = after + at[i];
        w[i].nafter = at[i + 1] - at[i];
        w[i].early = early ? early + at[i] : NULL;
    }
    int r = sg_timeline(c->dev->model, w, n);
    for (unsigned i = 0; i < n && !r; i++) {
        start_us[i] = w[i].start_us;
        end_us[i] = w[i].end_us;
    }
    free(w);
    return cu_from_dt(r);
}
