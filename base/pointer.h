/* JSON pointers (RFC 6901): where in a document something is. */
#ifndef DT_POINTER_H
#define DT_POINTER_H

#include "base/str.h"

/* Go on to the member `key`: "/" and the key, with what has a meaning in pointers written ~0 and ~1. */
void dt_pointer_add(struct dt_str *s, const char *key);

#endif
