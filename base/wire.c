/* Frames between a worker and the process that started it: the format is in wire.h.
 *
 * A reader takes the nine bytes of head, bounds the length (DT_WIRE_MAX) before it allocates, then takes the body. Both
 * sides may be killed at any byte: a clean end between frames is told apart from one within a frame. The problem
 * document (RFC 9457) is made here because the worker, the service and the command line all send it.
 */
#include "base/wire.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#define BEHIND (DT_WIRE_HEAD - 4) /* bytes of head that the length counts */

static void put4(unsigned char *p, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(n >> (8 * i));
}

static uint32_t get4(const unsigned char *p)
{
    uint32_t n = 0;
    for (int i = 0; i < 4; i++)
        n |= (uint32_t)p[i] << (8 * i);
    return n;
}

void dt_wire_head(unsigned char head[DT_WIRE_HEAD], char type, uint32_t number, size_t len)
{
    put4(head, (uint32_t)len + BEHIND);
    head[4] = (unsigned char)type;
    put4(head + 5, number);
}

size_t dt_wire_frame_size(const unsigned char head[DT_WIRE_HEAD])
{
    uint32_t n = get4(head);
    return n < BEHIND || n > DT_WIRE_MAX ? 0 : (size_t)n + 4;
}

char dt_wire_type(const unsigned char head[DT_WIRE_HEAD]) { return (char)head[4]; }
uint32_t dt_wire_number(const unsigned char head[DT_WIRE_HEAD]) { return get4(head + 5); }

int dt_wire_write(int fd, char type, uint32_t number, const char *body, size_t len)
{
    unsigned char head[DT_WIRE_HEAD];
    if (len > DT_WIRE_MAX - BEHIND)
        return DT_E_TOO_LARGE;
    dt_wire_head(head, type, number, len);
    int r = dt_write_full(fd, head, sizeof head);
    return r < 0 ? r : dt_write_full(fd, body, len);
}

int dt_wire_read(int fd, char *ret_type, uint32_t *ret_number, char **ret, size_t *ret_len, struct dt_err *e)
{
    unsigned char head[DT_WIRE_HEAD];
    int r = dt_read_full(fd, head, sizeof head);
    if (r)
        return r < 0 ? dt_err_set(e, r, "the other side closed the connection") : r;
    size_t n = dt_wire_frame_size(head);
    if (!n)
        return dt_err_set(e, DT_E_TOO_LARGE, "a frame is over %u bytes, or less than its head", DT_WIRE_MAX);
    n -= DT_WIRE_HEAD;
    char *p = dt_malloc(n + 1);
    if (!p)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for a frame of %zu bytes", n);
    if (n && dt_read_full(fd, p, n)) {
        free(p);
        return dt_err_set(e, DT_E_IO, "the other side closed the connection");
    }
    p[n] = 0;
    *ret_type = dt_wire_type(head);
    *ret_number = dt_wire_number(head);
    *ret = p;
    *ret_len = n;
    return 0;
}

char *dt_problem_json(const struct dt_err *e)
{
    dt_json_fresh();
    json_t *o = json_pack("{s:s, s:s, s:i, s:s, s:s}", "type", "about:blank", "title", dt_err_text(e->num), "status",
                          dt_err_http(e->num), "code", dt_err_code(e->num), "detail",
                          e->detail ? e->detail : dt_err_text(e->num));
    dt_json_fresh();
    if (!o) /* a detail that is not UTF-8 */
        o = json_pack("{s:s, s:s, s:i, s:s}", "type", "about:blank", "title", dt_err_text(e->num), "status",
                      dt_err_http(e->num), "code", dt_err_code(e->num));
    if (o && e->pointer)
        json_object_set_new(o, "pointer", json_string(e->pointer));
    if (o && e->log)
        json_object_set_new(o, "log", json_string(e->log));
    char *s = o ? dt_json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return s;
}
