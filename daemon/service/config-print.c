/* Prints what is made from config.def at build time: `sample`, a configuration file in which every option stands as a
 * comment with its default, and `man`, the options' part of dovetail.conf(5) in scdoc's notation.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/service/config-live.h"

/* `text` in lines of at most 100 characters, each after `before`. */
static void wrapped(const char *text, const char *before)
{
    size_t at = 0;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " ");
        if (!at || at + 1 + n > 100) {
            at = (size_t)printf("%s%s", at ? "\n" : "", before) - (at ? 1 : 0);
        } else {
            putchar(' ');
            at++;
        }
        at += (size_t)printf("%.*s", (int)n, p);
        p += n + strspn(p + n, " ");
    }
    putchar('\n');
}

static void live_note(const char *name, const char *before)
{
    if (!dtd_option_is_live(name))
        printf("%sA new value needs a restart.\n", before);
}

static void sample_text(const char *name, const char *def, const char *doc)
{
    putchar('\n');
    wrapped(doc, "# ");
    live_note(name, "# ");
    printf("#%s =%s%s\n", name, def ? " " : "", def ? def : "");
}

static void sample_number(const char *name, long def, long lo, long hi, const char *doc)
{
    putchar('\n');
    wrapped(doc, "# ");
    printf("# From %ld to %ld.\n", lo, hi);
    live_note(name, "# ");
    printf("#%s = %ld\n", name, def);
}

/* scdoc takes _ and * for emphasis. */
static void escaped(const char *s)
{
    for (; *s; s++)
        printf(strchr("_*\\[]#<>~", *s) ? "\\%c" : "%c", *s);
}

static void man_head(const char *name)
{
    printf("\n*");
    escaped(name);
    printf("*\n\t");
}

static void man_text(const char *name, const char *def, const char *doc)
{
    man_head(name);
    escaped(doc);
    if (def) {
        printf(". Default: ");
        escaped(def);
    }
    puts(".");
    live_note(name, "\t");
}

static void man_number(const char *name, long def, long lo, long hi, const char *doc)
{
    man_head(name);
    escaped(doc);
    printf(". From %ld to %ld; default %ld.\n", lo, hi, def);
    live_note(name, "\t");
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "sample")) {
        puts("# Configuration of dovetaild: lines NAME = VALUE. Every option is here, with its default, as a comment.\n"
             "# `dovetaild --check-config --config FILE` checks a file; `systemctl reload dovetaild` loads it again.");
#define STR(name, def, doc) sample_text(#name, def, doc);
#define NUM(name, def, lo, hi, doc) sample_number(#name, def, lo, hi, doc);
#include "daemon/service/config.def"
#undef STR
#undef NUM
        return 0;
    }
    if (argc == 2 && !strcmp(argv[1], "man")) {
#define STR(name, def, doc) man_text(#name, def, doc);
#define NUM(name, def, lo, hi, doc) man_number(#name, def, lo, hi, doc);
#include "daemon/service/config.def"
        return 0;
    }
    fputs("usage: config-print sample|man\n", stderr);
    return 2;
}
