/* dovetail reprofile [--stale [--budget SECONDS]] [--limit N]: plan stored graphs again that have no plan of this
 * device and toolchain.
 * dovetail reprofile --report [-o FILE.html]: what came of it, the last time with --budget.
 *
 * The service queues jobs and answers at once; with --local they are planned one after the other, here and now.
 * With --stale --budget SECONDS the service queues nothing, and plans what is due while no user's job waits or runs.
 */
#include <stdlib.h>
#include <string.h>

#include "client/cli.h"

static int cmd_reprofile_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    double due = jnum(doc, "due");
    if (json_object_get(doc, "begun"))
        printf("%.0f graph%s due, %s\n", due, due == 1 ? " is" : "s are",
               json_is_true(json_object_get(doc, "begun")) ? "planned while the service is idle"
                                                           : "and being planned already");
    else if (json_object_get(doc, "queued"))
        printf("%.0f graph%s due, %.0f queued\n", due, due == 1 ? " is" : "s are", jnum(doc, "queued"));
    else
        printf("%.0f graph%s due, %.0f planned, %.0f failed\n", due, due == 1 ? " was" : "s were", jnum(doc, "planned"),
               jnum(doc, "failed"));
    return 0;
}

static void report_row(const json_t *r)
{
    printf("%-10s", dt_json_text(r, "outcome"));
    if (json_object_get(r, "after_us"))
        printf(" %10.2f -> %10.2f us  ", jnum(r, "before_us"), jnum(r, "after_us"));
    else
        printf(" %-29s", "");
    printf("%7.1f s  %-8s", jnum(r, "seconds"), dt_json_text(r, "reason"));
    print_clean(stdout, *dt_json_text(r, "signature") ? dt_json_text(r, "signature") : dt_json_text(r, "graph"));
    if (*dt_json_text(r, "failure"))
        fputs("  ", stdout);
    print_clean(stdout, dt_json_text(r, "failure"));
    fputc('\n', stdout);
}

static int cmd_report_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *n = json_object_get(doc, "outcomes"), *r;
    size_t i;
    json_array_foreach (json_object_get(doc, "graphs"), i, r)
        report_row(r);
    printf("%s, begun %s, on %s: %.0f faster, %.0f slower, %.0f unchanged, %.0f failed; %.0f were due here\n",
           dt_json_text(doc, "state"), dt_json_text(doc, "begun"), dt_json_text(doc, "device"), jnum(n, "faster"),
           jnum(n, "slower"), jnum(n, "unchanged"), jnum(n, "failed"), jnum(doc, "due"));
    printf("one pass of all of them: %.2f -> %.2f us; %.1f s of planning; gave way to users %.0f times, and to others "
           "on the GPU %.0f times\n",
           jnum(doc, "before_us"), jnum(doc, "after_us"), jnum(doc, "seconds"), jnum(doc, "gave_way"),
           jnum(doc, "gpu_in_use"));
    return 0;
}

int cmd_reprofile(struct cli *c)
{
    struct outcome o;
    char path[96], members[96];
    if (c->report) {
        backend_call(c, "GET", c->output ? "/v1/reprofile/report?format=html" : "/v1/reprofile/report", NULL, 0, "",
                     NULL, &o);
        return c->output ? save_answer(c, NULL, false, &o) : finish(c, &o, cmd_report_human);
    }
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
