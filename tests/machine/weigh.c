/* What a kernel of one warp costs by its machine code, every line executed once: for weights.py. On standard input a
 * number of modules, each ended by a line `//`; for each a line is written, "PIPE SLOTS …", or "refused".
 *
 *   weigh ARCH
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "device/device.h"
#include "device/machine.h"

#define MOST_LINES 256

static void weigh(const char *ptx, const char *arch)
{
    struct dev_line line[MOST_LINES] = {{0}};
    struct dev_machine_kernel k = {.entry = "k", .line = line, .nline = MOST_LINES, .lanes = 32, .warps = 1};
    struct dev_machine_cost c;
    struct ptx_module *m;
    struct dt_str why = {0};
    void *cubin = NULL;
    int r = ptx_parse(ptx, strlen(ptx), &m, NULL);
    if (!r) {
        for (unsigned l = 0; l < MOST_LINES; l++) {
            line[l].lanes = 32;
            line[l].warps = 1;
        }
        dev_machine_lines(m, line, MOST_LINES);
        ptx_module_free(m);
        r = dev_assemble_lines(ptx, strlen(ptx), arch, &cubin, &k.len, NULL);
    }
    k.cubin = cubin;
    if (!r)
        r = dev_machine_count(&k, &c, &why, NULL);
    for (unsigned p = 0; p < SASS_PIPES && !r; p++)
        printf("%s %.0f ", sass_pipe_name(p), c.pipe[p]);
    printf("%s\n", r ? "refused" : "");
    dt_str_done(&why);
    free(cubin);
}

int main(int argc, char **argv)
{
    struct dt_str ptx = {0};
    char row[4096];
    if (argc < 2 || !dev_nvjitlink_version())
        return 77;
    while (fgets(row, sizeof row, stdin)) {
        if (strcmp(row, "//\n")) {
            dt_str_add(&ptx, row);
            continue;
        }
        weigh(ptx.s ? ptx.s : "", argv[1]);
        dt_str_done(&ptx);
        ptx = (struct dt_str){0};
    }
    return 0;
}
