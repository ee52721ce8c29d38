/* A CUDA device, software or real, through the driver API only; and the compilers that come with it.
 *
 * Nothing is linked: libcuda.so.1 (NVIDIA's, or build/softgpu/libcuda.so.1), libnvrtc and libnvJitLink are opened with
 * dlopen, and a missing compiler is a result, not a crash. A dev_device belongs to one thread.
 */
#ifndef DT_DEVICE_DEVICE_H
#define DT_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "graph/graph.h"
#include "ptx/ptx.h"
#include "ptx/tensormap.h"
#include "softgpu/record.h"

/* ---- devices (device.c, symbols.c) --------------------------------------------------------------------------- */
struct dev_device;

struct dev_info {
    bool soft; /* the software device; else a GPU */
    char name[128], arch[16] /* "sm_90" */, model[16] /* soft: "h200", else "" */;
    unsigned sms, cc_major, cc_minor, max_threads_sm, max_blocks_sm, regs_sm, shared_sm, shared_block,
        shared_block_optin;
    unsigned shared_reserved, l2_bytes;
    /* 2: the L2 has two halves, and a line may be kept in both; soft: of the model, else by compute capability
     * (device.c) */
    unsigned l2_halves;
    /* "mig": a slice of a GPU; "mps": its contexts are an MPS server's, and `sms` is the part that we get; else "" */
    char sharing[8];
    int driver_version; /* 13000 */
};

/* What documents call it. */
static inline const char *dev_kind(const struct dev_info *i) { return i->soft ? "soft" : "cuda"; }

/* spec: "auto", "cuda", "cuda:N", "soft", "soft:MODEL" (docs/CONTRACT.md §5). auto: a real GPU if one answers, else
 * soft. DT_E_NO_DEVICE. */
int dev_open(const char *spec, struct dev_device **ret, struct dt_err *e);
/* The same. figures: of the software device's timing models, in the form of DOVETAIL_SOFTGPU_FIGURES and in its place;
 * NULL: what that says. They are read when the process opens the software device for the first time. DT_E_NO_DEVICE
 * also when the device does not take them; it may then be opened with others. */
int dev_open_figures(const char *spec, const char *figures, struct dev_device **ret, struct dt_err *e);
struct dev_device *dev_close(struct dev_device *d);
const struct dev_info *dev_info(const struct dev_device *d);
/* All devices this machine offers, for `dovetail devices`: calls fn for each. Does not keep them open. */
int dev_list(void (*fn)(const char *spec, const struct dev_info *i, void *user), void *user, struct dt_err *e);

/* Wall-clock limit of one kernel, milliseconds (0: none; default 60000, or DOVETAIL_KERNEL_TIMEOUT_MS). The software
 * device stops the kernel, on a busy machine when it had as much CPU time, and with the default deadline not before a
 * limit of instructions (dev_set_limit) would do so; a real one cannot: dev_sync gives DT_E_TIMEOUT, every later call
 * too, nothing is freed, and the process must end without waiting (_exit): the driver then takes the kernel off the
 * device, and another process can use it. */
void dev_set_deadline(struct dev_device *d, unsigned ms);
/* Software device only (no effect on a real one): thread-instructions of each later launch, 0: any number. One that
 * needs more is DT_E_TIMEOUT, on every machine alike. */
void dev_set_limit(struct dev_device *d, uint64_t instructions);
/* Software device only: false: nobody asks what later launches cost, and they run faster. */
void dev_set_follow(struct dev_device *d, bool on);
bool dev_hung(const struct dev_device *d); /* that has happened; false for NULL */
/* After a fault every call fails: drop the context and make a new one. Memory, modules and runs made before are gone;
 * freeing them is allowed and does nothing. */
int dev_reset(struct dev_device *d, struct dt_err *e);

/* ---- compilers (nvrtc.c, nvjitlink.c) ------------------------------------------------------------------------ */
#define DEV_SOURCE_NAME "kernel.cu" /* what the compiler's log, and .file of its PTX, call the source */
/* CUDA C++ to PTX for "sm_90" (compute_90). Options are allow-listed; the compiler runs in a child process with a
 * deadline. DT_E_COMPILE with the log in e->log; DT_E_NO_COMPILER; DT_E_TIMEOUT. *ret_ptx: caller frees. */
