/* The command line: options, the table of verbs, help. Verbs are in cmd-*.c.
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

#include "client/cli.h"

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
    O_CAPTURE = INT_MIN,
};
#define ANYWHERE (O_JSON | O_SOCKET | O_LOCAL | O_DEVICE | O_CACHE | O_TIMEOUT | O_HELP)

static const struct opt {
    const char *name, *value; /* value NULL: a switch */
    int bit;
    size_t offset;
    const char *help;
} opts[] = {
    {"json", NULL, O_JSON, offsetof(struct cli, json), "data on stdout as JSON, nothing else"},
    {"socket", "PATH", O_SOCKET, offsetof(struct cli, socket), "the service's socket (DOVETAIL_SOCKET)"},
    {"local", NULL, O_LOCAL, offsetof(struct cli, local), "no service: start the worker directly"},
    {"device", "SPEC", O_DEVICE, offsetof(struct cli, device), "auto, cuda[:N] or soft[:MODEL] (DOVETAIL_DEVICE)"},
    {"cache", "FILE", O_CACHE, offsetof(struct cli, cache), "cache file, with --local"},
    {"timeout", "SECONDS", O_TIMEOUT, offsetof(struct cli, timeout), "time limit of the job"},
    {"maps", NULL, O_MAPS, offsetof(struct cli, maps), "with the block maps of every edge"},
    {"all-edges", NULL, O_EDGES, offsetof(struct cli, all_edges), "also pairs of launches without any hazard"},
    {"output", "PATH", O_OUTPUT, offsetof(struct cli, output),
     "-o: folder for plan.json and the modules, or the report's file"},
    {"allow", "KIND,…", O_ALLOW, offsetof(struct cli, allow),
     "allow what is off by itself: dataflow-fusion, reorder-atomics"},
    {"deny", "KIND,…", O_DENY, offsetof(struct cli, deny), "deny kinds of rewrites"},
    {"budget", "SECONDS", O_BUDGET, offsetof(struct cli, budget),
     "bound of the work of planning, in seconds of a machine at rest (default 120)"},
    {"memory", "SIZE", O_MEMORY, offsetof(struct cli, memory),
     "bound of the memory that the plan needs beside what was posted: 0, 500M, 2G (default: any)"},
    {"whole", NULL, O_WHOLE, offsetof(struct cli, whole),
     "verify every block, also of graphs that are verified by samples for their size"},
    {"all", NULL, O_ALL, offsetof(struct cli, all), "a row for every rewrite that was tried"},
    {"seed", "N", O_SEED, offsetof(struct cli, seed),
     "added to the seed of every fill, weights and constants excepted"},
    {"check", "MODE,…", O_CHECK, offsetof(struct cli, check),
     "run with checks: race, uninit, barrier or all (software device)"},
    {"schedule", "N", O_SCHEDULE, offsetof(struct cli, schedule),
     "run blocks and warps in the N-th shuffled order (software device)"},
    {"dump", "DIR", O_DUMP, offsetof(struct cli, dump), "write DIR/BUFFER.bin for every output and inout buffer"},
    {"limit", "N", O_LIMIT, offsetof(struct cli, limit), "at most N"},
    {"max-age", "TIME", O_AGE, offsetof(struct cli, max_age),
     "remove entries not used for so long: seconds, or 90m, 12h, 30d; import: only what was signed in that time"},
    {"max-bytes", "SIZE", O_BYTES, offsetof(struct cli, max_bytes),
     "then remove the least recently used above so many bytes: 500M, 2G; import: of the unpacked bundle"},
    {"signature", "SIGNATURE", O_SIGNATURE, 0, "export: only this one; may be given several times"},
    {"newer-than", "TIME", O_SELECT, offsetof(struct cli, newer_than), "export: only what was made in that time"},
    {"used-within", "TIME", O_SELECT, offsetof(struct cli, used_within), "export: only what was used in that time"},
    {"min-hits", "N", O_SELECT, offsetof(struct cli, min_hits), "export: only what was used so often"},
    {"sign", "KEYFILE", O_SIGN, offsetof(struct cli, sign), "export: sign with this key, which keygen made"},
    {"signers", "FILE", O_SIGNERS, offsetof(struct cli, signers),
     "import: whom to believe, with --local (DOVETAIL_SIGNERS)"},
    {"require-signer", "NAME", O_SIGNERS, offsetof(struct cli, require_signer), "import: only what this one signed"},
    {"stale", NULL, O_STALE, offsetof(struct cli, stale), "only graphs whose plan is of another toolchain"},
    {"report", NULL, O_REPORT, offsetof(struct cli, report),
     "what came of the last --stale --budget; as one HTML file with -o FILE.html"},
    {"calibrate", NULL, O_CALIBRATE, offsetof(struct cli, calibrate),
     "measure the device's figures for the timing model, with --local"},
    {"flags", NULL, O_FLAGS, offsetof(struct cli, flags),
     "print nvcc's flags for a program that is to run on the software device"},
    {"step", "N|auto", O_CAPTURE, offsetof(struct cli, step),
     "capture: the Nth pass of the step that the program repeats; auto: one of them (default: the whole run)"},
    {"data", "WHAT", O_CAPTURE, offsetof(struct cli, data),
     "capture: whose content goes into the graph: none, indices (whole numbers that may be indices), all (default: "
     "indices)"},
    {"help", NULL, O_HELP, 0, "this text"},
};
#define NOPTS (sizeof opts / sizeof *opts)

