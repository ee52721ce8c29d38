/* Work for a request on a thread of libuv's pool: parsing a large graph, or reading SQLite, would hold up the loop. The
 * request may go away in the meantime; `after` then sees req == NULL and only cleans up.
 */
#include "daemon/service/service.h"

static void gone(struct dtd_req *r)
{
    struct dtd_async *a = r->state;
    a->req = NULL;
}

static void work(uv_work_t *h)
{
    struct dtd_async *a = h->data;
    a->work(a);
}

static void async_after(uv_work_t *h, int status)
{
    struct dtd_async *a = h->data;
    if (a->req) {
        a->req->gone = NULL;
        a->req->state = NULL;
    }
    a->after(a);
    a->release(a);
}

void dtd_async_start(struct dtd_async *a)
{
    a->handle.data = a;
    if (a->req) {
        a->req->state = a;
        a->req->gone = gone;
    }
    if (uv_queue_work(a->s->loop, &a->handle, work, async_after) < 0) {
        if (a->req) {
            a->req->gone = NULL;
            dtd_reply_err(a->req, DT_E_NOMEM, "out of memory");
        } else {
            a->after(a);
        }
        a->release(a);
    }
}
