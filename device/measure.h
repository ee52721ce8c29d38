/* Measuring: candidates against a baseline, side by side, with intervals, under watch.
 *
 * Nothing measured here is believed without its interval and its verdict: a run during which clocks moved, the chip was
 * slowed down, or another process used the GPU is noisy, its figures are for looking at and may not be published. On
 * the software device times are modelled and have no noise.
 */
#ifndef DT_DEVICE_MEASURE_H
#define DT_DEVICE_MEASURE_H

#include "device/device.h"
#include "device/profile.h"

/* ---- numbers (stats.c) ----------------------------------------------------------------------------------------- */
struct dev_stats {
    /* lo, hi: 95 % interval of the median by order statistics; least and most where n < 6, which is less than 95 % */
    double median, lo, hi;
    double min, max;
    unsigned n;
};
void dev_stats(double *v, unsigned n, struct dev_stats *ret); /* sorts v; n > 0 */
/* Rank correlation of Spearman, ties averaged: -1 to 1; 0 where n < 2 or one side is all alike. DT_E_NOMEM as NaN. */
double dev_rank_correlation(const double *x, const double *y, unsigned n);

/* ---- the device's state (watch.c): NVML, by dlopen ------------------------------------------------------------- */
struct dev_state {
    bool known; /* NVML answered */
    unsigned sm_mhz, mem_mhz, max_sm_mhz, celsius, milliwatts;
    uint64_t reasons; /* nvmlClocksEventReasons */
    unsigned others;  /* processes with a context on this GPU besides one, which is us */
    bool mig;         /* the GPU is cut into slices: neighbours share what is not this slice's */
};
void dev_state(struct dev_device *d, struct dev_state *ret);
/* Does nobody else use the GPU? False: `why` has a sentence. Takes up to two seconds where something does. True where
 * that is not known, and on the software device. */
bool dev_idle(struct dev_device *d, char *why, size_t n);
/* What of it disturbs a measurement between two looks, in words; NULL: nothing. `text` is used for the answer. */
const char *dev_disturbed(const struct dev_state *a, const struct dev_state *b, char *text, size_t n);

/* ---- measuring (measure.c) ------------------------------------------------------------------------------------- */
struct dev_arm {         /* one way of doing the work */
    struct dev_run *run; /* filled; on the device given */
    bool stream;         /* one launch after the other on one stream, instead of a CUDA graph */
};
struct dev_measure_options {
    unsigned reps, warm_up; /* 0: 50 and 5; on the software device 1 and 0 */
    bool cold;              /* the L2 is overwritten before every pass; else it is as the pass before left it */
    bool no_trace;          /* events only */
    double noise;           /* the widest interval that may be published, of the median; 0: 0.05 */
};
struct dev_measured {
    struct dev_stats time;   /* microseconds of one pass, by `method` */
    struct dev_stats events; /* by events round an untraced pass */
    struct dev_stats ratio;  /* first arm's time over this one's, pair by pair (events): over 1 is faster */
    struct dev_stats gain;   /* first arm's time less this one's, likewise: microseconds */
    char method[32];         /* "measured:cupti", "measured:events", "modeled:h200" */
    double overhead;         /* traced over untraced time, by events; 0: not traced */
    double idle_us;          /* of a median pass: nothing ran (CUPTI); -1: not known */
    double *step_us;         /* by launch, median, from CUPTI or the model; NULL: not known. Owned */
    uint32_t *registers;     /* by launch, as the driver assigned them; NULL likewise. Owned */
};
struct dev_verdict {
    bool publish;
    char why[256];   /* why not */
    char trace[256]; /* why there is no trace; empty: there is one, or none was asked for */
    struct dev_state before, after;
};
/* Arms take turns, pass by pass, the order rotating. ret[narm]: release with dev_measured_done. A noisy device is no
 * error: see the verdict. */
int dev_measure(struct dev_device *d, const struct dev_arm *arm, unsigned narm, const struct dev_measure_options *o,
                struct dev_measured *ret, struct dev_verdict *v, struct dt_err *e);
void dev_measured_done(struct dev_measured *m);

#endif
