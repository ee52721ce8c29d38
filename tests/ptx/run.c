/* Runs the RUN cases of PTX files on the software device and compares every byte of the results.
 *
 *     run-ptx [--forms OUT] [--check LIST [--seeds N]] FILE-OR-FOLDER…
 *
 * With --check every case without FAULT also runs in these checking modes, N times (1) in shuffled orders, and must
 * give the same results.
 *
 * Directives are comments at the start of a line; other comments are ignored. A file may hold several cases; each
 * starts with RUN.
 *
 *     // RUN entry [grid=2,1,1] [block=32] [cluster=2,1,1] [shared=BYTES] [seed=N] [max=INSTRUCTIONS] [race]
 *            [check=MODE,MODE] [rough]
 *         race: conflicts between blocks; check=: the checking modes (docs/CHECKING.md); rough: not for --check, as the
 *         case does what they report, or depends on the order of threads
 *     // BUF name type values     the next argument: address of a buffer of its own
 *     // RAW name bytes           the same, nothing written yet
 *     // ARG type values          the next argument: a scalar, or up to 64 bytes by value
 *     // TEX name GEOM W[,H[,D]] TYPExN [WORD…] : values     the next argument: the handle of a texture of N channels
 *         GEOM: 1d 2d 3d a1d a2d cube acube, or mem (linear memory). Words: levels=N, linear, miplinear, norm, int (as
 *         integers), edge=wrap|clamp|mirror|border (one, or three), border=V,V,V,V (floats), bias=V, range=V,V,
 *         aniso=N, var=NAME (instead of an argument: bound to that variable). Values: level by level
 *     // SURF name GEOM W[,H[,D]] TYPExN [var=NAME] : values   the same, a surface
 *     // OUT name type [~TOLERANCE] values    what the buffer holds afterwards (BUFs without OUT may hold anything)
 *     // FAULT code [block=x,y,z] [thread=x,y,z] [at=MARK] [text=WORD] [kind=WORD] [other=x,y,z] [otherat=MARK]
 *         the launch fails; MARK: a comment on the faulting line; other: the thread of a race's earlier access;
 *         otherat: its line
 *
 * Types: u8 … u64, s8 … s64, f32, f64, f16, bf16, x16 (any 16 bits). Values: integers (0x…, negative), for floats also
 * decimals, inf, nan (the canonical one), bits as 0x…; `V*N` repeats, `iota*N` counts from 0. A tolerance is relative,
 * and absolute below 1 unless a colon follows it.
 * --forms OUT writes the forms of all instructions that stand, reachable, in entries with a case that passed and in
 * what these call: a line each, words as the printer orders them, a space, the kinds of operands (r register, i
 * constant, a memory, s special register, v variable, f function, L label, _ sink, t texture, V2 two in braces).
 * gen/forms.py
 * reads it. A line that ends in `\` goes on in the next comment line. Exit status: 0 when every case passed and there
 * was at least one.
 */
#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ptx/ptx.h"
#include "softgpu/sg.h"

enum { MAX_ARG = 32, MAX_TEXT = 8 << 20 };

struct buf {
    char name[64];
    uint64_t addr, bytes, handle; /* handle: of a texture or surface; 0: none, or a variable's */
};
struct run {
    const char *file, *text;
    struct sg_device *dev;
    struct sg_module *mod;
    char entry[128];
    struct sg_launch l;
    struct buf buf[MAX_ARG];
    unsigned nbuf, narg;
    uint8_t param[MAX_ARG][64];
    unsigned param_bytes[MAX_ARG];
    bool open, launched;
    struct sg_fault fault;
    int result;
    unsigned line, cases, failed, outs;
    bool bad;
    char (*passed)[128]; /* entries with a case that passed */
    unsigned npassed;
    uint64_t seed; /* for cases without one */
    unsigned checks;
};
static FILE *forms;

static void fail(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct run *r, const char *fmt, ...)
{
    va_list ap;
    printf("%s:%u: ", r->file, r->line);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    r->bad = true;
}

