/* The text of a kernel that a rewrite made: it is verified and printed, and the print must parse to the same print.
 *
 * Every text of a rewrite goes through here. A text that fails leaves a bundle (bundle.c).
 */
#include "rewrite/emit/emit-priv.h"

#include <string.h>

int rw_text(struct ptx_module *m, const struct dev_prog *of, struct dt_str *out, struct dt_err *e)
{
    struct ptx_module *again = NULL;
    struct dt_str second = {0};
    struct dt_err mine = {0};
    m->origins = true;
    int r = ptx_verify(m, &mine), printed = r == 0 || rw_bundle_wanted() ? ptx_print(m, out) : 0;
    if (r == 0 && (printed < 0 || out->failed))
        r = dt_err_set(&mine, out->failed ? DT_E_NOMEM : printed, "the new kernel cannot be printed");
    if (r == 0)
        r = ptx_parse(out->s, out->len, &again, &mine);
    if (r == 0)
        again->origins = ptx_origin_read(again);
    if (r == 0 && ((r = ptx_print(again, &second)) < 0 || second.failed))
        r = dt_err_set(&mine, r < 0 ? r : DT_E_NOMEM, "the new kernel cannot be printed again");
    if (r == 0 && (second.len != out->len || memcmp(second.s, out->s, out->len)))
        r = dt_err_set(&mine, DT_E_INTERNAL, "the new kernel does not print and parse to itself");
    dt_str_done(&second);
    ptx_module_free(again);
    if (r < 0 && r != DT_E_NOMEM && printed == 0 && !out->failed && out->s)
        rw_bundle_kernel(of, out->s, mine.detail ? mine.detail : dt_err_text(r));
    if (r < 0) {
        dt_str_done(out);
        dt_err_move(e, &mine);
    }
    return r;
}
