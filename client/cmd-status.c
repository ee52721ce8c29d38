/* dovetail status: does the service answer, and its workers? With --local: does a worker start and answer? */
#include "client/cli.h"

static void confinement_human(const json_t *o)
{
    const json_t *own = json_object_get(o, "worker"), *child = json_object_get(o, "compiler");
    if (o)
        printf("confined (%s): worker: files %s, system calls %s; compilers: files %s, system calls %s%s%s\n",
               dt_json_text(o, "mode"), dt_json_text(own, "files"), dt_json_text(own, "calls"),
               dt_json_text(child, "files"), dt_json_text(child, "calls"),
               *dt_json_text(own, "network") ? "; away from the network: " : "", dt_json_text(own, "network"));
}

static void cluster_human(const json_t *o)
{
    const json_t *out = json_object_get(o, "outbox");
    if (!o)
        return;
    printf("cluster %s: %s%s%s, breaker %s; %.0f results to send, the oldest for %.0f s; %.0f parked%s%s\n",
           dt_json_text(o, "namespace"), dt_json_text(o, "state"), *dt_json_text(o, "why") ? ": " : "",
           dt_json_text(o, "why"), dt_json_text(o, "breaker"), jnum(out, "waiting"), jnum(out, "lag_s"),
           jnum(out, "parked"), *dt_json_text(out, "refusal") ? ": " : "", dt_json_text(out, "refusal"));
}

static int cmd_status_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *w;
    size_t i;
    if (c->local) {
        printf("a worker starts and answers, device %s\n", dt_json_text(doc, "device"));
        confinement_human(json_object_get(doc, "confinement"));
        return 0;
    }
    printf("dovetaild %s: %s, device %s, up %.0f s, %.0f jobs queued, %.0f running\n", dt_json_text(doc, "version"),
           dt_json_text(doc, "status"), dt_json_text(doc, "device"), jnum(doc, "uptime_s"), jnum(doc, "queued"),
           jnum(doc, "running"));
    json_array_foreach (json_object_get(doc, "workers"), i, w)
        printf("worker %.0f: %s, %s, %.0f jobs so far\n", jnum(w, "pid"), dt_json_text(w, "device"),
               dt_json_text(w, "state"), jnum(w, "jobs"));
    confinement_human(json_object_get(doc, "confinement"));
    cluster_human(json_object_get(doc, "cluster"));
    return 0;
}

int cmd_status(struct cli *c)
{
    struct outcome o;
    backend_get(c, "/healthz", "ping", NULL, &o);
    return finish(c, &o, cmd_status_human);
}
