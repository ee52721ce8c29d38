/* Emit: a candidate's kernel, from bodies that stay as they are to text that was verified.
 *
 * A candidate (rw_cand) is opened, its intermediates fitted into shared memory and its block laid out, and its kernel
 * made. Beside it: one kernel, changed (solo.h); programs as documents; bundles of what does not get through.
 */
#ifndef DT_REWRITE_EMIT_H
#define DT_REWRITE_EMIT_H

#include "rewrite/emit/legal.h"

/* A candidate of any number of launches: reads their bodies. rw_cand_done in every case. */
int rw_cand_open(struct rw_cand *c, const struct dev_info *dev, const struct dev_prog *p, const struct ana_result *a,
                 const struct rw_options *o, const uint32_t *launch, uint32_t n, struct dt_err *e);
/* A candidate of a pair with a hazard: bodies, edge and components. Cheap; needs no compiler. */
int rw_cand_init(struct rw_cand *c, const struct dev_info *dev, const struct dev_prog *p, const struct ana_result *a,
                 const struct rw_options *o, uint32_t producer, uint32_t consumer, struct dt_err *e);
void rw_cand_done(struct rw_cand *c);

/* ---- threads and shared memory of the fused block (abreast.c, fit.c) --------------------------------------------- */

/* Fill in c->threads and c->abreast[], from bodies and lists. */
void rw_abreast(struct rw_cand *c);
/* Decide which intermediates go to shared memory. Fills in c->redirect; none is a result too, and c->no_redirect then
 * says why. */
int rw_fit(struct rw_cand *c, struct dt_err *e);
/* Lay out the fused block's shared memory and threads for c->level. False: it does not fit the device, `why` says
 * so. */
bool rw_layout(struct rw_cand *c, struct dt_str *why);

/* ---- packs (pack.c) ---------------------------------------------------------------------------------------------- */

/* OTHER rows of legal.def: of a candidate of one body, c->pack of its blocks side by side. */
bool rw_legal_whole_warps(const struct rw_cand *c, struct dt_str *why);
bool rw_legal_subblock_barriers(const struct rw_cand *c, struct dt_str *why);
bool rw_legal_subblock_memory(const struct rw_cand *c, struct dt_str *why);

/* ---- level `cluster` (cluster.c) --------------------------------------------------------------------------------- */

/* How many blocks of a cluster run a component best, from the times of a producer and a consumer block; 0: one block of
 * each is all there is. *ret_us: about how long all components take. */
uint32_t rw_cluster_size(const struct rw_cand *c, const double block_us[2], double *ret_us);
/* Fill in c->lists by rank, for clusters of that size; 0: by component again. */
int rw_cluster_lists(struct rw_cand *c, uint32_t size, struct dt_err *e);

/* ---- the kernel (kernel.c, join.c, text.c) ----------------------------------------------------------------------- */

/* Emit the fused kernel as PTX text into c->made.ptx, entry c->made.entry; verified by ptx_verify and print-parse
 * equality. */
int rw_join(struct rw_cand *c, struct dt_err *e);
/* Before rw_join: arithmetic that no assembler contracts otherwise, in all bodies (1: refused, `why`); the entry's
 * name. After it: registers and spills (1: refused, `why`). */
int rw_identity(struct rw_cand *c, struct dt_str *why, struct dt_err *e);
void rw_name_entry(struct rw_cand *c);
int rw_resources(struct rw_cand *c, struct dt_str *why, struct dt_err *e);
/* Name, text and resources of a candidate that is decided and legal. 0: c->made is there; 1: refused, `why`;
 * negative: error. */
int rw_make(struct rw_cand *c, struct dt_str *why, struct dt_err *e);
/* A kernel that was put together for a launch of `of`, as text: verified, and printed and parsed to itself. A failure
 * leaves a bundle. */
int rw_text(struct ptx_module *m, const struct dev_prog *of, struct dt_str *out, struct dt_err *e);
/* Put instructions before instruction `at`. How many; negative: error. */
int rw_insert(struct ptx_function *f, uint32_t at, const char *text, struct dt_err *e);
/* data.c: a table of the kernel's own, zero, 4 bytes aligned: in constant memory, if so much more than it is left there
 * (`spare`), else in global memory. NULL: memory. Where it is, as a load says it. */
#define RW_CONST_SPACE 65536
struct ptx_var *rw_table_new(struct ptx_module *m, const char *name, uint64_t bytes, uint32_t spare);
const char *rw_table_space(const struct ptx_var *table);
void rw_drop_hints(struct ptx_inst *i); /* copy.c: a load, or store, without .nc, cache operators and hints */

/* ---- programs as documents (program.c), and what does not get through (bundle.c) --------------------------------- */

/* The program's graph, every module as PTX, unused ones left out. New reference. */
json_t *rw_graph_ptx(const struct dev_prog *p);
/* The same without launches. gone, by launch (NULL: none): it does not count as a user; also, by module (NULL: none):
 * it stays, used or not. */
json_t *rw_graph_frame(const struct dev_prog *p, const bool *gone, const bool *also);

/* Leave what is needed to reproduce a failure under $DOVETAIL_BUNDLES, if that is set: the plan as a program, as a
 * document, or only a kernel that did not get so far. */
void rw_bundle(const struct dev_prog *original, const struct dev_prog *plan, const char *what);
void rw_bundle_document(const struct dev_prog *original, json_t *plan, const char *what);
void rw_bundle_kernel(const struct dev_prog *original, const char *ptx, const char *what);

/* ---- tables in constant memory (tables.c) ------------------------------------------------------------------------ */

/* Are they one table, or two with the same bytes? */
bool rw_same_table(const struct ptx_var *v, const struct ptx_var *w);
/* Bytes of constant memory that the bodies' tables will take, each once; far: of those bodies they go to global memory,
 * as there is no room for all. More than RW_CONST_SPACE: not all that are too much can go. */
uint64_t rw_far_tables(const struct rw_cand *c, bool far[RW_BODIES]);
/* Is it a table that goes? */
bool rw_is_far(const struct rw_cand *c, const bool far[RW_BODIES], const struct ptx_var *v);

#endif