static unsigned type_bytes(const char *t) { return t[0] == 'x' || t[0] == 'b' ? 2 : (unsigned)atoi(t + 1) / 8; }

static uint64_t parse(const char *type, const char *v)
{
    bool hex = strstr(v, "0x") != NULL;
    if (!strcmp(type, "f32") && !hex) {
        float f = strtof(v, NULL);
        uint32_t u;
        memcpy(&u, &f, 4);
        return !strcmp(v, "nan") ? 0x7FFFFFFF : u;
    }
    if (!strcmp(type, "f64") && !hex) {
        double d = strtod(v, NULL);
        uint64_t u;
        memcpy(&u, &d, 8);
        return !strcmp(v, "nan") ? 0xFFF8000000000000 : u;
    }
    return v[0] == '-' ? 0 - strtoull(v + 1, NULL, 0) : strtoull(v, NULL, 0);
}

/* Values into `out`; the number of bytes, 0 on nonsense. */
static size_t values(const char *type, char *p, uint8_t *out, size_t cap)
{
    unsigned n = type_bytes(type);
    size_t at = 0;
    if (n != 1 && n != 2 && n != 4 && n != 8)
        return 0;
    for (char *save, *t = strtok_r(p, " \t", &save); t; t = strtok_r(NULL, " \t", &save)) {
        char *star = strchr(t, '*');
        unsigned long times = star ? strtoul(star + 1, NULL, 0) : 1;
        if (star)
            *star = 0;
        bool iota = !strcmp(t, "iota");
        uint64_t v = iota ? 0 : parse(type, t);
        for (; times--; v += iota) {
            if (at + n > cap)
                return 0;
            memcpy(out + at, &v, n);
            at += n;
        }
    }
    return at;
}

static void run_case(struct run *r)
{
    if (!r->open || r->launched)
        return;
    r->launched = true;
    struct sg_kernel *k = sg_module_kernel(r->mod, r->entry);
    if (!k) {
        fail(r, "no entry %s", r->entry);
        r->result = DT_E_NO_ENTRY;
        return;
    }
    const struct sg_kernel_info *i = sg_kernel_info(k);
    static uint8_t params[4096];
    memset(params, 0, sizeof params);
    if (i->nparam != r->narg)
        fail(r, "%s has %u parameters, %u given", r->entry, i->nparam, r->narg);
    for (unsigned a = 0; a < i->nparam && a < r->narg; a++) {
        if (i->param_bytes[a] != r->param_bytes[a])
            fail(r, "parameter %u of %s has %u bytes, %u given", a, r->entry, i->param_bytes[a], r->param_bytes[a]);
        else
            memcpy(params + i->param_offset[a], r->param[a], r->param_bytes[a]);
    }
    r->l.kernel = k;
    r->l.params = params;
    memset(&r->fault, 0, sizeof r->fault);
    r->result = r->bad ? DT_E_USAGE : sg_execute(r->dev, &r->l, NULL, &r->fault);
}

static void end_case(struct run *r)
{
    if (!r->open)
        return;
    run_case(r);
    if (r->result < 0 && !r->outs && !r->bad) {
        char t[1024];
        sg_fault_text(&r->fault, t, sizeof t);
        fail(r, "unexpected fault (%s): %s", dt_err_code(r->result), t);
    }
    if (!r->outs && !r->bad)
        fail(r, "a case without OUT or FAULT");
    for (unsigned b = 0; b < r->nbuf; b++) {
        if (r->buf[b].handle)
            sg_texture_remove(r->dev, r->buf[b].handle);
        sg_mem_free(r->dev, r->buf[b].addr);
    }
    r->cases++;
    r->failed += r->bad;
    bool ran = !r->bad && r->result != DT_E_UNSUPPORTED,
         known = r->npassed && !strcmp(r->passed[r->npassed - 1], r->entry);
    if (forms && ran && !known) {
        char(*more)[128] = realloc(r->passed, (r->npassed + 1) * sizeof *more);
        if (more) {
            r->passed = more;
            memcpy(more[r->npassed++], r->entry, sizeof *more);
        }
    }
    r->nbuf = r->narg = r->outs = 0;
    r->bad = r->open = r->launched = false;
}

