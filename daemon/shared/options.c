/* Options of a job: reading, printing, and the policy text of the cache's key.
 *
 * Lists are kept sorted and without doubles, so that `allow=a,b` and `allow=b,a` are one policy and one entry in the
 * cache. The service adds who posts (service.h): where users share no entries, the uid is part of the policy, and so of
 * every key.
 */
#include "daemon/shared/shared.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/str.h"

#define NO_TIME 1e-6 /* seconds */

static void free_list(char **list, unsigned *n)
{
    for (unsigned i = 0; i < *n; i++)
        free(list[i]);
    *n = 0;
}

void dtd_options_done(struct dtd_options *o)
{
    free_list(o->allow, &o->nallow);
    free_list(o->deny, &o->ndeny);
    memset(o, 0, sizeof *o);
}

/* What allow and deny may name: the kinds of docs/CONTRACT.md §4, and the one permission that is none. */
static bool known_kind(const char *s, size_t len, struct dt_nearest *ret_like)
{
    static const char *const kind[] = {
        "block-fusion", "parallel-fusion", "split",           "prefetch", "programmatic-launch",
        "dead-blocks",  "recompute",       "dataflow-fusion", "versions", "calls",
        "copies",       "narrow-blocks",   "slice",           "tails",    "pack",
        "roles",        "reorder-atomics"};
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        if (strlen(kind[i]) == len && !strncmp(kind[i], s, len))
            return true;
    *ret_like = dt_nearest_of(s, len);
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
        dt_nearest_try(ret_like, kind[i], strlen(kind[i]));
    return false;
}

static int add_kind(char **list, unsigned *n, const char *s, size_t len, struct dt_err *e)
{
    if (!len)
        return 0;
    for (size_t i = 0; i < len; i++)
        if (len > 48 || !(islower((unsigned char)s[i]) || isdigit((unsigned char)s[i]) || s[i] == '-'))
            return dt_err_set(e, DT_E_USAGE, "allow and deny take names of rewrites, separated by commas");
    struct dt_nearest like;
    if (!known_kind(s, len, &like))
        return like.best ? dt_err_set(e, DT_E_USAGE, "there is no rewrite called %.*s; did you mean %s?", (int)len, s,
                                      like.best)
                         : dt_err_set(e, DT_E_USAGE, "there is no rewrite called %.*s", (int)len, s);
    unsigned at = 0;
    for (; at < *n; at++) {
        int c = strncmp(list[at], s, len);
        if (!c && !list[at][len])
            return 0;
        if (c >= 0)
            break;
    }
    if (*n == DTD_MAX_KINDS)
        return dt_err_set(e, DT_E_USAGE, "more than %d kinds in allow or deny", DTD_MAX_KINDS);
    char *copy = dt_malloc(len + 1);
    if (!copy)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memcpy(copy, s, len);
    copy[len] = 0;
    memmove(&list[at + 1], &list[at], (*n - at) * sizeof *list);
    list[at] = copy;
    ++*n;
    return 0;
}

static int set_list(char **list, unsigned *n, const char *value, struct dt_err *e)
{
    for (const char *p = value; *p;) {
        size_t len = strcspn(p, ",");
        int r = add_kind(list, n, p, len, e);
        if (r < 0)
            return r;
        p += len + (p[len] == ',');
    }
    return 0;
}

static int set_bool(bool *b, const char *name, const char *value, struct dt_err *e)
{
    if (!strcmp(value, "1") || !strcmp(value, "true") || !*value)
        *b = true;
    else if (!strcmp(value, "0") || !strcmp(value, "false"))
        *b = false;
    else
        return dt_err_set(e, DT_E_USAGE, "%s takes 0 or 1", name);
    return 0;
}

/* In the struct 0 is "not given", so a budget of 0 is one in which nothing can be done. */
static double budget_of(double given) { return given > NO_TIME ? given : NO_TIME; }

static int set_seconds(double *d, const char *name, const char *value, struct dt_err *e)
{
    char *end;
    double v = strtod(value, &end);
    if (end == value || *end || !isfinite(v) || v < 0 || v > 1e6)
        return dt_err_set(e, DT_E_USAGE, "%s takes a number of seconds", name);
    *d = v;
    return 0;
}

/* Words separated by commas, as sg_checks_parse takes them; which ones there are is the device's business. */
static int set_check(struct dtd_options *o, const char *value, struct dt_err *e)
{
    if (strlen(value) >= sizeof o->check || value[strspn(value, "abcdefghijklmnopqrstuvwxyz,")])
        return dt_err_set(e, DT_E_USAGE, "check takes race, uninit, barrier, all or none, separated by commas");
    memcpy(o->check, value, strlen(value) + 1);
    return 0;
}

