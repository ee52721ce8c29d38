/* Memory operations of streams: write a value, wait for a value, barriers; one by one or in batches.
 *
 * Work runs inside the call that asks for it, so a wait whose condition does not hold yet can only be ended by another
 * thread of the program, or by a host function. The call then waits, without the lock, and looks again every 50
 * microseconds; after the context's deadline (dovetailSetDeadline), or 10 seconds where there is none, the context
 * fails with CUDA_ERROR_LAUNCH_TIMEOUT.
 */
#include <string.h>
#include <time.h>

#include "softgpu/libcuda/cu-priv.h"

enum { NAP_US = 50, PATIENCE_MS = 10000 };

static bool accessible(struct CUctx_st *c, CUdeviceptr p, size_t bytes)
{
    return p % bytes == 0 && (sg_mem_ok(c->dev->sg, p, bytes) || cu_graph_memory_holds(p, bytes));
}

static CUresult check_one(struct CUctx_st *c, const CUstreamBatchMemOpParams *op)
{
    bool wide = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        CU_REQUIRE(!(op->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH), CUDA_ERROR_NOT_SUPPORTED);
        CU_REQUIRE(op->waitValue.flags <= CU_STREAM_WAIT_VALUE_NOR &&
                       accessible(c, op->waitValue.address, wide ? 8 : 4),
                   CUDA_ERROR_INVALID_VALUE);
        return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        CU_REQUIRE(op->writeValue.flags <= CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER &&
                       accessible(c, op->writeValue.address, wide ? 8 : 4),
                   CUDA_ERROR_INVALID_VALUE);
        return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_BARRIER:
        CU_REQUIRE(op->memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU, CUDA_ERROR_INVALID_VALUE);
        return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cu_memop_check(struct CUctx_st *c, unsigned n, const CUstreamBatchMemOpParams *op, unsigned flags)
{
    CU_REQUIRE(n && n <= 256 && op && !flags, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < n; i++)
        CU_TRY(check_one(c, &op[i]));
    return CUDA_SUCCESS;
}

static bool holds(const CUstreamBatchMemOpParams *op)
{
    const void *p = (const void *)(uintptr_t)op->waitValue.address;
    if (op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64) {
        uint64_t now = __atomic_load_n((const uint64_t *)p, __ATOMIC_SEQ_CST), v = op->waitValue.value64;
        switch (op->waitValue.flags) {
        case CU_STREAM_WAIT_VALUE_EQ: return now == v;
        case CU_STREAM_WAIT_VALUE_AND: return (now & v) != 0;
        case CU_STREAM_WAIT_VALUE_NOR: return ~(now | v) != 0;
        default: return (int64_t)(now - v) >= 0;
        }
    }
    uint32_t now = __atomic_load_n((const uint32_t *)p, __ATOMIC_SEQ_CST), v = op->waitValue.value;
    switch (op->waitValue.flags) {
    case CU_STREAM_WAIT_VALUE_EQ: return now == v;
    case CU_STREAM_WAIT_VALUE_AND: return (now & v) != 0;
    case CU_STREAM_WAIT_VALUE_NOR: return ~(now | v) != 0;
    default: return (int32_t)(now - v) >= 0;
    }
}

static void nap(void *unused) { nanosleep(&(struct timespec){.tv_nsec = NAP_US * 1000}, NULL); }

static CUresult wait_for(struct CUctx_st *c, const CUstreamBatchMemOpParams *op)
{
    uint64_t patience = (uint64_t)(c->deadline_ms ? c->deadline_ms : PATIENCE_MS) * 1000;
    for (uint64_t us = 0;; us += NAP_US) {
        CU_TRY(check_one(c, op)); /* the memory may be gone since */
        if (holds(op))
            return CUDA_SUCCESS;
        if (us >= patience) {
            c->sticky = CUDA_ERROR_LAUNCH_TIMEOUT;
            return c->sticky;
        }
        cu_call_host(nap, NULL);
        CU_REQUIRE(cu_is(c, CU_CTX), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
}

CUresult cu_memop_run(struct CUctx_st *c, unsigned n, const CUstreamBatchMemOpParams *op)
{
    for (unsigned i = 0; i < n; i++) {
        CU_TRY(check_one(c, &op[i]));
        void *p = (void *)(uintptr_t)op[i].writeValue.address;
        switch (op[i].operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64: CU_TRY(wait_for(c, &op[i])); break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            __atomic_store_n((uint32_t *)p, op[i].writeValue.value, __ATOMIC_SEQ_CST);
            sg_mem_written(c->dev->sg, op[i].writeValue.address, 4);
            break;
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            __atomic_store_n((uint64_t *)p, op[i].writeValue.value64, __ATOMIC_SEQ_CST);
            sg_mem_written(c->dev->sg, op[i].writeValue.address, 8);
            break;
        default: break;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned n, CUstreamBatchMemOpParams *op, unsigned flags)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(cu_memop_check(c, n, op, flags));
    CU_TRY(cu_capture_legacy(c, s));
    if (s->capture)
        return cu_capture_memop(s, n, op);
    CUstreamBatchMemOpParams *own = dt_memdup(op, n * sizeof *own); /* the program may change it while a wait waits */
    CU_REQUIRE(own, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult r = cu_memop_run(c, n, own);
    dt_freep_(&own);
    return r;
}

CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags)
{
    CUstreamBatchMemOpParams op = {
        .waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = p, .value = v, .flags = flags}};
    return cuStreamBatchMemOp(s, 1, &op, 0);
}

CUresult cuStreamWaitValue64(CUstream s, CUdeviceptr p, cuuint64_t v, unsigned flags)
{
    CUstreamBatchMemOpParams op = {
        .waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64, .address = p, .value64 = v, .flags = flags}};
    return cuStreamBatchMemOp(s, 1, &op, 0);
}

CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr p, cuuint32_t v, unsigned flags)
{
    CUstreamBatchMemOpParams op = {
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = p, .value = v, .flags = flags}};
    return cuStreamBatchMemOp(s, 1, &op, 0);
}

CUresult cuStreamWriteValue64(CUstream s, CUdeviceptr p, cuuint64_t v, unsigned flags)
{
    CUstreamBatchMemOpParams op = {
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = p, .value64 = v, .flags = flags}};
    return cuStreamBatchMemOp(s, 1, &op, 0);
}
