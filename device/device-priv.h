/* What stays inside device/: finding libraries and helper programs, the compiler child, the open device, the driver's
 * table. */
#ifndef DT_DEVICE_PRIV_H
#define DT_DEVICE_PRIV_H

#include <stdatomic.h>
#include <cuda.h>

#include "base/str.h"
#include "device/device.h"
#include "softgpu/libcuda/extension.h"

/* ---- find.c ---- */
/* A file that the build or an installation put beside this program: the environment variable `env` names it, else
 * DIR/../`folder`/`name` and DIR/../lib/dovetail/`name` of every parent of the running program. Caller frees; NULL: not
 * found. */
char *dev_find_ours(const char *env, const char *folder, const char *name);
/* dlopen one of the NULL-terminated sonames: DOVETAIL_CUDA_LIBS, CUDA_HOME, the toolkit of the build, then the system's
 * own search. NULL if none is there. */
void *dev_find_library(const char *const *soname);

/* ---- build.c ---- */
/* Which build of a library is loaded that has `inside` in it: its build id, behind the version in its file's name if
 * that has one. Printable, without blanks; "unknown". */
void dev_library_build(const void *inside, char *out, size_t n);

/* ---- child.c: the confined compiler ---- */
struct dev_reply { /* what the child said; the strings are owned */
    char *log, *result, *error;
    size_t result_len;
    bool missing; /* the library is not on this machine */
};
/* One job: 'N' NVRTC (options, source), 'J' nvJitLink (options, PTX), 'V' and 'W' their versions. 0 when the child
 * answered, else DT_E_TIMEOUT, DT_E_COMPILE (it crashed), DT_E_NO_COMPILER (it is not installed), DT_E_IO. */
int dev_child(char job, const char *const *option, unsigned noption, const char *text, size_t len, unsigned timeout_ms,
              struct dev_reply *ret, struct dt_err *e);
void dev_child_forget(void); /* in a copy of the process: the child that waits for a job is not its */
void dev_reply_done(struct dev_reply *r);

/* ---- nvjitlink.c ---- */
/* What follows a directive of a module's head (".target"), which no comment holds; NULL: it has none. */
const char *dev_directive(const char *ptx, size_t len, const char *name);
/* A copy of the text with another .version ("9.0"; what follows the number is not looked at). PTX from a newer compiler
 * mostly needs none of what the newer version added. NULL: it has none, or memory is out. Caller frees. */
char *dev_with_version(const char *ptx, size_t len, const char *version);

/* ---- symbols.c: the driver, opened once a process and kept ---- */
struct dev_driver {
    void *lib;
#define SYM(name) __typeof__(&name) name;
#define OPT(name) __typeof__(&name) name; /* may be NULL */
#include "device/cuda.def"
#undef SYM
#undef OPT
#define EXT(name, params) name##_t name; /* all or none: a real driver has none */
    DOVETAIL_EXTENSIONS(EXT)
#undef EXT
    bool soft;
};
/* Opens and initialises the driver: NVIDIA's (the libcuda.so.1 that the linker finds) or, if `soft`, ours. Ours takes
 * `figures` (dev_open_figures) if this call is the one that opens it. DT_E_NO_DEVICE with the reason. */
int dev_driver_open(bool soft, const char *figures, const struct dev_driver **ret, struct dt_err *e);
bool dev_driver_is_open(bool soft);

/* ---- device.c ---- */
struct dev_device {
    const struct dev_driver *cu;
    CUdevice dev;
    CUcontext ctx;
    struct dev_info info;
    unsigned deadline_ms;
    bool deadline_given; /* by the environment or dev_set_deadline, not the default */
    bool prints;         /* dev_set_print */
    uint64_t limit;      /* of dev_set_limit */
    bool unfollowed;     /* dev_set_follow */
    uint64_t generation; /* counts resets: handles of an older one are dead */
    uint64_t seed;
    bool race_check;
    bool hung; /* a real device passed its deadline: every further call would wait for ever */
};
struct dev_module_handle {
    CUmodule mod;
    uint64_t generation;
    bool cubin; /* machine code by nvJitLink, not PTX */
};
int dev_use(struct dev_device *d, struct dt_err *e); /* make its context current */
/* 0 for CUDA_SUCCESS, else a DT_E_* with "WHAT: CUDA_ERROR_… (words)", or what the fault was. */
int dev_cu(struct dev_device *d, CUresult r, const char *what, struct dt_err *e);
/* Wait until the event is reached, at most the deadline. */
int dev_wait_event(struct dev_device *d, CUevent ev, struct dt_err *e);
int dev_function(struct dev_device *d, CUmodule m, const char *entry, uint32_t shared, CUfunction *ret,
                 struct dt_err *e);
/* What the driver says of a loaded function; spills count as stack. */
int dev_function_resources(struct dev_device *d, CUfunction f, struct dev_resources *ret, struct dt_err *e);

/* ---- image.c: a module's PTX, or machine code made of it, into the driver ---- */
/* What ptxas is asked for: the device's architecture, with the suffix of the module's .target word where it is for that
 * device alone. DT_E_PTX: no architecture; DT_E_UNSUPPORTED: for another device. */
int dev_arch_for(const struct dev_info *i, const char *target, char arch[16], struct dt_err *e);
int dev_image_load(struct dev_device *d, const char *ptx, size_t len, CUmodule *ret, bool *ret_cubin, struct dt_err *e);
/* the driver compiles */
int dev_image_ptx(struct dev_device *d, const char *ptx, size_t len, CUmodule *ret, struct dt_err *e);

/* carried.c: of a module with m->cubin, on a real device. */
int dev_image_carried(struct dev_device *d, const struct dev_module *m, CUmodule *ret, struct dt_err *e);

/* ---- options.c ---- */
/* 0 if NVRTC may be given these options; DT_E_COMPILE naming the first that it may not. */
int dev_check_options(const char *const *option, unsigned n, struct dt_err *e);

/* ---- memo.c: results of compilers, by digest; one process, bounded, thread-safe ---- */
bool dev_memo_get(const char *key, char **ret, size_t *ret_len); /* a copy, caller frees */
void dev_memo_put(const char *key, const void *p, size_t len);

bool dev_arch_ok(const char *arch); /* "sm_90", "sm_100a" */

/* ---- prog.c, prog-launch.c --------------------------------------------------------------------------------------- */

struct dev_unit { /* a module's text and what was made of it */
    atomic_uint users;
    char *ptx, arch[16];
    size_t len;
    struct ptx_module *ir, *posted; /* posted: before its contractions were written out, NULL: as it is */
    bool narrow;                    /* functions were left out */
    char digest[DT_SHA256_TEXT];    /* of ptx */
};
/* p->step of all launches, whose modules are there; base: NULL, or a program that may have checked equal ones. */
int dev_check_launches(struct dev_device *d, struct dev_prog *p, const struct dev_prog *base, struct dt_err *e);

#endif
