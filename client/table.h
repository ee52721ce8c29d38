/* The table of options and verbs, from which come parsing (dovetail.c), help (help.c) and the completions of shells
 * (cmd-completion.c). */
#ifndef DOVETAIL_TABLE_H
#define DOVETAIL_TABLE_H

#include "client/cli.h"

/* Options by bit: those that verbs take have theirs in the verb's row; those of ANYWHERE go with every verb. */
enum {
    O_JSON = 1,
    O_SOCKET = 1 << 1,
    O_LOCAL = 1 << 2,
    O_DEVICE = 1 << 3,
    O_CACHE = 1 << 4,
    O_TIMEOUT = 1 << 5,
    O_MAPS = 1 << 6,
    O_EDGES = 1 << 7,
    O_OUTPUT = 1 << 8,
    O_ALLOW = 1 << 9,
    O_DENY = 1 << 10,
    O_BUDGET = 1 << 11,
    O_SEED = 1 << 12,
    O_DUMP = 1 << 13,
    O_HELP = 1 << 14,
    O_LIMIT = 1 << 15,
    O_AGE = 1 << 16,
    O_BYTES = 1 << 17,
    O_STALE = 1 << 18,
    O_CHECK = 1 << 19,
    O_SCHEDULE = 1 << 20,
    O_CALIBRATE = 1 << 21,
    O_WHOLE = 1 << 22,
    O_SIGNATURE = 1 << 23,
    O_SELECT = 1 << 24,
    O_SIGN = 1 << 25,
    O_SIGNERS = 1 << 26,
    O_REPORT = 1 << 27,
    O_ALL = 1 << 28,
    O_MEMORY = 1 << 29,
    O_FLAGS = 1 << 30,
};
#define O_CAPTURE (INT64_C(1) << 31)
#define ANYWHERE (O_JSON | O_SOCKET | O_LOCAL | O_DEVICE | O_CACHE | O_TIMEOUT | O_HELP)

struct cli_opt {
    const char *name, *value; /* value NULL: a switch */
    int64_t bit;
    size_t offset; /* of the member of struct cli */
    const char *help;
};
extern const struct cli_opt cli_opts[]; /* ends with a name of NULL, as the other one */

struct cli_verb {
    const char *name, *args;
    int min, max; /* number of arguments */
    int64_t options;
    verb_fn *fn;
    const char *help;
    const char *example; /* command lines, one each; what is behind "  # " explains */
    const char *words;   /* what an argument may be, for completions: words, or "FILES", or NULL */
};
extern const struct cli_verb cli_verbs[];
const struct cli_verb *cli_verb_of(const char *name);                            /* NULL: there is none */
int cli_no_verb(const char *name, struct dt_err *e);                             /* the error */
int cli_no_option(const struct cli_verb *v, const char *name, struct dt_err *e); /* v: of which verb; NULL: of all */

/* help.c: all verbs, or one. */
void help_all(FILE *f);
void help_verb(FILE *f, const struct cli_verb *v);

#endif
