/* The library that `dovetail capture` puts into a program: what its files share. It has no dependency but libc, writes
 * one file, and does nothing where DOVETAIL_CAPTURE_DIR is not set. */
#ifndef DT_CAPTURE_INJECT_H
#define DT_CAPTURE_INJECT_H

#pragma GCC visibility push(default) /* the driver's entries, which are what it exports */
#include <cuda.h>
#pragma GCC visibility pop
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/trace.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

/* ---- find.c ---- */
void *inj_symbol(const char *symbol); /* the driver's own entry; NULL: it has none */
/* The driver's own entry, called with what follows; found once. CUDA_ERROR_NOT_FOUND where it has none. */
#define REAL(name, ...)                                                                                                \
    ({                                                                                                                 \
        static void *real_;                                                                                            \
        typeof(&name) f_ = real_ ? real_ : (real_ = inj_symbol(TEXT(name)));                                           \
        f_ ? f_(__VA_ARGS__) : CUDA_ERROR_NOT_FOUND;                                                                   \
    })

/* What is to be called in place of the driver's. name NULL: the address alone. The first is one of the driver's own. */
struct inj_swap {
    const char *name;
    void *from, *to;
};
const struct inj_swap *inj_swaps(size_t *ret_n); /* NULL: there is no driver */
/* At a module or a launch, for a library that was not preloaded: objects that came since. */
void inj_objects(void);

/* ---- takeover.c ---- */
void inj_take_over(void); /* in all objects that were loaded since */

/* ---- write.c: one record at a time; records of several threads never mix ---- */
bool inj_on(void); /* is this process captured? Opens the file at the first call. */
enum inj_data { INJ_NONE, INJ_INDICES, INJ_ALL };
enum inj_data inj_data(void);
void inj_record(enum cap_kind kind, const void *head, size_t nhead, const void *more, size_t nmore, const void *rest,
                size_t nrest);
void inj_untaken(const char *format, ...) __attribute__((format(printf, 1, 2)));
void inj_lock(void);
void inj_unlock(const int *unused);
#define INJ_LOCK() __attribute__((cleanup(inj_unlock), unused)) int locked_ = (inj_lock(), 0)

/* ---- image.c: with the lock ---- */
void inj_image(const void *handle, bool library,
               const void *image); /* of a module or library that was loaded from it */
void inj_image_file(const void *handle, bool library, const char *path);
void inj_same(const void *handle, const void *of); /* a module of a library; a function of a kernel */
void inj_function(const void *handle, const void *module, const char *name);
void inj_variable(const void *module, const char *name, CUdeviceptr at, size_t bytes);
uint32_t inj_function_number(CUfunction f);

/* ---- work.c: what a call asked for, as records; with the lock ---- */
void inj_alloc(CUdeviceptr at, size_t bytes, uint32_t how);
void inj_free(CUdeviceptr at);
struct inj_launch {
    struct cap_launch l;
    struct cap_param *param; /* owned */
    uint8_t *block;          /* owned */
};
bool inj_launch_of(const CUlaunchConfig *cfg, CUfunction f, void **params, void **extra, struct inj_launch *ret);
void inj_launch_write(const struct inj_launch *l);
void inj_launch_done(struct inj_launch *l);
void inj_set(CUstream s, CUdeviceptr at, size_t pitch, unsigned value, unsigned element, size_t width, size_t height);
/* Before the copy is made (what the host gives is read), and after a copy that has ended when its call comes back. */
uint64_t inj_copy(CUstream s, CUmemorytype to_type, uint64_t to, size_t to_pitch, CUmemorytype from_type, uint64_t from,
                  size_t from_pitch, size_t width, size_t height);
void inj_copied(uint64_t number, bool ended);
uint64_t inj_copy_3d(CUstream s, const CUDA_MEMCPY3D *p);
void inj_map(const CUtensorMap *m, struct cap_map *c, const cuuint64_t *dim, const cuuint64_t *stride,
             const cuuint32_t *box, const cuuint32_t *step);
void inj_order(CUstream s, CUevent e, uint32_t what);
void inj_host_memory(void);      /* before work begins: what the host wrote into memory that kernels can read */
bool inj_pinned_unwatched(void); /* is there pinned memory that no kernel has been given? */
void inj_pinned_given(const struct inj_launch *l); /* is it given now? Then inj_host_memory looks at it, too. */

/* ---- nodes.c: with the lock ---- */
void inj_graph_list(CUgraphExec exec, CUgraph g);
void inj_graph_kernel(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p);
void inj_graph_spoiled(CUgraphExec exec, const char *by);
void inj_graph_launch(CUgraphExec exec, CUstream s);
void inj_graph_drop(CUgraphExec exec);

#endif
