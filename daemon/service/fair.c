/* See fair.h for the rules.
 *
 * Accounts are few (one a user who has work here) and jobs are bounded, so all figures are counted anew when they are
 * needed: there is nothing that could get out of step. An account without work is forgotten once it is not ahead of the
 * virtual time; when nobody has work, all are, and the virtual time moves to the largest.
 */
#include "daemon/service/fair.h"

#include <stdlib.h>

#include "base/alloc.h"

#define RESERVE 8   /* one part in this many of the queue is for those who have few jobs in it */
#define DOUBLINGS 3 /* of the slice, one a turn that was lost */
#define RETRY_MAX 600

/* The accounts that pay for a job, one by one: *at counts from 0. NULL: no more. */
static struct dtd_user *payer(const struct dtd_job *j, size_t *at)
{
    while (*at < j->owner.n) {
        const struct dtd_owner *o = &j->owner.p[(*at)++];
        if (o->user && !o->left)
            return o->user;
    }
    return (*at)++ == j->owner.n ? j->nobody : NULL;
}

static double account(const struct dtd_jobs *js, const struct dtd_job *j)
{
    double least = js->clock;
    bool any = false;
    size_t at = 0;
    for (const struct dtd_user *u; (u = payer(j, &at)); any = true)
        if (!any || u->used < least)
            least = u->used;
    return least;
}

void dtd_fair_charge(struct dtd_jobs *js)
{
    uint64_t now = js->now_us();
    for (struct dtd_job *j = js->active; j; j = j->anext) {
        unsigned n = 0;
        size_t at = 0;
        struct dtd_user *u;
        if (j->state != DTD_RUNNING)
            continue;
        while (payer(j, &at))
            n++;
        at = 0;
        while ((u = payer(j, &at)))
            u->used += (double)(now - j->charged_us) / 1e6 / n;
        j->charged_us = now;
    }
}

/* Count queued and active jobs of each, and forget the accounts that say nothing any more. */
static void tally(struct dtd_jobs *js)
{
    bool idle = !js->active;
    struct dtd_user *u, **link = &js->users;
    for (u = js->users; u; u = u->next)
        u->queued = u->active = 0;
    for (const struct dtd_job *j = js->active; j; j = j->anext)
        for (size_t at = 0; (u = payer(j, &at));) {
            u->active++;
            u->queued += j->state == DTD_QUEUED;
        }
    for (u = js->users; u && idle; u = u->next)
        if (u->used > js->clock)
            js->clock = u->used;
    while ((u = *link)) {
        if (u->active || u->used > js->clock) {
            link = &u->next;
            continue;
        }
        *link = u->next;
        free(u);
    }
}

struct dtd_user *dtd_fair_user(struct dtd_jobs *js, unsigned uid)
{
    tally(js);
    struct dtd_user *u = js->users;
    while (u && u->uid != uid)
        u = u->next;
    if (!u && (u = dt_calloc(1, sizeof *u))) {
        *u = (struct dtd_user){.uid = uid, .used = js->clock, .next = js->users};
        js->users = u;
    }
    if (u && !u->active && u->used < js->clock)
        u->used = js->clock;
    return u;
}

void dtd_fair_begin(struct dtd_jobs *js, struct dtd_job *j)
{
    double v = account(js, j);
    if (v > js->clock)
        js->clock = v;
    j->turn_us = j->charged_us = js->now_us();
}

int dtd_fair_admit(struct dtd_jobs *js, unsigned uid, struct dt_err *e)
{
    unsigned all = js->count[DTD_QUEUED], room = all < js->max_queued ? js->max_queued - all : 0;
    unsigned mine = 0, others = 0, most = js->max_queued;
    tally(js);
    for (const struct dtd_user *u = js->users; u; u = u->next) {
        if (u->uid == uid)
            mine = u->queued;
        else
            others += u->queued > 0;
    }
    if (others)
        most = js->max_queued / (others + 2);
    if (room <= js->max_queued / RESERVE && most > room)
        most = room;
    if (!room && (!mine || js->max_queued < RESERVE))
        return dt_err_set(e, DT_E_BUSY, "%u jobs are waiting already", all);
    if (mine && mine >= most)
        return dt_err_set(e, DT_E_SHARE, "%u jobs of yours are waiting already, which is your share of the queue",
                          mine);
    return 0;
}

static bool common_owner(const struct dtd_job *a, const struct dtd_job *b)
{
    const struct dtd_user *u, *v;
    for (size_t i = 0; (u = payer(a, &i));)
        for (size_t k = 0; (v = payer(b, &k));)
            if (u == v)
                return true;
    return false;
}

struct dtd_job *dtd_fair_next(struct dtd_jobs *js, const struct dtd_job *except,
                              bool (*may)(const struct dtd_job *j, const void *user), const void *user)
{
    struct dtd_job *best = NULL;
    double least = 0;
    dtd_fair_charge(js);
    for (struct dtd_job *j = js->active; j; j = j->anext) {
        if (j->state != DTD_QUEUED || !may(j, user) || (except && common_owner(j, except)))
            continue;
        double v = account(js, j);
        if (best && (v > least || (v == least && j->turns >= best->turns)))
            continue;
        best = j;
        least = v;
    }
    return best;
}

double dtd_fair_yields(struct dtd_jobs *js, const struct dtd_job *running, const struct dtd_job *waiting)
{
    if (js->slice <= 0 || running->state != DTD_RUNNING || common_owner(running, waiting))
        return -1;
    dtd_fair_charge(js);
    unsigned lost = running->turns < DOUBLINGS ? running->turns : DOUBLINGS;
    double own = js->slice * (1u << lost) - (double)(js->now_us() - running->turn_us) / 1e6;
    double lead = js->slice - (account(js, running) - account(js, waiting));
    double later = own > lead ? own : lead;
    return later > 0 ? later : 0;
}

bool dtd_fair_ahead(struct dtd_jobs *js, const struct dtd_job *a, const struct dtd_job *b)
{
    dtd_fair_charge(js);
    return account(js, a) > account(js, b);
}

/* Until one of this user's own jobs has begun, everybody in turn: a round of those who wait, on the workers there are.
 */
unsigned dtd_fair_retry_after(struct dtd_jobs *js, unsigned uid, unsigned workers)
{
    uint64_t ended = js->total[DTD_DONE] + js->total[DTD_FAILED] + js->total[DTD_CANCELLED];
    double ran = js->run_seconds, round = 1;
    uint64_t now = js->now_us();
    for (const struct dtd_job *j = js->active; j; j = j->anext)
        if (j->state == DTD_RUNNING) {
            ran += (double)(now - j->turn_us) / 1e6;
            ended++;
        }
    tally(js);
    for (const struct dtd_user *u = js->users; u; u = u->next)
        round += u->queued > 0 && u->uid != uid;
    double mean = ended ? ran / (double)ended : 1, wait = mean * round / (workers ? workers : 1);
    return wait < 1 ? 1 : wait > RETRY_MAX ? RETRY_MAX : (unsigned)(wait + 0.999);
}

void dtd_fair_done(struct dtd_jobs *js)
{
    while (js->users) {
        struct dtd_user *u = js->users;
        js->users = u->next;
        free(u);
    }
}
