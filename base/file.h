/* Files and time. */
#ifndef DT_BASE_FILE_H
#define DT_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* The whole of a file (or of fd 0 for "-"), NUL-terminated, at most `max` bytes. Caller frees *ret. */
int dt_read_file(const char *path, size_t max, char **ret, size_t *ret_len, struct dt_err *e);
/* through a temporary, renamed; devices and pipes directly */
int dt_write_file(const char *path, const void *p, size_t n, struct dt_err *e);
int dt_mkdirs(const char *path, struct dt_err *e);  /* as mkdir -p */
int dt_read_full(int fd, void *p, size_t n);        /* 0, DT_E_IO (errno), or 1 at a clean end before any byte */
int dt_write_full(int fd, const void *p, size_t n); /* 0 or DT_E_IO */
uint64_t dt_now_us(void);                           /* monotonic */
/* Path of a file beside the running program: the folder of /proc/self/exe + "/" + rel. Caller frees *ret. */
int dt_beside_self(const char *rel, char **ret, struct dt_err *e);

#endif
