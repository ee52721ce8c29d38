/* Work for a request on another thread: parsing a large graph, or reading SQLite, would hold up the loop. Small work
 * goes to libuv's pool, that of large bodies to the lane (lane.c). The request may go away in the meantime; `after`
 * then sees req == NULL and only cleans up. The bytes of a body that the work has taken count for its user until
 * `release`.
 */
#include "base/json.h"
#include "daemon/service/service.h"

#define LARGE (2u << 20) /* dtd_req.weight of a body that goes to the lane */

static void gone(struct dtd_req *r)
{
    struct dtd_async *a = r->state;
    a->req = NULL;
}

static void work(uv_work_t *h)
{
    struct dtd_async *a = h->data;
    dt_json_fresh();
    a->work(a);
}

void dtd_async_end(struct dtd_async *a)
{
    struct dtd_hold hold = a->hold;
    if (a->req) {
        a->req->gone = NULL;
        a->req->state = NULL;
    }
    a->s->jobs.trace = a->req ? dtd_req_trace(a->req) : NULL; /* of the jobs that it makes */
    dt_json_fresh();
    a->after(a);
    a->s->jobs.trace = NULL;
    a->release(a);
    dtd_hold_drop(&hold);
}

static void async_after(uv_work_t *h, int status) { dtd_async_end(h->data); }

void dtd_async_start(struct dtd_async *a)
{
    a->handle.data = a;
    if (a->req) {
        a->req->state = a;
        a->req->gone = gone;
        a->uid = dtd_peer_uid(a->req);
        if (!a->req->body)
            dtd_hold_take(&a->hold, a->req);
        if (a->req->weight > LARGE && a->s->lane) {
            dtd_lane_add(a->s->lane, a);
            return;
        }
    }
    if (uv_queue_work(a->s->loop, &a->handle, work, async_after) < 0) {
        struct dtd_hold hold = a->hold;
        if (a->req) {
            a->req->gone = NULL;
            dtd_reply_err(a->req, DT_E_NOMEM, "out of memory");
        } else {
            a->after(a);
        }
        a->release(a);
        dtd_hold_drop(&hold);
    }
}
