/* dovetail explain GRAPH|SIGNATURE: the analysis and the plan in sentences: why an edge has its class and its evidence,
 * why a rewrite was kept, refused or dropped, and what the signature is made of. For a graph, each edge also names the
 * instructions that decided its class. A signature is explained from the entries of the cache, with canonical names.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "client/cli.h"

#define LINES_MOST 8

static bool cmd_explain_has(const json_t *list, const char *what)
{
    size_t i;
    const json_t *v;
    json_array_foreach (list, i, v)
        if (json_is_string(v) && !strcmp(json_string_value(v), what))
            return true;
    return false;
}

static void range(const json_t *o, const char *what, const char *of)
{
    double lo = jnum(o, "min"), hi = jnum(o, "max");
    if (lo == hi)
        printf("    %s %.0f %s\n", what, lo, of);
    else
        printf("    %s %.0f to %.0f %s\n", what, lo, hi, of);
}

/* "PTX line 69 (line 11 of module k): ld.global…" */
static void cmd_explain_place(const json_t *o)
{
    const json_t *src = json_object_get(o, "source"), *at = json_object_get(src, "inlined_at");
    printf("PTX line %.0f", jnum(o, "ptx_line"));
    for (const json_t *s = src; s; s = s == src ? at : NULL) {
        const char *module = dt_json_text(s, "module");
        printf("%sline %.0f of %s", s == src ? " (" : ", inlined at ", jnum(s, "line"), *module ? "module " : "");
        print_clean(stdout, *module ? module : dt_json_text(s, "file"));
    }
    printf("%s: ", src ? ")" : "");
    print_clean(stdout, dt_json_text(o, "instruction"));
    fputc('\n', stdout);
}

/* Do two reasons differ in nothing but where the access is? */
static bool cmd_explain_alike(const json_t *a, const json_t *b)
{
    static const char *const member[] = {"of", "side", "access", "buffer", "why", "step"};
    for (size_t i = 0; i < sizeof member / sizeof *member; i++)
        if (strcmp(dt_json_text(a, member[i]), dt_json_text(b, member[i])))
            return false;
    return jnum(json_object_get(a, "from"), "ptx_line") == jnum(json_object_get(b, "from"), "ptx_line");
}

static void other_lines(const json_t *list, size_t first)
{
    const json_t *a = json_array_get(list, first), *b;
    unsigned n = 0;
    for (size_t i = first + 1; (b = json_array_get(list, i)); i++)
        if (cmd_explain_alike(a, b) && n++ < LINES_MOST)
            printf("%s%.0f", n == 1 ? "            and the same at PTX line " : ", ", jnum(b, "ptx_line"));
    if (n > LINES_MOST)
        printf(" and %u more", n - LINES_MOST);
    fputs(n ? "\n" : "", stdout);
}

/* The instructions behind an edge's evidence ("evidence") or behind a class that is not one-to-one ("class"). */
static void reasons(const json_t *e, const char *of)
{
    const json_t *list = json_object_get(e, "reasons"), *r, *earlier;
    size_t i;
    json_array_foreach (list, i, r) {
        const json_t *from = json_object_get(r, "from");
        const char *why = dt_json_text(r, "why"), *step = dt_json_text(r, "step");
        size_t k = 0;
        while (k < i && (earlier = json_array_get(list, k)) && !cmd_explain_alike(earlier, r))
            k++;
        if (strcmp(dt_json_text(r, "of"), of) || k < i)
            continue;
        fputs("        ", stdout);
        print_clean(stdout, dt_json_text(e, dt_json_text(r, "side")));
        printf(" %s ", !strcmp(dt_json_text(r, "access"), "write")  ? "writes"
                       : !strcmp(dt_json_text(r, "access"), "read") ? "reads"
                                                                    : "changes");
        print_clean(stdout, dt_json_text(r, "buffer"));
        if (*step) {
            printf(": a %s of the whole range\n", step);
            continue;
        }
        printf("%s, ", json_is_true(json_object_get(r, "loop")) ? " in a loop" : "");
        cmd_explain_place(r);
        if (from) {
            printf("            %s by ",
                   !strcmp(why, "guard") ? "whether it does is decided" : "its address is formed");
            if (*dt_json_text(from, "buffer")) {
                fputs("what ", stdout);
                print_clean(stdout, dt_json_text(from, "buffer"));
                fputs(" holds, ", stdout);
            }
            cmd_explain_place(from);
        } else if (!strcmp(why, "not-followed")) {
            printf("            an instruction whose addresses are not followed: it counts as every byte\n");
        }
        other_lines(list, i);
    }
}