int dev_compile_cuda(const char *source, size_t len, const char *const *option, unsigned noption, const char *arch,
                     unsigned timeout_ms, char **ret_ptx, size_t *ret_len, struct dt_err *e);
/* The same with debug information in it (ptx/dwarf.h): for names and types, not to be run. */
int dev_compile_debug(const char *source, size_t len, const char *const *option, unsigned noption, const char *arch,
                      unsigned timeout_ms, char **ret_ptx, size_t *ret_len, struct dt_err *e);

struct dev_resources { /* of one entry */
    uint32_t registers, shared_static, spill_bytes, stack_bytes;
    bool estimated; /* ptxas was not at hand: from liveness */
};
/* Assemble PTX with nvJitLink for `arch` and read each entry's resources off its verbose output. DT_E_PTX with the
 * assembler's words when it refuses; DT_E_NO_COMPILER when nvJitLink is missing. *ret_cubin (may be NULL) caller
 * frees. */
int dev_assemble(const char *ptx, size_t len, const char *arch, void **ret_cubin, size_t *ret_len, struct dt_err *e);
/* The same code with line tables (machine.h); resources of the same text then cost no second assembly. */
int dev_assemble_lines(const char *ptx, size_t len, const char *arch, void **ret_cubin, size_t *ret_len,
                       struct dt_err *e);
int dev_resources(const char *ptx, size_t len, const char *entry, const char *arch, struct dev_resources *ret,
                  struct dt_err *e); /* falls back to estimate (ret->estimated) */
/* Between jobs of assembling, a process waits for the next one (child.c): end it. The next job starts another. */
void dev_compilers_rest(void);
/* Around a copy of the process that uses the software device, too (base/aside.h). Before it is made: memory that both
 * would only copy goes. In it: compilers that wait are the other one's. */
void dev_aside(struct dev_device *d);
int dev_aside_begun(struct dev_device *d, struct dt_err *e); /* software device only */

/* The version of the assembler that made the machine code, as the code itself says: "13.0.88". False: it does not say.
 */
bool dev_assembler_of(const void *cubin, size_t n, char version[32]);
/* carried.c: does the machine code that a plan carries of a module that it changed run here? 1: yes, since the
 * assembler here makes the same code; or there is no assembler, and the driver takes the carried code; or the device is
 * the software device, which executes PTX. 0: no, and `why` gives the reason; *ret (free()) is the code that the
 * assembler here makes, NULL: there is no assembler. */
int dev_carried(struct dev_device *d, const struct dt_module *m, void **ret, size_t *ret_len, struct dt_str *why,
                struct dt_err *e);

/* ---- arithmetic as the machine does it (identity.c, contract.c) ---------------------------------------------- */
/* PTX leaves an add, sub or mul of floating point without a rounding modifier open to contraction by ptxas; a mul with
 * .rn is never contracted. Put it on all of a function (how many were changed), on one instruction. */
unsigned dev_round_muls(struct ptx_function *f);
bool dev_round_mul(struct ptx_inst *i);
enum dev_identity { DEV_IDENTICAL, DEV_OPEN, DEV_CONTRACTED, DEV_UNKNOWN };
/* Is `entry` of the module (NULL: all of it), printed with .rn, the same machine code? OPEN: no open product reaches an
 * open sum in it, so it stays as it is, without .rn. UNKNOWN: there is no nvJitLink. */
enum dev_identity dev_identity(const struct ptx_module *m, const char *entry, const char *arch);
/* The same of all of m, whose text is `ptx`, so that its code is at hand if it was assembled before. */
enum dev_identity dev_identity_of_text(const struct ptx_module *m, const char *ptx, size_t len, const char *arch);
/* The entry with its contractions written out in such a way that its machine code is the same, as a module of its own.
 * NULL: no such form was found. */
struct ptx_module *dev_explicit(const struct ptx_module *m, const char *entry, const char *arch);
/* The whole module, whose text is `ptx`, with every entry that ptxas contracts in explicit form, and the same machine
 * code. NULL: there is nothing to do, or no such form was found. */
struct ptx_module *dev_explicit_module(const struct ptx_module *m, const char *ptx, size_t len, const char *arch);
/* Both cubins have the same bytes in every .text section. */
bool dev_same_code(const void *a, size_t na, const void *b, size_t nb);

