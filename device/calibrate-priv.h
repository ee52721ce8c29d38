/* What the files of calibrating share: two pieces of work, timed one after the other, and what becomes of the
 * difference. */
#ifndef DT_DEVICE_CALIBRATE_PRIV_H
#define DT_DEVICE_CALIBRATE_PRIV_H

#include "base/str.h"
#include "device/calibrate.h"
#include "device/device-priv.h"
#include "device/measure.h"

enum { DEV_LAB_REPEATS = 7, DEV_LAB_THREADS = 256 };

struct dev_lab {
    struct dev_device *d;
    CUstream stream;
    CUevent ev[2];
    struct dev_module_handle *mod;
    CUdeviceptr mem;
    uint64_t bytes;  /* of mem: six times the L2, or almost */
    double clock_us; /* clocks in a microsecond */
    int repeats;     /* DEV_LAB_REPEATS; a modelled time is always the same: 1 */
};

struct dev_lab_work {  /* what is between the two events */
    const char *entry; /* NULL: a copy to the start of the lab's memory */
    unsigned blocks, threads, times;
    bool events, graph; /* an event record after each launch; a chain in a graph */
    bool programmatic;  /* a launch may begin before the one in front of it has ended */
    const void *params;
    size_t nparams;
    const struct dev_lab_work *first; /* once, before */
    const void *host;                 /* of a copy: from here, or if NULL from `from` */
    CUdeviceptr from;
    size_t bytes;
};

int dev_lab_launch(struct dev_lab *l, const struct dev_lab_work *w, struct dt_err *e);
/* Microseconds that `more` takes beyond `less`, `repeats` times into us; on a real device both run once before. */
int dev_lab_difference(struct dev_lab *l, const struct dev_lab_work *less, const struct dev_lab_work *more,
                       double us[DEV_LAB_REPEATS], struct dt_err *e);

/* One more figure: the median of a + b * us, or where rate is not 0 of rate / us. None if that is not above 0. */
void dev_lab_add(struct dev_calibration *c, const char *field, const double us[DEV_LAB_REPEATS], double a, double b,
                 double rate);
void dev_lab_last_is(struct dev_calibration *c, const char *field, bool whole, bool beside);
/* That was added before; 0: it was not. */
double dev_lab_figure(const struct dev_calibration *c, const char *field);

/* The kernels that these files launch, and their figures. */
void dev_memory_kernels(struct dt_str *s);
int dev_memory_figures(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e);
void dev_order_kernels(struct dt_str *s, unsigned cc);
int dev_order_figures(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e);

#endif
