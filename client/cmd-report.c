/* dovetail report SIGNATURE -o FILE.html: the plan that the cache holds under a signature, as one HTML file.
 * dovetail trace SIGNATURE -o FILE.json: modelled timelines of graph and plan, to open in Perfetto or chrome://tracing.
 * FILE - is stdout.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "client/cli.h"

/* Through the service the text is the file; a worker (--local) gives it as a member of a document. */
static int save(struct cli *c, const char *member, struct outcome *o, struct dt_err *e)
{
    json_t *doc = c->local ? json_loadb(o->text, o->len, 0, NULL) : NULL, *m = json_object_get(doc, member);
    const char *text = c->local ? json_string_value(m) : o->text;
    size_t len = c->local ? json_string_length(m) : o->len;
    int r = 0;
    if (!text)
        r = dt_err_set(e, DT_E_INTERNAL, "the worker's answer has no %s", member);
    else if (!strcmp(c->output, "-"))
        fwrite(text, 1, len, stdout); /* main looks whether it could */
    else
        r = dt_write_file(c->output, text, len, e);
    json_decref(doc);
    return r;
}

static int human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    fputs("written to ", stdout);
    print_clean(stdout, c->output);
    fputc('\n', stdout);
    return 0;
}

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
    if (!o.failed) {
        if (save(c, member, &o, &e) < 0) {
            outcome_done(&o);
            return fail(c, &e);
        }
        if (!strcmp(c->output, "-")) {
            outcome_done(&o);
            return 0;
        }
        json_t *doc = json_pack("{s:s}", "file", c->output);
        free(o.text);
        o.text = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
        o.len = o.text ? strlen(o.text) : 0;
        json_decref(doc);
    }
    return finish(c, &o, human);
}

int cmd_report(struct cli *c) { return stored(c, "report", "html", "html"); }
int cmd_trace(struct cli *c) { return stored(c, "trace", "trace", "json"); }
