/* PTX to machine code by nvJitLink (ptxas as a library) in a confined child (child.c), for two ends: proof that ptxas
 * takes what a rewrite made, and the registers, shared memory, spills and stack of each entry.
 *
 * The figures are read off the verbose log:
 *     ptxas info    : Compiling entry function 'NAME' for 'sm_90'
 *     ptxas         .     S bytes stack frame, P bytes spill stores, L bytes spill loads
 *     ptxas info    : Used R registers, used B barriers, M bytes smem
 * (smem: static, without what the system reserves). Where nvJitLink is missing, registers are estimated from liveness
 * (pressure in bytes / 4, and a few for addresses and the stack pointer) and `estimated` is set. Results are kept by
 * digest (memo.c): log and cubin apart, since the log is asked for much more often.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "device/device-priv.h"
#include "device/machine.h"

#define TIMEOUT_MS 60000
#define LARGE 65536 /* bytes of a line: more, and it is a table */

static int key_of(const char *what, const char *ptx, size_t len, const char *arch, char key[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    const char *v = dev_nvjitlink_build();
    int r = dt_sha256_init(&h);
    if (r < 0)
        return r;
    dt_sha256_addstr(&h, what);
    dt_sha256_addstr(&h, v ? v : "");
    dt_sha256_addstr(&h, arch);
    dt_sha256_addu64(&h, len);
    dt_sha256_add(&h, ptx, len);
    dt_sha256_final(&h, key);
    return 0;
}

const char *dev_directive(const char *ptx, size_t len, const char *name)
{
    const char *end = ptx + len;
    size_t n = strlen(name);
    for (const char *p = ptx; (size_t)(end - p) > n; p++) {
        const char *close = p[0] == '/' && p[1] == '/'   ? memchr(p, '\n', (size_t)(end - p))
                            : p[0] == '/' && p[1] == '*' ? memmem(p + 2, (size_t)(end - p - 2), "*/", 2)
                                                         : p;
        if (!close)
            return NULL;
        if (close != p) {
            p = close + (*close == '*');
            continue;
        }
        if (!memcmp(p, name, n)) {
            for (p += n; p < end && strchr(" \t\r\n", *p); p++)
                ;
            return p;
        }
    }
    return NULL;
}

char *dev_with_version(const char *ptx, size_t len, const char *version)
{
    const char *theirs = dev_directive(ptx, len, ".version");
    if (!theirs)
        return NULL;
    size_t n = strspn(version, "0123456789."), old = strspn(theirs, "0123456789."), before = (size_t)(theirs - ptx);
    char *copy = n && old ? dt_malloc(len - old + n + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, ptx, before);
    memcpy(copy + before, version, n);
    memcpy(copy + before + n, theirs + old, len - before - old);
    copy[len - old + n] = 0;
    return copy;
}

/* The same for the newest version that this ptxas knows, read off its refusal ("… current version is '9.0'"). */
static char *with_version_of(const char *ptx, size_t len, const char *refusal)
{
    const char *mine = strstr(refusal, "current version is '");
    return mine ? dev_with_version(ptx, len, mine + strlen("current version is '")) : NULL;
}

/* "a" or "f" when the module's .target is `arch` with that suffix: code for sm_90a runs on an sm_90 device, but
 * assembles as sm_90a only. */
static const char *suffix_of(const char *ptx, size_t len, const char *arch)
{
    const char *t = dev_directive(ptx, len, ".target");
    size_t n = strlen(arch);
    if (!t || (size_t)(ptx + len - t) <= n || strncmp(t, arch, n))
        return "";
    return t[n] == 'a' ? "a" : t[n] == 'f' ? "f" : "";
}

/* How much of a line stays of a large variable in global memory: what comes before its numbers, which no code depends
 * on, as anybody may write there. With a million numbers ptxas takes ten seconds and more. 0: the line is none. */
static size_t without_numbers(const char *line, size_t n)
{
    const char *at = n > LARGE ? memmem(line, 400, "= {", 3) : NULL;
    size_t k = at ? (size_t)(at - line) + 3 : 0;
    if (!at || strncmp(line, ".global ", 8))
        return 0;
    while (k < n && strchr("0123456789 ,-", line[k]) && line[k])
        k++;
    return k + 2 <= n && line[k] == '}' && line[k + 1] == ';' ? (size_t)(at - line) : 0;
}

/* `.loc FILE LINE` with the file's number in the line, too (DEV_LINE_BITS): ptxas 13.0 makes no row where only the file
 * changes and the line's number stays. A text that no rewrite made loses its own .loc, each line staying where it is:
 * what counts are its lines, and ptxas looks at .loc more closely with -lineinfo. Nobody runs this code, so large
 * tables are left out. */
static char *with_files_in_lines(const char *ptx, size_t len)
{
    static const char emitted[] = ".file 1 \"" PTX_ORIGIN_GLUE "\"";
    bool ours = memmem(ptx, len, emitted, sizeof emitted - 1) != NULL;
    struct dt_str s = {0};
    const char *end = ptx + len;
    for (const char *p = ptx; p < end;) {
        const char *next = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((next ? next + 1 : end) - p);
        char head[40], *after;
        snprintf(head, sizeof head, "%.*s", n < sizeof head ? (int)n : (int)sizeof head - 1, p);
        char *word = head + strspn(head, " \t");
        unsigned long file = !strncmp(word, ".loc ", 5) ? strtoul(word + 5, &after, 10) : 0;
        unsigned long line = file && *after == ' ' ? strtoul(after + 1, &after, 10) : 0;
        size_t stays = without_numbers(p, n);
        if (stays) {
            dt_str_addn(&s, p, stays);
            dt_str_add(&s, next ? ";\n" : ";");
        } else if (!ours && !strncmp(word, ".loc", 4) && strchr(" \t\n", word[4])) {
            dt_str_add(&s, next ? "\n" : "");
        } else if (line && file < 1UL << (31 - DEV_LINE_BITS) && line < 1UL << DEV_LINE_BITS) {
            dt_str_addf(&s, ".loc %lu %lu", file, file << DEV_LINE_BITS | line);
            dt_str_addn(&s, p + (after - head), n - (size_t)(after - head));
        } else {
            dt_str_addn(&s, p, n);
        }
        p += n;
    }
    return dt_str_take(&s);
}

/* Log and cubin, each may be NULL. lines: the cubin with line tables (-lineinfo). */
static int assemble(const char *ptx, size_t len, const char *arch, bool lines, char **ret_log, void **ret_cubin,
                    size_t *ret_len, struct dt_err *e)
{
    char target[32], log_key[DT_SHA256_TEXT], bin_key[DT_SHA256_TEXT];
    struct dev_reply reply = {0};
    size_t n;
    if (!dev_arch_ok(arch))
        return dt_err_set(e, DT_E_USAGE, "\"%.40s\" is no architecture", arch ? arch : "");
    if (strnlen(ptx, len) != len)
        return dt_err_set(e, DT_E_PTX, "the PTX has a zero byte in it");
    if (!dev_nvjitlink_version())
        return dt_err_set(e, DT_E_NO_COMPILER, "nvJitLink is not on this machine");
    lines |= !ret_cubin; /* one assembly for its log and for what dev_assemble_lines will ask */
    int r = key_of("log", ptx, len, arch, log_key);
    if (!r)
        r = key_of(lines ? "lines" : "cubin", ptx, len, arch, bin_key);
    if (r < 0)
        return dt_err_set(e, r, "out of memory");
    if (ret_log && !ret_cubin && dev_memo_get(log_key, ret_log, &n))
        return 0;
    if (!ret_log && ret_cubin && dev_memo_get(bin_key, (char **)ret_cubin, ret_len))
        return 0;
    if (!ret_log && !ret_cubin) { /* only whether it assembles */
        dt_free_ char *log = NULL;
        if (dev_memo_get(log_key, &log, &n))
            return 0;
    }
    dt_free_ char *marked = lines ? with_files_in_lines(ptx, len) : NULL;
    if (lines && !marked)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (lines) {
        ptx = marked;
        len = strlen(marked);
    }
    snprintf(target, sizeof target, "-arch=%s%s", arch, suffix_of(ptx, len, arch));
    const char *option[] = {target, "-verbose", "-lineinfo"};
    r = dev_child('J', option, lines ? 3 : 2, ptx, len, TIMEOUT_MS, &reply, e);
    if (r < 0)
        return r;
    bool newer = !reply.result && reply.error && strstr(reply.error, "Unsupported .version");
    if (newer) {
        dt_free_ char *older = with_version_of(ptx, len, reply.error);
        dev_reply_done(&reply);
        if (!older)
            return dt_err_set(e, DT_E_NO_COMPILER, "the module's PTX is newer than this machine's ptxas");
        if ((r = dev_child('J', option, lines ? 3 : 2, older, strlen(older), TIMEOUT_MS, &reply, e)) < 0)
            return r;
    }
    if (!reply.result && newer) {
        dt_err_set(e, DT_E_NO_COMPILER, "the module's PTX is newer than this machine's ptxas: %.600s", reply.error);
        dev_reply_done(&reply);
        return DT_E_NO_COMPILER;
    }
    if (!reply.result) {
        r = reply.missing ? DT_E_NO_COMPILER : DT_E_PTX;
        dt_err_set(e, r, reply.missing ? "%.600s (%s)" : "ptxas refuses the module: %.600s", reply.error,
                   target + strlen("-arch="));
        if (!reply.missing)
            dt_err_log(e, reply.error);
        dev_reply_done(&reply);
        return r;
    }
    if (!reply.log && !(reply.log = dt_strdup(""))) {
        dev_reply_done(&reply);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    dev_memo_put(log_key, reply.log, strlen(reply.log));
    dev_memo_put(bin_key, reply.result, reply.result_len);
    if (ret_log) {
        *ret_log = reply.log;
        reply.log = NULL;
    }
    if (ret_cubin) {
        *ret_cubin = reply.result;
        *ret_len = reply.result_len;
        reply.result = NULL;
    }
    dev_reply_done(&reply);
    return 0;
}

int dev_assemble(const char *ptx, size_t len, const char *arch, void **ret_cubin, size_t *ret_len, struct dt_err *e)
{
    return assemble(ptx, len, arch, false, NULL, ret_cubin, ret_len, e);
}

int dev_assemble_lines(const char *ptx, size_t len, const char *arch, void **ret_cubin, size_t *ret_len,
                       struct dt_err *e)
{
    return assemble(ptx, len, arch, true, NULL, ret_cubin, ret_len, e);
}

/* The number in front of `unit` in a line. */
static uint32_t number_before(const char *line, const char *end, const char *unit)
{
    const char *p = memmem(line, (size_t)(end - line), unit, strlen(unit));
    if (!p)
        return 0;
    while (p > line && p[-1] == ' ')
        p--;
    const char *q = p;
    while (q > line && q[-1] >= '0' && q[-1] <= '9')
        q--;
    return q < p ? (uint32_t)strtoul(q, NULL, 10) : 0;
}

static bool read_log(const char *log, const char *entry, struct dev_resources *ret)
{
    struct dev_resources res = {0};
    bool in = false, found = false;
    for (const char *line = log; *line;) {
        const char *end = strchrnul(line, '\n'),
                   *name = memmem(line, (size_t)(end - line), "Compiling entry function '", 26);
        if (name) {
            name += 26;
            in = !strncmp(name, entry, strlen(entry)) && name[strlen(entry)] == '\'';
        } else if (in && memmem(line, (size_t)(end - line), "bytes stack frame", 17)) {
            res.stack_bytes = number_before(line, end, "bytes stack frame");
            res.spill_bytes = number_before(line, end, "bytes spill stores");
        } else if (in && memmem(line, (size_t)(end - line), "Used ", 5)) {
            res.registers = number_before(line, end, "registers");
            res.shared_static = number_before(line, end, "bytes smem");
            found = res.registers > 0;
            in = false;
        }
        line = *end ? end + 1 : end;
    }
    if (found)
        *ret = res;
    return found;
}

/* Bytes of the shared variables of an entry and of the module. */
static uint32_t static_shared(const struct ptx_function *f)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < f->nvar; i++)
        if (f->var[i]->space == PTX_SHARED)
            n = (n + f->var[i]->align - 1) / f->var[i]->align * f->var[i]->align + f->var[i]->bytes;
    for (uint32_t i = 0; i < f->module->nvar; i++)
        if (f->module->var[i]->space == PTX_SHARED)
            n += f->module->var[i]->bytes;
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static int estimate(const char *ptx, size_t len, const char *entry, struct dev_resources *ret, struct dt_err *e)
{
    struct ptx_module *m;
    struct ptx_cfg cfg = {0};
    struct ptx_live live = {0};
    int r = ptx_parse(ptx, len, &m, e);
    if (r < 0)
        return r;
    struct ptx_function *f = ptx_find_function(m, entry);
    if (!f || !f->has_body)
        r = dt_err_set(e, DT_E_NO_ENTRY, "the module has no entry \"%.200s\"", entry);
    if (!r)
        r = ptx_cfg_build(f, &cfg, e);
    if (!r)
        r = ptx_live_build(f, &cfg, &live, e);
    if (!r) {
        uint32_t regs = (live.max_pressure_bytes + 3) / 4 + 6;
        uint32_t most = f->maxnreg ? f->maxnreg : 255;
        *ret = (struct dev_resources){.registers = regs < 16     ? 16
                                                   : regs > most ? most
                                                                 : regs,
                                      .shared_static = static_shared(f),
                                      .estimated = true};
    }
    ptx_live_done(&live);
    ptx_cfg_done(&cfg);
    ptx_module_free(m);
    return r;
}

int dev_resources(const char *ptx, size_t len, const char *entry, const char *arch, struct dev_resources *ret,
                  struct dt_err *e)
{
    dt_free_ char *log = NULL;
    struct dt_err inner = {0};
    int r = assemble(ptx, len, arch, false, &log, NULL, NULL, &inner);
    if (r == DT_E_NO_COMPILER || r == DT_E_TIMEOUT) {
        dt_err_done(&inner);
        return estimate(ptx, len, entry, ret, e);
    }
    if (r < 0) {
        if (e)
            dt_err_move(e, &inner);
        else
            dt_err_done(&inner);
        return r;
    }
    if (!read_log(log, entry, ret))
        return estimate(ptx, len, entry, ret, e); /* a log in other words than those we know */
    return 0;
}
