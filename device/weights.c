/* What an instruction of PTX is in machine code where no assembler is at hand: an estimate, from a table of what ptxas
 * made of each by itself (weights.def, written by tests/machine/weights.py).
 *
 * The row is that of the instruction whose types it has, and of these the one with most of its modifiers; if there is
 * none of its types, one of types as wide; else it counts as one instruction of the integer pipe. What assemblers do to
 * whole kernels (folding, unrolling, hoisting) is not in it.
 */
#include <stdlib.h>
#include <string.h>

#include "device/machine.h"
#include "ptx/ptx.h"

static const struct {
    const char *op, *mods, *type[2], *pipes[3];
} weights[] = {
#define W(op, mods, a, b, sm80, sm86, sm90) {op, mods, {a, b}, {sm80, sm86, sm90}},
#include "device/weights.def"
#undef W
};

/* ".global.v2", ".approx": does the instruction have all of these? */
static bool has_words(const struct ptx_inst *i, const char *words)
{
    for (const char *p = words; *p;) {
        size_t n = strcspn(++p, ".");
        char word[16];
        if (n >= sizeof word)
            return false;
        memcpy(word, p, n);
        word[n] = 0;
        bool has = (!strcmp(word, "global") && i->space == PTX_GLOBAL) ||
                   (!strcmp(word, "shared") && i->space == PTX_SHARED) ||
                   (word[0] == 'v' && strtoul(word + 1, NULL, 10) == i->vec);
        for (unsigned k = 0; k < i->nmod && !has; k++)
            has = !strcmp(ptx_mod_text(i->mod[k]), word);
        if (!has)
            return false;
        p += n;
    }
    return true;
}

static unsigned width_of(const char *type) { return (unsigned)strtoul(type + strcspn(type, "0123456789"), NULL, 10); }

/* 0: the row is another instruction's; more: how well it fits */
static unsigned fit(size_t row, const struct ptx_inst *i)
{
    unsigned same = 0, wide = 0, n = 0;
    if (strcmp(weights[row].op, ptx_op_info(i->op)->mnemonic) || !has_words(i, weights[row].mods))
        return 0;
    for (unsigned k = 0; k < 2 && *weights[row].type[k]; k++, n++) {
        const char *type = k < i->ntype ? ptx_type_text(i->type[k]) : "";
        same += !strcmp(type, weights[row].type[k]);
        wide += width_of(type) == width_of(weights[row].type[k]);
    }
    return wide < n ? 0 : 1 + (unsigned)strlen(weights[row].mods) + (same == n ? 100 : 0);
}

bool dev_weight(const struct ptx_inst *i, unsigned sm, double pipe[SASS_PIPES])
{
    unsigned best = 0;
    size_t at = 0;
    for (size_t k = 0; k < sizeof weights / sizeof *weights; k++) {
        unsigned f = fit(k, i);
        if (f > best) {
            best = f;
            at = k;
        }
    }
    memset(pipe, 0, SASS_PIPES * sizeof *pipe);
    if (!best) {
        pipe[SASS_PIPE_ALU] = 1;
        return false;
    }
    const char *p = weights[at].pipes[sm < 86 ? 0 : sm < 90 ? 1 : 2];
    while (*p) {
        size_t n = strcspn(p, " ");
        for (unsigned q = 0; q < SASS_PIPES; q++)
            if (strlen(sass_pipe_name(q)) == n && !strncmp(p, sass_pipe_name(q), n))
                pipe[q] = strtod(p + n, NULL);
        p += n + 1;
        p += strcspn(p, " ");
        p += *p == ' ';
    }
    return true;
}
