/* What the software device says of PTX files as it loads them: a line each, `ok FILE`, or `no FILE: words`. For
 * verdicts.py.
 *
 * Refused is what does not parse or verify, and what has an entry that cannot run (an instruction of no known form
 * stays opaque to the verifier).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "softgpu/sg.h"

int main(int argc, char **argv)
{
    struct sg_device *dev;
    if (sg_device_new(sg_model_find(NULL), &dev) < 0)
        return 1;
    for (int i = 1; i < argc; i++) {
        char *text = NULL, why[512] = "";
        size_t n = 0;
        struct sg_module *m = NULL;
        struct dt_err e = {0};
        if (dt_read_file(argv[i], SIZE_MAX / 2, &text, &n, &e) < 0) {
            fprintf(stderr, "%s\n", e.detail ? e.detail : argv[i]);
            return 2;
        }
        int r = sg_module_load(dev, text, n, &m, &e);
        for (unsigned k = 0; r >= 0 && k < sg_module_kernels(m) && !*why; k++)
            sg_kernel_refused(sg_module_kernel_at(m, k), why, sizeof why);
        bool no = r < 0 || *why;
        printf("%s %s%s%s\n", no ? "no" : "ok", argv[i], no ? ": " : "", *why ? why : no && e.detail ? e.detail : "");
        sg_module_free(m);
        free(text);
        dt_err_done(&e);
    }
    sg_device_free(dev);
    return 0;
}
