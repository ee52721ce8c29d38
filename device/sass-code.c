/* One kernel's machine code: sections, instructions, blocks, subroutines.
 *
 * CALL leads to a subroutine, and RET returns behind the CALL. Subroutines are functions, and the slow paths of
 * division and square root, which the assembler shares between all that need them. They lie behind the entry in the
 * same section (ptxas), or in sections of their own (nvJitLink: CALL.ABS with a relocation). If no RET is reached from
 * a CALL's target, the CALL is a branch: ptxas leaves loops this way for sm_80. A block belongs to one function.
 *
 * Where a branch by a table (BRX, BRXU) may lead the assembler says in section .nv.info.NAME, for debuggers:
 *
 *   byte 4, byte 0x34, bytes of all (16 bits); then for each branch its place, a word, how many, and so many places
 *
 * Not known here: code that two functions run into, and other indirect branches.
 */
#include "device/machine-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MOST_INST 262144
#define MOST_JUMPS 1024

/* ---- blocks and functions ---------------------------------------------------------------------------------------- */

static bool ends(const struct sass_inst *i)
{
    return i->op->cls == SASS_BRANCH || i->op->cls == SASS_JUMP || i->op->cls == SASS_EXIT || i->op->cls == SASS_RETURN;
}

/* Does it depend on more than its guard? bits 87-90: a predicate as an operand; 91: one that is uniform (BRA.U), or a
 * uniform register (BRA.DIV) */
static bool sure(const struct sass_inst *i)
{
    return sass_always(i) && (i->hi >> 23 & 15) == SASS_PT && !(i->hi >> 27 & 1);
}

static bool by_table(const struct sass_inst *i) { return i->op->code == 0x149 || i->op->code == 0x158; }

/* To an address in a register, and nobody says which. */
static bool indirect(const struct sass_inst *i)
{
    return (i->op->cls == SASS_JUMP && !by_table(i)) || (i->op->code == 0x144 && (i->lo >> 9 & 7) != 4);
}

struct load {
    struct elf_file f;
};

static bool sass_code_grow(struct code *c, uint32_t n)
{
    void *p[3] = {dt_reallocarray(c->inst, n, sizeof *c->inst), NULL, NULL};
    c->inst = p[0] ? p[0] : c->inst;
    p[1] = dt_reallocarray(c->to, n, sizeof *c->to);
    c->to = p[1] ? p[1] : c->to;
    return p[0] && p[1];
}

/* ---- branches by tables */

enum { INFO_SIZED = 4, INFO_BRANCHES = 0x34 };

static int way_add(struct code *c, struct code_jump *j, uint32_t to)
{
    for (uint32_t k = 0; k < j->n; k++)
        if (c->way[j->first + k] == to)
            return 0;
    uint32_t *p = dt_reallocarray(c->way, (size_t)c->nway + 1, sizeof *p);
    if (!p)
        return DT_E_NOMEM;
    c->way = p;
    c->way[c->nway++] = to;
    j->n++;
    return 0;
}

/* The branch at instruction first + k of a section of n that begins at `first`; p, len: what .nv.info says of it. 1: it
 * does not say where that leads. */
static int jump_add(struct code *c, uint32_t first, uint32_t k, uint32_t n, const uint8_t *p, size_t len)
{
    struct code_jump *list = NULL;
    if (c->njump == MOST_JUMPS)
        return 1;
    list = dt_reallocarray(c->jump, (size_t)c->njump + 1, sizeof *list);
    if (!list)
        return DT_E_NOMEM;
    c->jump = list;
    struct code_jump *j = &list[c->njump++];
    *j = (struct code_jump){.at = first + k, .first = c->nway};
    for (size_t at = 0; at + 4 <= len;) {
        uint16_t size;
        memcpy(&size, p + at + 2, 2);
        bool sized = p[at] == INFO_SIZED;
        if (sized && size > len - at - 4)
            return 1;
        for (size_t q = at + 4, end = q + size; sized && p[at + 1] == INFO_BRANCHES && q < end;) {
            uint32_t word[3], to;
            if (end - q < sizeof word)
                return 1;
            memcpy(word, p + q, sizeof word);
            q += sizeof word;
            if (word[2] > (end - q) / 4)
                return 1;
            for (uint32_t w = 0; w < word[2] && word[0] == k * 16; w++) {
                memcpy(&to, p + q + (size_t)w * 4, 4);
                if (to % 16 || to / 16 >= n)
                    return 1;
                if (way_add(c, j, first + to / 16) < 0)
                    return DT_E_NOMEM;
            }
            q += (size_t)word[2] * 4;
        }
        at += 4 + (sized ? size : 0);
    }
    if (!j->n)
        return 1;
    return sure(&c->inst[first + k]) || k + 1 == n ? 0 : way_add(c, j, first + k + 1);
}

