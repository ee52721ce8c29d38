/* JSON that people read and edit: an object or list stands on one line if it fits in WIDE characters, else each of its
 * members has a line. Nothing else about the document changes, and reading it gives the same again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "client/cli.h"

#define WIDE 110
#define FLAGS (JSON_ENCODE_ANY | JSON_REAL_PRECISION(17))

static void pretty_at(const json_t *v, unsigned indent, size_t before, struct dt_str *out)
{
    dt_free_ char *line = json_dumps(v, FLAGS);
    const char *key, *between = "";
    json_t *m;
    size_t i;
    if (!line) {
        out->failed = true;
        return;
    }
    bool object = json_is_object(v);
    if ((!object && !json_is_array(v)) || strlen(line) + before <= WIDE) {
        dt_str_add(out, line);
        return;
    }
    dt_str_addc(out, object ? '{' : '[');
    json_object_foreach ((json_t *)v, key, m) {
        json_t *k = json_string(key);
        dt_free_ char *quoted = json_dumps(k, FLAGS);
        json_decref(k);
        dt_str_addf(out, "%s\n%*s%s: ", between, (int)indent + 1, "", quoted ? quoted : "");
        out->failed |= !quoted;
        pretty_at(m, indent + 1, indent + 3 + (quoted ? strlen(quoted) : 0), out);
        between = ",";
    }
    json_array_foreach (v, i, m) {
        dt_str_addf(out, "%s\n%*s", between, (int)indent + 1, "");
        pretty_at(m, indent + 1, indent + 1, out);
        between = ",";
    }
    dt_str_addf(out, "\n%*s%c", (int)indent, "", object ? '}' : ']');
}

void json_pretty(const json_t *doc, struct dt_str *out)
{
    pretty_at(doc, 0, 0, out);
    dt_str_addc(out, '\n');
}

void print_json(FILE *f, const json_t *doc)
{
    struct dt_str s = {0};
    json_pretty(doc, &s);
    if (!s.failed)
        fputs(s.s, f);
    dt_str_done(&s);
}
