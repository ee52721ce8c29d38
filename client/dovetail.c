/* The command line: it reads the options and starts the verb. The table of both is in table.c, verbs are in cmd-*.c.
 *
 * Options may stand anywhere. Bits in a verb's row say which ones it takes; those of ANYWHERE go with every verb. Exit
 * status (docs/CONTRACT.md §5): 0 done, 2 wrong usage, 3 the graph was refused, 4 infrastructure, 1 anything else.
 */
#include <getopt.h>
#include <limits.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/table.h"

#define OPTS_MOST 64 /* rows of the table */

/* The verb that is probably meant while options are still being read: the first word that is one. */
static const struct cli_verb *verb_in(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (cli_verb_of(argv[i]))
            return cli_verb_of(argv[i]);
    return NULL;
}

/* Read all options into c; 0, or the first error: what comes after it is read too, --json may be there. Sets *given to
 * their bits. */
static int parse(int argc, char **argv, struct cli *c, int64_t *given, struct dt_err *e)
{
    const struct cli_opt *opts = cli_opts;
    struct option longs[OPTS_MOST + 1];
    int r = 0;
    memset(longs, 0, sizeof longs);
    for (size_t i = 0; opts[i].name && i < OPTS_MOST; i++)
        longs[i] = (struct option){opts[i].name, opts[i].value ? required_argument : no_argument, NULL, 256 + (int)i};
    opterr = 0;
    for (int o; (o = getopt_long(argc, argv, ":o:h", longs, NULL)) != -1;) {
        size_t i = 0;
        if (o == ':' || o == '?') {
            if (!r)
                r = o == ':' ? dt_err_set(e, DT_E_USAGE, "%s needs a value", argv[optind - 1])
                             : cli_no_option(verb_in(argc, argv), argv[optind - 1], e);
            continue;
        }
        while (opts[i + 1].name &&
               !(o == 256 + (int)i || (o == 'o' && opts[i].bit == O_OUTPUT) || (o == 'h' && opts[i].bit == O_HELP)))
            i++;
        *given |= opts[i].bit;
        if (opts[i].bit == O_SIGNATURE && c->nsignature < CLI_SIGNATURES) {
            c->signature[c->nsignature++] = optarg;
        } else if (opts[i].bit == O_SIGNATURE) {
            r = r ? r : dt_err_set(e, DT_E_USAGE, "--signature may be given %d times at most", CLI_SIGNATURES);
        } else if (opts[i].value) {
            if (!*optarg && !r)
                r = dt_err_set(e, DT_E_USAGE, "--%s needs a value", opts[i].name);
            *(const char **)((char *)c + opts[i].offset) = optarg;
        } else if (opts[i].bit != O_HELP) {
            *(bool *)((char *)c + opts[i].offset) = true;
        }
    }
    return r;
}

static int check_seconds(const char *name, const char *s, struct dt_err *e)
{
    char *end;
    double v = s ? strtod(s, &end) : 0;
    if (s && (end == s || *end || !(v >= 0 && v <= 1e6)))
        return dt_err_set(e, DT_E_USAGE, "--%s takes a number of seconds", name);
    return 0;
}

static int dovetail_check(struct cli *c, const struct cli_verb *v, int64_t given, struct dt_err *e)
{
    for (const struct cli_opt *o = cli_opts; o->name; o++)
        if (given & o->bit & ~(ANYWHERE | v->options))
            return dt_err_set(e, DT_E_USAGE, "dovetail %s has no option --%s; see dovetail %s --help", v->name, o->name,
                              v->name);
    if (c->narg < v->min || c->narg > v->max)
        return dt_err_set(e, DT_E_USAGE, "usage: dovetail %s %s", v->name, v->args);
    if (c->cache && !c->local)
        return dt_err_set(e, DT_E_USAGE, "--cache goes with --local: the service has its own");
    if (c->calibrate && !c->local)
        return dt_err_set(e, DT_E_USAGE, "--calibrate goes with --local: a service's jobs would disturb it");
    if (c->socket && c->local)
        return dt_err_set(e, DT_E_USAGE, "--socket and --local exclude each other");
    if (c->seed && (c->seed[strspn(c->seed, "0123456789")] || strlen(c->seed) > 18))
        return dt_err_set(e, DT_E_USAGE, "--seed takes a number");
    if (c->schedule && (c->schedule[strspn(c->schedule, "0123456789")] || strlen(c->schedule) > 18))
        return dt_err_set(e, DT_E_USAGE, "--schedule takes a number");
    if (c->limit && (c->limit[strspn(c->limit, "0123456789")] || strlen(c->limit) > 5 ||
                     strtol(c->limit, NULL, 10) < 1 || strtol(c->limit, NULL, 10) > 10000))
        return dt_err_set(e, DT_E_USAGE, "--limit takes a number from 1 to 10000");
    if (c->budget && (v->options & O_STALE) && (!c->stale || c->local || c->limit))
        return dt_err_set(e, DT_E_USAGE, "--budget goes with --stale here, and with neither --local nor --limit");
    if ((v->options & O_REPORT) && (c->report ? c->stale || c->limit || c->local : c->output != NULL))
        return dt_err_set(e, DT_E_USAGE, "--report goes with -o alone, and -o with --report: a service is asked");
    static char memory[24];
    long long bytes;
    if (c->memory) {
        if (scaled("memory", c->memory, "KMG", cli_sizes, &bytes, e) < 0)
            return DT_E_USAGE;
        snprintf(memory, sizeof memory, "%lld", bytes);
        c->memory = memory;
    }
    int r = check_seconds("budget", c->budget, e);
    return r < 0 ? r : check_seconds("timeout", c->timeout, e);
}

int main(int argc, char **argv)
{
    struct cli c = {0};
    struct dt_err e = {0};
    int64_t given = 0;
    setlocale(LC_CTYPE, "");
    setvbuf(stderr, NULL, _IOLBF, 4096); /* a worker of --local writes there too: whole lines, or they mix */
    signal(SIGPIPE, SIG_IGN);
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR"), *device = getenv("DOVETAIL_DEVICE");
    c.tty = isatty(2) && !(term && !strcmp(term, "dumb"));
    c.color = isatty(1) && !(no && *no) && !(term && !strcmp(term, "dumb"));
    int r = parse(argc, argv, &c, &given, &e);
    if (r < 0)
        return fail(&c, &e);
    const struct cli_verb *v = optind < argc ? cli_verb_of(argv[optind]) : NULL;
    if (given & O_HELP && (v || optind >= argc)) {
        if (v)
            help_verb(stdout, v);
        else
            help_all(stdout);
        return fflush(stdout) || ferror(stdout) ? 1 : 0;
    }
    if (optind >= argc && c.json) {
        dt_err_set(&e, DT_E_USAGE, "there is no verb given; see dovetail --help");
        return fail(&c, &e);
    }
    if (optind >= argc) {
        help_all(stderr);
        return 2;
    }
    c.device_given = c.device;
    if (!c.device && device && *device)
        c.device = device;
    c.arg = argv + optind + 1;
    c.narg = argc - optind - 1;
    if (!v)
        r = cli_no_verb(argv[optind], &e);
    else
        r = dovetail_check(&c, v, given, &e);
    if (r < 0)
        return fail(&c, &e);
    r = v->fn(&c);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "dovetail: stdout cannot be written\n");
        return r ? r : 1;
    }
    return r;
}