static int set_number(uint64_t *n, const char *name, const char *value, struct dt_err *e)
{
    char *end;
    errno = 0;
    uint64_t v = strtoull(value, &end, 0);
    if (!isdigit((unsigned char)*value) || errno || *end || v > INT64_MAX)
        return dt_err_set(e, DT_E_USAGE, "%s takes a number from 0 to 2^63 - 1", name);
    *n = v;
    return 0;
}

int dtd_options_set(struct dtd_options *o, const char *name, const char *value, struct dt_err *e)
{
    if (!strcmp(name, "maps"))
        return set_bool(&o->maps, name, value, e);
    if (!strcmp(name, "all_edges"))
        return set_bool(&o->all_edges, name, value, e);
    if (!strcmp(name, "whole"))
        return set_bool(&o->whole, name, value, e);
    if (!strcmp(name, "dump"))
        return set_bool(&o->dump, name, value, e);
    if (!strcmp(name, "share")) {
        bool share = true;
        int r = set_bool(&share, name, value, e);
        o->local = r == 0 && !share;
        return r;
    }
    if (!strcmp(name, "allow"))
        return set_list(o->allow, &o->nallow, value, e);
    if (!strcmp(name, "deny"))
        return set_list(o->deny, &o->ndeny, value, e);
    if (!strcmp(name, "budget")) {
        int r = set_seconds(&o->budget, name, value, e);
        o->budget = r == 0 ? budget_of(o->budget) : 0;
        return r;
    }
    if (!strcmp(name, "memory")) {
        int r = set_number(&o->memory, name, value, e);
        o->memory += r == 0;
        return r;
    }
    if (!strcmp(name, "timeout"))
        return set_seconds(&o->timeout, name, value, e);
    if (!strcmp(name, "seed"))
        return set_number(&o->seed, name, value, e);
    if (!strcmp(name, "schedule"))
        return set_number(&o->schedule, name, value, e);
    if (!strcmp(name, "check"))
        return set_check(o, value, e);
    return 1;
}

static int list_from_json(char **list, unsigned *n, const json_t *j, struct dt_err *e)
{
    size_t i;
    const json_t *v;
    if (j && !json_is_array(j))
        return dt_err_set(e, DT_E_USAGE, "allow and deny are lists of names");
    json_array_foreach (j, i, v) {
        if (!json_is_string(v))
            return dt_err_set(e, DT_E_USAGE, "allow and deny are lists of names");
        int r = add_kind(list, n, json_string_value(v), json_string_length(v), e);
        if (r < 0)
            return r;
    }
    return 0;
}

int dtd_options_from_json(struct dtd_options *o, const json_t *j, struct dt_err *e)
{
    int r = list_from_json(o->allow, &o->nallow, json_object_get(j, "allow"), e);
    if (r >= 0)
        r = list_from_json(o->deny, &o->ndeny, json_object_get(j, "deny"), e);
    if (r < 0)
        return r;
    o->maps = json_is_true(json_object_get(j, "maps"));
    o->all_edges = json_is_true(json_object_get(j, "all_edges"));
    o->whole = json_is_true(json_object_get(j, "whole"));
    o->dump = json_is_true(json_object_get(j, "dump"));
    const json_t *budget = json_object_get(j, "budget");
    double b = json_number_value(budget);
    o->budget = json_is_number(budget) && isfinite(b) && b >= 0 && b <= 1e6 ? budget_of(b) : 0;
    const json_t *memory = json_object_get(j, "memory");
    o->memory =
        json_is_integer(memory) && json_integer_value(memory) >= 0 ? (uint64_t)json_integer_value(memory) + 1 : 0;
    json_int_t seed = json_integer_value(json_object_get(j, "seed"));
    o->seed = seed > 0 ? (uint64_t)seed : 0;
    json_int_t schedule = json_integer_value(json_object_get(j, "schedule"));
    o->schedule = schedule > 0 ? (uint64_t)schedule : 0;
    o->shared = json_is_true(json_object_get(j, "shared"));
    o->apart = json_is_integer(json_object_get(j, "apart"));
    o->own_rows = json_is_integer(json_object_get(j, "own_rows"));
    o->uid = (unsigned)json_integer_value(json_object_get(j, o->apart ? "apart" : "own_rows"));
    const char *check = json_string_value(json_object_get(j, "check"));
    return check ? set_check(o, check, e) : 0;
}

