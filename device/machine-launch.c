/* What a launch costs by its machine code, from the text of its module and what an executor counted of its lines. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "device/machine.h"
#include "ptx/ptx.h"

uint32_t dev_machine_nline(const char *ptx, size_t len)
{
    uint32_t n = 2;
    for (const char *p = ptx, *end = ptx + len; p && (p = memchr(p, '\n', (size_t)(end - p))); p++)
        n++;
    return n;
}

int dev_machine_launch(const char *ptx, size_t len, const char *arch, const char *entry,
                       const struct dovetail_line *count, uint32_t n, uint64_t lanes, uint64_t warps,
                       struct dev_machine_cost *ret, struct dt_str *why, struct dt_err *e)
{
    dt_free_ struct dev_line *line = dt_calloc(n, sizeof *line);
    struct dev_machine_kernel k = {.entry = entry, .line = line, .nline = n, .lanes = lanes, .warps = warps};
    struct ptx_module *m;
    void *cubin;
    if (!line)
        return DT_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        line[i].lanes = count[i].lanes;
        line[i].warps = count[i].warps;
    }
    int r = ptx_parse(ptx, len, &m, e);
    if (r)
        return r;
    dev_machine_lines(m, line, n);
    ptx_module_free(m);
    r = dev_assemble_lines(ptx, len, arch, &cubin, &k.len, e);
    if (r < 0)
        return r;
    k.cubin = cubin;
    r = dev_machine_count(&k, ret, why, e);
    free(cubin);
    return r;
}
