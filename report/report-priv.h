/* Inside report/: what the sections of the page share. Each is a file; page.c puts them together. */
#ifndef DT_REPORT_PRIV_H
#define DT_REPORT_PRIV_H

#include <stdint.h>

#include "report/html.h"
#include "report/report.h"

#define REP_LAUNCHES 16384 /* as many as a graph may have: what a document says beyond is left out */
#define REP_NAME 48        /* characters of a name where it stands many times */

/* One side of a plan: "baseline" (what was posted) or "optimized" (the plan). */
struct rep_side {
    const char *which, *title;
    const json_t *launches; /* steps, for their names; may be fewer than n */
    const json_t *times;    /* [begin, end] of each; NULL: not known */
    const json_t *sms;      /* timeline.sms.WHICH: rows; NULL: not known */
    const json_t *slots;    /* by launch */
    size_t n;
    double end_us; /* of the last one */
    bool modeled;
    const char *method;
    uint8_t *made; /* by launch: its kernel is a rewrite's; n + 1 of them */
};
int rep_side(const struct rep_source *s, const char *which, struct rep_side *ret); /* DT_E_NOMEM */
void rep_side_done(struct rep_side *x);
const char *rep_name(const struct rep_side *x, size_t i, char number[32]);     /* its name, or "l7" in number */
bool rep_span(const struct rep_side *x, size_t i, double *begin, double *end); /* false: there is no sound one */
/* One row of `sms`. False: it is none that can be drawn on a device of so many SMs. */
struct rep_row {
    size_t launch;
    unsigned first, last;
    double blocks, mean, begin, end, part; /* part: of the launch's slots that are taken, 0 … 1 */
};
bool rep_row(const struct rep_side *x, const json_t *row, unsigned sms, struct rep_row *ret);
unsigned rep_sms(const struct rep_source *s); /* of the device, 1 … 4096; 0: not known */

double rep_num(const json_t *o, const char *name); /* finite; 0 where there is none */
double rep_at(const json_t *list, size_t i);
void rep_names(struct dt_str *o, const json_t *list, size_t most); /* names joined by +, each cut */

/* ---- sections ---------------------------------------------------------------------------------------------------- */
void rep_lanes(struct dt_str *o, const struct rep_source *s, const struct rep_side *a, const struct rep_side *b);
void rep_launches(struct dt_str *o, const struct rep_source *s, const struct rep_side *x, size_t most);
void rep_maps(struct dt_str *o, const struct rep_source *s);
void rep_gains(struct dt_str *o, const struct rep_source *s);
void rep_kernels(struct dt_str *o, const struct rep_source *s, const struct rep_side *a, const struct rep_side *b,
                 size_t budget); /* bytes of the page, about */

/* ---- text of kernels (kernel.c, differ.c) ------------------------------------------------------------------------ */
/* The entry of this name in a module's PTX: from `.entry` to its closing brace. malloc()ed; NULL: it is not there. */
char *rep_entry(const char *ptx, const char *entry);
/* The same text without comments and with names that say nothing. malloc()ed; NULL: memory. */
char *rep_neutral(const char *text);
/* Two texts side by side as rows of a table, changes marked, at most so many bytes. Lines count as alike that differ
 * in their registers' numbers only. */
void rep_differ(struct dt_str *o, const char *left, const char *right, size_t most);

#endif