static int options_put_list(json_t *o, const char *name, char *const *list, unsigned n)
{
    json_t *a = json_array();
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(a, json_string(list[i]));
    return n ? json_object_set_new(o, name, a) : (json_decref(a), 0);
}

json_t *dtd_options_to_json(const struct dtd_options *o)
{
    json_t *j = json_object();
    int bad = !j;
    bad |= options_put_list(j, "allow", o->allow, o->nallow) | options_put_list(j, "deny", o->deny, o->ndeny);
    if (o->maps)
        bad |= json_object_set_new(j, "maps", json_true());
    if (o->all_edges)
        bad |= json_object_set_new(j, "all_edges", json_true());
    if (o->whole)
        bad |= json_object_set_new(j, "whole", json_true());
    if (o->dump)
        bad |= json_object_set_new(j, "dump", json_true());
    if (o->budget > 0)
        bad |= json_object_set_new(j, "budget", json_real(o->budget));
    if (o->memory)
        bad |= json_object_set_new(j, "memory", json_integer((json_int_t)(o->memory - 1)));
    if (o->seed)
        bad |= json_object_set_new(j, "seed", json_integer((json_int_t)o->seed));
    if (o->schedule)
        bad |= json_object_set_new(j, "schedule", json_integer((json_int_t)o->schedule));
    if (o->shared)
        bad |= json_object_set_new(j, "shared", json_true());
    if (o->apart)
        bad |= json_object_set_new(j, "apart", json_integer(o->uid));
    if (o->own_rows)
        bad |= json_object_set_new(j, "own_rows", json_integer(o->uid));
    if (o->check[0])
        bad |= json_object_set_new(j, "check", json_string(o->check));
    if (bad)
        json_decref(j);
    return bad ? NULL : j;
}

char *dtd_policy(const struct dtd_options *o, const char *want)
{
    struct dt_str s = {0};
    if (!strcmp(want, "analysis")) {
        dt_str_addf(&s, "maps=%d all_edges=%d", o->maps, o->all_edges);
        if (o->apart)
            dt_str_addf(&s, " uid=%u", o->uid);
        return dt_str_take(&s);
    }
    dt_str_add(&s, "allow=");
    for (unsigned i = 0; i < o->nallow; i++)
        dt_str_addf(&s, "%s%s", i ? "," : "", o->allow[i]);
    dt_str_add(&s, " deny=");
    for (unsigned i = 0; i < o->ndeny; i++)
        dt_str_addf(&s, "%s%s", i ? "," : "", o->deny[i]);
    dt_str_addf(&s, " budget=%.17g%s", o->budget, o->whole ? " whole=1" : "");
    if (o->memory)
        dt_str_addf(&s, " memory=%llu", (unsigned long long)(o->memory - 1));
    if (o->apart)
        dt_str_addf(&s, " uid=%u", o->uid);
    return dt_str_take(&s);
}

char *dtd_options_text(const struct dtd_options *o)
{
    struct dt_str s = {0};
    for (unsigned i = 0; i < o->nallow; i++)
        dt_str_addf(&s, "allow=%s ", o->allow[i]);
    for (unsigned i = 0; i < o->ndeny; i++)
        dt_str_addf(&s, "deny=%s ", o->deny[i]);
    /* only what is not as it is by default: this is done for every hit */
    dt_str_add(&s, o->maps ? "maps " : "");
    dt_str_add(&s, o->all_edges ? "all_edges " : "");
    dt_str_add(&s, o->dump ? "dump " : "");
    dt_str_add(&s, o->whole ? "whole " : "");
    if (o->budget > 0)
        dt_str_addf(&s, "budget=%.17g ", o->budget);
    if (o->memory)
        dt_str_addf(&s, "memory=%llu ", (unsigned long long)(o->memory - 1));
    if (o->seed)
        dt_str_addf(&s, "seed=%llu ", (unsigned long long)o->seed);
    if (*o->check)
        dt_str_addf(&s, "check=%s ", o->check);
    if (o->schedule)
        dt_str_addf(&s, "schedule=%llu ", (unsigned long long)o->schedule);
    if (o->timeout > 0)
        dt_str_addf(&s, "timeout=%.17g ", o->timeout);
    return dt_str_take(&s);
}

bool dtd_error_ends_worker(int num)
{
    return num == DT_E_BOUNDS || num == DT_E_TRAP || num == DT_E_DEADLOCK || num == DT_E_RACE || num == DT_E_UNINIT ||
           num == DT_E_BARRIER || num == DT_E_TIMEOUT || num == DT_E_DEVICE || num == DT_E_NOMEM;
}
