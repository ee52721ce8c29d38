/* HTML: the head of a page with its style and its policy, and text that is other people's.
 *
 * A page is one file: no scripts, no fonts, nothing from outside; the policy forbids the browser to load or run
 * anything but pictures that are in the file. Colours are variables with two sets, for light and for dark; text on its
 * background has a contrast of 4.5 to 1 at least in both. What is wide scrolls in a box of its own, which takes the
 * keyboard's focus, so that the page itself never does.
 */
#include "report/html.h"

#include <string.h>

static const char style[] =
    ":root{color-scheme:light dark;--f:#1b1b1f;--b:#fff;--l:#d3d3da;--m:#5a5a66;--k:#0b6e4f;--o:#a8480a;--s:#f4f4f7;"
    "--in:#e0f3e8;--out:#fbe8e2}"
    "@media(prefers-color-scheme:dark){:root{--f:#e8e8ee;--b:#131318;--l:#3a3a45;--m:#a9a9b6;--k:#4ade9f;--o:#fbb04a;"
    "--s:#1d1d25;--in:#12331f;--out:#421d14}.map{filter:invert(1)}}"
    "body{font:15px/1.5 system-ui,sans-serif;margin:1.5em auto;max-width:110em;padding:0 1em;color:var(--f);"
    "background:var(--b);overflow-wrap:anywhere}"
    "h1{font-size:1.6em;line-height:1.25;margin:.3em 0}h2{font-size:1.2em;margin:2em 0 "
    ".5em}h3{font-size:1em;margin:1em "
    "0 .2em}"
    "p{max-width:60em;margin:.5em 0}.m,small{color:var(--m)}"
    "table{border-collapse:collapse}td,th{padding:.2em .9em .2em 0;text-align:left;vertical-align:top}"
    "td,th,summary{overflow-wrap:break-word}"
    "tr{border-bottom:1px solid var(--l)}.n,.l td:nth-child(-n+5),.l "
    "th:nth-child(-n+5){text-align:right;white-space:nowrap}.no{color:var(--m)}.t{min-width:9em;"
    "max-width:32em}"
    ".bar{min-width:6em;width:20em}.bar div{background:var(--o);height:1em}.bar.a div{background:var(--k)}"
    ".w{overflow-x:auto}.w:focus-visible,summary:focus-visible{outline:2px solid var(--k);outline-offset:2px}"
    "svg{display:block;width:100%;min-width:44em}svg.sm{height:11em}svg text{font:11px system-ui,sans-serif}"
    ".g{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(15em,100%),1fr));gap:1em}"
    "figure{margin:0}.g figure{border:1px solid var(--l);border-radius:6px;padding:.6em;min-width:0}"
    "figcaption{font-size:.87em}.map,.box{image-rendering:pixelated;width:192px;height:192px;max-width:100%;"
    "border:1px solid #888;box-sizing:border-box;display:block;margin-bottom:.4em}"
    ".box{display:flex;align-items:center;padding:1em}"
    "pre,.x{font:12.5px/1.4 ui-monospace,monospace}pre{overflow-x:auto;background:var(--s);padding:.8em}"
    ".x{table-layout:fixed;width:100%;min-width:52em;background:var(--s)}.x td{white-space:pre-wrap;padding:0 .6em;"
    "width:50%;border:0}.x tr{border:0}.x .d td:first-child{background:var(--out);border-left:3px solid var(--o)}"
    ".x .i td:first-child,.x .z td+td{background:none!important;border-color:transparent!important}"
    ".x .d td+td{background:var(--in);border-left:3px solid var(--k)}.x .e td{color:var(--m);border-left:3px solid "
    "transparent}.x td{border-left:3px solid transparent}"
    "summary{cursor:pointer;padding:.2em 0}details{margin:.3em 0}.g details{margin:0}"
    ".k0,.k1,.k2{fill:var(--k)}.o0,.o1,.o2{fill:var(--o)}.k0,.o0{fill-opacity:.35}.k1,.o1{fill-opacity:.65}"
    ".bg{fill:var(--s);stroke:var(--l)}.ax{stroke:var(--l)}.tx{fill:var(--m)}.on{fill:var(--b)}"
    "@media(max-width:40em){.bar{display:none}}"
    "@media print{body{font-size:10pt;max-width:none;margin:0}details::details-content{content-visibility:visible;"
    "display:block}figure,tr{break-inside:avoid}svg,.x{min-width:0}.w{overflow:visible}}";

/* What would change how the text around it is shown, or is not shown at all. */
static bool unseen(const unsigned char *u, size_t n)
{
    if (n == 1)
        return *u < 32 || *u == 127;
    if (n == 2)
        return u[0] == 0xC2 && (u[1] < 0xA0 || u[1] == 0xAD);
    unsigned c = n == 3 ? (u[0] & 15u) << 12 | (u[1] & 63u) << 6 | (u[2] & 63u) : 0;
    return (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) ||
           c == 0x061C || c == 0xFEFF || (n == 4 && u[0] == 0xF3 && u[1] == 0xA0);
}

static void one(struct dt_str *o, const char *s, size_t n, bool lines)
{
    if (n == 1 && lines && (*s == '\n' || *s == '\t')) {
        dt_str_addc(o, *s);
        return;
    }
    switch (n ? *s : 1) {
    case '<': dt_str_add(o, "&lt;"); break;
    case '>': dt_str_add(o, "&gt;"); break;
    case '&': dt_str_add(o, "&amp;"); break;
    case '"': dt_str_add(o, "&quot;"); break;
    case '\'': dt_str_add(o, "&#39;"); break;
    default:
        if (!n || unseen((const unsigned char *)s, n))
            dt_str_addc(o, '?');
        else
            dt_str_addn(o, s, n);
    }
}

void html_block(struct dt_str *o, const char *s, size_t n)
{
    for (const char *end = s + n; s < end && *s;) {
        size_t k = dt_utf8(s);
        if (k > (size_t)(end - s))
            k = 0;
        one(o, s, k, true);
        s += k ? k : 1;
    }
}

void html_name(struct dt_str *o, const char *s, size_t most)
{
    size_t n = 0, at = 0, k;
    for (const char *p = s; p && *p; p += (k = dt_utf8(p)) ? k : 1)
        n++;
    for (; s && *s; s += k ? k : 1, at++) {
        k = dt_utf8(s);
        if (n <= most || at < most / 2 || at >= n - (most - 1 - most / 2))
            one(o, s, k, false);
        else if (at == most / 2)
            dt_str_add(o, "…");
    }
}

void html_text(struct dt_str *o, const char *s) { html_name(o, s, (size_t)-1); }

void html_cell(struct dt_str *o, const char *s)
{
    dt_str_add(o, "<td>");
    html_text(o, s);
    dt_str_add(o, "</td>");
}

void html_head(struct dt_str *o, const char *title)
{
    dt_str_add(o, "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
                  "<meta http-equiv=Content-Security-Policy content=\"" HTML_POLICY "\">\n"
                  "<meta name=viewport content=\"width=device-width\"><title>");
    html_text(o, title);
    dt_str_addf(o, "</title>\n<style>%s</style></head>\n<body>", style);
}

void html_begin(struct dt_str *o, const char *title)
{
    html_head(o, title);
    dt_str_add(o, "<h1>");
    html_text(o, title);
    dt_str_add(o, "</h1>\n<p>");
}