static const struct code_jump *jump_at(const struct code *c, uint32_t at)
{
    uint32_t lo = 0, hi = c->njump; /* they are in order */
    while (lo + 1 < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        *(c->jump[mid].at <= at ? &lo : &hi) = mid;
    }
    return &c->jump[lo];
}

/* One section of code behind what is there. Where its branches lead; calls by name are left to call_targets. */
static int load_text(struct code *c, struct load *l, unsigned section, struct dt_str *why)
{
    struct elf_section text, info = {0};
    if (!elf_section(&l->f, section, &text) || !text.p || !text.size || text.size % 16 ||
        text.size / 16 > MOST_INST - c->n || c->ntext == CODE_TEXTS) {
        dt_str_add(why, "there is machine code that cannot be read");
        return 1;
    }
    uint32_t first = c->n, n = (uint32_t)(text.size / 16);
    if (!sass_code_grow(c, first + n))
        return DT_E_NOMEM;
    c->text[c->ntext].section = section;
    c->text[c->ntext].first = first;
    c->text[c->ntext++].n = n;
    c->n += n;
    if (!strncmp(text.name, ".text.", 6)) {
        struct dt_str name = {0};
        dt_str_addf(&name, ".nv.info.%s", text.name + 6);
        if (!name.s)
            return DT_E_NOMEM;
        if (!elf_find(&l->f, name.s, &info) || !info.p)
            info.size = 0;
        dt_str_done(&name);
    }
    for (uint32_t k = 0; k < n; k++) {
        struct sass_inst *i = &c->inst[first + k];
        uint64_t word[2], to = CODE_NONE;
        memcpy(word, text.p + (size_t)k * 16, 16);
        if (!sass_decode(word, c->sm, i) || indirect(i) || i->op->cls == SASS_NAMED) {
            dt_str_add(why, i->op && i->op->cls == SASS_NAMED
                                ? "an instruction whose arithmetic the reader of machine code does not follow: "
                                : "an instruction that the reader of machine code does not know: ");
            sass_print(i, why);
            return 1;
        }
        c->to[first + k] = CODE_NONE;
        if (i->op->cls == SASS_JUMP) {
            int r = jump_add(c, first, k, n, info.p, info.size);
            if (r > 0)
                dt_str_add(why, "a branch by a table of which the assembler does not say where it leads");
            if (r)
                return r;
        }
        if (i->op->cls != SASS_BRANCH && (i->op->cls != SASS_CALL || i->op->code == 0x143))
            continue;
        to = sass_target(i, (uint64_t)k * 16, c->sm);
        if (to % 16 || to / 16 >= n) {
            dt_str_add(why, "a branch out of the kernel");
            return 1;
        }
        c->to[first + k] = first + (uint32_t)(to / 16);
    }
    return 0;
}

/* A function of the driver's (__assertfail, vprintf, malloc): what it returns is no float's result. */
static void outside(struct sass_inst *i)
{
    static const struct sass_op op = {0x143, 0, "CALL.ABS", SASS_OTHER, "-P", "", ""};
    i->op = &op;
    i->dst_kind = SASS_REG;
    i->dst = 4;
    i->dst_width = 2;
}

/* CALL.ABS: where the relocation leads. Sections are read as they are called. */
static int call_targets(struct code *c, struct load *l, struct dt_str *why)
{
    for (unsigned t = 0; t < c->ntext; t++)
        for (uint32_t k = 0; k < c->text[t].n; k++) {
            uint32_t at = c->text[t].first + k;
            unsigned section = 0, u = 0;
            uint64_t offset = 0;
            if (c->inst[at].op->cls != SASS_CALL || c->to[at] != CODE_NONE)
                continue;
            if (!elf_target(&l->f, c->text[t].section, (uint64_t)k * 16, &section, &offset)) {
                dt_str_add(why, "a call to who knows where");
                return 1;
            }
            if (!section) {
                outside(&c->inst[at]);
                continue;
            }
            while (u < c->ntext && c->text[u].section != section)
                u++;
            int r = u == c->ntext ? load_text(c, l, section, why) : 0;
            if (r)
                return r;
            if (offset % 16 || offset / 16 >= c->text[u].n) {
                dt_str_add(why, "a call to who knows where");
                return 1;
            }
            c->to[at] = c->text[u].first + (uint32_t)(offset / 16);
        }
    return 0;
}

