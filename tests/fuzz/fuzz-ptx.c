/* PTX: whatever bytes come, ptx_parse() refuses them or gives a module whose printed text parses to the same text.
 *
 * What the printer leaves is canonical, so the second printing must be byte for byte the first.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "ptx/ptx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptx_module *m = NULL, *again = NULL;
    struct dt_err e = {0};
    struct dt_str one = {0}, two = {0};
    if (ptx_parse((const char *)data, size, &m, &e) < 0) {
        if (!e.num || !e.detail || m)
            abort();
        dt_err_done(&e);
        return 0;
    }
    if (ptx_print(m, &one) < 0 || ptx_parse(one.s, one.len, &again, &e) < 0 || ptx_print(again, &two) < 0)
        abort();
    if (one.len != two.len || memcmp(one.s, two.s, one.len))
        abort();
    ptx_module_free(m);
    ptx_module_free(again);
    dt_str_done(&one);
    dt_str_done(&two);
    dt_err_done(&e);
    return 0;
}