const char *dev_nvrtc_version(void);     /* "13.0" or NULL */
const char *dev_nvjitlink_version(void); /* "13.0" or NULL */
/* The same with the build behind it, which differs with the library's contents: "13.0-65be0db342ad51a0". */
const char *dev_nvrtc_build(void);
const char *dev_nvjitlink_build(void);
/* Which build of the driver is open: "580.65.06-1f2e3d4c5b6a7988"; of the software device its build id. */
void dev_driver_build(const struct dev_device *d, char *out, size_t n);
/* What a confined process must keep, so that it can start compilers: files to execute and read (the compiler's program,
 * the loader, libraries), and folders to read (headers). */
void dev_compiler_paths(void (*fn)(const char *path, bool folder, void *user), void *user);

/* The module with random delays at the head of every entry (delay.c). Caller frees; NULL: memory. */
char *dev_delayed_ptx(const char *ptx);

/* ---- a graph made ready (prog.c) ----------------------------------------------------------------------------- */
struct dev_step { /* one launch of the graph, checked against its entry */
    const struct dt_launch *launch;
    const struct ptx_function *entry; /* NULL for memset and copy */
    /* the entry as the document has it; `entry` may have contractions written out (contract.c) */
    const struct ptx_function *posted;
    struct dev_resources res;
    uint32_t param_total;         /* bytes of the parameter block */
    const uint32_t *param_offset; /* per argument */
    uint32_t blocks, threads;     /* grid and block products */
    unsigned blocks_per_sm;       /* occupancy on this device; >= 1 */
    uint32_t wave;                /* blocks that the device holds at once */
    const char *occupancy_limit;
};
struct dev_prog {
    struct dt_arena arena;
    const struct dt_graph *graph; /* borrowed */
    struct dev_module {
        const char *ptx; /* text, NUL-terminated */
        size_t len;
        struct ptx_module *ir;
        const char *digest;    /* "sha256:…" of the text */
        struct dev_unit *unit; /* owns text and ir; programs made from each other share it */
        const void *cubin;     /* that the document carries, borrowed from the graph; NULL: none */
        size_t cubin_len;
    } * module;
    struct dev_step *step; /* graph->nlaunch */
    uint64_t l2_bytes;     /* of the device it was made for */
};
typedef void (*dev_progress)(const char *stage, const char *message, unsigned done, unsigned of, void *user);

/* Compile what is CUDA, parse and verify all, find entries, check argument counts and sizes, geometry, shared memory,
 * offsets. */
int dev_prog_new(struct dev_device *d, const struct dt_graph *g, dev_progress fn, void *user, struct dev_prog **ret,
                 struct dt_err *e);
/* The same, where `base` (may be NULL) is a program on the same device: a module with the text of one of base's is not
 * parsed, verified and assembled again, and a launch with entry and geometry of one of base's is not looked up again.
 * Neither needs to outlive the other. */
int dev_prog_derive(struct dev_device *d, const struct dt_graph *g, const struct dev_prog *base, dev_progress fn,
                    void *user, struct dev_prog **ret, struct dt_err *e);
struct dev_prog *dev_prog_free(struct dev_prog *p);

/* ---- memory and launches, for the recorder and for tests ------------------------------------------------------ */
typedef uint64_t dev_ptr;
int dev_alloc(struct dev_device *d, uint64_t bytes, dev_ptr *ret, struct dt_err *e);
void dev_free(struct dev_device *d, dev_ptr p);
int dev_upload(struct dev_device *d, dev_ptr to, const void *from, uint64_t bytes, struct dt_err *e);
int dev_download(struct dev_device *d, void *to, dev_ptr from, uint64_t bytes, struct dt_err *e);
int dev_set(struct dev_device *d, dev_ptr to, uint8_t value, uint64_t bytes, struct dt_err *e);

struct dev_module_handle; /* a loaded module */
/* On a real device as machine code by nvJitLink, and by the driver's compiler where that does not work (image.c). */
int dev_module_load(struct dev_device *d, const char *ptx, size_t len, struct dev_module_handle **ret,
                    struct dt_err *e);
/* A program's module. One that carries machine code is not compiled by the driver: it is what nvJitLink makes here,
 * else what is carried. */
int dev_module_load_of(struct dev_device *d, const struct dev_module *m, struct dev_module_handle **ret,
                       struct dt_err *e);