/* Is a RET reached from instruction `at`, without going through calls? mark, stack: scratch, by instruction. */
static bool returns(const struct code *c, uint32_t at, uint8_t *mark, uint32_t *stack)
{
    uint32_t n = 0;
    memset(mark, 0, c->n);
    for (stack[n++] = at; n;) {
        uint32_t k = stack[--n];
        const struct sass_inst *i = &c->inst[k];
        if (mark[k])
            continue;
        mark[k] = 1;
        if (i->op->cls == SASS_RETURN)
            return true;
        if (i->op->cls == SASS_BRANCH)
            stack[n++] = c->to[k];
        const struct code_jump *j = i->op->cls == SASS_JUMP ? jump_at(c, k) : NULL;
        for (uint32_t w = 0; j && w < j->n; w++)
            stack[n++] = c->way[j->first + w];
        if ((!ends(i) || !sure(i)) && k + 1 < c->n)
            stack[n++] = k + 1;
    }
    return false;
}

/* CALLs that are branches become such. */
static int far_branches(struct code *c)
{
    static const struct sass_op branch = {0x144, 0, "CALL.REL", SASS_BRANCH, "-P", "", ""};
    /* known: 1 returns, 2 does not */
    dt_free_ uint8_t *mark = dt_calloc((size_t)c->n + 1, 1), *known = dt_calloc((size_t)c->n + 1, 1);
    dt_free_ uint32_t *stack = dt_calloc(2 * (size_t)c->n + c->nway + 2, sizeof *stack);
    if (!mark || !known || !stack)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < c->n; k++) {
        if (c->inst[k].op->cls != SASS_CALL)
            continue;
        uint8_t *x = &known[c->to[k]];
        if (!*x)
            *x = returns(c, c->to[k], mark, stack) ? 1 : 2;
        if (*x == 2)
            c->inst[k].op = &branch;
    }
    return 0;
}

/* Marks the first instruction of each block; CALLs' targets become functions. */
static int leaders(struct code *c, uint8_t *leader)
{
    leader[0] = leader[c->nentry] = 1;
    for (uint32_t k = 0; k < c->nway; k++)
        leader[c->way[k]] = 1;
    for (uint32_t k = 0; k < c->n; k++) {
        const struct sass_inst *i = &c->inst[k];
        if (ends(i) && k + 1 < c->n)
            leader[k + 1] = 1;
        if (i->op->cls != SASS_BRANCH && i->op->cls != SASS_CALL)
            continue;
        uint32_t to = c->to[k];
        leader[to] = 1;
        if (i->op->cls == SASS_BRANCH)
            continue;
        uint32_t f = 1;
        while (f < c->nfunc && c->func[f].first != to)
            f++;
        if (f == c->nfunc) {
            struct code_func *p = dt_reallocarray(c->func, c->nfunc + 1, sizeof *p);
            if (!p)
                return DT_E_NOMEM;
            c->func = p;
            c->func[c->nfunc++] = (struct code_func){.first = to};
        }
        c->call[k] = f;
    }
    return 0;
}

/* The next one of the blocks behind block b, CODE_NONE behind the last; *at: 0 before the first. */
static uint32_t sass_code_after(const struct code *c, uint32_t b, uint32_t *at)
{
    uint32_t last = c->block[b].last, turn = (*at)++;
    const struct sass_inst *i = &c->inst[last];
    if (i->op->cls == SASS_JUMP) {
        const struct code_jump *j = jump_at(c, last);
        return turn < j->n ? c->block_of[c->way[j->first + turn]] : CODE_NONE;
    }
    if (i->op->cls == SASS_BRANCH && turn == 0)
        return c->block_of[c->to[last]];
    bool falls = (!ends(i) || !sure(i)) && b + 1 < c->nblock;
    return falls && turn == (i->op->cls == SASS_BRANCH) ? b + 1 : CODE_NONE;
}

/* Each block's function, by flooding from its start. */
static int flood(struct code *c, struct dt_str *why)
{
    uint32_t *stack = dt_calloc((size_t)c->nblock + 1, sizeof *stack);
    if (!stack)
        return DT_E_NOMEM;
    int r = 0;
    for (uint32_t f = 0; f < c->nfunc && !r; f++) {
        uint32_t n = 0, first = c->block_of[c->func[f].first];
        if (c->block[first].func != CODE_NONE)
            r = 1;
        c->block[first].func = f;
        stack[n++] = first;
        while (n && !r) {
            uint32_t at = 0, to, b = stack[--n];
            while (!r && (to = sass_code_after(c, b, &at)) != CODE_NONE) {
                if (c->block[to].func == CODE_NONE) {
                    c->block[to].func = f;
                    stack[n++] = to;
                } else if (c->block[to].func != f) {
                    r = 1;
                }
            }
        }
    }
    if (r)
        dt_str_add(why, "two functions run into the same code");
    free(stack);
    return r;
}

