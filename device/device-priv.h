/* What stays inside device/: finding libraries and helper programs, the compiler child, the open device, the driver's table. */
#ifndef DT_DEVICE_PRIV_H
#define DT_DEVICE_PRIV_H

#include <cuda.h>

#include "base/str.h"
#include "device/device.h"
#include "softgpu/libcuda/extension.h"

/* ---- find.c ---- */
/* A file that the build or an installation put beside this program: the environment variable `env` names it, else
 * DIR/../`folder`/`name` and DIR/../lib/dovetail/`name` of every parent of the running program. Caller frees; NULL: not found. */
char *dev_find_ours(const char *env, const char *folder, const char *name);
/* dlopen one of the NULL-terminated sonames: DOVETAIL_CUDA_LIBS, CUDA_HOME, the toolkit of the build, then the system's own search.
 * NULL if none is there. */
void *dev_find_library(const char *const *soname);

/* ---- child.c: the confined compiler ---- */
struct dev_reply { /* what the child said; the strings are owned */
    char *log, *result, *error;
    size_t result_len;
    bool missing; /* the library is not on this machine */
};
/* One job: 'N' NVRTC (options, source), 'J' nvJitLink (options, PTX), 'V' and 'W' their versions. 0 when the child answered, else
 * DT_E_TIMEOUT, DT_E_COMPILE (it crashed), DT_E_NO_COMPILER (it is not installed), DT_E_IO. */
int dev_child(char job, const char *const *option, unsigned noption, const char *text, size_t len, unsigned timeout_ms,
              struct dev_reply *ret, struct dt_err *e);
void dev_reply_done(struct dev_reply *r);

/* ---- options.c ---- */
/* 0 if NVRTC may be given these options; DT_E_COMPILE naming the first that it may not. */
int dev_check_options(const char *const *option, unsigned n, struct dt_err *e);

/* ---- memo.c: results of compilers, by digest; one process, bounded, thread-safe ---- */
bool dev_memo_get(const char *key, char **ret, size_t *ret_len); /* a copy, caller frees */
void dev_memo_put(const char *key, const void *p, size_t len);

bool dev_arch_ok(const char *arch); /* "sm_90", "sm_100a" */

#endif