static void cmd_explain_edge(const json_t *e)
{
    const json_t *classes = json_object_get(e, "classes"), *bytes = json_object_get(e, "independent_bytes"), *v;
    const char *ev = dt_json_text(e, "evidence"), *name;
    dt_free_ char *cls = join(classes, ", ", "-"), *hz = join(json_object_get(e, "hazards"), ", ", "none");
    dt_free_ char *bufs = join(json_object_get(e, "buffers"), ", ", "no buffer");
    print_clean(stdout, dt_json_text(e, "producer"));
    fputs(" -> ", stdout);
    print_clean(stdout, dt_json_text(e, "consumer"));
    printf(": %s\n", cls);
    if (cmd_explain_has(classes, "full-independence")) {
        printf("    no block of the consumer reads what the producer writes");
        printf(strcmp(hz, "none") ? "; still ordered, because of %s\n" : "; no order is needed%.0s\n", hz);
    } else {
        printf("    hazards %s through ", hz);
        print_clean(stdout, bufs);
        printf(": %.0f pairs of blocks in %.0f components, fan %s\n", jnum(e, "pairs"), jnum(e, "components"),
               dt_json_text(e, "fan"));
        range(json_object_get(e, "producers_per_consumer"), "a consumer block needs", "producer blocks");
        range(json_object_get(e, "consumers_per_producer"), "a producer block feeds", "consumer blocks");
        reasons(e, "class");
        if (cmd_explain_has(classes, "one-to-one"))
            printf("    one-to-one: every consumer block needs exactly one producer block, and none is shared\n");
    }
    if (jnum(e, "independent_blocks") > 0)
        printf("    %.0f consumer blocks need nothing from the producer\n", jnum(e, "independent_blocks"));
    json_object_foreach ((json_t *)bytes, name, v) {
        printf("    %.0f bytes of ", json_number_value(v));
        print_clean(stdout, name);
        printf(" are read that nobody writes in between: they can be fetched early\n");
    }
    printf("    %s: %s\n", *ev ? ev : "-",
           !strcmp(ev, "proved") ? "no address and no guard depends on loaded data, so the map holds for all inputs"
           : !strcmp(ev, "observed")
               ? "addresses or guards depend on buffers that are declared constant, whose content is hashed"
               : "addresses or guards depend on data, so the map is a superset");
    reasons(e, "evidence");
    if (jnum(e, "reasons_left_out") > 0)
        printf("        and %.0f accesses more\n", jnum(e, "reasons_left_out"));
}

static void rewrite(const json_t *r)
{
    dt_free_ char *launches = join(json_object_get(r, "launches"), " + ", "-");
    const char *verdict = dt_json_text(r, "verdict"), *reason = dt_json_text(r, "reason"),
               *level = dt_json_text(r, "level");
    printf("%s%s%s of ", dt_json_text(r, "kind"), *level ? ", level " : "", level);
    print_clean(stdout, launches);
    printf(": %s%s", verdict,
           !strcmp(verdict, "refused")   ? " (not legal, or not provably so)"
           : !strcmp(verdict, "dropped") ? " (legal, but no gain)"
                                         : "");
    fputs(*reason ? ": " : "", stdout);
    print_clean(stdout, reason);
    fputc('\n', stdout);
}

static const char *factor_text(const char *f)
{
    static const char *const text[][2] = {
        {".kernel", "kernel text"},         {".geometry", "geometry"},          {".arguments", "arguments"},
        {".shape", "size, role"},           {".content", "constant content"},   {"arch", "architecture"},
        {"launches", "number of launches"}, {"format", "format of signatures"}, {"device", "device"},
        {"toolchain", "toolchain"},         {"policy", "policy (options)"}};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        size_t n = strlen(f), k = strlen(text[i][0]);
        if (n >= k && !strcmp(f + n - k, text[i][0]))
            return text[i][1];
    }
    return f;
}

/* Why the cache was missed, or what keeps the nearest entry apart. */
static void nearest(const json_t *n, bool cached)
{
    const json_t *e = json_object_get(n, "entry"), *list = json_object_get(n, "differs"), *v;
    size_t i;
    if (!n) {
        printf("no other entry of the cache to compare with\n");
        return;
    }
    printf("%s: nearest %sentry %s on ", cached ? "in the cache" : "missed the cache", cached ? "other " : "",
           dt_json_text(e, "signature"));
    print_clean(stdout, dt_json_text(e, "device"));
    printf(" differs in %zu of %.0f factors\n", json_array_size(list), jnum(n, "factors"));
    json_array_foreach (list, i, v) {
        const char *f = dt_json_text(v, "factor"), *name = dt_json_text(v, "name"), *mine = dt_json_text(v, "mine"),
                   *stored = dt_json_text(v, "stored");
        if (i == 20) {
            printf("    and %zu more\n", json_array_size(list) - i);
            break;
        }
        printf("    %s", factor_text(f));
        if (strchr(f, '.'))
            printf(" of %s %.*s", *f == 'l' ? "launch" : "buffer", (int)strcspn(f, "."), f);
        if (*name) {
            fputs(" (", stdout);
            print_clean(stdout, name);
            fputc(')', stdout);
        }
        fputs(": here ", stdout);
        print_clean(stdout, *mine ? mine + (*mine == ' ') : "nothing");
        fputs(", stored ", stdout);
        print_clean(stdout, *stored ? stored + (*stored == ' ') : "nothing");
        fputc('\n', stdout);
    }
}

