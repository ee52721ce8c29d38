/* The modelled time of every published measurement: a line of JSON for each row of a family.
 *
 * A row names a kernel of kernels/FAMILY.cu (this family's, by NVRTC; registers by nvJitLink for the row's GPU), its
 * geometry, arguments, and how its launches follow each other. The executor counts, all blocks or a sample of them
 * (struct sg_some); the timeline gives a time, on a model made of a row of devices.tsv. Equal launches on one GPU
 * are executed once. What is compared, and what the columns mean: README.md.
 *
 * With --sets, further times, for a fit of the model's constants: each line of standard input is the numbers of rows,
 * from 0 on, and a set of figures for every GPU ("0 7 8;sm_power=4,miss_to=1.2"; no numbers: all rows), and is answered
 * by a line of JSON, the times of these rows. Sets that differ only in constants of TIME (softgpu/constants.def) cost a
 * timeline a row; where those of EXEC change, all kernels are executed again. --constants prints the table of constants
 * instead.
 *
 * With --machine the slots of pipes are those of the machine code, where an assembler is at hand and its code is known
 * (device/machine.h), instead of weighted PTX.
 *
 * usage: published-model [--sets | --machine] DEVICES.tsv KERNELS FAMILY.tsv… | --constants
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/file.h"
#include "base/vec.h"
#include "device/device.h"
#include "device/machine.h"
#include "softgpu/sg.h"

enum {
    COLUMNS = 14, /* of a family */
    GPU_COLUMNS = 5,
    LAUNCHES = 10, /* that are measured together */
    BUFFERS = 26,  /* by letter */
    SAMPLE = 4,    /* blocks, where not all are executed: pairs of neighbours */
    PERIODS = 24,  /* of a chain: as many launches are put on the timeline */
    FEW = 6,       /* the same where it is asked under every doubt */
    MAX_FILE = 4 << 20,
};

enum { NAME, GPU, WORK, HELD, KERNEL, GRID, BLOCK, SHARED, ARGS, UNIQUE, HOW, US, PRINTED, SOURCE };

struct gpu {
    char *key, *arch;
    struct sg_model base, model; /* as devices.tsv has it, with the figures of a set */
};

struct code { /* a family's kernels for one virtual architecture */
    char *family, *target, *ptx;
    size_t len;
};

struct counted { /* a launch that has been executed */
    char *what;
    struct sg_stats stats;
    uint32_t shared;
};

struct resources {
    char *what;
    struct dev_resources res;
};

struct measured { /* a row, and its launches as they were executed */
    const char *family;
    char *col[COLUMNS];
    const struct gpu *gpu;
    struct sg_work work[LAUNCHES];
    unsigned n;
    double memory;
};

static struct dt_vec(struct gpu) gpus;
static struct dt_vec(struct measured) rows;
static struct dt_vec(struct code) codes;
static struct dt_vec(struct counted) counts;
static struct dt_vec(struct resources) resources;
static const char *file; /* that is read */
static unsigned line;
static bool by_machine; /* --machine */

static void die(const char *what, const char *more)
{
    fprintf(stderr, "published-model: %s:%u: %s%s%s\n", file, line, what, *more ? ": " : "", more);
    exit(1);
}

/* Splits in place; the number of parts. */
static unsigned split(char *text, char sep, char **part, unsigned most)
{
    unsigned n = 0;
    for (char *end; n < most; text = end + 1) {
        part[n++] = text;
        end = strchr(text, sep);
        if (!end)
            return n;
        *end = 0;
    }
    return most + 1;
}

/* The next line that is no comment; false: the end. */
static bool next_line(char **at, char **ret)
{
    while (*at && **at) {
        char *p = *at, *end = strchr(p, '\n');
        line++;
        if (end)
            *end = 0;
        *at = end ? end + 1 : NULL;
        if (*p && *p != '#') {
            *ret = p;
            return true;
        }
    }
    return false;
}

static char *whole(const char *path)
{
    struct dt_err e = {0};
    char *text;
    size_t n;
    file = path;
    line = 0;
    if (dt_read_file(path, MAX_FILE, &text, &n, &e))
        die("cannot be read", e.detail);
    return text;
}

