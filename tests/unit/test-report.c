/* report/: hostile strings do not get into the HTML as markup; a document with nothing in it still
 * gives a page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "report/report-priv.h"

static void escaped(void **state)
{
    const char *bad = "<script>alert(\"x\")&</script>";
    json_t *plan =
        json_pack("{s:s, s:{s:s, s:s}, s:{s:f, s:s, s:i}, s:{s:f, s:s, s:i}, s:[{s:s, s:[s], s:s, s:s}], s:{s:{s:s}}, "
                  "s:[{s:s, s:s}],"
                  " s:{s:{s:s}}, s:{s:s}}",
                  "signature", bad, "device", "name", bad, "arch", bad, "baseline", "time_us", 2.0, "method", bad,
                  "launches", 2, "optimized", "time_us", 1.0, "method", "modeled:h200", "launches", 1, "rewrites",
                  "kind", bad, "launches", bad, "verdict", "kept", "reason", bad, "modules", bad, "ptx", bad,
                  "launches", "name", bad, "entry", bad, "assumes", "constant", bad, bad, "toolchain", bad, bad);
    assert_non_null(plan);
    char *html = rep_html(&(struct rep_source){.plan = plan});
    assert_non_null(html);
    assert_null(strstr(html, "<script"));
    assert_null(strstr(html, "alert(\"x\")"));
    assert_non_null(strstr(html, "&lt;script&gt;alert(&quot;x&quot;)&amp;&lt;/script&gt;"));
    assert_non_null(strstr(html, "1.00 µs"));
    free(html);
    json_decref(plan);
}

/* Warnings and what was verified are told as they are. */
static void warned(void **state)
{
    json_t *plan = json_pack("{s:[{s:s, s:s, s:s, s:s, s:s}], s:{s:b, s:b, s:b}}", "warnings", "code", "race",
                             "message", "<b>luck</b>", "pointer", "/launches/0", "launch", "a", "line", "k.cu:12",
                             "verified", "bitwise", 0, "unchanged", 1, "races", 1);
    char *html = rep_html(&(struct rep_source){.plan = plan});
    assert_non_null(strstr(html, "<h2>Warnings</h2>"));
    assert_non_null(strstr(html, "<td>race</td><td>a</td><td></td><td>&lt;b&gt;luck&lt;/b&gt;</td><td>k.cu:12</td>"));
    assert_non_null(strstr(html, "The plan is the posted launches; the posted launches race"));
    assert_null(strstr(html, "Verified"));
    free(html);
    json_decref(plan);
}

static void empty(void **state)
{
    json_t *plan = json_object();
    char *html = rep_html(&(struct rep_source){.plan = plan});
    assert_non_null(strstr(html, "</html>"));
    assert_null(strstr(html, "nan"));
    free(html);
    json_decref(plan);
}

/* Kernel `name` of n lines of its own. */
static json_t *module_of(const char *name, int n)
{
    struct dt_str o = {0};
    dt_str_addf(&o, ".version 8.0\n.visible .entry %s(\n\t.param .u64 %s_param_0\n)\n{\n\t.reg .b32 %%r<9>;\n", name,
                name);
    for (int i = 0; i < n; i++)
        dt_str_addf(&o, "\tadd.s32 %%r%d, %%r%d, %d; // %s\n", i % 9, i % 7, i, name);
    dt_str_add(&o, "\tret;\n}\n");
    json_t *m = json_pack("{s:{s:s}}", name, "ptx", o.s);
    dt_str_done(&o);
    return m;
}

/* A model of 400 launches with long names, every third of which is joined with the one before it; SMs that all differ
 * a little; as many edges as a model has, and each kind of rewrite. */
