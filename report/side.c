/* Reading a plan document, of which nothing is believed: the two sides of its timeline, with the names of their
 * launches, and numbers that are finite.
 */
#include "report/report-priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"

#define MAX_US 1e12

double rep_num(const json_t *o, const char *name)
{
    double v = json_number_value(json_object_get(o, name));
    return isfinite(v) ? v : 0;
}

double rep_at(const json_t *list, size_t i)
{
    double v = json_number_value(json_array_get(list, i));
    return isfinite(v) ? v : 0;
}

unsigned rep_sms(const struct rep_source *s)
{
    double v = rep_num(json_object_get(s->plan, "device"), "sms");
    return v >= 1 && v <= 4096 ? (unsigned)v : 0;
}

void rep_names(struct dt_str *o, const json_t *list, size_t most)
{
    size_t i;
    const json_t *v;
    json_array_foreach (list, i, v) {
        if (i)
            dt_str_add(o, " + ");
        html_name(o, json_string_value(v) ? json_string_value(v) : "?", most);
    }
}

/* Launches of the plan whose kernels are not posted ones. */
static void find_made(const struct rep_source *s, struct rep_side *x)
{
    const json_t *posted = json_object_get(json_object_get(s->plan, "original"), "launches"), *l;
    json_t *modules = json_object();
    size_t i;
    json_array_foreach (posted, i, l)
        if (*dt_json_text(l, "module"))
            json_object_set_new(modules, dt_json_text(l, "module"), json_true());
    for (i = 0; i < x->n && posted; i++) {
        const char *m = dt_json_text(json_array_get(x->launches, i), "module");
        x->made[i] = *m && !json_object_get(modules, m);
    }
    json_decref(modules);
}

int rep_side(const struct rep_source *s, const char *which, struct rep_side *ret)
{
    const json_t *line = json_object_get(s->plan, "timeline"), *of = json_object_get(s->plan, which),
                 *original = json_object_get(json_object_get(s->plan, "original"), "launches"),
                 *sms = json_object_get(line, "sms");
    bool plan = !strcmp(which, "optimized");
    const json_t *times = json_object_get(line, which), *rows = json_object_get(sms, which);
    *ret = (struct rep_side){.which = which,
                             .title = plan ? "Plan" : "As posted",
                             .launches = plan || !original ? json_object_get(s->plan, "launches") : original,
                             .times = json_array_size(times) ? times : NULL,
                             .sms = json_array_size(rows) ? rows : NULL,
                             .slots = json_object_get(json_object_get(sms, "slots"), which),
                             .method = dt_json_text(of, "method")};
    if (!plan && !original && ret->times && json_array_size(ret->launches) != json_array_size(ret->times))
        ret->launches = NULL; /* without `original` the plan is the posted launches: here it is not */
    ret->n = ret->times ? json_array_size(times) : json_array_size(ret->launches);
    ret->n = ret->n < REP_LAUNCHES ? ret->n : REP_LAUNCHES;
    ret->modeled = !strncmp(ret->method, "modeled", 7);
    ret->made = dt_calloc(ret->n + 1, 1);
    if (!ret->made)
        return DT_E_NOMEM;
    for (size_t i = 0; i < ret->n; i++) {
        double begin, end;
        if (rep_span(ret, i, &begin, &end))
            ret->end_us = end > ret->end_us ? end : ret->end_us;
    }
    if (plan)
        find_made(s, ret);
    return 0;
}

void rep_side_done(struct rep_side *x)
{
    free(x->made);
    x->made = NULL;
}

const char *rep_name(const struct rep_side *x, size_t i, char number[32])
{
    const char *name = dt_json_text(json_array_get(x->launches, i), "name");
    snprintf(number, 32, "l%zu", i);
    return *name ? name : number;
}

bool rep_span(const struct rep_side *x, size_t i, double *begin, double *end)
{
    const json_t *v = json_array_get(x->times, i);
    *begin = rep_at(v, 0);
    *end = rep_at(v, 1);
    return json_array_size(v) == 2 && *begin >= 0 && *end >= *begin && *end <= MAX_US;
}

bool rep_row(const struct rep_side *x, const json_t *row, unsigned sms, struct rep_row *ret)
{
    double v[7];
    for (size_t i = 0; i < 7; i++)
        v[i] = rep_at(row, i);
    if (json_array_size(row) != 7 || !(v[0] >= 0 && v[0] < (double)x->n) || !(v[1] >= 0 && v[1] <= v[2]) ||
        !(v[2] < sms) || !(v[5] >= 0 && v[5] <= v[6] && v[6] <= MAX_US) || !(v[3] >= 0) || !(v[4] >= 0))
        return false;
    *ret = (struct rep_row){(size_t)v[0], (unsigned)v[1], (unsigned)v[2], v[3], v[4], v[5], v[6], 0};
    double slots = rep_at(x->slots, ret->launch);
    ret->part = slots >= 1 ? ret->mean / slots : 1;
    ret->part = ret->part < 1 ? ret->part : 1;
    return true;
}
