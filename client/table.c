/* The table of options and verbs (table.h), and what is said of those that there are not.
 *
 * A verb is a row here and a file, cmd-NAME.c; an option a row, a bit, and a member of struct cli. Not here: what an
 * option's value may be, which whoever uses it checks.
 */
#include "client/table.h"

#include <limits.h>
#include <string.h>

#include "base/nearest.h"

const struct cli_opt cli_opts[] = {
    {"json", NULL, O_JSON, offsetof(struct cli, json), "data on stdout as JSON, nothing else"},
    {"socket", "PATH", O_SOCKET, offsetof(struct cli, socket), "the service's socket (DOVETAIL_SOCKET)"},
    {"local", NULL, O_LOCAL, offsetof(struct cli, local), "no service: start the worker directly"},
    {"device", "SPEC", O_DEVICE, offsetof(struct cli, device), "auto, cuda[:N] or soft[:MODEL] (DOVETAIL_DEVICE)"},
    {"cache", "FILE", O_CACHE, offsetof(struct cli, cache), "cache file, with --local"},
    {"timeout", "SECONDS", O_TIMEOUT, offsetof(struct cli, timeout), "time limit of the job"},
    {"maps", NULL, O_MAPS, offsetof(struct cli, maps), "with the block maps of every edge"},
    {"all-edges", NULL, O_EDGES, offsetof(struct cli, all_edges), "also pairs of launches without any hazard"},
    {"output", "PATH", O_OUTPUT, offsetof(struct cli, output),
     "folder for plan.json and the modules, or the file to write"},
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
     "capture: whose content goes into the graph: none, indices (what decides which bytes are touched), all (default: "
     "indices)"},
    {"help", NULL, O_HELP, 0, "this text"},
    {0},
};