static const struct verb {
    const char *name, *args;
    int min, max; /* number of arguments */
    int options;
    verb_fn *fn;
    const char *help;
} verbs[] = {
    {"analyze", "GRAPH", 1, 1, O_MAPS | O_EDGES, cmd_analyze, "which thread block needs what from which other"},
    {"optimize", "GRAPH", 1, 1, O_OUTPUT | O_ALLOW | O_DENY | O_BUDGET | O_WHOLE | O_ALL | O_MEMORY, cmd_optimize,
     "a verified plan that is not slower"},
    {"run", "GRAPH|PLAN", 1, 1, O_SEED | O_DUMP | O_CHECK | O_SCHEDULE, cmd_run,
     "run it: SHA-256 per output buffer, time and its method"},
    {"explain", "GRAPH|SIGNATURE", 1, 1, O_ALLOW | O_DENY | O_BUDGET | O_WHOLE | O_MEMORY, cmd_explain,
     "why an edge has its class, why a rewrite was refused, which key factor missed"},
    {"report", "SIGNATURE", 1, 1, O_OUTPUT, cmd_report, "the plan under a signature as one HTML file, -o FILE.html"},
    {"trace", "SIGNATURE", 1, 1, O_OUTPUT, cmd_trace,
     "the modelled timeline of graph and plan for Perfetto or chrome://tracing, -o FILE.json"},
    {"cache", "stats|list|show SIGNATURE|verify|gc|export|import FILE|keygen NAME", 1, 2,
     O_OUTPUT | O_LIMIT | O_AGE | O_BYTES | O_SIGNATURE | O_SELECT | O_SIGN | O_SIGNERS, cmd_cache,
     "figures of the cache; its entries; check, clean up, carry elsewhere (-o FILE), signed"},
    {"reprofile", "", 0, 0, O_STALE | O_LIMIT | O_BUDGET | O_REPORT | O_OUTPUT, cmd_reprofile,
     "plan stored graphs again for this device and toolchain"},
    {"soft", "-- PROGRAM [ARG…]", 0, INT_MAX, O_CHECK | O_SCHEDULE | O_FLAGS, cmd_soft,
     "run a CUDA program on the software device"},
    {"capture", "-o FILE -- PROGRAM [ARG…]", 1, INT_MAX, O_OUTPUT | O_CAPTURE, cmd_capture,
     "run a CUDA program, and leave what it launched as a graph"},
    {"devices", "", 0, 0, O_CALIBRATE, cmd_devices, "devices of this machine"},
    {"status", "", 0, 0, 0, cmd_status, "how the service is"},
    {"version", "", 0, 0, 0, cmd_version, "version of this program"},
};
#define NVERBS (sizeof verbs / sizeof *verbs)

