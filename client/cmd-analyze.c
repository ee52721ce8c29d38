/* dovetail analyze GRAPH: two tables for people. First the launches and how each fills the chosen device: blocks an SM
 * holds, waves, idle block slots. Then one line per edge: its classes, fan, pairs and components of blocks, evidence,
 * hazards and buffers. Long names are cut in the middle; --json prints the whole document instead.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "client/cli.h"

#define NAME_MOST 40
#define LIST_MOST 32

static char *cmd_analyze_number(double v)
{
    char *s;
    return asprintf(&s, "%.0f", v) < 0 ? NULL : s;
}

/* Blocks an SM holds, waves, and the share of block slots in these waves that stay empty: by launch, and over all
 * launches. A memset or copy step (no registers) fills no SM. */
static void cmd_analyze_launches(struct cli *c, const json_t *list)
{
    struct table t = {0};
    double blocks = 0, waves = 0, slots = 0;
    size_t i, kernels = 0;
    const json_t *l;
    table_row(&t, 8, "launch", ">blocks", ">threads", ">registers", ">shared", ">blocks/SM", ">waves", ">idle slots");
    json_array_foreach (list, i, l) {
        dt_free_ char *name = cut(dt_json_text(l, "name"), NAME_MOST), *b = cmd_analyze_number(jnum(l, "blocks")),
                      *n = cmd_analyze_number(jnum(l, "threads"));
        dt_free_ char *r = cmd_analyze_number(jnum(l, "registers")), *s = cmd_analyze_number(jnum(l, "shared_bytes")),
                      *w = cmd_analyze_number(jnum(l, "waves"));
        dt_free_ char *per = cmd_analyze_number(jnum(l, "blocks_per_sm"));
        char idle[32];
        snprintf(idle, sizeof idle, "%.1f %%", jnum(l, "idle_slots") * 100);
        bool kernel = jnum(l, "registers") > 0;
        table_row(&t, 8, name, b, n, r, s, kernel ? per : "-", kernel ? w : "-", kernel ? idle : "-");
        if (!kernel)
            continue;
        kernels++;
        blocks += jnum(l, "blocks");
        waves += jnum(l, "waves");
        slots += jnum(l, "blocks") / (1 - jnum(l, "idle_slots")); /* idle_slots is below 1: there are blocks */
    }
    if (kernels > 1 && slots > 0) {
        dt_free_ char *b = cmd_analyze_number(blocks), *w = cmd_analyze_number(waves);
        char idle[32];
        snprintf(idle, sizeof idle, "%.1f %%", (1 - blocks / slots) * 100);
        table_row(&t, 8, "all kernels", b, "", "", "", "", w, idle);
    }
    table_print(&t, c);
}

static void edges(struct cli *c, const json_t *list)
{
    struct table t = {0};
    size_t i;
    const json_t *e;
    table_row(&t, 8, "producer -> consumer", "classes", "fan", ">pairs", ">components", "evidence", "hazards",
              "through");
    json_array_foreach (list, i, e) {
        char *name;
        dt_free_ char *from = cut(dt_json_text(e, "producer"), NAME_MOST),
                      *to = cut(dt_json_text(e, "consumer"), NAME_MOST);
        dt_free_ char *classes = join(json_object_get(e, "classes"), ", ", "-");
        dt_free_ char *hazards = join(json_object_get(e, "hazards"), ", ", "-");
        dt_free_ char *all = join(json_object_get(e, "buffers"), ", ", "-"),
                      *buffers = all ? cut(all, LIST_MOST) : NULL;
        dt_free_ char *pairs = cmd_analyze_number(jnum(e, "pairs")), *comps = cmd_analyze_number(jnum(e, "components"));
        if (asprintf(&name, "%s -> %s", from ? from : "", to ? to : "") < 0)
            break;
        table_row(&t, 8, name, classes, dt_json_text(e, "fan"), pairs, comps, dt_json_text(e, "evidence"), hazards,
                  buffers);
        free(name);
    }
    table_print(&t, c);
}

static int cmd_analyze_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *dev = json_object_get(doc, "device"), *l = json_object_get(doc, "launches"),
                 *e = json_object_get(doc, "edges");
    size_t launches = json_array_size(l), found = json_array_size(e);
    printf("%zu launch%s, %zu edge%s on ", launches, dt_ending(launches, "es"), found, dt_ending(found, "s"));
    print_clean(stdout, dt_json_text(dev, "name"));
    printf(" (%s, %.0f SMs); cache %s\n", dt_json_text(dev, "arch"), jnum(dev, "sms"), o->cache);
    printf("signature %s\n", dt_json_text(doc, "signature"));
    if (json_array_size(l)) {
        fputc('\n', stdout);
        cmd_analyze_launches(c, l);
    }
    if (json_array_size(e)) {
        fputc('\n', stdout);
        edges(c, e);
    }
    return 0;
}

int cmd_analyze(struct cli *c) { return post_graph(c, "analysis", NULL, cmd_analyze_human); }