static void triple(const char *s, uint32_t v[3])
{
    unsigned x = 0, y = 1, z = 1;
    sscanf(s, "%u,%u,%u", &x, &y, &z);
    v[0] = x;
    v[1] = y;
    v[2] = z;
}

static void begin(struct run *r, char *p)
{
    end_case(r);
    r->open = true;
    r->l = (struct sg_launch){.grid = {1, 1, 1}, .block = {1, 1, 1}, .seed = r->seed, .checks = r->checks};
    char *save, *t = strtok_r(p, " \t", &save);
    snprintf(r->entry, sizeof r->entry, "%s", t ? t : "");
    while ((t = strtok_r(NULL, " \t", &save)))
        if (!strncmp(t, "grid=", 5))
            triple(t + 5, r->l.grid);
        else if (!strncmp(t, "block=", 6))
            triple(t + 6, r->l.block);
        else if (!strncmp(t, "cluster=", 8))
            triple(t + 8, r->l.cluster);
        else if (!strncmp(t, "shared=", 7))
            r->l.shared_dynamic = (uint32_t)strtoul(t + 7, NULL, 0);
        else if (!strncmp(t, "seed=", 5))
            r->l.seed = strtoull(t + 5, NULL, 0);
        else if (!strncmp(t, "max=", 4))
            r->l.max_instructions = strtoull(t + 4, NULL, 0);
        else if (!strncmp(t, "check=", 6)) {
            unsigned bits;
            if (!sg_checks_parse(t + 6, &bits))
                fail(r, "what is %s?", t);
            else
                r->l.checks |= bits;
        } else if (!strcmp(t, "rough")) {
            ;
        } else if (!strcmp(t, "race"))
            r->l.checks |= SG_CHECK_BLOCKS;
        else
            fail(r, "what is %s?", t);
}

static uint8_t scratch[1 << 20];

static void argument(struct run *r, char *p, bool buffer)
{
    char name[64] = "", type[8] = "";
    int used = 0;
    if ((buffer ? sscanf(p, "%63s %7s %n", name, type, &used) != 2 : sscanf(p, "%7s %n", type, &used) != 1) ||
        r->narg == MAX_ARG) {
        fail(r, "bad argument");
        return;
    }
    size_t n = values(type, p + used, scratch, sizeof scratch);
    if (!n || (!buffer && n > sizeof r->param[0])) {
        fail(r, "bad values");
        return;
    }
    uint64_t v = 0;
    if (buffer) {
        struct buf *b = &r->buf[r->nbuf];
        *b = (struct buf){0};
        if (sg_mem_alloc(r->dev, n, &b->addr) < 0) {
            fail(r, "no memory");
            return;
        }
        r->nbuf++;
        memcpy((void *)(uintptr_t)b->addr, scratch, n);
        sg_mem_written(r->dev, b->addr, n);
        sg_mem_name(r->dev, b->addr, name);
        snprintf(b->name, sizeof b->name, "%s", name);
        b->bytes = n;
        v = b->addr;
        n = 8;
    } else {
        memcpy(r->param[r->narg], scratch, n);
    }
    if (buffer)
        memcpy(r->param[r->narg], &v, 8);
    r->param_bytes[r->narg++] = (unsigned)n;
}

/* A buffer of which nothing is written. */
static void raw(struct run *r, char *p)
{
    struct buf *b = &r->buf[r->nbuf];
    unsigned long bytes = 0;
    *b = (struct buf){0};
    if (sscanf(p, "%63s %lu", b->name, &bytes) != 2 || r->narg == MAX_ARG ||
        sg_mem_alloc(r->dev, bytes, &b->addr) < 0) {
        fail(r, "bad argument");
        return;
    }
    sg_mem_name(r->dev, b->addr, b->name);
    b->bytes = bytes;
    r->nbuf++;
    memcpy(r->param[r->narg], &b->addr, 8);
    r->param_bytes[r->narg++] = 8;
}