static void big(json_t **ret_plan, json_t **ret_analysis)
{
    enum { N = 400 };
    json_t *plan = json_pack("{s:s, s:{s:s, s:s, s:i}, s:{s:f, s:s, s:i}, s:{s:f, s:s, s:i}, s:{}, s:[], s:[], "
                             "s:{s:{}, s:[]}, s:{s:[], s:[], "
                             "s:{s:{s:[], s:[]}, s:[], s:[]}}}",
                             "name", "big", "device", "name", "NVIDIA H200 (modeled)", "arch", "sm_90", "sms", 132,
                             "baseline", "time_us", 4.0 * N, "method", "modeled:h200", "launches", N, "optimized",
                             "time_us", 3.0 * N, "method", "modeled:h200", "launches", N, "modules", "launches",
                             "rewrites", "original", "modules", "launches", "timeline", "baseline", "optimized", "sms",
                             "slots", "baseline", "optimized", "baseline", "optimized");
    json_t *analysis = json_pack("{s:[], s:[], s:[]}", "launches", "edges", "pictures");
    json_t *line = json_object_get(plan, "timeline"), *sms = json_object_get(line, "sms"),
           *original = json_object_get(plan, "original");
    for (int i = 0; i < N; i++) {
        char name[96], before[96], kernel[64];
        snprintf(name, sizeof name, "fused_nn_contrib_dense_pack_add_multiply_kernel%d", i);
        snprintf(before, sizeof before, "fused_nn_contrib_dense_pack_add_multiply_kernel%d", i - 1);
        snprintf(kernel, sizeof kernel, "kernel%d", i % 20);
        for (int s = 0; s < 2; s++) {
            const char *side = s ? "optimized" : "baseline";
            json_array_append_new(json_object_get(line, side), json_pack("[f, f]", 4.0 * i, 4.0 * i + 3.5));
            json_array_append_new(json_object_get(json_object_get(sms, "slots"), side), json_integer(8));
            for (int k = 0; k < 3; k++)
                json_array_append_new(json_object_get(sms, side),
                                      json_pack("[i, i, i, i, f, f, f]", i, 44 * k, 44 * k + 43, 352, (double)(i % 8),
                                                4.0 * i + k / 10.0, 4.0 * i + 3));
        }
        json_t *l = json_pack("{s:s, s:s, s:s, s:[i, i, i], s:[i, i, i]}", "name", name, "module", kernel, "entry",
                              kernel, "grid", 768, 12, 1, "block", 256, 1, 1);
        json_array_append(json_object_get(original, "launches"), l);
        l = json_deep_copy(l);
        if (i % 3 == 2) {
            char joined[200], made[64];
            snprintf(made, sizeof made, "f%d", i % 60);
            snprintf(joined, sizeof joined, "%s+%s", before, name);
            json_object_set_new(l, "name", json_string(joined));
            json_object_set_new(l, "module", json_string(made));
            json_object_set_new(l, "entry", json_string(made));
            json_object_update_new(json_object_get(plan, "modules"), module_of(made, 900));
        }
        json_array_append_new(json_object_get(plan, "launches"), l);
        json_object_update_new(json_object_get(original, "modules"), module_of(kernel, 500));
        json_array_append_new(json_object_get(plan, "rewrites"),
                              json_pack("{s:s, s:s, s:[s, s], s:s, s:f, s:f, s:s}", "kind",
                                        i % 2 ? "slice" : "block-fusion", "level", "shared", "launches", before, name,
                                        "verdict", i % 3 ? "kept" : "dropped", "before_us", 4.0 * N, "after_us",
                                        4.0 * N - i, "reason",
                                        "level shared modeled 1600.00 to 1602.00 us; and a sentence that says more"));
        json_array_append_new(json_object_get(analysis, "launches"),
                              json_pack("{s:s, s:i}", "name", name, "blocks", 9216));
        char *png = malloc(801);
        memset(png, 'A' + i % 26, 800);
        png[800] = 0;
        json_array_append_new(json_object_get(analysis, "pictures"), json_string(png));
        free(png);
        json_array_append_new(json_object_get(analysis, "edges"),
                              json_pack("{s:s, s:s, s:[s], s:[s], s:[s, s], s:s, s:i, s:i, s:i}", "producer", before,
                                        "consumer", name, "buffers", name, "hazards", "raw", "classes", "many-to-many",
                                        "partial-independence", "evidence", "proved", "pairs", 9216 + i, "components",
                                        7, "picture", i));
        json_decref(json_array_get(json_object_get(original, "launches"), (size_t)i));
    }
    *ret_plan = plan;
    *ret_analysis = analysis;
}

static void size(void **state)
{
    json_t *plan, *analysis;
    big(&plan, &analysis);
    struct rep_source s = {.plan = plan, .analysis = analysis};
    char *html = rep_html(&s);
    assert_non_null(html);
    assert_in_range(strlen(html), 200000, 300000);
    assert_non_null(strstr(html, "</html>"));
    assert_non_null(strstr(html, "<h2>Kernels</h2>"));
    assert_non_null(strstr(html, "as posted<th>plan"));
    free(html);
    s.foreign = true;
    html = rep_html(&s);
    assert_null(strstr(html, "kernel3_param_0"));
    assert_null(strstr(html, "// kernel"));
    free(html);
    struct dt_err e = {0};
    char *trace = rep_trace(&s, &e);
    assert_non_null(trace);
    json_t *doc = json_loads(trace, 0, NULL);
    assert_non_null(doc);
    assert_in_range(json_array_size(json_object_get(doc, "traceEvents")), 2 * 400 * 132, 2 * 400 * 140);
    json_decref(doc);
    free(trace);
    json_decref(plan);
    json_decref(analysis);
}