/* What other hosts have of the same graph, and why it is not for this one. */
static void cmd_explain_cluster(const json_t *o)
{
    const char *state = dt_json_text(o, "state");
    const json_t *v;
    size_t i;
    if (!strcmp(state, "away"))
        printf("the cluster did not answer: what it has is not known\n");
    if (!strcmp(state, "none"))
        printf("in the cluster: no other entry of this signature\n");
    if (strcmp(state, "near"))
        return;
    printf("in the cluster: nearest entry differs in\n");
    json_array_foreach (json_object_get(o, "differs"), i, v) {
        printf("    %s: here ", factor_text(dt_json_text(v, "factor")));
        print_clean(stdout, dt_json_text(v, "mine"));
        fputs(", stored ", stdout);
        print_clean(stdout, dt_json_text(v, "stored"));
        fputc('\n', stdout);
    }
}

static int cmd_explain_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *a = json_object_get(doc, "analysis"), *p = json_object_get(doc, "plan"),
                 *f = json_object_get(doc, "factors");
    const json_t *v;
    const char *name;
    size_t i;
    printf("signature %s%s\n", dt_json_text(doc, "signature"),
           json_is_true(json_object_get(doc, "cached")) ? " (in the cache)" : "");
    json_object_foreach ((json_t *)f, name, v) {
        dt_free_ char *text =
            json_is_string(v) ? dt_strdup(json_string_value(v)) : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        printf("    %s ", name);
        print_clean(stdout, text ? text : "");
        fputc('\n', stdout);
    }
    nearest(json_object_get(doc, "nearest"), json_is_true(json_object_get(doc, "cached")));
    cmd_explain_cluster(json_object_get(doc, "cluster"));
    print_recipes(json_object_get(doc, "recipes"));
    if (a)
        printf("\nEdges\n");
    bool lines = false, sources = false;
    json_array_foreach (json_object_get(a, "edges"), i, v) {
        const json_t *r;
        size_t k;
        cmd_explain_edge(v);
        json_array_foreach (json_object_get(v, "reasons"), k, r) {
            lines |= json_object_get(r, "ptx_line") != NULL;
            sources |= json_object_get(r, "source") != NULL;
        }
    }
    if (lines && !sources)
        printf("PTX lines of a CUDA module are of what the compiler made of it; with \"-lineinfo\" among its options, "
               "source lines are named too.\n");
    if (p)
        printf("\nRewrites\n");
    json_array_foreach (json_object_get(p, "rewrites"), i, v)
        rewrite(v);
    if (p && !json_array_size(json_object_get(p, "rewrites")))
        printf("no rewrite was tried\n");
    return 0;
}

static int by_signature(struct cli *c, const char *sig)
{
    struct outcome parts[2], o = {0}, near;
    static const char *const what[2][3] = {{"analysis", "/v1/analyses/", "find-analysis"},
                                           {"plan", "/v1/plans/", "find-plan"}};
    json_t *doc = json_pack("{s:s, s:b}", "signature", sig, "cached", 1);
    int found = 0;
    for (int i = 0; i < 2; i++) {
        char *path;
        if (asprintf(&path, "%s%s", what[i][1], sig) < 0)
            return 1;
        backend_get(c, path, what[i][2], sig, &parts[i]);
        free(path);
        json_t *part = parts[i].failed ? NULL : json_loadb(parts[i].text, parts[i].len, 0, NULL);
        if (part) {
            json_object_set_new(doc, what[i][0], part);
            found++;
        }
    }
    if (!found) {
        json_decref(doc);
        outcome_done(&parts[1]);
        return finish(c, &parts[0], cmd_explain_human);
    }
    char path[160], members[160];
    snprintf(path, sizeof path, "/v1/cache/nearest/%s", sig);
    snprintf(members, sizeof members, "\"op\":\"nearest\",\"signature\":\"%s\"", sig);
    backend_call(c, "GET", path, NULL, 0, "cache", members, &near); /* a failure: there is nothing to compare with */
    json_t *other = near.failed ? NULL : json_loadb(near.text, near.len, 0, NULL);
    if (other)
        json_object_set_new(doc, "nearest", other);
    outcome_done(&near);
    snprintf(path, sizeof path, "/v1/cache/entries?signature=%s", sig);
    snprintf(members, sizeof members, "\"op\":\"list\",\"signature\":\"%s\"", sig);
    backend_call(c, "GET", path, NULL, 0, "cache", members, &near);
    other = near.failed ? NULL : json_loadb(near.text, near.len, 0, NULL);
    if (json_array_size(json_object_get(other, "recipes")))
        json_object_set(doc, "recipes", json_object_get(other, "recipes"));
    json_decref(other);
    outcome_done(&near);
    outcome_set(&o, doc);
    outcome_done(&parts[0]);
    outcome_done(&parts[1]);
    return finish(c, &o, cmd_explain_human);
}

int cmd_explain(struct cli *c)
{
    const char *s = c->arg[0];
    if (strncmp(s, "sha256:", 7))
        return post_graph(c, "explain", NULL, cmd_explain_human);
    if (dt_sha256_ok(s))
        return by_signature(c, s);
    struct dt_err e = {0};
    dt_err_set(&e, DT_E_USAGE, "a signature is sha256: and 64 hexadecimal digits");
    return fail(c, &e);
}
