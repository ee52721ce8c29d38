/* What is printed: data on stdout (tables for people, or JSON), everything else on stderr. With --json stdout holds one
 * JSON document: the answer, or the problem document. Text that comes from graphs is cleaned of control characters
 * before it reaches a terminal. Progress is one line that is redrawn on a terminal; elsewhere a line for each stage,
 * and one now and then of a stage that takes long.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "base/wire.h"
#include "client/cli.h"

#define PROGRESS_EVERY_US 20000000u /* off a terminal: of one stage */

void print_clean(FILE *f, const char *s)
{
    for (; *s; s++) {
        unsigned char u = (unsigned char)*s;
        bool c1 = u == 0xC2 && (unsigned char)s[1] >= 0x80 && (unsigned char)s[1] < 0xA0; /* C1 controls in UTF-8 */
        fputc(u < 32 || u == 127 || c1 ? '?' : u, f);
        s += c1;
    }
}

double jnum(const json_t *o, const char *name) { return json_number_value(json_object_get(o, name)); }

char *join(const json_t *list, const char *between, const char *empty)
{
    struct dt_str s = {0};
    size_t i;
    const json_t *v;
    json_array_foreach (list, i, v)
        dt_str_addf(&s, "%s%s", i ? between : "", json_string_value(v) ? json_string_value(v) : "?");
    if (!s.len)
        dt_str_add(&s, empty);
    return dt_str_take(&s);
}

char *path_in(const char *dir, const char *name, const char *ending)
{
    struct dt_str s = {0};
    dt_str_addf(&s, "%s/", dir);
    for (const char *p = name; *p; p++) {
        unsigned char u = (unsigned char)*p;
        if (u == '/' || u == '%' || u < 32 || u == 127 || (u == '.' && p == name))
            dt_str_addf(&s, "%%%02X", u);
        else
            dt_str_addc(&s, *p);
    }
    dt_str_add(&s, ending);
    return dt_str_take(&s);
}

/* ---- progress --------------------------------------------------------------------------------------------------- */
void progress(struct cli *c, const char *stage, const char *message, long done, long of)
{
    uint64_t now = dt_now_us();
    bool new_stage = strncmp(c->stage, stage, sizeof c->stage - 1) != 0;
    snprintf(c->stage, sizeof c->stage, "%s", stage);
    if (!c->tty && !new_stage && now - c->progress_us < PROGRESS_EVERY_US)
        return;
    c->progress_us = now;
    if (c->tty)
        fputs("\r\033[K", stderr);
    print_clean(stderr, stage);
    if (message && *message) {
        fputs(": ", stderr);
        print_clean(stderr, message);
    }
    if (of > 1)
        fprintf(stderr, " (%ld/%ld)", done, of);
    if (!c->tty)
        fputc('\n', stderr);
    c->progress_shown = c->tty;
    fflush(stderr);
}

