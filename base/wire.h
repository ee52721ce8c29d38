/* Frames between a worker and the process that started it (the service, or the command line with --local).
 *
 * A frame is 4 bytes of length (little-endian, of what follows), 1 byte of type, 4 bytes with the number of the
 * request, and a body: JSON text, UTF-8. Requests go to the worker's fd 0, answers come from its fd 1; the worker's
 * stderr is its log. A worker has one request at a time, and answers it with any number of 'P' frames, then one 'R' or
 * one 'E'. The asking side chooses the number, and every frame of the answer repeats it; a frame with another number is
 * no answer.
 *
 *   type  direction  body
 *   'Q'   request    {"verb": …, "options": {…}} and what the verb takes (daemon/worker/request.c has the verbs):
 *                    "graph": {…}; "signature": …; or for `cache` "op": … with its members (dtd_cache_op)
 *   'P'   answer     {"stage": "compile", "message": "…", "done": 3, "of": 12}          progress
 *   'B'   beat       {"failed_writes": 0, "damaged": 0, "request": 7}: a sign of life, at any time, with number 0; and
 *                    the number of the request that it is at, 0: it waits for one. Only of workers that were started
 *                    with --beat
 *   'R'   answer     {"cache": "hit|miss", "signature": "sha256:…", "digest": "sha256:…", "document": {…}}
 *   'S'   question   {"op": "find|claim", "signature": …, "device": …, "toolchain": …, "policy": …, "not": digest}
 *                    what does the cluster have under this key? Only for requests with the option `shared`; one at a
 *                    time. The asking side answers each with one frame of type T, with the same number; it may come
 *                    after the worker's own answer, and is passed over then
 *                    {"op": "near", …}: what does it have of the signature under other keys?
 *                    {"op": "times", "device": …, "key": "sha256:…"}: what did others measure? {"op": "timed",
 *                    "device": …, "rows": {KEY: base64, …}}: this was measured here
 *   'T'   telling    {"say": "recipe", "digest": …, "recipe": {…}}, {"say": "plan", "token": 7} (this host is to plan),
 *                    {"say": "near", "entries": […]}, {"say": "times", "body": base64}, {"say": "none"} or
 *                    {"say": "away"} (not known). `instead`: the digest of a row that is not believed
 *   'E'   answer     the problem document: {"type": "about:blank", "title": …, "status": 422, "code": "bad-graph",
 *                    "detail": …, "pointer": …, "log": …}
 */
#ifndef DT_BASE_WIRE_H
#define DT_BASE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DT_WIRE_MAX (512u << 20) /* bytes of one frame */
#define DT_WIRE_HEAD 9
#define DT_WIRE_ASK 'S'
#define DT_WIRE_TELL 'T'

/* Blocking; 0 or negative. dt_wire_read gives 1 at a clean end of the stream. *ret is NUL-terminated, caller frees. */
int dt_wire_write(int fd, char type, uint32_t number, const char *body, size_t len);
int dt_wire_read(int fd, char *ret_type, uint32_t *ret_number, char **ret, size_t *ret_len, struct dt_err *e);
/* For event loops: the length of the whole frame whose first bytes are `head`, or 0 if the length is over the limit or
 * there is no head in it. */
size_t dt_wire_frame_size(const unsigned char head[DT_WIRE_HEAD]);
char dt_wire_type(const unsigned char head[DT_WIRE_HEAD]);
uint32_t dt_wire_number(const unsigned char head[DT_WIRE_HEAD]);
void dt_wire_head(unsigned char head[DT_WIRE_HEAD], char type, uint32_t number, size_t len);

/* The problem document of an error as JSON text, caller frees; NULL when memory is out. */
char *dt_problem_json(const struct dt_err *e);

#endif
