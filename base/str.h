/* A growing byte string, always NUL-terminated, with a sticky out-of-memory flag: append freely, check once. */
#ifndef DT_BASE_STR_H
#define DT_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct dt_str {
    char *s; /* NULL while empty; owned */
    size_t len, cap;
    bool failed;
};

void dt_str_done(struct dt_str *s);
void dt_str_add(struct dt_str *s, const char *text);
void dt_str_addn(struct dt_str *s, const void *p, size_t n);
void dt_str_addc(struct dt_str *s, char c);
void dt_str_addf(struct dt_str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dt_str_addfv(struct dt_str *s, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* The string, owned by the caller (release with free()); `s` is empty afterwards. NULL if memory was out. */
char *dt_str_take(struct dt_str *s);

/* Bytes of the character of UTF-8 (RFC 3629) that begins at s, which ends with NUL; 0: it is none, or s is at its
 * end. */
size_t dt_utf8(const char *s);

/* What a counted noun ends with: "1 launch", "2 launches" are dt_ending(n, "es"). */
static inline const char *dt_ending(double n, const char *more) { return n == 1 ? "" : more; }

#endif
