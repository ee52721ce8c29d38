/* What each user holds of the server: connections, and bytes of bodies that came in and of replies that are not yet
 * read. A body counts until its request is answered, or until the work on it is over where the client has gone before;
 * a reply counts until the kernel has taken it, so also for a reader who does not read.
 *
 * The rules are those of the queue (docs/CONTRACT.md, 6). A user alone may have all but the last eighth. While others
 * hold something too, each of n users may have one part in n + 1. In the last eighth a user may have no more than what
 * is free, so that there is room for whoever comes new. Over the share is 429; where there is no room at all, 503.
 *
 * Users are few, so accounts are a list. One without connections and bytes is forgotten.
 */
#include <stdlib.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "daemon/service/http-priv.h"

#define LAST_PART 8

struct dtd_account *dtd_account_get(struct dtd_http *s, unsigned uid)
{
    struct dtd_account *a = s->accounts;
    while (a && a->uid != uid)
        a = a->next;
    if (!a && (a = dt_calloc(1, sizeof *a))) {
        *a = (struct dtd_account){.http = s, .uid = uid, .next = s->accounts};
        s->accounts = a;
    }
    if (a)
        a->refs++;
    return a;
}

void dtd_account_put(struct dtd_account *a)
{
    if (!a || --a->refs)
        return;
    struct dtd_account **link = &a->http->accounts;
    while (*link != a)
        link = &(*link)->next;
    *link = a->next;
    free(a);
}

void dtd_account_add(struct dtd_account *a, size_t n)
{
    a->bytes += n;
    a->http->count.held_bytes += n;
}

void dtd_account_sub(struct dtd_account *a, size_t n)
{
    a->bytes -= n;
    a->http->count.held_bytes -= n;
}

int dtd_share_of(size_t mine, size_t all, size_t most, unsigned others, size_t more)
{
    size_t room = all < most ? most - all : 0, share = others ? most / (others + 2) : most;
    if (more > room)
        return mine && mine + more > most / (others + 2) ? 429 : 503;
    if (room - more < most / LAST_PART && share > room)
        share = room;
    return mine && mine + more > share ? 429 : 0;
}

int dtd_account_bytes(const struct dtd_account *a, size_t more)
{
    const struct dtd_http *s = a->http;
    unsigned others = 0;
    for (const struct dtd_account *b = s->accounts; b; b = b->next)
        others += b != a && b->bytes;
    return dtd_share_of(a->bytes, s->count.held_bytes, s->limit.max_bodies, others, more);
}

int dtd_account_connection(const struct dtd_account *a)
{
    const struct dtd_http *s = a->http;
    unsigned others = 0;
    for (const struct dtd_account *b = s->accounts; b; b = b->next)
        others += b != a && b->connections;
    return dtd_share_of(a->connections, s->ordinary, s->limit.max_connections, others, 1);
}

unsigned dtd_conn_uid(const uv_pipe_t *pipe)
{
    struct ucred u;
    socklen_t n = sizeof u;
    uv_os_fd_t f;
    bool ok = uv_fileno((const uv_handle_t *)pipe, &f) == 0 && getsockopt(f, SOL_SOCKET, SO_PEERCRED, &u, &n) == 0;
    return ok && n == sizeof u ? u.uid : (unsigned)-1;
}

/* ---- bytes that outlive their connection ------------------------------------------------------------------------- */
void dtd_hold_take(struct dtd_hold *h, struct dtd_req *r)
{
    struct dtd_conn *c = r->conn;
    h->account = c->account;
    h->bytes = c->counted;
    if (h->account)
        h->account->refs++;
    c->counted = 0;
}

void dtd_hold_drop(struct dtd_hold *h)
{
    if (!h->account)
        return;
    dtd_account_sub(h->account, h->bytes);
    dtd_account_put(h->account);
    *h = (struct dtd_hold){0};
}