static void print_help(FILE *f)
{
    fprintf(f, "usage: dovetail VERB [ARGUMENT] [OPTION…]\n\n");
    for (size_t i = 0; i < NVERBS; i++) {
        fprintf(f, "  %-9s %-16s %s\n", verbs[i].name, verbs[i].args, verbs[i].help);
        for (size_t o = 0; o < NOPTS; o++)
            if (verbs[i].options & opts[o].bit)
                fprintf(f, "  %-26s --%s%s%s: %s\n", "", opts[o].name, opts[o].value ? " " : "",
                        opts[o].value ? opts[o].value : "", opts[o].help);
    }
    fprintf(f, "\nEverywhere:\n");
    for (size_t o = 0; o < NOPTS; o++)
        if (ANYWHERE & opts[o].bit)
            fprintf(f, "  --%-8s %-8s %s\n", opts[o].name, opts[o].value ? opts[o].value : "", opts[o].help);
    fprintf(f, "\nGRAPH is a file, or - for stdin. Exit status: 0 done, 2 wrong usage, 3 the graph was refused, 4 "
               "infrastructure, 1 other.\n");
}

/* Read all options into c; 0, or the first error: what comes after it is read too, --json may be there. Sets *given to
 * their bits. */
static int parse(int argc, char **argv, struct cli *c, int *given, struct dt_err *e)
{
    struct option longs[NOPTS + 1];
    int r = 0;
    memset(longs, 0, sizeof longs);
    for (size_t i = 0; i < NOPTS; i++)
        longs[i] = (struct option){opts[i].name, opts[i].value ? required_argument : no_argument, NULL, 256 + (int)i};
    opterr = 0;
    for (int o; (o = getopt_long(argc, argv, ":o:h", longs, NULL)) != -1;) {
        size_t i = 0;
        if (o == ':' || o == '?') {
            if (!r)
                r = dt_err_set(e, DT_E_USAGE,
                               o == ':' ? "%s needs a value" : "there is no option %s; see dovetail --help",
                               argv[optind - 1]);
            continue;
        }
        while (i < NOPTS &&
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

static int dovetail_check(struct cli *c, const struct verb *v, int given, struct dt_err *e)
{
    for (size_t i = 0; i < NOPTS; i++)
        if (given & opts[i].bit & ~(ANYWHERE | v->options))
            return dt_err_set(e, DT_E_USAGE, "dovetail %s has no option --%s", v->name, opts[i].name);
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
    int given = 0;
    setlocale(LC_CTYPE, "");
    setvbuf(stderr, NULL, _IOLBF, 4096); /* a worker of --local writes there too: whole lines, or they mix */
    signal(SIGPIPE, SIG_IGN);
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR"), *device = getenv("DOVETAIL_DEVICE");
    c.tty = isatty(2) && !(term && !strcmp(term, "dumb"));
    c.color = isatty(1) && !(no && *no) && !(term && !strcmp(term, "dumb"));
    int r = parse(argc, argv, &c, &given, &e);
    if (r < 0)
        return fail(&c, &e);
    if (given & O_HELP || (optind < argc && !strcmp(argv[optind], "help"))) {
        print_help(stdout);
        return 0;
    }
    if (optind >= argc && c.json) {
        dt_err_set(&e, DT_E_USAGE, "there is no verb given; see dovetail --help");
        return fail(&c, &e);
    }
    if (optind >= argc) {
        print_help(stderr);
        return 2;
    }
    c.device_given = c.device;
    if (!c.device && device && *device)
        c.device = device;
    const struct verb *v = NULL;
    for (size_t i = 0; i < NVERBS; i++)
        if (!strcmp(verbs[i].name, argv[optind]))
            v = &verbs[i];
    c.arg = argv + optind + 1;
    c.narg = argc - optind - 1;
    if (!v)
        r = dt_err_set(&e, DT_E_USAGE, "there is no verb %s; see dovetail --help", argv[optind]);
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