/* ---- textures and surfaces */
static bool texel_of(const char *t, struct sg_texture *x)
{
    static const char *const name[] = {"u8", "u16", "u32", "s8", "s16", "s32", "f16", "f32"};
    size_t n = strcspn(t, "x");
    x->channels = (unsigned)atoi(t[n] ? t + n + 1 : "1");
    for (unsigned k = 0; k < 8; k++)
        if (strlen(name[k]) == n && !strncmp(name[k], t, n)) {
            x->texel = (enum sg_texel)k;
            return x->channels == 1 || x->channels == 2 || x->channels == 4;
        }
    return false;
}

static bool geometry(const char *t, struct sg_texture *x)
{
    x->memory = !strcmp(t, "mem");
    x->cube = strstr(t, "cube") != NULL;
    x->layered = *t == 'a';
    const char *d = strpbrk(t, "123");
    x->dims = x->memory ? 1 : x->cube ? 2 : d ? (unsigned)(*d - '0') : 0;
    return x->dims != 0;
}

static enum sg_edge edge_of(const char *t)
{
    return *t == 'w' ? SG_EDGE_WRAP : *t == 'm' ? SG_EDGE_MIRROR : *t == 'b' ? SG_EDGE_BORDER : SG_EDGE_CLAMP;
}

/* One word behind the type; false: it is none. */
static bool texture_word(const char *t, struct sg_texture *x, char var[64])
{
    struct sg_sampler *s = &x->sampler;
    float f[4] = {0};
    if (!strncmp(t, "levels=", 7))
        x->nlevel = (unsigned)atoi(t + 7);
    else if (!strcmp(t, "linear") || !strcmp(t, "miplinear"))
        *(*t == 'l' ? &s->linear : &s->mip_linear) = true;
    else if (!strcmp(t, "norm"))
        s->normalized = true;
    else if (!strcmp(t, "int"))
        x->integers = true;
    else if (!strncmp(t, "edge=", 5))
        for (unsigned k = 0; k < 3; k++) {
            const char *comma = strchr(t + 5, ',');
            s->edge[k] = edge_of(t + 5);
            t = comma ? comma + 1 - 5 : t;
        }
    else if (!strncmp(t, "border=", 7)) {
        sscanf(t + 7, "%f,%f,%f,%f", &f[0], &f[1], &f[2], &f[3]);
        memcpy(s->border, f, sizeof f);
    } else if (!strncmp(t, "bias=", 5))
        s->bias = strtof(t + 5, NULL);
    else if (!strncmp(t, "range=", 6))
        sscanf(t + 6, "%f,%f", &s->least, &s->most);
    else if (!strncmp(t, "aniso=", 6))
        s->anisotropy = (unsigned)atoi(t + 6);
    else if (!strncmp(t, "var=", 4))
        snprintf(var, 64, "%.63s", t + 4);
    else
        return false;
    return true;
}

static uint32_t half_of(uint32_t n, unsigned level) { return n >> level ? n >> level : 1; }

/* Where its levels lie, one behind the other; the bytes of all. */
static uint64_t levels_of(struct sg_texture *x, const uint32_t size[3], uint64_t at)
{
    uint64_t from = at;
    for (unsigned k = 0; k < x->nlevel && k < SG_LEVELS; k++) {
        struct sg_level *l = &x->level[k];
        l->width = half_of(size[0], k);
        l->height = x->dims > 1 ? half_of(size[1], k) : 1;
        l->depth = x->cube || x->layered ? size[x->dims] : x->dims > 2 ? half_of(size[2], k) : 1;
        l->pitch = (uint64_t)l->width * x->channels * sg_texel_bytes(x->texel);
        l->slice = l->pitch * l->height;
        l->base = at;
        at += l->slice * l->depth;
    }
    return at - from;
}

