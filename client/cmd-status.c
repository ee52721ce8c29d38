/* dovetail status: does the service answer, and its workers? With --local: does a worker start and answer? */
#include "client/cli.h"

static int cmd_status_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *w;
    size_t i;
    if (c->local) {
        printf("a worker starts and answers, device %s\n", dt_json_text(doc, "device"));
        return 0;
    }
    printf("dovetaild %s: %s, device %s, up %.0f s, %.0f jobs queued, %.0f running\n", dt_json_text(doc, "version"),
           dt_json_text(doc, "status"), dt_json_text(doc, "device"), jnum(doc, "uptime_s"), jnum(doc, "queued"),
           jnum(doc, "running"));
    json_array_foreach (json_object_get(doc, "workers"), i, w)
        printf("worker %.0f: %s, %s, %.0f jobs so far\n", jnum(w, "pid"), dt_json_text(w, "device"),
               dt_json_text(w, "state"), jnum(w, "jobs"));
    return 0;
}

int cmd_status(struct cli *c)
{
    struct outcome o;
    backend_get(c, "/healthz", "ping", NULL, &o);
    return finish(c, &o, cmd_status_human);
}
