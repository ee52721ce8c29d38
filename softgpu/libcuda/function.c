/* Attributes of functions: what they need and may use; occupancy.
 *
 * Registers are what sg_kernel_info says: an estimate from liveness until dovetailFuncSetResources gives ptxas's
 * number.
 */
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

uint32_t cu_registers(const struct CUfunc_st *f, uint64_t threads)
{
    const uint32_t n = f->info->registers, block = f->mod->ctx->dev->model->regs_block;
    const uint64_t warps = (threads + 127) / 128 * 4, fit = warps ? block / (warps * 32) / 8 * 8 : n;
    return f->info->registers_estimated && n > fit ? (uint32_t)fit : n;
}

static unsigned function_max_threads(const struct CUfunc_st *f)
{
    const struct sg_model *m = f->mod->ctx->dev->model;
    unsigned n = f->info->max_threads && f->info->max_threads < 1024 ? f->info->max_threads : 1024;
    while (n > 32 && !sg_occupancy(m, n, cu_registers(f, n), 0).blocks_per_sm)
        n -= n % 32 ? n % 32 : 32;
    return n;
}

static CUresult function_get(const struct CUfunc_st *f, CUfunction_attribute a, int *ret)
{
    const struct sg_model *m = f->mod->ctx->dev->model;
    switch (a) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *ret = (int)function_max_threads(f); break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *ret = (int)f->info->shared_static; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *ret = (int)f->info->const_bytes; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *ret = (int)f->info->local_bytes; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *ret = (int)f->info->registers; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *ret = (int)f->info->ptx_version; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *ret = (int)(m->cc_major * 10 + m->cc_minor); break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *ret = 0; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *ret = f->max_dynamic; break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *ret = f->carveout; break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *ret = f->nonportable_cluster; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: *ret = f->cluster_required; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: *ret = f->cluster[0]; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: *ret = f->cluster[1]; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: *ret = f->cluster[2]; break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: *ret = 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult function_set(struct CUfunc_st *f, CUfunction_attribute a, int v)
{
    const struct sg_model *m = f->mod->ctx->dev->model;
    switch (a) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        CU_REQUIRE(v >= 0 && (uint64_t)v + f->info->shared_static <= m->shared_block_optin, CUDA_ERROR_INVALID_VALUE);
        f->max_dynamic = v;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        CU_REQUIRE(v >= -1 && v <= 100, CUDA_ERROR_INVALID_VALUE);
        f->carveout = v;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: f->nonportable_cluster = v != 0; break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        CU_REQUIRE(v >= 0, CUDA_ERROR_INVALID_VALUE);
        CU_REQUIRE(!f->info->cluster[0], CUDA_ERROR_NOT_PERMITTED); /* set when it was compiled */
        f->cluster[a - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = v;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cu_cluster_check(const struct CUfunc_st *f, const uint32_t grid[3], uint32_t cluster[3])
{
    bool asked = cluster[0] || cluster[1] || cluster[2], wanted = f->cluster[0] || f->cluster[1] || f->cluster[2];
    uint64_t size = 1;
    if (!asked && !wanted)
        return f->cluster_required ? CUDA_ERROR_INVALID_CLUSTER_SIZE : CUDA_SUCCESS;
    CU_REQUIRE(f->mod->ctx->dev->model->cc_major >= 9, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    for (int i = 0; i < 3; i++) {
        uint32_t n = asked ? cluster[i] : (uint32_t)f->cluster[i];
        CU_REQUIRE(n && n <= 16 && (!wanted || n == (uint32_t)f->cluster[i]) && grid[i] % n == 0,
                   CUDA_ERROR_INVALID_CLUSTER_SIZE);
        cluster[i] = n;
        size *= n;
    }
    uint32_t most = f->nonportable_cluster ? 16 : 8;
    if (f->info->max_cluster && f->info->max_cluster < most)
        most = f->info->max_cluster;
    return size <= most ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

#define CU_FUNCTION(c, fn, handle)                                                                                     \
    CU_CONTEXT(c);                                                                                                     \
    struct CUfunc_st *fn;                                                                                              \
    CU_TRY(cu_function(c, handle, &fn))

CUresult cuFuncGetAttribute(int *ret, CUfunction_attribute a, CUfunction handle)
{
    CU_FUNCTION(c, f, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    return function_get(f, a, ret);
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute a, int v)
{
    CU_FUNCTION(c, f, handle);
    return function_set(f, a, v);
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    CU_FUNCTION(c, f, handle);
    CU_REQUIRE((unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
    CU_FUNCTION(c, f, handle);
    CU_REQUIRE((unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *ret, CUfunction handle)
{
    CU_FUNCTION(c, f, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = f->mod;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **ret, CUfunction handle)
{
    CU_FUNCTION(c, f, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = f->info->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t i, size_t *offset, size_t *size)
{
    CU_FUNCTION(c, f, handle);
    CU_REQUIRE(offset && i < f->info->nparam, CUDA_ERROR_INVALID_VALUE);
    *offset = f->info->param_offset[i];
    if (size)
        *size = f->info->param_bytes[i];
    return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *ret, CUfunction handle)
{
    CU_FUNCTION(c, f, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction handle)
{
    CU_FUNCTION(c, f, handle);
    return CUDA_SUCCESS;
}

/* ---- occupancy ---- */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *ret, CUfunction handle, int block, size_t dynamic,
                                                              unsigned flags)
{
    CU_FUNCTION(c, f, handle);
    CU_REQUIRE(ret && block > 0 && flags <= CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE, CUDA_ERROR_INVALID_VALUE);
    size_t shared = dynamic + f->info->shared_static;
    *ret = (unsigned)block > f->info->max_threads || shared > c->dev->model->shared_block_optin
               ? 0
               : (int)sg_occupancy(c->dev->model, (uint32_t)block, cu_registers(f, (uint32_t)block), (uint32_t)shared)
                     .blocks_per_sm;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, CUfunction handle, int block, size_t dynamic)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(ret, handle, block, dynamic, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction handle,
                                                   CUoccupancyB2DSize shared_of, size_t dynamic, int limit,
                                                   unsigned flags)
{
    CU_FUNCTION(c, f, handle);
    CU_REQUIRE(grid && block, CUDA_ERROR_INVALID_VALUE);
    unsigned most = function_max_threads(f), best = 0;
    if (limit > 0 && (unsigned)limit < most)
        most = (unsigned)limit;
    for (unsigned n = most; n > 0; n -= n % 32 ? n % 32 : 32) {
        size_t shared = f->info->shared_static + (shared_of ? shared_of((int)n) : dynamic);
        unsigned b = shared > c->dev->model->shared_block_optin
                         ? 0
                         : sg_occupancy(c->dev->model, n, cu_registers(f, n), (uint32_t)shared).blocks_per_sm;
        if (b * n > best) {
            best = b * n;
            *block = (int)n;
            *grid = (int)(b * c->dev->model->sms);
        }
    }
    return best ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction handle, CUoccupancyB2DSize shared_of,
                                          size_t dynamic, int limit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, handle, shared_of, dynamic, limit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *ret, CUfunction handle, int blocks, int size)
{
    CU_FUNCTION(c, f, handle);
    const struct sg_model *m = c->dev->model;
    CU_REQUIRE(ret && blocks > 0 && size > 0, CUDA_ERROR_INVALID_VALUE);
    size_t each = m->shared_sm / (unsigned)blocks / m->shared_unit * m->shared_unit,
           taken = m->shared_reserved + f->info->shared_static;
    each = each > taken ? each - taken : 0;
    *ret =
        each + f->info->shared_static > m->shared_block_optin ? m->shared_block_optin - f->info->shared_static : each;
    return CUDA_SUCCESS;
}

/* Threads and shared memory of a block of `cfg`, if one can run. */
static CUresult block_of(const struct CUfunc_st *f, const CUlaunchConfig *cfg, uint32_t *ret_threads,
                         uint32_t *ret_shared)
{
    uint64_t threads = (uint64_t)cfg->blockDimX * cfg->blockDimY * cfg->blockDimZ;
    CU_REQUIRE(threads && threads <= f->info->max_threads, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cfg->sharedMemBytes <= (unsigned)f->max_dynamic, CUDA_ERROR_INVALID_VALUE);
    *ret_threads = (uint32_t)threads;
    *ret_shared = cfg->sharedMemBytes + f->info->shared_static;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *ret, CUfunction handle, const CUlaunchConfig *cfg)
{
    CU_FUNCTION(c, f, handle);
    CU_REQUIRE(ret && cfg, CUDA_ERROR_INVALID_VALUE);
    uint32_t cluster[3] = {0}, grid[3] = {cfg->gridDimX, cfg->gridDimY, cfg->gridDimZ};
    for (unsigned i = 0; i < cfg->numAttrs; i++)
        if (cfg->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            cluster[0] = cfg->attrs[i].value.clusterDim.x;
            cluster[1] = cfg->attrs[i].value.clusterDim.y;
            cluster[2] = cfg->attrs[i].value.clusterDim.z;
        }
    CU_TRY(cu_cluster_check(f, grid, cluster));
    CU_REQUIRE(cluster[0], CUDA_ERROR_INVALID_CLUSTER_SIZE);
    uint32_t threads, shared;
    CU_TRY(block_of(f, cfg, &threads, &shared));
    *ret = (int)sg_clusters(c->dev->model,
                            sg_occupancy(c->dev->model, threads, cu_registers(f, threads), shared).blocks_per_sm,
                            cluster[0] * cluster[1] * cluster[2]);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *ret, CUfunction handle, const CUlaunchConfig *cfg)
{
    CU_FUNCTION(c, f, handle);
    CU_REQUIRE(ret && cfg, CUDA_ERROR_INVALID_VALUE);
    uint32_t threads, shared, most = f->nonportable_cluster ? 16 : 8;
    CU_TRY(block_of(f, cfg, &threads, &shared));
    CU_REQUIRE(c->dev->model->cc_major >= 9, CUDA_ERROR_NOT_SUPPORTED);
    unsigned per_sm = sg_occupancy(c->dev->model, threads, cu_registers(f, threads), shared).blocks_per_sm;
    if (f->info->max_cluster && f->info->max_cluster < most)
        most = f->info->max_cluster;
    while (most > 1 && !sg_clusters(c->dev->model, per_sm, most))
        most--;
    CU_REQUIRE(per_sm, CUDA_ERROR_INVALID_VALUE);
    *ret = f->cluster[0] ? f->cluster[0] * f->cluster[1] * f->cluster[2] : (int)most;
    return CUDA_SUCCESS;
}