/* An edge without a picture says so; what is no base64 is no picture. */
static void undrawn(void **state)
{
    json_t *plan = json_object(),
           *analysis =
               json_pack("{s:[{s:s, s:i}], s:[{s:s, s:s, s:[s]}, {s:s, s:s, s:[s], s:i}], s:[s]}", "launches", "name",
                         "a", "blocks", 6001, "edges", "producer", "a", "consumer", "b", "hazards", "raw", "producer",
                         "a", "consumer", "c", "hazards", "raw", "picture", 0, "pictures", "x\" onerror=\"y");
    assert_non_null(analysis);
    char *html = rep_html(&(struct rep_source){.plan = plan, .analysis = analysis});
    const char *once = strstr(html, "too many pairs to be drawn");
    assert_true(once && strstr(once + 1, "too many pairs to be drawn"));
    assert_null(strstr(html, "<img"));
    assert_null(strstr(html, "onerror"));
    free(html);
    json_decref(plan);
    json_decref(analysis);
}

/* Gains come in order, the biggest first. */
static void sorted(void **state)
{
    json_t *plan = json_pack(
        "{s:{s:s}, s:[{s:s, s:[s], s:s, s:f, s:f}, {s:s, s:[s], s:s, s:f, s:f}, {s:s, s:[s], s:s, s:s}]}", "baseline",
        "method", "modeled:h200", "rewrites", "kind", "slice", "launches", "little", "verdict", "kept", "before_us",
        10.0, "after_us", 9.0, "kind", "pack", "launches", "much", "verdict", "kept", "before_us", 9.0, "after_us", 4.0,
        "kind", "split", "launches", "none", "verdict", "refused", "reason", "order: 'a' comes first");
    char *html = rep_html(&(struct rep_source){.plan = plan});
    const char *much = strstr(html, "much"), *little = strstr(html, "little"), *none = strstr(html, "none");
    assert_true(much && little && much < little);
    none = strstr(html, "refused: order: &#39;a&#39; comes first");
    assert_true(none && none > little);
    free(html);
    json_decref(plan);
}

/* What is on one side only is marked; registers do not count. */
static void differ(void **state)
{
    struct dt_str o = {0};
    rep_differ(&o, "add %r1, %r2;\nmul %f1;\nret;\n", "add %dt_x_7, %r9;\n<b>;\nret;\n", 10000);
    assert_string_equal(o.s, "<tr><td>add %r1, %r2;<td>add %dt_x_7, %r9;\n<tr class=d><td>mul %f1;<td>&lt;b&gt;;\n"
                             "<tr><td>ret;<td>ret;\n");
    dt_str_done(&o);
    rep_differ(&o, "a;\nb;", "b;\nc;", 10000);
    assert_string_equal(o.s, "<tr class=\"d z\"><td>a;<td>\n<tr><td>b;<td>b;\n<tr class=\"d i\"><td><td>c;\n");
    dt_str_done(&o);
}

static void kernels(void **state)
{
    static const char ptx[] =
        "// .entry k( {\n.visible .entry k2(.param .u64 a)\n{ ret; }\n.visible .entry k(.param .u64 secret) "
        "/* { secret */\n.maxntid 64\n{\n\t.reg .b32 %secret<4>;\n\t.loc 1 2 3\n\t.shared .b8 hidden[4];\n"
        "\t@!%p1 bra away;\n\tld.param.u64 %rd1, [secret+4];\n\tmov.b32 %secret1, %tid.x;\n{ .pragma "
        "\"secret }\"; }\naway:\n\tret;\n}\n.entry other() { }\n";
    char *text = rep_entry(ptx, "k"), *plain;
    assert_non_null(text);
    assert_string_equal(text,
                        ".entry k(.param .u64 secret) \n.maxntid 64\n{\n\t.shared .b8 hidden[4];\n\t@!%p1 bra away;\n"
                        "\tld.param.u64 %rd1, [secret+4];\n\tmov.b32 %secret1, %tid.x;\n{ .pragma \"secret }\"; }\n"
                        "away:\n\tret;\n}");
    plain = rep_neutral(text);
    assert_string_equal(plain, ".entry n1(.param .u64 n2) \n.maxntid 64\n{\n\t.shared .b8 n3[4];\n\t@!%p1 bra n4;\n"
                               "\tld.param.u64 %rd1, [n2+4];\n\tmov.b32 %v1, %tid.x;\n{ .pragma \"\"; }\n"
                               "n4:\n\tret;\n}");
    free(text);
    free(plain);
    assert_null(rep_entry(ptx, "absent"));
    static const char *const cut[] = {".entry k", ".entry k(", ".entry k( {", "\"", "/*", ".entry k/*", "%", "."};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        free(text = rep_entry(cut[i], "k"));
        free(rep_neutral(cut[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(escaped), cmocka_unit_test(warned), cmocka_unit_test(empty),
                                       cmocka_unit_test(size),    cmocka_unit_test(sorted), cmocka_unit_test(differ),
                                       cmocka_unit_test(kernels), cmocka_unit_test(undrawn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
