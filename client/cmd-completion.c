/* dovetail completion bash|zsh|fish: what a shell needs to complete the command line, made of the table (table.c), so
 * that it names every verb and option there is. `meson install` puts the three where the shells look.
 *
 * What follows an option or a verb is told by the word that stands for it there: PATH, FILE, KEYFILE and DIR are
 * files, SPEC devices, MODE checks; `words` of a verb are the words that it takes, FILES, or VERBS.
 */
#include <string.h>

#include "client/table.h"

#define DEVICES "auto cuda soft soft:a100 soft:h100 soft:h200 soft:l4 soft:b200"
#define MODELS "a100 h100 h200 l4 b200"

enum what { NOTHING, FILES, FOLDERS, WORDS };

/* What an option's value may be; *ret_words of WORDS. */
static enum what completion_value(const struct cli_opt *o, const char **ret_words)
{
    static const struct {
        const char *value;
        enum what what;
        const char *words;
    } row[] = {{"PATH", FILES, NULL},     {"FILE", FILES, NULL},
               {"KEYFILE", FILES, NULL},  {"DIR", FOLDERS, NULL},
               {"SPEC", WORDS, DEVICES},  {"MODE,…", WORDS, "race uninit barrier all"},
               {"N|auto", WORDS, "auto"}, {"WHAT", WORDS, "none indices all"},
               {"SECONDS", NOTHING, NULL}};
    *ret_words = NULL;
    if (o->bit == O_ALLOW) {
        *ret_words = "dataflow-fusion reorder-atomics";
        return WORDS;
    }
    for (size_t i = 0; o->value && i < sizeof row / sizeof *row; i++)
        if (!strcmp(o->value, row[i].value)) {
            *ret_words = row[i].words;
            return row[i].what;
        }
    return NOTHING;
}

static void verb_names(const char *between)
{
    for (const struct cli_verb *v = cli_verbs; v->name; v++)
        printf("%s%s", v == cli_verbs ? "" : between, v->name);
}

/* Text within single quotes, and with a backslash before the characters of `escape`. */
static void quoted(const char *s, const char *escape)
{
    for (; *s; s++) {
        if (*s == '\'')
            fputs(*escape == '\\' ? "\\'" : "'\\''", stdout);
        else
            printf("%s%c", strchr(escape, *s) ? "\\" : "", *s);
    }
}

/* ---- bash -------------------------------------------------------------------------------------------------------- */

static void bash_options(int64_t bits)
{
    for (const struct cli_opt *o = cli_opts; o->name; o++)
        if (bits & o->bit)
            printf(" --%s%s", o->name, o->bit == O_OUTPUT ? " -o" : "");
}

static void bash(void)
{
    static const char *const how[] = {[NOTHING] = "", [FILES] = "_dovetail_files -f", [FOLDERS] = "_dovetail_files -d"};
    const char *words;
    puts("# Completions of dovetail for bash, made by `dovetail completion bash`.\n"
         "_dovetail_files()\n"
         "{\n"
         "    compopt -o filenames 2>/dev/null\n"
         "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n"
         "}\n"
         "\n"
         "_dovetail()\n"
         "{\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb='' options='' words='' "
         "files='' i\n"
         "    COMPREPLY=()\n"
         "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "        if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
         "            _dovetail_files -f\n"
         "            return\n"
         "        fi\n"
         "        case ${COMP_WORDS[i]} in");
    fputs("            ", stdout);
    verb_names("|");
    puts(") [[ $verb ]] || verb=${COMP_WORDS[i]} ;;\n"
         "        esac\n"
         "    done\n"
         "    if [[ $COMP_CWORD -ge 3 && ( $cur == : || $prev == : ) && \" ${COMP_WORDS[*]} \" == *\" --device soft "
         ":\"* ]]; "
         "then\n"
         "        mapfile -t COMPREPLY < <(compgen -W '" MODELS "' -- \"${cur#:}\")\n"
         "        return\n"
         "    fi\n"
         "    case $prev in");
    for (const struct cli_opt *o = cli_opts; o->name; o++)
        if (o->value) {
            enum what what = completion_value(o, &words);
            printf("        %s--%s) ", o->bit == O_OUTPUT ? "-o|" : "", o->name);
            if (what == WORDS)
                printf("mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\"); return ;;\n", words);
            else
                printf("%s%sreturn ;;\n", how[what], what == NOTHING ? "" : "; ");
        }
    puts("    esac\n    case $verb in");
    fputs("        '') words='", stdout);
    verb_names(" ");
    puts("' ;;");
    for (const struct cli_verb *v = cli_verbs; v->name; v++) {
        printf("        %s) options='", v->name);
        bash_options(v->options);
        putchar('\'');
        if (v->words && !strcmp(v->words, "FILES"))
            fputs(" files=1", stdout);
        else if (v->words && !strcmp(v->words, "VERBS")) {
            fputs(" words='", stdout);
            verb_names(" ");
            putchar('\'');
        } else if (v->words)
            printf(" words='%s'", v->words);
        puts(" ;;");
    }
    fputs("    esac\n    if [[ $cur == -* ]]; then\n        mapfile -t COMPREPLY < <(compgen -W \"$options", stdout);
    bash_options(ANYWHERE);
    puts("\" -- \"$cur\")\n"
         "    elif [[ $files ]]; then\n"
         "        _dovetail_files -f\n"
         "    else\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
         "    fi\n"
         "}\n"
         "complete -F _dovetail dovetail");
}

