/* The entries under their names with _ptds and _ptsz: what a program built with CUDA_API_PER_THREAD_DEFAULT_STREAM
 * calls.
 *
 * They are the same entries, for which NULL means the calling thread's own default stream (cu_stream) instead of the
 * legacy one. per-thread.def lists them.
 */
#include "softgpu/libcuda/cu-priv.h"

#define PER_THREAD(symbol, suffix, params, args)                                                                       \
    CUresult base_##symbol params __asm__(#symbol);                                                                    \
    __attribute__((visibility("default"))) CUresult pt_##symbol params __asm__(#symbol "_" #suffix);                   \
    CUresult pt_##symbol params                                                                                        \
    {                                                                                                                  \
        bool was = cu_per_thread;                                                                                      \
        cu_per_thread = true;                                                                                          \
        CUresult r = base_##symbol args;                                                                               \
        cu_per_thread = was;                                                                                           \
        return r;                                                                                                      \
    }
#include "softgpu/libcuda/per-thread.def"