static int predecessors(struct code *c)
{
    uint32_t total = 0, to;
    for (uint32_t b = 0; b < c->nblock; b++)
        for (uint32_t k = 0; c->block[b].func != CODE_NONE && (to = sass_code_after(c, b, &k)) != CODE_NONE; total++)
            c->block[to].npred++;
    c->pred = dt_calloc((size_t)total + 1, sizeof *c->pred);
    c->ret = dt_calloc((size_t)c->nblock + 1, sizeof *c->ret);
    if (!c->pred || !c->ret)
        return DT_E_NOMEM;
    for (uint32_t b = 0, at = 0; b < c->nblock; b++) {
        c->block[b].pred = at;
        at += c->block[b].npred;
        c->block[b].npred = 0;
    }
    for (uint32_t b = 0; b < c->nblock; b++)
        for (uint32_t k = 0; c->block[b].func != CODE_NONE && (to = sass_code_after(c, b, &k)) != CODE_NONE;) {
            struct code_block *t = &c->block[to];
            c->pred[t->pred + t->npred++] = b;
        }
    for (uint32_t f = 0; f < c->nfunc; f++) {
        c->func[f].ret = c->nrets;
        for (uint32_t b = 0; b < c->nblock; b++)
            if (c->block[b].func == f && c->inst[c->block[b].last].op->cls == SASS_RETURN)
                c->ret[c->nrets++] = b;
        c->func[f].nret = c->nrets - c->func[f].ret;
    }
    return 0;
}

static int sass_code_build(struct code *c, struct dt_str *why)
{
    dt_free_ uint8_t *leader = dt_calloc((size_t)c->n + 1, 1);
    c->func = dt_calloc(1, sizeof *c->func);
    c->nfunc = c->func ? 1 : 0;
    if (!leader || !c->func)
        return DT_E_NOMEM;
    int r = far_branches(c);
    if (!r)
        r = leaders(c, leader);
    if (r)
        return r;
    for (uint32_t k = 0; k < c->n; k++)
        c->nblock += leader[k];
    c->block = dt_calloc(c->nblock, sizeof *c->block);
    if (!c->block)
        return DT_E_NOMEM;
    for (uint32_t k = 0, b = CODE_NONE; k < c->n; k++) {
        b += leader[k];
        if (leader[k])
            c->block[b] = (struct code_block){.first = k, .func = CODE_NONE};
        c->block[b].last = k;
        c->block_of[k] = b;
    }
    r = flood(c, why);
    if (r)
        return r;
    return predecessors(c);
}

int code_read(struct code *c, const void *cubin, size_t len, const char *entry, struct dt_str *why, struct dt_err *e)
{
    struct load l = {0};
    struct elf_section text, bank;
    struct dt_str name = {0};
    memset(c, 0, sizeof *c);
    dt_str_addf(&name, ".text.%s", entry);
    uint32_t flags = 0;
    bool elf = elf_open(&l.f, cubin, len) && name.s;
    unsigned section = elf ? elf_find(&l.f, name.s, &text) : 0;
    dt_str_done(&name);
    dt_str_addf(&name, ".nv.constant2.%s", entry);
    if (elf && name.s && elf_find(&l.f, name.s, &bank)) {
        c->bank2 = bank.p;
        c->nbank2 = bank.p ? bank.size : 0;
    }
    dt_str_done(&name);
    if (!section) {
        dt_str_addf(why, "there is no machine code of '%s' to read", entry);
        return 1;
    }
    memcpy(&flags, l.f.p + 48, 4);                       /* e_flags */
    c->sm = (l.f.p[8] >= 8 ? flags >> 8 : flags) & 0xff; /* the ELF's ABI version says where */
    if (!sass_knows(c->sm)) {
        dt_str_addf(why, "the reader of machine code does not know sm_%u", c->sm);
        return 1;
    }
    int r = load_text(c, &l, section, why);
    c->nentry = c->n;
    if (!r)
        r = call_targets(c, &l, why);
    if (r)
        return r < 0 ? dt_err_set(e, r, "out of memory") : r;
    c->block_of = dt_calloc(c->n, sizeof *c->block_of);
    c->call = dt_calloc(c->n, sizeof *c->call);
    c->file = dt_calloc(c->n, sizeof *c->file);
    c->line = dt_calloc(c->n, sizeof *c->line);
    if (!c->block_of || !c->call || !c->file || !c->line)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memset(c->call, 0xff, c->n * sizeof *c->call);
    r = sass_code_build(c, why);
    return r < 0 ? dt_err_set(e, r, "out of memory") : r;
}

void code_done(struct code *c)
{
    free(c->inst);
    free(c->block_of);
    free(c->block);
    free(c->pred);
    free(c->func);
    free(c->ret);
    free(c->call);
    free(c->to);
    free(c->jump);
    free(c->way);
    free(c->ctx);
    free(c->file);
    free(c->line);
    free(c->files);
    free(c->seen.key);
    free(c->seen.stamp);
    memset(c, 0, sizeof *c);
}