/* ---- zsh --------------------------------------------------------------------------------------------------------- */

static void zsh_options(int64_t bits)
{
    const char *words;
    for (const struct cli_opt *o = cli_opts; o->name; o++) {
        if (!(bits & o->bit))
            continue;
        enum what what = completion_value(o, &words);
        if (o->bit == O_OUTPUT)
            fputs("            {-o,--output}'[", stdout);
        else
            printf("            '--%s[", o->name);
        quoted(o->help, "[]:");
        printf("]");
        if (o->value) {
            printf(":%s:", o->value);
            if (what == WORDS) {
                putchar('(');
                quoted(words, ":");
                putchar(')');
            } else {
                fputs(what == FILES ? "_files" : what == FOLDERS ? "_files -/" : "", stdout);
            }
        }
        puts("' \\");
    }
}

static void zsh(void)
{
    puts("#compdef dovetail\n"
         "# Completions of dovetail for zsh, made by `dovetail completion zsh`.\n"
         "_dovetail()\n"
         "{\n"
         "    local -a verbs\n"
         "    verbs=(");
    for (const struct cli_verb *v = cli_verbs; v->name; v++) {
        printf("        '%s:", v->name);
        quoted(v->help, ":");
        puts("'");
    }
    puts("    )\n"
         "    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
         "        _describe -t verbs verb verbs\n"
         "        return\n"
         "    fi\n"
         "    local verb=$words[2]\n"
         "    if (( CURRENT > 2 )); then\n"
         "        shift words\n"
         "        (( CURRENT-- ))\n"
         "    fi\n"
         "    case $verb in");
    for (const struct cli_verb *v = cli_verbs; v->name; v++) {
        printf("        %s)\n            _arguments -s \\\n", v->name);
        zsh_options(ANYWHERE | v->options);
        if (v->words && !strcmp(v->words, "VERBS")) {
            fputs("            '1:verb:(", stdout);
            verb_names(" ");
            puts(")' ;;");
        } else if (v->words && strcmp(v->words, "FILES")) {
            printf("            '1:what:(%s)' '*:file:_files' ;;\n", v->words);
        } else {
            printf("            '*:%s:%s' ;;\n", v->words ? "file" : "argument", v->words ? "_files" : "");
        }
    }
    puts("        *)\n            _arguments -s \\");
    zsh_options(ANYWHERE);
    puts("            '*:argument:' ;;\n"
         "    esac\n"
         "}\n"
         "if [[ $funcstack[1] == _dovetail ]]; then\n"
         "    _dovetail \"$@\"\n"
         "else\n"
         "    compdef _dovetail dovetail\n"
         "fi");
}

/* ---- fish -------------------------------------------------------------------------------------------------------- */

static void fish_option(const struct cli_opt *o, const struct cli_verb *v)
{
    const char *words;
    enum what what = completion_value(o, &words);
    fputs("complete -c dovetail", stdout);
    if (v)
        printf(" -n '__fish_seen_subcommand_from %s'", v->name);
    printf(" -l %s%s", o->name, o->bit == O_OUTPUT ? " -s o" : o->bit == O_HELP ? " -s h" : "");
    if (o->value)
        fputs(what == FILES || what == FOLDERS ? " -r -F" : " -x", stdout);
    if (what == WORDS)
        printf(" -a '%s'", words);
    fputs(" -d '", stdout);
    quoted(o->help, "\\");
    puts("'");
}

static void fish(void)
{
    puts("# Completions of dovetail for fish, made by `dovetail completion fish`.\n"
         "complete -c dovetail -f");
    for (const struct cli_verb *v = cli_verbs; v->name; v++) {
        printf("complete -c dovetail -n __fish_use_subcommand -a %s -d '", v->name);
        quoted(v->help, "\\");
        puts("'");
    }
    for (const struct cli_verb *v = cli_verbs; v->name; v++) {
        for (const struct cli_opt *o = cli_opts; o->name; o++)
            if (v->options & o->bit)
                fish_option(o, v);
        if (!v->words)
            continue;
        printf("complete -c dovetail -n '__fish_seen_subcommand_from %s' ", v->name);
        if (!strcmp(v->words, "FILES")) {
            puts("-F");
        } else {
            fputs("-a '", stdout);
            if (strcmp(v->words, "VERBS"))
                fputs(v->words, stdout);
            else
                verb_names(" ");
            puts("'");
        }
    }
    for (const struct cli_opt *o = cli_opts; o->name; o++)
        if (ANYWHERE & o->bit)
            fish_option(o, NULL);
}

int cmd_completion(struct cli *c)
{
    static const struct {
        const char *name;
        void (*fn)(void);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    struct dt_err e = {0};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(shells[i].name, c->arg[0])) {
            shells[i].fn();
            return 0;
        }
    dt_err_set(&e, DT_E_USAGE, "there are completions for bash, zsh and fish, not for %s", c->arg[0]);
    return fail(c, &e);
}
