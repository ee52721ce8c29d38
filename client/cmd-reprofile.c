/* dovetail reprofile [--stale] [--limit N]: plan stored graphs again that have no plan of this device and toolchain. The service queues jobs
 * and answers at once; with --local they are planned one after the other, here and now.
 */
#include <stdlib.h>
#include <string.h>

#include "client/cli.h"

static int human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    if (json_object_get(doc, "queued"))
        printf("%.0f graphs are due, %.0f queued\n", jnum(doc, "due"), jnum(doc, "queued"));
    else
        printf("%.0f graphs were due, %.0f planned, %.0f failed\n", jnum(doc, "due"), jnum(doc, "planned"), jnum(doc, "failed"));
    return 0;
}

int cmd_reprofile(struct cli *c)
{
    struct outcome o;
    char path[96], members[96];
    const char *limit = c->limit ? c->limit : "100";
    if (limit[strspn(limit, "0123456789")] || strlen(limit) > 5 || !atoi(limit) || atoi(limit) > 10000) {
        struct dt_err e = {0};
        dt_err_set(&e, DT_E_USAGE, "--limit takes a number from 1 to 10000");
        return fail(c, &e);
    }
    snprintf(path, sizeof path, "/v1/reprofile?limit=%d%s", atoi(limit), c->stale ? "&stale=1" : "");
    snprintf(members, sizeof members, "\"limit\":%d,\"stale\":%s", atoi(limit), c->stale ? "true" : "false");
    backend_call(c, "POST", path, "", 0, "reprofile", members, &o);
    return finish(c, &o, human);
}