/* ---- GPUs: key, base, arch, figures, source ---------------------------------------------------------------------- */
static void read_gpus(const char *path)
{
    char *at = whole(path), *row, *c[GPU_COLUMNS];
    if (!next_line(&at, &row))
        die("no rows", "");
    while (next_line(&at, &row)) {
        const char *wrong;
        struct gpu g = {0};
        if (split(row, '\t', c, GPU_COLUMNS) != GPU_COLUMNS)
            die("not five columns", row);
        const struct sg_model *base = sg_model_find(c[1]);
        if (!base)
            die("no such model", c[1]);
        if (!sg_model_with(base, c[3], &g.base, &wrong))
            die("figures", wrong);
        g.model = g.base;
        g.key = c[0];
        g.arch = c[2];
        if (!dt_push(&gpus, g))
            die("memory", "");
    }
}

static const struct gpu *find_gpu(const char *key)
{
    for (size_t i = 0; i < gpus.n; i++)
        if (!strcmp(gpus.p[i].key, key))
            return &gpus.p[i];
    die("no such device", key);
    return NULL;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
static const struct code *find_code(const char *kernels, const char *family, const struct gpu *g)
{
    const char *target = g->model.cc_major >= 9 || strlen(g->arch) > 5 ? "sm_90"
                         : !strcmp(g->arch, "sm_75")                   ? "sm_75"
                                                                       : "sm_80";
    for (size_t i = 0; i < codes.n; i++)
        if (!strcmp(codes.p[i].family, family) && !strcmp(codes.p[i].target, target))
            return &codes.p[i];
    struct code c = {.family = strdup(family), .target = strdup(target)};
    struct dt_err e = {0};
    char path[4096], *source, *options[] = {"--std=c++17", "-default-device"};
    size_t n;
    snprintf(path, sizeof path, "%s/%s.cu", kernels, family);
    if (dt_read_file(path, MAX_FILE, &source, &n, &e))
        die(path, e.detail);
    if (dev_compile_cuda(source, n, (const char *const *)options, 2, target, 120000, &c.ptx, &c.len, &e))
        die(path, e.log ? e.log : e.detail);
    free(source);
    if (!dt_push(&codes, c))
        die("memory", "");
    return &codes.p[codes.n - 1];
}

static struct dev_resources find_resources(const struct code *c, const char *entry, const char *arch)
{
    char *what;
    struct dt_err e = {0};
    struct resources r = {0};
    if (asprintf(&what, "%s %s %s", c->family, entry, arch) < 0)
        die("memory", "");
    for (size_t i = 0; i < resources.n; i++)
        if (!strcmp(resources.p[i].what, what)) {
            free(what);
            return resources.p[i].res;
        }
    r.what = what;
    if (dev_resources(c->ptx, c->len, entry, arch, &r.res, &e))
        die(entry, e.detail);
    if (!dt_push(&resources, r))
        die("memory", "");
    return r.res;
}

/* ---- one launch -------------------------------------------------------------------------------------------------- */
static void numbers(char *text, uint32_t ret[3])
{
    char *p[3];
    unsigned n = split(text, ',', p, 3);
    for (unsigned i = 0; i < 3; i++)
        ret[i] = i < n ? (uint32_t)strtoul(p[i], NULL, 10) : 1;
    if (n > 3 || !ret[0] || !ret[1] || !ret[2])
        die("geometry", text);
}

struct memory { /* of one row: buffers by letter */
    struct sg_device *d;
    uint64_t base[BUFFERS], bytes[BUFFERS];
};

static uint64_t pointer(struct memory *m, char letter, char *rest)
{
    char *end;
    unsigned k = (unsigned)(letter - 'A');
    uint64_t bytes = strtoull(rest, &end, 10), offset = *end == '@' ? strtoull(end + 1, &end, 10) : 0;
    if (*end || !bytes)
        die("a buffer's size", rest);
    if (!m->base[k]) {
        m->bytes[k] = bytes;
        /* zero, and there only where it is touched */
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED || sg_mem_register(m->d, p, bytes, false))
            die("too large for this host", rest);
        m->base[k] = (uint64_t)(uintptr_t)p;
    } else if (m->bytes[k] != bytes) {
        die("a buffer of two sizes", rest);
    }
    return m->base[k] + offset;
}