static void texture(struct run *r, char *p, bool surface)
{
    struct sg_texture x = {.kind = surface ? SG_REF_SURFACE : SG_REF_TEXTURE, .bound = true, .nlevel = 1};
    struct buf *b = &r->buf[r->nbuf];
    char geom[8] = "", sizes[32] = "", type[8] = "", var[64] = "", *colon = strchr(p, ':');
    uint32_t size[3];
    int used = 0;
    *b = (struct buf){0};
    x.sampler = (struct sg_sampler){.edge = {SG_EDGE_CLAMP, SG_EDGE_CLAMP, SG_EDGE_CLAMP}, .most = SG_LEVELS};
    if (!colon || r->nbuf == MAX_ARG || r->narg == MAX_ARG ||
        sscanf(p, "%63s %7s %31s %7s %n", b->name, geom, sizes, type, &used) != 4 || !geometry(geom, &x) ||
        !texel_of(type, &x)) {
        fail(r, "bad texture");
        return;
    }
    *colon = 0;
    for (char *save, *t = strtok_r(p + used, " \t", &save); t; t = strtok_r(NULL, " \t", &save))
        if (!texture_word(t, &x, var))
            fail(r, "what is %s?", t);
    triple(sizes, size);
    type[strcspn(type, "x")] = 0;
    size_t n = values(type, colon + 1, scratch, sizeof scratch);
    if (!n || n != levels_of(&x, size, 0) || sg_mem_alloc(r->dev, n, &b->addr) < 0) {
        fail(r, "a texture of %llu bytes with values of %zu", (unsigned long long)levels_of(&x, size, 0), n);
        return;
    }
    b->bytes = n;
    r->nbuf++;
    levels_of(&x, size, b->addr);
    memcpy((void *)(uintptr_t)b->addr, scratch, n);
    sg_mem_written(r->dev, b->addr, n);
    sg_mem_name(r->dev, b->addr, b->name);
    if (*var) {
        uint64_t handle;
        if (sg_module_reference(r->mod, var, x.kind, &handle) < 0 || sg_texture_set(r->dev, handle, &x) < 0)
            fail(r, "no variable %s", var);
    } else if (sg_texture_add(r->dev, &x, &b->handle) < 0) {
        fail(r, "no memory");
    } else {
        memcpy(r->param[r->narg], &b->handle, 8);
        r->param_bytes[r->narg++] = 8;
    }
}

static double as_double(const char *type, const uint8_t *p)
{
    if (!strcmp(type, "f64")) {
        double d;
        memcpy(&d, p, 8);
        return d;
    }
    if (type_bytes(type) == 2) {
        unsigned h = p[0] | p[1] << 8, mbits = *type == 'b' ? 7 : 10, m = h & ((1u << mbits) - 1),
                 e = (h & 0x7FFF) >> mbits;
        int bias = *type == 'b' ? 127 : 15;
        double v = e == 2u * (unsigned)bias + 1 ? (m ? NAN : INFINITY)
                                                : ldexp(e ? m + (1 << mbits) : m, (e ? (int)e : 1) - bias - (int)mbits);
        return h & 0x8000 ? -v : v;
    }
    float f;
    memcpy(&f, p, 4);
    return f;
}

