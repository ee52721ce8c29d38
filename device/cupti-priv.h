/* CUPTI's entries, opened once a process and kept (cupti.c); used by cupti-range.c too. */
#ifndef DT_DEVICE_CUPTI_PRIV_H
#define DT_DEVICE_CUPTI_PRIV_H

#include <cupti_target.h>
#include <cupti.h>
#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>

#include "device/device-priv.h"

struct dev_cupti {
    void *lib;
    const char *no_range; /* the first counter entry that is missing; NULL: all are there */
#define CUPTI(name) __typeof__(&name) name;
#define RANGE(name) __typeof__(&name) name;
#include "device/cupti.def"
#undef CUPTI
#undef RANGE
};

/* `host`: only the part that needs no driver is wanted, so that the software device may be open beside it. */
int dev_cupti_open(bool host, const struct dev_cupti **ret, struct dt_err *e);
/* 0, or DT_E_PROFILER with words for what matters to a person; *ret_retry (may be NULL): another time it may work. */
int dev_cupti_error(const struct dev_cupti *c, CUptiResult r, const char *what, bool *ret_retry, struct dt_err *e);

#endif
