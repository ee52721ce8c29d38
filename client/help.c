/* dovetail help [VERB], --help: texts of the table (table.c).
 *
 * All verbs with their options, a line each; or one verb, with its options, those of every verb, and an example. Text
 * is wrapped at WIDE columns, whatever the terminal's width is.
 */
#include <string.h>

#include "client/table.h"

#define WIDE 110

static size_t characters(const char *s, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)s[i] & 0xC0) != 0x80;
    return n;
}

/* Words from column `at` on, in lines that begin at column `indent`. */
static void wrapped(FILE *f, const char *s, size_t at, size_t indent)
{
    for (const char *between = ""; *s; between = " ") {
        size_t n = strcspn(s, " "), wide = characters(s, n);
        if (*between && at + 1 + wide > WIDE) {
            fprintf(f, "\n%*s", (int)indent, "");
            at = indent;
            between = "";
        }
        fprintf(f, "%s%.*s", between, (int)n, s);
        at += wide + (*between != 0);
        s += n + (s[n] == ' ');
    }
    fputc('\n', f);
}

static void help_option(FILE *f, const struct cli_opt *o)
{
    char head[64];
    snprintf(head, sizeof head, "%s--%s%s%s",
             o->bit == O_OUTPUT ? "-o, "
             : o->bit == O_HELP ? "-h, "
                                : "",
             o->name, o->value ? " " : "", o->value ? o->value : "");
    size_t wide = characters(head, strlen(head));
    fprintf(f, "  %s%*s  ", head, wide < 22 ? (int)(22 - wide) : 0, "");
    wrapped(f, o->help, wide < 22 ? 26 : wide + 4, 26);
}

void help_all(FILE *f)
{
    fprintf(f, "usage: dovetail VERB [ARGUMENT] [OPTION…]\n\n");
    for (const struct cli_verb *v = cli_verbs; v->name; v++) {
        fprintf(f, "  %-11s %-16s %s\n", v->name, v->args, v->help);
        for (const struct cli_opt *o = cli_opts; o->name; o++)
            if (v->options & o->bit)
                fprintf(f, "  %-28s --%s%s%s: %s\n", "", o->name, o->value ? " " : "", o->value ? o->value : "",
                        o->help);
    }
    fprintf(f, "\nEverywhere:\n");
    for (const struct cli_opt *o = cli_opts; o->name; o++)
        if (ANYWHERE & o->bit)
            help_option(f, o);
    fprintf(f, "\nGRAPH and PLAN are files, or - for stdin. dovetail help VERB has an example. Exit status: 0 done, 2 "
               "wrong usage, 3 "
               "the graph\nwas refused, 4 infrastructure, 1 other.\n");
}

void help_verb(FILE *f, const struct cli_verb *v)
{
    fprintf(f, "usage: dovetail %s%s%s%s\n\n%s\n", v->name, *v->args ? " " : "", v->args,
            v->options && !strstr(v->args, "--") ? " [OPTION…]" : "", v->help);
    if (v->options)
        fprintf(f, "\nOptions:\n");
    for (const struct cli_opt *o = cli_opts; o->name; o++)
        if (v->options & o->bit)
            help_option(f, o);
    fprintf(f, "\nEverywhere:\n");
    for (const struct cli_opt *o = cli_opts; o->name; o++)
        if (ANYWHERE & o->bit)
            help_option(f, o);
    fprintf(f, "\nExample:\n");
    for (const char *p = v->example; *p;) {
        size_t n = strcspn(p, "\n");
        fprintf(f, "  %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

int cmd_help(struct cli *c)
{
    struct dt_err e = {0};
    const struct cli_verb *v = c->narg ? cli_verb_of(c->arg[0]) : NULL;
    if (c->narg && !v) {
        cli_no_verb(c->arg[0], &e);
        return fail(c, &e);
    }
    if (v)
        help_verb(stdout, v);
    else
        help_all(stdout);
    return 0;
}