static void expect(struct run *r, char *p)
{
    run_case(r);
    r->outs++;
    char name[64], type[8];
    int used = 0;
    if (r->result < 0 && !r->bad) {
        char t[1024];
        sg_fault_text(&r->fault, t, sizeof t);
        fail(r, "unexpected fault (%s): %s", dt_err_code(r->result), t);
        return;
    }
    if (sscanf(p, "%63s %7s %n", name, type, &used) != 2) {
        fail(r, "bad OUT");
        return;
    }
    p += used;
    double tol = 0;
    bool relative = false;
    if (*p == '~') {
        tol = strtod(p + 1, &p);
        relative = *p == ':';
        p += relative;
    }
    struct buf *b = NULL;
    for (unsigned i = 0; i < r->nbuf; i++)
        if (!strcmp(r->buf[i].name, name))
            b = &r->buf[i];
    size_t n = values(type, p, scratch, sizeof scratch), step = type_bytes(type);
    if (!b || n != b->bytes) {
        fail(r, "OUT %s has %zu bytes, the buffer %llu", name, n, b ? (unsigned long long)b->bytes : 0ull);
        return;
    }
    const uint8_t *got = (const uint8_t *)(uintptr_t)b->addr;
    unsigned shown = 0;
    for (size_t i = 0; i < n; i += step) {
        bool same = !memcmp(got + i, scratch + i, step);
        if (!same && tol > 0) {
            double x = as_double(type, got + i), y = as_double(type, scratch + i);
            same = fabs(x - y) <= tol * (relative ? fabs(y) : fmax(1, fabs(y)));
        }
        if (!same && shown++ < 8) {
            uint64_t x = 0, y = 0;
            memcpy(&x, got + i, step);
            memcpy(&y, scratch + i, step);
            fail(r, "%s: %s[%zu] is 0x%llx, not 0x%llx", r->entry, name, i / step, (unsigned long long)x,
                 (unsigned long long)y);
        }
    }
}

/* The number of the line with comment `// mark`. */
static unsigned marked(const struct run *r, const char *mark)
{
    unsigned line = 1;
    char want[80];
    size_t n = (size_t)snprintf(want, sizeof want, "// %s", mark);
    for (const char *p = r->text; *p; p++) {
        if (*p == '\n')
            line++;
        else if (!strncmp(p, want, n) && (p[n] == '\n' || p[n] == 0))
            return line;
    }
    return 0;
}

static void expect_fault(struct run *r, char *p)
{
    run_case(r);
    r->outs++;
    char *save, *t = strtok_r(p, " \t", &save), said[1024];
    uint32_t v[3];
    sg_fault_text(&r->fault, said, sizeof said);
    if (!t || r->result >= 0 || strcmp(dt_err_code(r->result), t)) {
        fail(r, "%s: the fault should be %s, is %s: %s", r->entry, t, r->result < 0 ? dt_err_code(r->result) : "none",
             said);
        return;
    }
    while ((t = strtok_r(NULL, " \t", &save))) {
        if (!strncmp(t, "block=", 6) || !strncmp(t, "thread=", 7) || !strncmp(t, "other=", 6)) {
            const uint32_t *is = *t == 'b' ? r->fault.block : *t == 'o' ? r->fault.other_thread : r->fault.thread;
            v[1] = v[2] = 0;
            char buf[64];
            snprintf(buf, sizeof buf, "%s,0,0", strchr(t, '=') + 1);
            triple(buf, v);
            if (memcmp(is, v, sizeof v) || (*t == 'o' && !r->fault.has_other))
                fail(r, "not %s: %s", t, said);
        } else if (!strncmp(t, "at=", 3)) {
            if (marked(r, t + 3) != r->fault.line)
                fail(r, "not on line %u: %s", marked(r, t + 3), said);
        } else if (!strncmp(t, "otherat=", 8)) {
            if (marked(r, t + 8) != r->fault.other_line)
                fail(r, "the other one is not on line %u but %u: %s", marked(r, t + 8), r->fault.other_line, said);
        } else if (!strncmp(t, "kind=", 5)) {
            if (!r->fault.kind || strcmp(r->fault.kind, t + 5))
                fail(r, "not %s: %s", t, said);
        } else if (!strncmp(t, "text=", 5)) {
            if (!strstr(r->fault.text, t + 5))
                fail(r, "no %s in: %s", t + 5, said);
        } else {
            fail(r, "what is %s?", t);
        }
    }
}