void progress_done(struct cli *c)
{
    if (c->progress_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    c->progress_shown = false;
    c->stage[0] = 0;
}

/* ---- outcomes --------------------------------------------------------------------------------------------------- */
void outcome_done(struct outcome *o)
{
    free(o->text);
    memset(o, 0, sizeof *o);
}

void outcome_set(struct outcome *o, json_t *doc)
{
    free(o->text);
    o->text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
    o->len = o->text ? strlen(o->text) : 0;
    json_decref(doc);
}

void outcome_error(struct outcome *ret, struct dt_err *e)
{
    memset(ret, 0, sizeof *ret);
    ret->failed = true;
    ret->text = dt_problem_json(e);
    ret->len = ret->text ? strlen(ret->text) : 0;
    dt_err_done(e);
}

static int output_report(struct cli *c, const char *problem)
{
    json_t *o = problem ? json_loads(problem, 0, NULL) : NULL;
    const char *code = dt_json_text(o, "code"), *detail = dt_json_text(o, "detail"), *log = dt_json_text(o, "log"),
               *at = dt_json_text(o, "pointer");
    int status = dt_err_exit(dt_err_from_code(*code ? code : NULL));
    progress_done(c);
    fputs("dovetail: ", stderr);
    print_clean(stderr, *code ? code : "internal");
    fputs(": ", stderr);
    print_clean(stderr, *detail ? detail : dt_json_text(o, "title"));
    if (*at) {
        fputs(" (at ", stderr);
        print_clean(stderr, at);
        fputc(')', stderr);
    }
    fputc('\n', stderr);
    for (const char *p = log; *p;) { /* the log has lines */
        char line[1024];
        size_t n = strcspn(p, "\n"), k = n < sizeof line - 1 ? n : sizeof line - 1;
        memcpy(line, p, k);
        line[k] = 0;
        print_clean(stderr, line);
        fputc('\n', stderr);
        p += n + (p[n] == '\n');
    }
    if (c->json && problem)
        printf("%s\n", problem);
    json_decref(o);
    return status;
}

int fail(struct cli *c, struct dt_err *e)
{
    dt_free_ char *text = dt_problem_json(e);
    dt_err_done(e);
    return output_report(c, text);
}

/* The document's warnings on stderr, one line each; explain's are in its plan. */
static void warnings(const json_t *doc)
{
    const json_t *list = json_object_get(doc, "warnings"), *v;
    static const char *const where[] = {"line", "instruction", "pointer"};
    size_t i;
    if (!list) {
        doc = json_object_get(doc, "plan");
        list = json_object_get(doc, "warnings");
    }
    json_array_foreach (list, i, v) {
        const char *launch = dt_json_text(v, "launch"), *kernel = dt_json_text(v, "kernel"),
                   *buffer = dt_json_text(v, "buffer"), *between = " (";
        const char *part[] = {
            *launch ? "launch " : "",   launch, *kernel ? ", kernel " : "", kernel,
            *buffer ? ", buffer " : "", buffer, *launch ? ": " : "",        dt_json_text(v, "message")};
        fputs("dovetail: warning: ", stderr);
        print_clean(stderr, dt_json_text(v, "code"));
        fputs(": ", stderr);
        for (size_t k = 0; k < sizeof part / sizeof *part; k++)
            print_clean(stderr, part[k]);
        for (size_t k = 0; k < sizeof where / sizeof *where; k++)
            if (*dt_json_text(v, where[k])) {
                fputs(between, stderr);
                print_clean(stderr, dt_json_text(v, where[k]));
                between = "; ";
            }
        fputs(*between == ';' ? ")\n" : "\n", stderr);
    }
    if (jnum(doc, "warnings_left_out") > 0)
        fprintf(stderr, "dovetail: warning: and %.0f more\n", jnum(doc, "warnings_left_out"));
}

int finish(struct cli *c, struct outcome *o, human_fn *human)
{
    int r = 0;
    progress_done(c);
    if (o->failed) {
        r = output_report(c, o->text);
    } else {
        json_error_t je;
        json_t *doc = json_loadb(o->text, o->len, 0, &je);
        if (!doc) {
            struct dt_err e = {0};
            dt_err_set(&e, DT_E_INTERNAL, "the answer is not JSON: %s", je.text);
            r = fail(c, &e);
        } else {
            warnings(doc);
            if (c->json) {
                fwrite(o->text, 1, o->len, stdout);
                fputc('\n', stdout);
            } else {
                r = human(c, doc, o);
            }
        }
        json_decref(doc);
    }
    outcome_done(o);
    return r;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */
const long long cli_sizes[] = {1 << 10, 1 << 20, 1 << 30};

int scaled(const char *option, const char *text, const char *units, const long long *factor, long long *ret,
           struct dt_err *e)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10), k = 1;
    const char *u = *end ? strchr(units, *end) : NULL;
    if (u) {
        k = factor[u - units];
        end++;
    }
    if (end == text || *end || errno || v < 0 || __builtin_mul_overflow(v, k, ret))
        return *units ? dt_err_set(e, DT_E_USAGE, "--%s takes a number, with one of %s behind it or nothing", option,
                                   units)
                      : dt_err_set(e, DT_E_USAGE, "--%s takes a number", option);
    return 0;
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */
void table_row(struct table *t, unsigned ncol, ...)
{
    va_list ap;
    char **cell = dt_reallocarray(t->cell, (size_t)(t->nrow + 1) * ncol, sizeof *cell);
    if (!cell)
        return;
    t->cell = cell;
    t->ncol = ncol;
    va_start(ap, ncol);
    for (unsigned i = 0; i < ncol; i++)
        cell[t->nrow * ncol + i] = dt_strdup(va_arg(ap, const char *));
    va_end(ap);
    t->nrow++;
}

static unsigned width(const char *s) /* characters, not bytes */
{
    unsigned n = 0;
    for (; s && *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

char *cut(const char *s, unsigned most)
{
    struct dt_str out = {0};
    unsigned n = width(s), head = (most - 1) / 2, tail = most - 1 - head, at = 0;
    for (; *s; s++) {
        at += ((unsigned char)*s & 0xC0) != 0x80;
        if (n > most && at == head + 1 && ((unsigned char)*s & 0xC0) != 0x80)
            dt_str_add(&out, "…");
        if (n <= most || at <= head || at > n - tail)
            dt_str_addc(&out, *s);
    }
    dt_str_add(&out, "");
    return dt_str_take(&out);
}

void table_done(struct table *t)
{
    for (unsigned i = 0; i < t->nrow * t->ncol; i++)
        free(t->cell[i]);
    free(t->cell);
    memset(t, 0, sizeof *t);
}

void table_print(struct table *t, const struct cli *c)
{
    for (unsigned r = 0; r < t->nrow; r++) {
        if (!r && c->color)
            fputs("\033[1m", stdout);
        for (unsigned i = 0; i < t->ncol; i++) {
            bool right = t->cell[i] && *t->cell[i] == '>';
            const char *mine = t->cell[r * t->ncol + i] ? t->cell[r * t->ncol + i] : "";
            unsigned w = 0;
            for (unsigned k = 0; k < t->nrow; k++) {
                unsigned x = width(t->cell[k * t->ncol + i]) - (right && !k);
                w = x > w ? x : w;
            }
            mine += right && !r;
            printf("%*s", right ? (int)(w - width(mine)) : 0, "");
            print_clean(stdout, mine);
            if (i + 1 < t->ncol)
                printf("%*s", right ? 2 : (int)(w - width(mine)) + 2, "");
        }
        if (!r && c->color)
            fputs("\033[0m", stdout);
        fputc('\n', stdout);
    }
    table_done(t);
}
