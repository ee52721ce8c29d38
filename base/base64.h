/* base64 (RFC 4648, padded). */
#ifndef DT_BASE_BASE64_H
#define DT_BASE_BASE64_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

size_t dt_base64_room(size_t text_len);                       /* bytes that text of this length decodes to at most */
long dt_base64_decode(const char *s, size_t n, uint8_t *out); /* how many bytes, or -1: it is none. `out` has room */
void dt_base64_encode(const uint8_t *p, size_t n, struct dt_str *out);

#endif