static bool directive(struct run *r, char *p)
{
    static const char *const word[] = {"RUN ", "BUF ", "ARG ", "OUT ", "FAULT ", "RAW ", "TEX ", "SURF "};
    for (unsigned i = 0; i < 8; i++) {
        size_t n = strlen(word[i]);
        if (strncmp(p, word[i], n))
            continue;
        p += n;
        if (i == 0)
            begin(r, p);
        else if (!r->open)
            fail(r, "before any RUN");
        else if (i == 5)
            raw(r, p);
        else if (i < 3)
            argument(r, p, i == 1);
        else if (i == 3)
            expect(r, p);
        else if (i > 5)
            texture(r, p, i == 7);
        else
            expect_fault(r, p);
        return true;
    }
    return false;
}

/* ---- forms */
static void kinds(FILE *out, const struct ptx_opnd *o, unsigned n)
{
    static const char letter[] = {
        [PTX_O_REG] = 'r',  [PTX_O_IMM] = 'i',  [PTX_O_SREG] = 's',  [PTX_O_VAR] = 'v',    [PTX_O_FUNC] = 'f',
        [PTX_O_ADDR] = 'a', [PTX_O_SINK] = '_', [PTX_O_LABEL] = 'L', [PTX_O_TEXTURE] = 't'};
    for (unsigned k = 0; k < n; k++)
        if (o[k].kind == PTX_O_VEC)
            fprintf(out, "V%u", o[k].n);
        else
            fputc(letter[o[k].kind], out);
}

static void function_forms(const struct ptx_module *m, const struct ptx_function *f, bool *seen)
{
    struct ptx_cfg c;
    struct dt_err e = {0};
    unsigned at = 0;
    while (at < m->nfunc && m->func[at] != f)
        at++;
    if (at == m->nfunc || seen[at] || !f->has_body || ptx_cfg_build(f, &c, &e) < 0)
        return;
    seen[at] = true;
    for (uint32_t k = 0; k < f->ninst; k++) {
        const struct ptx_inst *i = &f->inst[k];
        struct dt_str s = {0};
        for (unsigned o = 0; o < i->nopnd; o++)
            if (i->opnd[o].kind == PTX_O_FUNC)
                function_forms(m, i->opnd[o].func, seen);
        if (i->op <= PTX_OP_OPAQUE || !c.block[c.block_of[k]].reachable || ptx_print_inst(f, i, &s) < 0)
            continue;
        const char *t = s.s + strspn(s.s, " \t");
        if (*t == '@') {
            t += strcspn(t, " ");
            t += strspn(t, " ");
        }
        fprintf(forms, "%.*s ", (int)strcspn(t, " \t;"), t);
        kinds(forms, i->opnd, i->nopnd);
        fputc('\n', forms);
        dt_str_done(&s);
    }
    ptx_cfg_done(&c);
}

static void write_forms(const struct run *r, size_t len)
{
    struct ptx_module *m;
    struct dt_err e = {0};
    if (!forms || ptx_parse(r->text, len, &m, &e) < 0)
        return;
    bool *seen = calloc(m->nfunc + 1, sizeof *seen);
    for (unsigned k = 0; seen && k < r->npassed; k++)
        function_forms(m, ptx_find_function(m, r->passed[k]), seen);
    free(seen);
    ptx_module_free(m);
}

/* A directive that begins a case of which a fault is expected, or that is marked `rough`. */
static bool faults(const char *line)
{
    const char *p = line, *rough = strstr(line, " rough");
    if (rough && rough < line + strcspn(line, "\n"))
        return true;
    while ((p = strchr(p, '\n')) && !strncmp(p + 1, "// ", 3) && strncmp(p + 1, "// RUN ", 7)) {
        p++;
        if (!strncmp(p, "// FAULT ", 9))
            return true;
    }
    return false;
}

static unsigned checks, seeds = 1;