/* by the driver's compiler */
int dev_module_load_ptx(struct dev_device *d, const char *ptx, size_t len, struct dev_module_handle **ret,
                        struct dt_err *e);
bool dev_module_is_cubin(const struct dev_module_handle *m);
void dev_module_unload(struct dev_device *d, struct dev_module_handle *m);
int dev_module_variable(struct dev_device *d, struct dev_module_handle *m, const char *name, dev_ptr *ret,
                        uint64_t *ret_bytes, struct dt_err *e);
/* One launch on the default stream; params is the parameter block as PTX lays it out. Asynchronous. */
int dev_launch(struct dev_device *d, struct dev_module_handle *m, const char *entry, const uint32_t grid[3],
               const uint32_t block[3], const uint32_t cluster[3], uint32_t shared, const void *params, size_t nparams,
               struct dt_err *e);
/* Wait; a fault of the device becomes DT_E_BOUNDS, DT_E_TRAP, DT_E_DEADLOCK, DT_E_RACE, … with kernel, block, thread,
 * line. */
int dev_sync(struct dev_device *d, struct dt_err *e);
/* Software device only (no effect on a real one): block order seed (0: in order) and race check for later launches. */
void dev_set_schedule(struct dev_device *d, uint64_t seed, bool race_check);
/* May kernels of later launches print? Software device only, where it goes to stdout as the launch ends. Off at first:
 * what is analysed and verified runs many times. */
void dev_set_print(struct dev_device *d, bool on);
/* Checking modes of later launches (docs/CHECKING.md): "race,uninit,barrier,tell", "all", "none"; NULL: as
 * DOVETAIL_CHECK says. Before dev_run_new, so that it is known what has been written. DT_E_UNSUPPORTED on a real
 * device, DT_E_USAGE for another word. */
int dev_set_checks(struct dev_device *d, const char *modes, struct dt_err *e);
/* With "tell" among the modes a finding does not end the launch: the first race and the first uninitialised read of the
 * last one. `address` is one of a buffer, or of nothing that has a device address (shared memory: `place` names it). */
struct dev_finding {
    bool is; /* there was one */
    uint32_t block[3], thread[3], line /* in the PTX */, bytes;
    dev_ptr address;
    char place[160];
    bool has_other; /* a race's earlier access */
    uint32_t other_block[3], other_thread[3], other_line;
};
int dev_findings(struct dev_device *d, struct dev_finding *ret_race, struct dev_finding *ret_uninit, struct dt_err *e);

/* Software device only: later launches are recorded (softgpu/record.h); NULL: no more, never an error. `r` is borrowed
 * until then, or until dev_reset. */
bool dev_records(const struct dev_device *d);
int dev_record(struct dev_device *d, struct dovetail_recorder *r, struct dt_err *e);

/* Software device only: later launches add to line[k] how often the first instruction of line k of their PTX was
 * executed by threads, and issued by warps for some of their threads; n lines. NULL: no more, never an error. Borrowed
 * until then, or until dev_reset. */
int dev_count_lines(struct dev_device *d, struct dovetail_line *line, uint32_t n, struct dt_err *e);

/* ---- the order of a plan's launches (order.c) ------------------------------------------------------------------ */
struct dev_order { /* rows: what launch i follows is after[at[i]] … after[at[i + 1] - 1], earlier launches, each once */
    uint32_t *at, *after;
    uint8_t *early; /* by element of after: a programmatic edge. The launch may start before that one has ended */
};
int dev_order_new(const struct dt_graph *g, struct dev_order *ret); /* DT_E_NOMEM */
void dev_order_done(struct dev_order *o);
/* One of the orders that the edges allow, all taken as ordinary ones: nlaunch numbers. seed 0: as the document has
 * them. */
int dev_order_shuffle(const struct dt_graph *g, const struct dev_order *o, uint64_t seed, uint32_t *out);

/* ---- running a whole graph or plan (run.c) -------------------------------------------------------------------- */
struct dev_run; /* buffers in one arena with red zones, modules loaded: runs many times */
int dev_run_new(struct dev_device *d, const struct dev_prog *p, struct dev_run **ret, struct dt_err *e);
/* Only what the launches with wanted[launch] need is loaded; only those may run (dev_run_step). */
int dev_run_new_for(struct dev_device *d, const struct dev_prog *p, const bool *wanted, struct dev_run **ret,
                    struct dt_err *e);
