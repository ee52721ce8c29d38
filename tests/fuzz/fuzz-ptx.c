/* PTX: whatever bytes come, ptx_parse() refuses them with a reason or gives a module whose printed text parses to the
 * same text.
 *
 * What the printer leaves is canonical, so the second printing must be byte for byte the first, and the canonical names
 * of every entry must be those of its clone. What verifies must also have a flow graph, and liveness unless it is too
 * large; a statement appended to it must parse.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "ptx/ptx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz-ptx: %s\n", what);
        abort();
    }
}

static void same(struct dt_str *a, struct dt_str *b, const char *what)
{
    check(a->len == b->len && (!a->len || !memcmp(a->s, b->s, a->len)), what);
    dt_str_done(a);
    dt_str_done(b);
}

static void one_function(const struct ptx_module *m, struct ptx_function *f, int verified)
{
    struct dt_err e = {0};
    struct dt_str a = {0}, b = {0};
    struct ptx_module *clone = NULL;
    struct ptx_cfg cfg;
    struct ptx_live live;
    if (f != ptx_find_function(m, f->name))
        return;
    check(ptx_clone(m, f->name, &clone, &e) == 0, "a function that does not clone");
    check(ptx_print_canonical(f, &a) == 0 && ptx_print_canonical(ptx_find_function(clone, f->name), &b) == 0,
          "canonical names");
    same(&a, &b, "a clone has other canonical text");
    ptx_module_free(clone);
    if (!verified)
        return;
    int r = ptx_cfg_build(f, &cfg, &e);
    if (r == 0) {
        r = ptx_live_build(f, &cfg, &live, &e);
        check(r == 0 || r == DT_E_TOO_LARGE, "no liveness");
        if (r == 0)
            ptx_live_done(&live);
        ptx_cfg_done(&cfg);
    }
    dt_err_done(&e);
    check(ptx_append_text(f, &e, "{ .reg .b32 fuzz; mov.b32 fuzz, 1; }") == 0, "text cannot be appended");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptx_module *m = NULL, *again = NULL;
    struct dt_err e = {0};
    struct dt_str one = {0}, two = {0};
    if (ptx_parse((const char *)data, size, &m, &e) < 0) {
        check(e.num && e.detail && *e.detail && !m, "a refusal without a reason");
        dt_err_done(&e);
        return 0;
    }
    check(ptx_print(m, &one) == 0, "what was read does not print");
    check(ptx_parse(one.s, one.len, &again, &e) == 0, "what was printed does not parse");
    check(ptx_print(again, &two) == 0, "what was printed does not print");
    same(&one, &two, "printing again gives other text");
    int verified = ptx_verify(m, &e) == 0;
    dt_err_done(&e);
    for (uint32_t k = 0; k < m->nfunc && k < 16; k++)
        if (m->func[k]->has_body)
            one_function(m, m->func[k], verified);
    ptx_module_free(m);
    ptx_module_free(again);
    return 0;
}
