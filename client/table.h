/* The table of options and verbs, from which come parsing (dovetail.c), help (help.c) and the completions of shells
 * (cmd-completion.c). */
#ifndef DOVETAIL_TABLE_H
#define DOVETAIL_TABLE_H

#include "client/cli.h"

/* Options by bit: those that verbs take have theirs in the verb's row; those of ANYWHERE go with every verb. No
 * enumeration, since there are more than an int has bits for. */
#define OPT_BIT(n) (INT64_C(1) << (n))
#define O_JSON OPT_BIT(0)
#define O_SOCKET OPT_BIT(1)
#define O_LOCAL OPT_BIT(2)
#define O_DEVICE OPT_BIT(3)
#define O_CACHE OPT_BIT(4)
#define O_TIMEOUT OPT_BIT(5)
#define O_MAPS OPT_BIT(6)
#define O_EDGES OPT_BIT(7)
#define O_OUTPUT OPT_BIT(8)
#define O_ALLOW OPT_BIT(9)
#define O_DENY OPT_BIT(10)
#define O_BUDGET OPT_BIT(11)
#define O_SEED OPT_BIT(12)
#define O_DUMP OPT_BIT(13)
#define O_HELP OPT_BIT(14)
#define O_LIMIT OPT_BIT(15)
#define O_AGE OPT_BIT(16)
#define O_BYTES OPT_BIT(17)
#define O_STALE OPT_BIT(18)
#define O_CHECK OPT_BIT(19)
#define O_SCHEDULE OPT_BIT(20)
#define O_CALIBRATE OPT_BIT(21)
#define O_WHOLE OPT_BIT(22)
#define O_SIGNATURE OPT_BIT(23)
#define O_SELECT OPT_BIT(24)
#define O_SIGN OPT_BIT(25)
#define O_SIGNERS OPT_BIT(26)
#define O_REPORT OPT_BIT(27)
#define O_ALL OPT_BIT(28)
#define O_MEMORY OPT_BIT(29)
#define O_FLAGS OPT_BIT(30)
#define O_CAPTURE OPT_BIT(31)
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
