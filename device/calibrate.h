/* Fitting the timing model's figures to a device: microbenchmarks whose time depends on one figure, by closed form. */
#ifndef DT_DEVICE_CALIBRATE_H
#define DT_DEVICE_CALIBRATE_H

#include "device/device.h"

enum { DEV_FIGURES = 32 };
struct dev_calibration {
    struct dev_figure {
        const char *field;    /* of softgpu/model/models.def or softgpu/constants.def */
        double value, lo, hi; /* median, least and most of the repetitions */
        bool beside;          /* measured, but no figure of the model: shown, and not in dev_figures_text() */
    } figure[DEV_FIGURES];
    unsigned n, repeats;
    char method[32]; /* "measured:events", "modeled:h200" */
};
/* Some seconds. The device should have nothing else to do. */
int dev_calibrate(struct dev_device *d, struct dev_calibration *ret, struct dt_err *e);
/* The kernels that it launches, PTX for this compute capability (90). Caller frees; NULL: memory. For tests: the loops
 * must survive ptxas. */
char *dev_calibration_kernels(unsigned cc);
/* "launch_us=2.5,…": what DOVETAIL_SOFTGPU_FIGURES takes. Caller frees; NULL: memory. */
char *dev_figures_text(const struct dev_calibration *c);

#endif
