/* dovetail reprofile [--stale [--budget SECONDS]] [--limit N]: plan stored graphs again that have no plan of this
 * device and toolchain.
 *
 * The service queues jobs and answers at once; with --local they are planned one after the other, here and now.
 * With --stale --budget SECONDS the service queues nothing, and plans what is due while no user's job waits or runs.
 */
#include <stdlib.h>
#include <string.h>

#include "client/cli.h"

static int cmd_reprofile_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    if (json_object_get(doc, "begun"))
        printf(json_is_true(json_object_get(doc, "begun"))
                   ? "%.0f graphs are due, planned while the service is idle\n"
                   : "%.0f graphs are due, and they are being planned already\n",
               jnum(doc, "due"));
    else if (json_object_get(doc, "queued"))
        printf("%.0f graphs are due, %.0f queued\n", jnum(doc, "due"), jnum(doc, "queued"));
    else
        printf("%.0f graphs were due, %.0f planned, %.0f failed\n", jnum(doc, "due"), jnum(doc, "planned"),
               jnum(doc, "failed"));
    return 0;
}

int cmd_reprofile(struct cli *c)
{
    struct outcome o;
    char path[96], members[96];
    long limit = c->limit ? strtol(c->limit, NULL, 10) : 100; /* checked */
    if (c->budget && c->stale) {
        snprintf(members, sizeof members, "{\"stale\":true,\"budget_s\":%.3f}", strtod(c->budget, NULL));
        backend_call(c, "POST", "/v1/reprofile", members, strlen(members), "reprofile", "", &o);
        return finish(c, &o, cmd_reprofile_human);
    }
    snprintf(path, sizeof path, "/v1/reprofile?limit=%ld%s", limit, c->stale ? "&stale=1" : "");
    snprintf(members, sizeof members, "\"limit\":%ld,\"stale\":%s", limit, c->stale ? "true" : "false");
    backend_call(c, "POST", path, "", 0, "reprofile", members, &o);
    return finish(c, &o, cmd_reprofile_human);
}
