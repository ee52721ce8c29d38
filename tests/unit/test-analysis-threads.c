/* Launches analysed side by side: the same documents and footprints for any number of threads.
 *
 * Corpus graphs (summarised and recorded launches, constant content that several launches read, layers alike) are
 * analysed by one, two and seven threads, summaries allowed or not. A build of this test with ThreadSanitizer watches
 * the same (suite "driver").
 */
#include "analysis-fixture.h"
#include "tests/skip.h"

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *s = calloc((size_t)n + 1, 1);
    assert_int_equal(fread(s, 1, (size_t)n, f), n);
    fclose(f);
    return s;
}

static struct dev_prog *load(const char *name, struct dt_graph **ret_g)
{
    char path[1024];
    struct dt_err e = {0};
    struct dev_prog *p = NULL;
    json_t *m;
    const char *key, *root = getenv("DOVETAIL_SOURCE");
    snprintf(path, sizeof path, "%s/tests/corpus/%s/graph.json", root, name);
    json_t *g = json_load_file(path, 0, NULL);
    assert_non_null(g);
    json_object_foreach (json_object_get(g, "modules"), key, m) {
        const char *file = json_string_value(json_object_get(m, "file"));
        if (!file)
            continue;
        bool ptx = strlen(file) > 4 && !strcmp(file + strlen(file) - 4, ".ptx");
        snprintf(path, sizeof path, "%s/tests/corpus/%s/%s", root, name, file);
        char *s = slurp(path);
        json_object_del(m, "file");
        json_object_set_new(m, ptx ? "ptx" : "cuda", json_string(s));
        free(s);
    }
    char *s = json_dumps(g, 0);
    int rc = dt_graph_parse(s, strlen(s), ret_g, &e);
    if (!rc)
        rc = dev_prog_new(device, *ret_g, NULL, NULL, &p, &e);
    if (rc)
        fail_msg("%s: %s", name, e.detail ? e.detail : "");
    free(s);
    json_decref(g);
    return p;
}

static char *document(const struct ana_result *r)
{
    json_t *j = ana_to_json(r, dev_info(device), NULL, true);
    char *s = json_dumps(j, JSON_SORT_KEYS);
    json_decref(j);
    assert_non_null(s);
    return s;
}

static void any_number(void **state)
{
    static const char *const name[] = {"ptx-only", "pointwise", "gather-constant", "histogram", "stencil", "reduce",
                                       "mlp",      "ffn",       "encoder"};
    static const unsigned threads[] = {1, 2, 7};
    if (!getenv("DOVETAIL_SOURCE"))
        SKIP("DOVETAIL_SOURCE, the source folder, is not set");
    for (unsigned i = 0; i < sizeof name / sizeof *name; i++) {
        struct dt_graph *g = NULL;
        if (i && !dev_nvrtc_version())
            break;
        struct dev_prog *p = load(name[i], &g);
        for (unsigned plain = 0; plain < (strcmp(name[i], "encoder") ? 2 : 1); plain++) {
            struct ana_result *r[3] = {NULL};
            char *doc[3];
            for (unsigned k = 0; k < 3; k++) {
                struct ana_options o = {.threads = threads[k], .no_summary = plain, .all_edges = true};
                struct dt_err e = {0};
                if (ana_run(device, p, &o, &r[k], &e))
                    fail_msg("%s: %s", name[i], e.detail ? e.detail : "");
                doc[k] = document(r[k]);
                assert_string_equal(doc[0], doc[k]);
                same_footprints(name[i], r[0], r[k]);
                for (uint32_t l = 0; l < g->nlaunch; l++) {
                    assert_int_equal(r[0]->launch[l].summarised, r[k]->launch[l].summarised);
                    assert_int_equal(r[0]->launch[l].walked, r[k]->launch[l].walked);
                }
            }
            for (unsigned k = 0; k < 3; k++) {
                ana_free(r[k]);
                free(doc[k]);
            }
        }
        dev_prog_free(p);
        dt_graph_free(g);
    }
}

/* A launch that is refused is named, the same one, whoever found it. */
static void errors_too(void **state)
{
    static const char text[] =
        ".version 8.0\\n.target sm_90\\n.address_size 64\\n"
        ".visible .entry k(.param .u64 p, .param .u32 at)\\n{\\n.reg .b32 %r<4>;\\n.reg .b64 %d<4>;\\n"
        "ld.param.u64 %d1, [p];\\nld.param.u32 %r1, [at];\\ncvta.to.global.u64 %d1, %d1;\\nmul.wide.u32 %d2, %r1, 4;\\n"
        "add.s64 %d1, %d1, %d2;\\nst.global.u32 [%d1], %r1;\\nret;\\n}\\n";
    char *json = NULL, *first = NULL;
    assert_true(asprintf(&json,
                         "{\"dovetail\":1,\"name\":\"t\",\"modules\":{\"m\":{\"ptx\":\"%s\"}},\"buffers\":{\"b\":{"
                         "\"bytes\":4096,\"role\":\"output\"}},"
                         "\"launches\":[",
                         text) > 0);
    for (unsigned i = 0; i < 20; i++) { /* from launch 11 on, past the end of the buffer */
        char *more = NULL;
        assert_true(
            asprintf(&more,
                     "%s%s{\"name\":\"l%u\",\"module\":\"m\",\"entry\":\"k\",\"grid\":[1,1,1],\"block\":[32,1,1],"
                     "\"args\":[{\"buffer\":\"b\"},{\"u32\":%u}]}%s",
                     json, i ? "," : "", i, i < 11 ? i : 1024 + i, i == 19 ? "]}" : "") > 0);
        free(json);
        json = more;
    }
    for (unsigned threads = 1; threads < 9; threads += 3) {
        struct dt_graph *g = NULL;
        struct dev_prog *p = NULL;
        struct ana_result *r = NULL;
        struct dt_err e = {0};
        struct ana_options o = {.threads = threads};
        assert_int_equal(dt_graph_parse(json, strlen(json), &g, &e), 0);
        assert_int_equal(dev_prog_new(device, g, NULL, NULL, &p, &e), 0);
        assert_int_equal(ana_run(device, p, &o, &r, &e), DT_E_BOUNDS);
        assert_non_null(strstr(e.detail, "l11"));
        if (first)
            assert_string_equal(first, e.detail);
        else
            first = strdup(e.detail);
        dt_err_done(&e);
        dev_prog_free(p);
        dt_graph_free(g);
    }
    free(first);
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_number), cmocka_unit_test(errors_too)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
