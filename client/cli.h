/* The command line, inside: what the verbs share. Each verb has a file, cmd-NAME.c, and a row of the table in
 * table.c. */
#ifndef DOVETAIL_CLI_H
#define DOVETAIL_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "client/dovetail.h"

#define CLI_SIGNATURES 256

struct cli {
    /* options, NULL or false where not given */
    bool json, local, maps, all_edges, whole, stale, report, calibrate, all, flags;
    bool device_given; /* on the command line, not by the environment */
    const char *socket, *device, *cache, *timeout, *output, *allow, *deny, *budget, *seed, *check, *schedule, *dump,
        *limit, *max_age, *max_bytes, *memory, *step, *data;
    const char *newer_than, *used_within, *min_hits, *sign, *signers, *require_signer;
    const char *signature[CLI_SIGNATURES]; /* --signature, each time that it was given */
    int nsignature;
    /* the verb's arguments */
    char **arg;
    int narg;
    /* how to print */
    bool tty, color; /* stderr is a terminal; stdout may have colours */
    bool progress_shown;
    uint64_t progress_us; /* of the last line */
    char stage[64];
};

/* What a request came to: a document, or a problem. */
struct outcome {
    char *text; /* document, or problem document */
    size_t len;
    bool failed;
    char cache[8], signature[80], digest[80];
};
void outcome_done(struct outcome *o);
void outcome_set(struct outcome *o, json_t *doc); /* the document's text; takes doc */

/* Prints a document for people. Exit status. */
typedef int human_fn(struct cli *c, const json_t *doc, const struct outcome *o);

/* ---- verb.c ------------------------------------------------------------------------------------------------------ */
/* Leaves something of the document in a file, before it is printed. 1: and has changed the document; 0; or an error. */
typedef int keep_fn(struct cli *c, json_t *doc, struct dt_err *e);
/* The whole of a verb that takes a graph: read it (arg[0]), submit it as `want`, keep (may be NULL), show. Exit
 * status. */
int post_graph(struct cli *c, const char *want, keep_fn *keep, human_fn *human);
/* Write an answer to the file of -o, "-" for stdout, and say so. Through the service the answer is the file's text;
 * from a worker it is a document with the text as `member` (NULL: it is the text there, too). bytes: with --json the
 * length is said too. Exit status. */
int save_answer(struct cli *c, const char *member, bool bytes, struct outcome *o);

/* ---- backend.c, local.c ------------------------------------------------------------------------------------------ */
/* want as in the service's query ("plan", "analysis", "run", "explain"); graph text. Through the service, or with
 * --local through a worker. */
void backend_submit(struct cli *c, const char *want, const char *graph, size_t len, struct outcome *ret);
/* One call of the service. With --local only `verb` counts: the worker's verb that says the same, with `members` (JSON
 * text of further members of its request, `"a": 1, "b": 2`, or NULL). */
void backend_call(struct cli *c, const char *method, const char *path, const char *body, size_t len, const char *verb,
                  const char *members, struct outcome *ret);
/* GET of a path; signature becomes the worker's member of that name, NULL: none. */
void backend_get(struct cli *c, const char *path, const char *verb, const char *signature, struct outcome *ret);
/* A request to a worker of our own: `members` is JSON text as above, the last of them `name` with the text
 * value[0..len) if name is not NULL. */
void local_request(struct cli *c, const char *verb, const char *members, const char *name, const char *value,
                   size_t len, struct outcome *ret);
void outcome_error(struct outcome *ret, struct dt_err *e); /* empties e */
json_t *options_json(const struct cli *c);                 /* "options" of a request to a worker */

/* ---- graphfile.c ------------------------------------------------------------------------------------------------- */
/* Read a graph or plan; {"file": "k.cu"} becomes the file's text. *ret is what to post, caller frees. */
int graph_read(const char *path, char **ret, size_t *ret_len, struct dt_err *e);

/* ---- output.c ---------------------------------------------------------------------------------------------------- */
int finish(struct cli *c, struct outcome *o, human_fn *human); /* show the answer or the problem; exit status */
int fail(struct cli *c, struct dt_err *e);                     /* report, empty e, exit status */
void progress(struct cli *c, const char *stage, const char *message, long done, long of);
void progress_done(struct cli *c);              /* what is printed next begins a line */
void print_clean(FILE *f, const char *s);       /* control characters as '?': names come from files */
double jnum(const json_t *o, const char *name); /* 0 if missing */
/* A whole number with one of the units behind it, each a factor; of --option. */
extern const long long cli_sizes[]; /* of "KMG" */
int scaled(const char *option, const char *text, const char *units, const long long *factor, long long *ret,
           struct dt_err *e);
/* JSON for people: what fits stands on one line. */
void print_json(FILE *f, const json_t *doc);
void json_pretty(const json_t *doc, struct dt_str *out);
char *join(const json_t *list, const char *between, const char *empty); /* strings of a list; caller frees */

/* DIR/NAME+ending as a file of DIR itself: `/`, `%`, control characters and a leading `.` of NAME, which is somebody's
 * input, become %XX, so that two names never share a file. Caller frees; NULL: memory. */
char *path_in(const char *dir, const char *name, const char *ending);

struct table {
    unsigned ncol, nrow;
    char **cell; /* owned */
};
void table_row(struct table *t, unsigned ncol, ...); /* char * each, copied */
/* First row: heads; one that begins with '>' (which is not printed) says that its column is flush right. Empties t. */
void table_print(struct table *t, const struct cli *c);
void table_done(struct table *t);        /* as table_print, without printing */
char *cut(const char *s, unsigned most); /* to so many characters, "…" in the middle; caller frees */

/* rewrites.c: the plan's `rewrites`; modeled: their times are. */
void rewrites_print(const struct cli *c, const json_t *list, bool modeled);
void print_recipes(const json_t *list); /* cmd-cache.c: imported plans, a line each */

/* cmd-soft.c: in this process, what makes the programs that it starts use the software device. */
int soft_environment(struct cli *c, struct dt_err *e);
/* capture-run.c: the program of c->arg runs to its end and leaves its traces in `dir`. Its exit status, 128 + its
 * signal, or an error. */
int capture_run(struct cli *c, const char *dir, struct dt_err *e);

/* ---- verbs ------------------------------------------------------------------------------------------------------- */
typedef int verb_fn(struct cli *c);
verb_fn cmd_analyze, cmd_optimize, cmd_run, cmd_explain, cmd_cache, cmd_devices, cmd_status, cmd_version, cmd_report,
    cmd_reprofile, cmd_trace, cmd_soft, cmd_capture, cmd_new, cmd_diff, cmd_doctor, cmd_completion, cmd_help;

#endif