static void arguments(struct memory *m, const struct sg_kernel_info *info, char *text, uint8_t *params)
{
    char *part[64];
    unsigned n = *text && strcmp(text, "-") ? split(text, ',', part, 64) : 0;
    if (n != info->nparam)
        die(info->name, "another number of arguments");
    for (unsigned i = 0; i < n; i++) {
        char *value = part[i] + 2, kind = part[i][0];
        union {
            uint64_t u;
            uint32_t w;
            float f;
            double d;
        } v = {0};
        if (!kind || part[i][1] != ':')
            die("an argument", part[i]);
        if (kind >= 'A' && kind <= 'Z')
            v.u = pointer(m, kind, value);
        else if (kind == 'i')
            v.w = (uint32_t)strtol(value, NULL, 10);
        else if (kind == 'l')
            v.u = (uint64_t)strtoll(value, NULL, 10);
        else if (kind == 'f')
            v.f = strtof(value, NULL);
        else if (kind == 'd')
            v.d = strtod(value, NULL);
        else
            die("an argument's kind", part[i]);
        memcpy(params + info->param_offset[i], &v, info->param_bytes[i] < 8 ? info->param_bytes[i] : 8);
    }
}

/* With --machine: slots by what the assembler makes of the kernel (device/machine.h), if that is known. What is issued
 * under a predicate that holds for no thread goes to no pipe of memory: the executor counted the accesses. */
static void machine(const struct code *c, const struct gpu *g, const char *entry, const struct dovetail_line *count,
                    uint32_t many, uint32_t ran, const struct sg_work *w, struct sg_stats *st)
{
    static const uint8_t to[SASS_PIPES] = {
        [SASS_PIPE_FMA] = SG_PIPE_FMA,  [SASS_PIPE_HEAVY] = SG_PIPE_IMAD,   [SASS_PIPE_ALU] = SG_PIPE_ALU,
        [SASS_PIPE_HALF] = SG_PIPE_FMA, [SASS_PIPE_FP64] = SG_PIPE_FP64,    [SASS_PIPE_XU] = SG_PIPE_XU,
        [SASS_PIPE_LSU] = SG_PIPE_LSU,  [SASS_PIPE_TENSOR] = SG_PIPE_TENSOR};
    struct dev_machine_cost cost;
    struct dt_str why = {0};
    struct dt_err e = {0};
    double slots[SG_PIPES] = {0}, scale = (double)w->blocks / ran;
    if (!st->profile.alone_near)
        return;
    int r = dev_machine_launch(c->ptx, c->len, g->arch, entry, count, many, (uint64_t)ran * w->threads,
                               (uint64_t)ran * ((w->threads + 31) / 32), &cost, &why, &e);
    dt_str_done(&why);
    if (r)
        return;
    for (unsigned p = 0; p < SASS_PIPES; p++)
        slots[to[p]] += cost.pipe[p] * scale;
    double memory = (double)st->profile.slots[SG_PIPE_LSU];
    if (slots[SG_PIPE_LSU] > memory) {
        slots[SG_PIPE_NONE] += slots[SG_PIPE_LSU] - memory;
        slots[SG_PIPE_LSU] = memory;
    }
    for (unsigned p = 0; p < SG_PIPES; p++)
        st->profile.slots[p] = (uint64_t)(slots[p] + 0.5);
}

