/* The error table's look-ups and the detail record.
 *
 * err.def is the only list: number, code, HTTP status, exit status and text of each error are its columns, and the
 * tables here are made from it by including it. The first error set in a dt_err wins, because the first is the cause.
 * Setting a detail may run out of memory; then the number alone stands.
 */
#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

static const struct row {
    int num, http, exit;
    const char *code, *text;
} rows[] = {
#define ERR(NAME, num, code, http, exit, text) {-(num), http, exit, code, text},
#include "base/err.def"
#undef ERR
};

static const struct row *err_find(int num)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].num == num)
            return &rows[i];
    return err_find(DT_E_INTERNAL);
}

const char *dt_err_code(int num) { return err_find(num)->code; }
const char *dt_err_text(int num) { return err_find(num)->text; }
int dt_err_http(int num) { return err_find(num)->http; }
int dt_err_exit(int num) { return err_find(num)->exit; }

int dt_err_from_code(const char *code)
{
    for (size_t i = 0; code && i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].code, code))
            return rows[i].num;
    return DT_E_INTERNAL;
}

int dt_err_setv(struct dt_err *e, int num, const char *fmt, va_list ap)
{
    if (!e || e->num)
        return num;
    e->num = num;
    if (vasprintf(&e->detail, fmt, ap) < 0)
        e->detail = NULL;
    if (e->detail && strchr(e->detail, 1)) {
        e->marked = strdup(e->detail);
        dt_plain(e->detail);
    }
    return num;
}

int dt_err_set(struct dt_err *e, int num, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    dt_err_setv(e, num, fmt, ap);
    va_end(ap);
    return num;
}

int dt_err_at(struct dt_err *e, int num, const char *pointer, const char *fmt, ...)
{
    va_list ap;
    bool first = e && !e->num;
    va_start(ap, fmt);
    dt_err_setv(e, num, fmt, ap);
    va_end(ap);
    if (first)
        e->pointer = strdup(pointer);
    return num;
}

void dt_err_log(struct dt_err *e, const char *log)
{
    if (e && log) {
        free(e->log);
        e->log = strdup(log);
    }
}

void dt_err_done(struct dt_err *e)
{
    if (!e)
        return;
    free(e->detail);
    free(e->pointer);
    free(e->log);
    free(e->marked);
    *e = (struct dt_err){0};
}

void dt_err_move(struct dt_err *to, struct dt_err *from)
{
    if (to && !to->num) {
        *to = *from;
        *from = (struct dt_err){0};
    } else {
        dt_err_done(from);
    }
}
