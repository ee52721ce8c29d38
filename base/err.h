/* Errors: negative numbers from `err.def`, with an optional detail.
 *
 * Functions return 0 or a count, or a negative DT_E_*. The last parameter is often `struct dt_err *`, which may be
 * NULL; on failure it holds the number and one sentence for a person, and sometimes a JSON pointer and a log.
 * "Cannot prove" is a result, not an error. Outputs named ret_* are untouched on failure.
 */
#ifndef DT_BASE_ERR_H
#define DT_BASE_ERR_H

#include <stdarg.h>

enum dt_errno {
#define ERR(NAME, num, code, http, exit, text) DT_E_##NAME = -(num),
#include "base/err.def"
#undef ERR
};

/* Detail of an error. Zero-initialise; dt_err_done() frees. The first error set wins until it is cleared. */
struct dt_err {
    int num;       /* DT_E_* or 0 */
    char *detail;  /* one sentence, owned */
    char *pointer; /* JSON pointer into the graph document, or NULL, owned */
    char *log;     /* compile log, or NULL, owned */
    char *marked;  /* the detail with its subjects marked (base/subject.h), NULL: it has none; owned */
};

/* The detail, with its subjects marked where it has some. */
static inline const char *dt_err_words(const struct dt_err *e) { return e->marked ? e->marked : e->detail; }
/* Set `e` (may be NULL) and return `num`, so that `return dt_err_set(e, DT_E_IO, "…")` reads well. */
int dt_err_set(struct dt_err *e, int num, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int dt_err_setv(struct dt_err *e, int num, const char *fmt, va_list ap) __attribute__((format(printf, 3, 0)));
/* As dt_err_set, with the JSON pointer of the offending member. */
int dt_err_at(struct dt_err *e, int num, const char *pointer, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void dt_err_log(struct dt_err *e, const char *log); /* attach a copy of a compile log */
void dt_err_done(struct dt_err *e);                 /* free and zero */
void dt_err_move(struct dt_err *to, struct dt_err *from);

const char *dt_err_code(int num); /* "bad-graph"; "internal" for an unknown number */
const char *dt_err_text(int num);
int dt_err_http(int num);
int dt_err_exit(int num);
int dt_err_from_code(const char *code); /* DT_E_*, DT_E_INTERNAL if unknown */

#endif
