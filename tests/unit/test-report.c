/* daemon/shared/report.c: hostile strings do not get into the HTML as markup; a document with nothing in it still
 * gives a page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/shared/shared.h"

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
    char *html = dtd_report_html(plan);
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
    char *html = dtd_report_html(plan);
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
    char *html = dtd_report_html(plan);
    assert_non_null(strstr(html, "</html>"));
    assert_null(strstr(html, "nan"));
    free(html);
    json_decref(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(escaped), cmocka_unit_test(warned), cmocka_unit_test(empty)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