/* Executes the launch, if none like it has been, and fills w. */
static void launch(const struct gpu *g, const struct code *c, struct memory *m, struct sg_module *mod, char **col,
                   struct sg_work *w)
{
    struct dev_resources res = find_resources(c, col[KERNEL], g->arch);
    char *what;
    if (asprintf(&what, "%s %s %s %s %s %s %s %s %s", g->key, c->family, c->target, col[KERNEL], col[GRID], col[BLOCK],
                 col[SHARED], col[ARGS], col[UNIQUE]) < 0)
        die("memory", "");
    uint32_t grid[3], block[3];
    numbers(col[GRID], grid);
    numbers(col[BLOCK], block);
    *w = (struct sg_work){.kind = SG_WORK_KERNEL,
                          .blocks = grid[0] * grid[1] * grid[2],
                          .threads = block[0] * block[1] * block[2],
                          .registers = res.registers};
    struct sg_kernel *k = sg_module_kernel(mod, col[KERNEL]);
    if (!k)
        die("no such kernel", col[KERNEL]);
    const struct sg_kernel_info *info = sg_kernel_info(k);
    uint32_t dynamic = (uint32_t)strtoul(col[SHARED], NULL, 10);
    w->shared_bytes = info->shared_static + dynamic;
    w->cluster = info->cluster[0] ? info->cluster[0] * info->cluster[1] * info->cluster[2] : 1;
    uint8_t params[4096] = {0};
    if (info->param_total > sizeof params)
        die("parameters", col[KERNEL]);
    arguments(m, info, col[ARGS], params);
    for (size_t i = 0; i < counts.n; i++)
        if (!strcmp(counts.p[i].what, what)) {
            w->stats = counts.p[i].stats;
            free(what);
            return;
        }
    struct sg_launch l = {.kernel = k, .shared_dynamic = dynamic, .params = params};
    memcpy(l.grid, grid, sizeof grid);
    memcpy(l.block, block, sizeof block);
    uint32_t some[SAMPLE];
    if (strcmp(col[UNIQUE], "-")) {
        char *end;
        l.some.unique_read_bytes = strtoull(col[UNIQUE], &end, 10);
        if (*end != ';')
            die("unique", col[UNIQUE]);
        l.some.unique_write_bytes = strtoull(end + 1, &end, 10);
        l.some.n = w->blocks < SAMPLE ? w->blocks : SAMPLE;
        for (uint32_t i = 0; i < l.some.n; i++)
            /* neighbours, at no end of a row of the grid */
            some[i] = w->blocks < 2 * SAMPLE ? i : (uint32_t)((uint64_t)w->blocks * (i < 2 ? 1 : 4) / 7) + i % 2;
        l.some.block = some;
    }
    struct counted done = {.what = what};
    struct sg_fault fault;
    uint32_t many = by_machine ? dev_machine_nline(c->ptx, c->len) : 0;
    struct dovetail_line *count = calloc(many + 1, sizeof *count);
    if (!count)
        die("memory", "");
    l.line = many ? count : NULL;
    l.nline = many;
    if (sg_execute(m->d, &l, &done.stats, &fault)) {
        char text[512];
        sg_fault_text(&fault, text, sizeof text);
        die(col[NAME], text);
    }
    if (many)
        machine(c, g, col[KERNEL], count, many, l.some.block ? l.some.n : w->blocks, w, &done.stats);
    free(count);
    w->stats = done.stats;
    if (!dt_push(&counts, done))
        die("memory", "");
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */
/* The time of what is measured: of the launches themselves (`once`, `cold`: of one pass), or the period of a chain;
 * under a doubt, if there is one, as code that a rewrite made. `stock`: what it is without. */
static double row_time(const struct sg_model *m, const struct sg_work *w, unsigned n, const char *how, double memory,
                       unsigned long most, const struct sg_doubt *doubt, double stock)
{
    double distinct = 0;
    for (unsigned i = 0; i < n; i++)
        distinct += (double)w[i].stats.unique_read_bytes + (double)w[i].stats.unique_write_bytes;
    distinct = memory < distinct ? memory : distinct;
    struct sg_work all[PERIODS * LAUNCHES];
    uint32_t before[PERIODS * LAUNCHES];
    bool early = !strncmp(how, "pdl-", 4);
    const char *kind = early ? how + 4 : how, *colon = strchr(kind, ':'), *bits = strchr(kind, '/');
    bool graph = !strncmp(kind, "graph", 5), chain = graph || !strncmp(kind, "stream", 6);
    if (!chain && strcmp(kind, "once") && strncmp(kind, "cold", 4))
        die("how", how);
    unsigned long times = colon ? strtoul(colon + 1, NULL, 10) : 1;
    unsigned periods = !chain ? 1 : times < most ? (unsigned)times : (unsigned)most, total = periods * n;
    const uint8_t one = 1;
    for (unsigned i = 0; i < total; i++) {
        all[i] = w[i % n];
        all[i].in_graph = graph || !chain;
        before[i] = i - 1;
        all[i].after = &before[i];
        all[i].nafter = i > 0;
        all[i].made = true;
        all[i].early = early && (!bits || bits[1 + i % n] == '1') ? &one : NULL;
    }
    if (doubt && !sg_doubt_matters(doubt, all, total))
        return stock;
    if (sg_timeline_of(m, all, total, distinct, doubt))
        die("the model refuses it", how);
    double end = all[total - 1].end_us;
    if (!chain || periods < 2)
        return end - all[0].start_us;
    unsigned from = periods / 2;
    return (end - all[from * n - 1].end_us) / (periods - from);
}

/* Executes its launches. */
static void execute(const char *kernels, struct measured *r)
{
    char **col = r->col;
    const struct gpu *g = r->gpu;
    const struct code *c = find_code(kernels, r->family, g);
    struct memory m = {0};
    struct sg_module *mod;
    struct dt_err e = {0};
    if (sg_device_new(&g->model, &m.d))
        die("memory", "");
    if (sg_module_load(m.d, c->ptx, c->len, &mod, &e))
        die(r->family, e.detail);
    static const int each[] = {KERNEL, GRID, BLOCK, SHARED, ARGS, UNIQUE};
    char *part[SOURCE + 1][LAUNCHES];
    unsigned n = 0;
    for (unsigned i = 0; i < sizeof each / sizeof *each; i++) {
        unsigned parts = split(strdup(col[each[i]]), '+', part[each[i]], LAUNCHES);
        if (parts > LAUNCHES || (i && parts != n && parts != 1))
            die("launches", col[NAME]);
        n = i ? n : parts;
        for (unsigned k = parts; k < n; k++)
            part[each[i]][k] = part[each[i]][0];
    }
    for (unsigned k = 0; k < n; k++) {
        char *one[COLUMNS];
        memcpy(one, col, sizeof one);
        for (unsigned i = 0; i < sizeof each / sizeof *each; i++)
            one[each[i]] = strdup(part[each[i]][k]);
        launch(g, c, &m, mod, one, &r->work[k]);
    }
    r->n = n;
    r->memory = 0;
    for (unsigned k = 0; k < BUFFERS; k++)
        r->memory += (double)m.bytes[k];
    sg_module_free(mod);
    for (unsigned k = 0; k < BUFFERS; k++)
        if (m.base[k]) {
            sg_mem_unregister(m.d, (void *)(uintptr_t)m.base[k]);
            munmap((void *)(uintptr_t)m.base[k], m.bytes[k]);
        }
    sg_device_free(m.d);
}

static double time_of(const struct measured *r)
{
    return row_time(&r->gpu->model, r->work, r->n, r->col[HOW], r->memory, PERIODS, NULL, 0);
}

/* The time as the model is, its range, and what a decision is made by (rewrite/plan/compare.c): under each doubt, where
 * something gains nothing, and where the row's code is a rewrite's; and what its launches ask for. */
static void doubts(const struct measured *r)
{
    const struct sg_model *m = &r->gpu->model;
    const struct sg_doubt *d;
    double us = row_time(m, r->work, r->n, r->col[HOW], r->memory, FEW, NULL, 0), low = us, high = us, moot = us,
           made = us;
    printf(", \"doubt_us\": [%.9g", us);
    for (unsigned i = 1; (d = sg_doubt_at(i)); i++) {
        double t = row_time(m, r->work, r->n, r->col[HOW], r->memory, FEW, d, us);
        low = t < low ? t : low;
        high = t > high ? t : high;
        if (d->made != 1)
            made = t;
        else if (d->late)
            moot = t;
        else
            printf(", %.9g", t);
    }
    printf("], \"moot_us\": %.9g, \"made_us\": %.9g, \"range_us\": [%.6g, %.6g]", moot, made, low, high);
    double burden[SG_BURDENS] = {0}, flight = 0;
    for (unsigned k = 0; k < r->n; k++) {
        double one[SG_BURDENS], mine;
        sg_burden(m, &r->work[k], one, &mine);
        for (unsigned i = 0; i < SG_BURDENS; i++)
            burden[i] += one[i];
        flight = !k || mine < flight ? mine : flight;
    }
    printf(", \"burden\": [");
    for (unsigned i = 0; i < SG_BURDENS; i++)
        printf("%s%.9g", i ? ", " : "", burden[i]);
    printf("], \"in_flight\": %.9g", flight);
}

static void row(const char *kernels, const char *family, char **col, bool doubted)
{
    struct measured r = {.family = family, .gpu = find_gpu(col[GPU])};
    memcpy(r.col, col, sizeof r.col);
    execute(kernels, &r);
    printf("{\"family\": \"%s\", \"name\": \"%s\", \"device\": \"%s\", \"work\": \"%s\", \"source\": \"%s\", "
           "\"kernel\": \"%s\", \"held\": %s, \"measured_us\": %s, \"modeled_us\": %.6g",
           family, col[NAME], col[GPU], col[WORK], col[SOURCE], col[KERNEL], strcmp(col[HELD], "1") ? "false" : "true",
           col[US], time_of(&r));
    if (doubted)
        doubts(&r);
    puts("}");
    fflush(stdout);
    if (!dt_push(&rows, r))
        die("memory", "");
}

/* ---- sets of constants ------------------------------------------------------------------------------------------- */
static void print_constants(void)
{
    struct sg_figure f;
    for (size_t i = 0; sg_model_figure(0, i, &f); i++)
        if (f.unit)
            printf("{\"name\": \"%s\", \"value\": %.6g, \"values\": %u, \"unit\": \"%s\", \"exec\": %s, \"low\": %g, "
                   "\"high\": %g, \"source\": \"%s\"}\n",
                   f.field, f.value, f.values, f.unit, f.exec ? "true" : "false", f.low, f.high, f.source);
}

/* Has any GPU's constants of EXEC become others than in `old`? They act while blocks are followed. */
static bool follows_anew(const struct sg_constants *old, const struct sg_constants *now)
{
#define SG_SAME_TIME(name) true
#define SG_SAME_EXEC(name) (old->name == now->name)
#define CONST(name, when, ...)                                                                                         \
    if (!SG_SAME_##when(name))                                                                                         \
        return true;
#define FIT(name, when, ...) CONST(name, when)
#include "softgpu/constants.def"
    return false;
}

static void answer(const char *kernels, char *text)
{
    char *numbers = text, *set = strchr(text, ';'), *end;
    if (!set)
        die("no ;", text);
    *set++ = 0;
    bool anew = false;
    const char *wrong;
    for (size_t i = 0; i < gpus.n; i++) {
        struct sg_constants old = gpus.p[i].model.k;
        if (!sg_model_with(&gpus.p[i].base, set, &gpus.p[i].model, &wrong))
            die("a set", wrong);
        anew |= follows_anew(&old, &gpus.p[i].model.k);
    }
    counts.n = anew ? 0 : counts.n;
    for (size_t i = 0; i < rows.n && anew; i++)
        execute(kernels, &rows.p[i]);
    bool all = !*numbers, first = true;
    for (size_t i = 0; all ? i < rows.n : *numbers != 0; i++) {
        size_t k = all ? i : strtoul(numbers, &end, 10);
        if (k >= rows.n || (!all && end == numbers))
            die("no such row", numbers);
        printf("%s%.9g", first ? "[" : ", ", time_of(&rows.p[k]));
        first = false;
        numbers = all ? numbers : end;
    }
    printf("]\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--constants"))
        return print_constants(), 0;
    bool sets = argc > 1 && !strcmp(argv[1], "--sets");
    by_machine = argc > 1 && !strcmp(argv[1], "--machine");
    argv += sets + by_machine;
    argc -= sets + by_machine;
    if (argc < 4)
        return fprintf(stderr, "usage: %s [--sets | --machine] DEVICES.tsv KERNELS FAMILY.tsv… | --constants\n",
                       argv[0]),
               2;
    read_gpus(argv[1]);
    for (int i = 3; i < argc; i++) {
        char *at = whole(argv[i]), *text, *col[COLUMNS];
        const char *name = strrchr(argv[i], '/');
        char *family = strdup(name ? name + 1 : argv[i]);
        family[strcspn(family, ".")] = 0;
        if (!next_line(&at, &text))
            die("no rows", "");
        while (next_line(&at, &text)) {
            if (split(text, '\t', col, COLUMNS) != COLUMNS)
                die("not fourteen columns", col[0]);
            row(argv[2], family, col, !sets);
        }
    }
    char *set = NULL;
    size_t room = 0;
    file = "a set";
    for (line = 1; sets && getline(&set, &room, stdin) > 0; line++) {
        set[strcspn(set, "\n")] = 0;
        answer(argv[2], set);
    }
    free(set);
    return 0;
}