struct dev_run *dev_run_free(struct dev_run *r);
/* Fill every buffer (weights and constants with their own seed, the rest with seed_add added); outputs and
 * intermediates get their fill, or `poison` bytes when poison >= 0. */
int dev_run_fill(struct dev_run *r, uint64_t seed_add, int poison, struct dt_err *e);
/* One buffer of it. */
int dev_run_fill_buffer(struct dev_run *r, uint32_t buffer, uint64_t seed_add, int poison, struct dt_err *e);
int dev_run_buffer(struct dev_run *r, uint32_t buffer, dev_ptr *ret_addr);
/* Software device only (no effect on a real one): `on`: later launches only read the buffer. One that writes it faults
 * (DT_E_BOUNDS), so that the race detector need not follow it. Copies of the host may write it. */
int dev_run_protect(struct dev_run *r, uint32_t buffer, bool on, struct dt_err *e);
/* The range that holds all buffers but the module variables, red zones included. */
void dev_run_arena(const struct dev_run *r, dev_ptr *ret_base, uint64_t *ret_bytes);
/* Appends where the bytes [at, at + bytes) of a stray access lie, by the nearest buffer: "8 bytes past the end of
 * buffer 'x' of 256 bytes". addr has the address of each buffer, 0: not there. */
void dev_where(const struct dt_graph *g, const dev_ptr *addr, dev_ptr at, uint64_t bytes, struct dt_str *out);
int dev_run_upload(struct dev_run *r, uint32_t buffer, const void *p, struct dt_err *e);
int dev_run_download(struct dev_run *r, uint32_t buffer, void *p, struct dt_err *e);
int dev_run_download_part(struct dev_run *r, uint32_t buffer, uint64_t from, uint64_t bytes, void *p, struct dt_err *e);
/* The parameter block of step i with this run's addresses, dev_step.param_total bytes. */
int dev_run_params(struct dev_run *r, uint32_t step, uint8_t *out);
/* Tensor maps (tensormap.c) of an argument whose buffer lies at `buffer`: the driver's 128 bytes; the fields; the
 * reason why no buffer can make the argument a tensor map, or NULL. */
int dev_tensor_map_encode(struct dev_device *d, const struct dt_arg *a, dev_ptr buffer, uint8_t out[128],
                          struct dt_err *e);
void dev_tensor_map_fields(const struct dt_arg *a, dev_ptr buffer, struct ptx_tensormap *ret);
const char *dev_tensor_map_check(const struct dt_arg *a);
/* Launch everything once, streams and `after` honoured, and wait. On the software device, which runs launches one after
 * the other, a seed of dev_set_schedule lets launches that nothing orders run side by side, block by block: other
 * streams, programmatic ones. */
int dev_run_once(struct dev_run *r, struct dt_err *e);
/* The same with launches first to first + n - 1 alone. */
int dev_run_part(struct dev_run *r, uint32_t first, uint32_t n, struct dt_err *e);
/* Launch one step, and wait. */
int dev_run_step(struct dev_run *r, uint32_t step, struct dt_err *e);
/* Software device only. Of each launch with block[n] (linear numbers, ascending) dev_run_step and dev_run_once run
 * these blocks alone, or, of one with clusters, these clusters. The launch costs as if all blocks had run, with these
 * distinct bytes. block NULL: all blocks. `some` has one entry a launch and is borrowed until the next call; NULL: all
 * blocks of all launches again. DT_E_UNSUPPORTED on a real device. */
struct dev_some {
    const uint32_t *block;
    uint32_t n;
    uint64_t unique_read_bytes, unique_write_bytes;
};
int dev_run_select(struct dev_run *r, const struct dev_some *some, struct dt_err *e);
/* Time of one pass as a CUDA graph: median over `reps` replays after warm-up. method: "modeled:h200" on the software
 * device, "measured:events" on a real one (CUPTI: later). ci95_us half width. Per-step times into step_us[nlaunch] if
 * not NULL. */
struct dev_time {
    double time_us, ci95_us;
    char method[32];
    unsigned launches;
};
int dev_run_time(struct dev_run *r, unsigned reps, struct dev_time *ret, double *step_us, struct dt_err *e);
/* After dev_run_time on the software device: when each step began and ended in the model, microseconds from the graph's
 * start. */
