/* The modelled time of every published measurement: a line of JSON for each row of a family.
 *
 * A row names a kernel of kernels/FAMILY.cu (this family's, by NVRTC; registers by nvJitLink for the row's GPU), its
 * geometry, arguments, and how its launches follow each other. The executor counts, all blocks or a sample of them
 * (struct sg_some); the timeline gives a time, on a model made of a row of devices.tsv. Equal launches on one GPU
 * are executed once. What is compared, and what the columns mean: README.md.
 *
 * usage: published-model DEVICES.tsv KERNELS FAMILY.tsv…
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/file.h"
#include "base/vec.h"
#include "device/device.h"
#include "softgpu/sg.h"

enum {
    COLUMNS = 14, /* of a family */
    GPU_COLUMNS = 5,
    LAUNCHES = 10, /* that are measured together */
    BUFFERS = 26,  /* by letter */
    SAMPLE = 2,    /* blocks, where not all are executed */
    PERIODS = 24,  /* of a chain: as many launches are put on the timeline */
    MAX_FILE = 4 << 20,
};

enum { NAME, GPU, WORK, HELD, KERNEL, GRID, BLOCK, SHARED, ARGS, UNIQUE, HOW, US, PRINTED, SOURCE };

struct gpu {
    char *key, *arch;
    struct sg_model model;
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

static struct dt_vec(struct gpu) gpus;
static struct dt_vec(struct code) codes;
static struct dt_vec(struct counted) counts;
static struct dt_vec(struct resources) resources;
static const char *file; /* that is read */
static unsigned line;

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
        if (!sg_model_with(base, c[3], &g.model, &wrong))
            die("figures", wrong);
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
            some[i] = l.some.n < SAMPLE ? i : (uint32_t)((uint64_t)w->blocks * 4 / 7) + i;
        l.some.block = some;
    }
    struct counted done = {.what = what};
    struct sg_fault fault;
    if (sg_execute(m->d, &l, &done.stats, &fault)) {
        char text[512];
        sg_fault_text(&fault, text, sizeof text);
        die(col[NAME], text);
    }
    w->stats = done.stats;
    if (!dt_push(&counts, done))
        die("memory", "");
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */
/* The time of what is measured: of the launches themselves (`once`, `cold`: of one pass), or the period of a chain. */
static double row_time(const struct sg_model *m, const struct sg_work *w, unsigned n, const char *how, double memory)
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
    unsigned periods = !chain ? 1 : times < PERIODS ? (unsigned)times : PERIODS, total = periods * n;
    const uint8_t one = 1;
    for (unsigned i = 0; i < total; i++) {
        all[i] = w[i % n];
        all[i].in_graph = graph || !chain;
        before[i] = i - 1;
        all[i].after = &before[i];
        all[i].nafter = i > 0;
        all[i].early = early && (!bits || bits[1 + i % n] == '1') ? &one : NULL;
    }
    if (sg_timeline_of(m, all, total, distinct))
        die("the model refuses it", how);
    double end = all[total - 1].end_us;
    if (!chain || periods < 2)
        return end - all[0].start_us;
    unsigned from = periods / 2;
    return (end - all[from * n - 1].end_us) / (periods - from);
}

static void row(const char *kernels, const char *family, char **col)
{
    const struct gpu *g = find_gpu(col[GPU]);
    const struct code *c = find_code(kernels, family, g);
    struct memory m = {0};
    struct sg_module *mod;
    struct dt_err e = {0};
    struct sg_work w[LAUNCHES];
    if (sg_device_new(&g->model, &m.d))
        die("memory", "");
    if (sg_module_load(m.d, c->ptx, c->len, &mod, &e))
        die(family, e.detail);
    static const int each[] = {KERNEL, GRID, BLOCK, SHARED, ARGS, UNIQUE};
    char *part[SOURCE + 1][LAUNCHES];
    unsigned n = 0;
    for (unsigned i = 0; i < sizeof each / sizeof *each; i++) {
        unsigned parts = split(col[each[i]], '+', part[each[i]], LAUNCHES);
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
        launch(g, c, &m, mod, one, &w[k]);
    }
    double memory = 0;
    for (unsigned k = 0; k < BUFFERS; k++)
        memory += (double)m.bytes[k];
    printf("{\"family\": \"%s\", \"name\": \"%s\", \"device\": \"%s\", \"work\": \"%s\", \"source\": \"%s\", "
           "\"held\": %s, \"measured_us\": %s, \"modeled_us\": %.6g}\n",
           family, col[NAME], col[GPU], col[WORK], col[SOURCE], strcmp(col[HELD], "1") ? "false" : "true", col[US],
           row_time(&g->model, w, n, col[HOW], memory));
    fflush(stdout);
    sg_module_free(mod);
    for (unsigned k = 0; k < BUFFERS; k++)
        if (m.base[k]) {
            sg_mem_unregister(m.d, (void *)(uintptr_t)m.base[k]);
            munmap((void *)(uintptr_t)m.base[k], m.bytes[k]);
        }
    sg_device_free(m.d);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return fprintf(stderr, "usage: %s DEVICES.tsv KERNELS FAMILY.tsv…\n", argv[0]), 2;
    read_gpus(argv[1]);
    for (int i = 3; i < argc; i++) {
        char *at = whole(argv[i]), *text, *col[COLUMNS], family[64];
        const char *name = strrchr(argv[i], '/');
        snprintf(family, sizeof family, "%s", name ? name + 1 : argv[i]);
        family[strcspn(family, ".")] = 0;
        if (!next_line(&at, &text))
            die("no rows", "");
        while (next_line(&at, &text)) {
            if (split(text, '\t', col, COLUMNS) != COLUMNS)
                die("not fourteen columns", col[0]);
            row(argv[2], family, col);
        }
    }
    return 0;
}
