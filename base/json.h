/* JSON text to a document, exactly: for every document that may hold a graph. */
#ifndef DT_BASE_JSON_H
#define DT_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DT_JSON_MAX                                                                                                    \
    (512u << 20) /* bytes of one text: a frame to a worker (base/wire.h) holds a graph and a little more */

/* Duplicates, NUL and bad UTF-8 are refused (DT_E_JSON with line and column). A whole number that does not fit 64
 * signed bits stays exact as a string of its digits, or becomes a real when it does not fit unsigned either;
 * dt_graph_from_json understands both. `text` need not end in NUL. New reference. */
int dt_json_load(const char *text, size_t len, json_t **ret, struct dt_err *e);
/* json_dumps() that is whole or NULL. Where memory is out, jansson 2.14 may leave the rest of a key out and go on.
 * NULL, too, when jansson had no memory on this thread since the last text or dt_json_fresh(): a member of the document
 * may be missing, since few who set one look whether it is there. */
char *dt_json_dumps(const json_t *o, size_t flags);
void dt_json_fresh(void); /* a document begins: what failed before is no part of it */
/* The string that is member `name` of o, "" where there is none. */
const char *dt_json_text(const json_t *o, const char *name);
/* True and *ret when v is a string as dt_json_load makes of a whole number in [2^63, 2^64). */
bool dt_json_big(const json_t *v, uint64_t *ret);

#endif
