/* What tests of single rewrites share: a device for all of a program, the head of a graph's document, a launch's time.
 * Included once, by the program. */
#ifndef DT_TESTS_REWRITE_DEVICE_H
#define DT_TESTS_REWRITE_DEVICE_H

#include "rewrite-world.h"

static struct dev_device *dev;

static int setup(void **state)
{
    struct dt_err e = {0};
    (void)state;
    must(dev_open("soft:h200", &dev, &e), &e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dev_close(dev);
    return 0;
}

/* Module m of that PTX, and as far as the first buffer. */
static inline void document_begin(struct dt_str *s, const char *ptx)
{
    dt_str_add(s, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *t = ptx; *t; t++)
        dt_str_addf(s, *t == '\n' ? "\\n" : "%c", *t);
    dt_str_add(s, "\"}}, \"buffers\": {");
}

/* The graph of the document, analysed. *s is freed. */
static inline void document_end(struct dt_str *s, struct dt_graph **g, struct dev_prog **p, struct ana_result **a)
{
    struct dt_err e = {0};
    must(dt_graph_parse(s->s, s->len, g, &e), &e);
    must(dev_prog_new(dev, *g, NULL, NULL, p, &e), &e);
    must(ana_run(dev, *p, NULL, a, &e), &e);
    dt_str_done(s);
}

static inline double time_of(const struct dev_prog *p)
{
    struct dt_err e = {0};
    struct dev_run *run;
    struct dev_time t;
    must(dev_run_new(dev, p, &run, &e), &e);
    must(dev_run_fill(run, 0, 0, &e), &e);
    must(dev_run_time(run, 1, &t, NULL, &e), &e);
    dev_run_free(run);
    return t.time_us;
}

#endif