static int run_file(const char *path, struct sg_device *dev, uint64_t seed, unsigned *cases)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? malloc(MAX_TEXT) : NULL;
    if (!text) {
        printf("%s: cannot be read\n", path);
        if (f)
            fclose(f);
        return 1;
    }
    size_t n = fread(text, 1, MAX_TEXT - 1, f);
    fclose(f);
    text[n] = 0;
    int failed = 0;
    if (strstr(text, "// RUN ") == text || strstr(text, "\n// RUN ")) {
        struct run r = {.file = path, .text = text, .dev = dev, .seed = seed, .checks = checks};
        bool skip = false;
        struct dt_err e = {0};
        if (sg_module_load(dev, text, n, &r.mod, &e) < 0) {
            printf("%s: %s\n", path, e.detail ? e.detail : "does not load");
            failed = 1;
        } else {
            char *line = malloc(MAX_TEXT);
            for (char *p = text; line && *p;) {
                char *end = strchr(p, '\n');
                size_t len = end ? (size_t)(end - p) : strlen(p), at = 0;
                r.line++;
                if (checks && !strncmp(p, "// RUN ", 7) && (skip = faults(p)))
                    end_case(&r);
                if (!skip && len > 3 && !strncmp(p, "// ", 3)) {
                    memcpy(line, p + 3, len - 3);
                    at = len - 3;
                    while (at && line[at - 1] == '\\' && end && !strncmp(end + 1, "// ", 3)) {
                        p = end + 1;
                        end = strchr(p, '\n');
                        len = end ? (size_t)(end - p) : strlen(p);
                        r.line++;
                        line[at - 1] = ' ';
                        memcpy(line + at, p + 3, len - 3);
                        at += len - 3;
                    }
                    line[at] = 0;
                    directive(&r, line);
                }
                p = end ? end + 1 : p + len;
            }
            end_case(&r);
            write_forms(&r, n);
            free(r.passed);
            free(line);
            sg_module_free(r.mod);
            failed = (int)r.failed;
            *cases += r.cases;
            printf("%s %s: %u of %u cases\n", r.failed ? "FAIL" : "ok  ", path, r.cases - r.failed, r.cases);
        }
        dt_err_done(&e);
    }
    free(text);
    return failed;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int main(int argc, char **argv)
{
    struct sg_device *dev;
    unsigned cases = 0, failed = 0, first = 1;
    for (; first + 1 < (unsigned)argc && !strncmp(argv[first], "--", 2); first += 2)
        if (!strcmp(argv[first], "--seeds"))
            seeds = (unsigned)strtoul(argv[first + 1], NULL, 10);
        else if (!strcmp(argv[first], "--forms") && !(forms = fopen(argv[first + 1], "w")))
            return 1;
        else if (strcmp(argv[first], "--forms") && strcmp(argv[first], "--check"))
            return 2;
        else if (!strcmp(argv[first], "--check") && !sg_checks_parse(argv[first + 1], &checks))
            return 2;
    if (sg_device_new(sg_model_find(NULL), &dev) < 0)
        return 1;
    sg_mem_track(dev, true);
    for (int i = (int)first; i < argc; i++) {
        struct stat st;
        DIR *dir = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode) ? opendir(argv[i]) : NULL;
        if (!dir) {
            for (unsigned s = 0; s < seeds; s++)
                failed += (unsigned)run_file(argv[i], dev, s, &cases);
            continue;
        }
        char *name[4096];
        size_t n = 0;
        for (struct dirent *e; (e = readdir(dir)) && n < 4096;) {
            size_t len = strlen(e->d_name);
            if (len > 4 && !strcmp(e->d_name + len - 4, ".ptx") && (name[n] = malloc(strlen(argv[i]) + len + 2)))
                sprintf(name[n++], "%s/%s", argv[i], e->d_name);
        }
        closedir(dir);
        qsort(name, n, sizeof *name, by_name);
        for (size_t k = 0; k < n; k++) {
            for (unsigned s = 0; s < seeds; s++)
                failed += (unsigned)run_file(name[k], dev, s, &cases);
            free(name[k]);
        }
    }
    sg_device_free(dev);
    if (forms && fclose(forms))
        failed++;
    printf("%u cases, %u failed\n", cases, failed);
    return failed || !cases;
}