const struct cli_verb cli_verbs[] = {
    {"new", "FILE.cu|FILE.ptx [-- NVRTC-OPTION…]", 1, INT_MAX, O_OUTPUT, cmd_new,
     "a graph to begin with: kernels and parameters of a source; what it says TODO to is yours",
     "dovetail new kernels.cu -o graph.json\n"
     "dovetail new kernels.cu -- --std=c++20 -DN=4  # options for NVRTC, kept in the graph",
     "FILES"},
    {"analyze", "GRAPH", 1, 1, O_MAPS | O_EDGES, cmd_analyze, "which thread block needs what from which other",
     "dovetail analyze graph.json  # a table of edges\n"
     "dovetail analyze graph.json --maps --json  # block by block",
     "FILES"},
    {"optimize", "GRAPH", 1, 1, O_OUTPUT | O_ALLOW | O_DENY | O_BUDGET | O_WHOLE | O_ALL | O_MEMORY, cmd_optimize,
     "a verified plan that is not slower",
     "dovetail optimize graph.json -o plan  # plan/plan.json and the kernels\n"
     "dovetail optimize graph.json --allow dataflow-fusion --budget 600",
     "FILES"},
    {"run", "GRAPH|PLAN", 1, 1, O_SEED | O_DUMP | O_CHECK | O_SCHEDULE, cmd_run,
     "run it: SHA-256 per output buffer, time and its method",
     "dovetail run plan/plan.json --dump out  # out/BUFFER.bin\n"
     "dovetail run graph.json --local --check race,uninit",
     "FILES"},
    {"explain", "GRAPH|SIGNATURE", 1, 1, O_ALLOW | O_DENY | O_BUDGET | O_WHOLE | O_MEMORY, cmd_explain,
     "why an edge has its class, why a rewrite was refused, which key factor missed", "dovetail explain graph.json",
     "FILES"},
    {"diff", "PLAN|SIGNATURE PLAN|SIGNATURE", 2, 2, 0, cmd_diff, "what two plans differ in: launches, rewrites, times",
     "dovetail diff old/plan.json new/plan.json", "FILES"},
    {"report", "GRAPH|PLAN|SIGNATURE", 1, 1, O_OUTPUT | O_ALLOW | O_DENY | O_BUDGET | O_WHOLE | O_MEMORY, cmd_report,
     "a plan to look at, as one HTML file, -o FILE.html", "dovetail report graph.json -o report.html", "FILES"},
    {"trace", "GRAPH|PLAN|SIGNATURE", 1, 1, O_OUTPUT | O_ALLOW | O_DENY | O_BUDGET | O_WHOLE | O_MEMORY, cmd_trace,
     "the timelines of graph and plan for Perfetto or chrome://tracing, -o FILE.json",
     "dovetail trace graph.json -o trace.json", "FILES"},
    {"cache", "stats|list|show SIGNATURE|verify|gc|export|import FILE|keygen NAME", 1, 2,
     O_OUTPUT | O_LIMIT | O_AGE | O_BYTES | O_SIGNATURE | O_SELECT | O_SIGN | O_SIGNERS, cmd_cache,
     "figures of the cache; its entries; check, clean up, carry elsewhere (-o FILE), signed",
     "dovetail cache stats\n"
     "dovetail cache gc --max-age 30d --max-bytes 2G\n"
     "dovetail cache export -o plans.bundle",
     "stats list show verify gc export import keygen"},
    {"reprofile", "", 0, 0, O_STALE | O_LIMIT | O_BUDGET | O_REPORT | O_OUTPUT, cmd_reprofile,
     "plan stored graphs again for this device and toolchain",
     "dovetail reprofile --stale --budget 3600  # while nobody else works", NULL},
    {"soft", "-- PROGRAM [ARG…]", 0, INT_MAX, O_CHECK | O_SCHEDULE | O_FLAGS, cmd_soft,
     "run a CUDA program on the software device", "dovetail soft --check race -- ./program 42", "FILES"},
    {"capture", "-o FILE -- PROGRAM [ARG…]", 1, INT_MAX, O_OUTPUT | O_CAPTURE, cmd_capture,
     "run a CUDA program, and leave what it launched as a graph",
     "dovetail capture -o graph.json -- ./program 42\n"
     "dovetail capture -o step.json --step auto --data all -- ./program  # one pass of what it repeats",
     "FILES"},
    {"devices", "", 0, 0, O_CALIBRATE, cmd_devices, "devices of this machine", "dovetail devices --local", NULL},
    {"status", "", 0, 0, 0, cmd_status, "how the service is", "dovetail status --json", NULL},
    {"doctor", "", 0, 0, 0, cmd_doctor,
     "is all there that dovetail needs: device, driver, compilers, confinement, cache; what mends it",
     "dovetail doctor || echo something is missing", NULL},
    {"version", "", 0, 0, 0, cmd_version, "version of this program", "dovetail version", NULL},
    {"completion", "bash|zsh|fish", 1, 1, 0, cmd_completion, "the completions for a shell",
     "source <(dovetail completion bash)", "bash zsh fish"},
    {"help", "[VERB]", 0, 1, 0, cmd_help, "all verbs; one, with its options and an example", "dovetail help optimize",
     "VERBS"},
    {0},
};

const struct cli_verb *cli_verb_of(const char *name)
{
    for (const struct cli_verb *v = cli_verbs; v->name; v++)
        if (!strcmp(v->name, name))
            return v;
    return NULL;
}

int cli_no_verb(const char *name, struct dt_err *e)
{
    struct dt_nearest n = dt_nearest_of(name, strlen(name));
    for (const struct cli_verb *v = cli_verbs; v->name; v++)
        dt_nearest_try(&n, v->name, strlen(v->name));
    return n.best ? dt_err_set(e, DT_E_USAGE, "there is no verb %s; did you mean %s?", name, n.best)
                  : dt_err_set(e, DT_E_USAGE, "there is no verb %s; see dovetail --help", name);
}

int cli_no_option(const struct cli_verb *v, const char *name, struct dt_err *e)
{
    const char *word = name + strspn(name, "-");
    struct dt_nearest n = dt_nearest_of(word, strcspn(word, "="));
    for (const struct cli_opt *o = cli_opts; o->name; o++)
        if (!v || o->bit & (ANYWHERE | v->options))
            dt_nearest_try(&n, o->name, strlen(o->name));
    return n.best ? dt_err_set(e, DT_E_USAGE, "there is no option %s; did you mean --%s?", name, n.best)
                  : dt_err_set(e, DT_E_USAGE, "there is no option %s; see dovetail %s%s--help", name, v ? v->name : "",
                               v ? " " : "");
}