int dev_run_timeline(struct dev_run *r, double *start_us, double *end_us, struct dt_err *e);

/* What a launch costs in the software device's model: a function of kernel, geometry and, where control depends on
 * data, of that. Times of graphs that share launches come from their costs, without running any of them again. */
struct dev_cost {
    bool known;
    bool kept;             /* the caller's: it came from a file, not from a run */
    uint64_t instructions; /* of all threads; operations of matrices count as so many as take as long */
    uint64_t work[96];     /* the device's own; a version is part of it, and it may be kept in a file */
};
/* Can it be the cost of `step`? To be asked of what came from a file: only such a cost may be used. False on a real
 * device. */
bool dev_cost_fits(struct dev_device *d, const struct dev_prog *p, uint32_t step, const struct dev_cost *c);
/* Cost of `step`, which dev_run_step has just run. DT_E_UNSUPPORTED on a real device. */
int dev_run_cost(struct dev_run *r, uint32_t step, struct dev_cost *ret, struct dt_err *e);
/* Did all blocks of the launch that ran execute equally many instructions? False on a real device. */
bool dev_cost_even(struct dev_device *d, const struct dev_cost *c);
/* Bytes that the launch of `c` prefetches, and bytes of what it reads that earlier launches prefetched: as they are,
 * and as somebody knows them who did not run all of it, or not those launches. Software device only. */
struct dev_fetched {
    uint64_t prefetched, read;
};
int dev_cost_fetched(struct dev_device *d, const struct dev_cost *c, struct dev_fetched *ret, struct dt_err *e);
int dev_cost_set_fetched(struct dev_device *d, struct dev_cost *c, struct dev_fetched f, struct dt_err *e);
/* Ways in which modelled times may be wrong, by name (softgpu/model/doubts.def): 0 is the model as it is. NULL: there
 * are no more; on a real device there is none. *ret_moot: it says that something gains nothing. */
const char *dev_doubt(struct dev_device *d, unsigned doubt, bool *ret_moot);
/* The time that dev_run_time gives, from the costs of all launches (cost[nlaunch]; memsets and copies need none), or
 * would give under a doubt. made[nlaunch]: launches whose code is a rewrite's. Arrays but cost may be NULL. 0; 1: that
 * doubt makes no difference to these launches, and nothing is set; negative: error. */
int dev_model_time(struct dev_device *d, const struct dev_prog *p, const struct dev_cost *cost, const uint8_t *made,
                   unsigned doubt, struct dev_time *ret, double *step_us, double *start_us, double *end_us,
                   struct dt_err *e);
/* Blocks of a launch that run alike on neighbouring SMs: how many on all of them together, how many at once on one of
 * them (the mean between begin and end). */
struct dev_place {
    uint32_t launch, first_sm, last_sm;
    uint64_t blocks;
    double mean, begin_us, end_us;
};
/* Where the blocks of that timeline run, without doubts: *ret is free()d by the caller; *ret_n = 0 where it cannot be
 * said in few words. */
int dev_model_spans(struct dev_device *d, const struct dev_prog *p, const struct dev_cost *cost, struct dev_place **ret,
                    size_t *ret_n, struct dt_err *e);
/* us[k]: time_us under doubt k, for the doubts 0 … ndoubt - 1; negative: that doubt makes no difference. On all of the
 * device's CPU threads. */
int dev_model_doubts(struct dev_device *d, const struct dev_prog *p, const struct dev_cost *cost, const uint8_t *made,
                     unsigned ndoubt, double *us, struct dt_err *e);
/* What launch `step` asks of the device, in numbers without a time (softgpu/sg.h, sg_burden): to be added over
 * launches, less is better. *ret_in_flight: its threads in flight, more is better; 0: it is no kernel. */
enum { DEV_BURDENS = 13 };
int dev_burden(struct dev_device *d, const struct dev_prog *p, const struct dev_cost *cost, uint32_t step,
               double ret[DEV_BURDENS], double *ret_in_flight, struct dt_err *e);
/* The least time, by the model's rates, in which the n launches from `step` on can do their arithmetic and move so many
 * bytes (negative: those that each of them touches). DT_E_UNSUPPORTED on a real device. */
int dev_bound(struct dev_device *d, const struct dev_prog *p, const struct dev_cost *cost, uint32_t step, uint32_t n,
              double bytes, double *ret_us, struct dt_err *e);

#endif
