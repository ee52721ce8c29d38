/* dovetail report SIGNATURE -o FILE.html: the plan that the cache holds under a signature, as one HTML file.
 * dovetail trace SIGNATURE -o FILE.json: modelled timelines of graph and plan, to open in Perfetto or chrome://tracing.
 * FILE - is stdout.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "client/cli.h"

static int stored(struct cli *c, const char *verb, const char *member, const char *ending)
{
    struct dt_err e = {0};
    struct outcome o;
    char path[160];
    const char *s = c->arg[0];
    if (!dt_sha256_ok(s))
        dt_err_set(&e, DT_E_USAGE, "a signature is sha256: and 64 hexadecimal digits");
    else if (!c->output)
        dt_err_set(&e, DT_E_USAGE, "usage: dovetail %s SIGNATURE -o FILE.%s", verb, ending);
    else if (c->json && !strcmp(c->output, "-"))
        dt_err_set(&e, DT_E_USAGE, "--json and -o - are both for stdout");
    if (e.num)
        return fail(c, &e);
    snprintf(path, sizeof path, "/v1/plans/%s/%s", s, verb);
    backend_get(c, path, verb, s, &o);
    return save_answer(c, member, false, &o);
}

int cmd_report(struct cli *c) { return stored(c, "report", "html", "html"); }
int cmd_trace(struct cli *c) { return stored(c, "trace", "trace", "json"); }
