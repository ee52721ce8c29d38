/* Graphs that travel (`shared_graphs = yes`): one that was planned here for the cluster goes into the cluster's table,
 * so that hosts of other models, to which nobody posted it, can plan it at night (night.c).
 *
 *   job done, and it asked the cluster ─▶ list ─▶ pool thread: read off the store, reduced ─▶ put ─▶ next
 *
 * What neither digest nor signature depends on stays here (graph/reduced.c). Best effort: what does not fit into the
 * list or cannot be sent goes with a later job, on this host or another.
 */
#include "daemon/service/travel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cache/cache.h"
#include "daemon/service/share.h"
#include "daemon/shared/shared.h"
#include "graph/graph.h"

#define WAITING 256
#define SENT 1024 /* remembered, so that they are not read again */

static struct {
    struct dtd_service *s;
    char waiting[WAITING][DT_SHA256_TEXT], sent[SENT][DT_SHA256_TEXT];
    unsigned n, next;
    bool busy;
} travel;

struct trip {
    uv_work_t work;
    char digest[DT_SHA256_TEXT];
    char *text; /* NULL: it cannot be had */
};

static void travel_next(void);

static void trip_work(uv_work_t *w)
{
    struct trip *t = w->data;
    struct dtd_service *s = travel.s;
    struct dt_graph *g = NULL;
    json_t *doc = NULL;
    uv_mutex_lock(&s->cache_lock);
    int found = dtd_graph_get(s->cache, t->digest, &doc, NULL);
    uv_mutex_unlock(&s->cache_lock);
    if (found == 1 && dt_graph_from_json(doc, &g, NULL) >= 0) {
        json_t *reduced = dt_graph_reduced(g);
        t->text = reduced ? dt_json_dumps(reduced, JSON_COMPACT) : NULL;
        json_decref(reduced);
    }
    dt_graph_free(g);
    json_decref(doc);
}

static void trip_end(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct trip *t = user;
    if (travel.s->share)
        dtd_share_count(travel.s->share, DTD_CALL_GRAPH, outcome);
    if (outcome != CLUSTER_AWAY)
        snprintf(travel.sent[travel.next++ % SENT], DT_SHA256_TEXT, "%s", t->digest);
    free(t->text);
    free(t);
    travel.busy = false;
    travel_next();
}

static void trip_read(uv_work_t *w, int status)
{
    struct trip *t = w->data;
    struct dtd_share *sh = travel.s->share;
    if (t->text && sh && !sh->closing)
        cluster_graph_put(sh->cluster, t->digest, t->text, strlen(t->text), trip_end, t);
    else
        trip_end(t, CLUSTER_REFUSED, NULL, NULL);
}

static void travel_next(void)
{
    struct dtd_share *sh = travel.s->share;
    if (travel.busy || !travel.n || !sh || sh->closing)
        return;
    struct trip *t = dt_calloc(1, sizeof *t);
    if (!t)
        return; /* with the next one */
    memcpy(t->digest, travel.waiting[--travel.n], sizeof t->digest);
    t->work.data = t;
    travel.busy = uv_queue_work(travel.s->loop, &t->work, trip_work, trip_read) == 0;
    if (!travel.busy)
        free(t);
}

void dtd_travel_put(struct dtd_service *s, const char *digest)
{
    if (!s->share || s->share->closing || !s->cfg.share_graphs || !dt_sha256_ok(digest) || travel.n == WAITING)
        return;
    for (unsigned i = 0; i < SENT; i++)
        if (!strcmp(travel.sent[i], digest))
            return;
    travel.s = s;
    snprintf(travel.waiting[travel.n++], DT_SHA256_TEXT, "%s", digest);
    travel_next();
}

bool dtd_travel_right(const char *text, const char *digest)
{
    struct dt_graph *g = NULL;
    char is[DT_SHA256_TEXT];
    bool right = dt_graph_parse(text, strlen(text), &g, NULL) >= 0 && !g->is_plan &&
                 dt_graph_digest(g, is, NULL) >= 0 && !strcmp(is, digest);
    dt_graph_free(g);
    return right;
}
