/* The print cases of tests/ptx: what the files that open with `// PRINT` say must print exactly as it stands, and
 * verify.
 *
 * A case is one .ptx file. Its first lines are comments with one directive each; words that a runner does not know are
 * for another runner:
 *   // PRINT         the rest of the file is canonical: parsing and printing gives the same bytes
 *   // ASM           and ptxas, where it is installed, assembles what is printed for its .target
 *   // OPAQUE N      N statements are unknown to ops.def (0 without this line)
 *   // FROM          what precedes a line `// TO` is printed as what follows it (in place of PRINT)
 * Every row of ops.def, mods.def and sregs.def must occur in some case: a row that nothing tries fails here.
 * print-cases --update FILE… writes the second half of FROM cases, and the body of PRINT cases, anew: read the
 * difference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "ptx/ptx.h"
#include "tests/skip.h"

static const char *dir, *ptxas;
static uint8_t seen_op[PTX_OP_COUNT], seen_mod[PTX_M_COUNT], seen_sreg[PTX_SR_COUNT];
static bool all_read;

struct test_case {
    char *text;
    const char *input, *want; /* inside text */
    size_t head;              /* bytes up to what --update writes */
    bool assemble;
    unsigned opaque;
};

static bool word_at(const char *line, const char *word, const char **rest)
{
    size_t n = strlen(word);
    if (strncmp(line, "// ", 3) || strncmp(line + 3, word, n) || !strchr(" \n", line[3 + n]))
        return false;
    *rest = line + 3 + n;
    return true;
}

/* False: not a print case. */
static bool load(const char *path, struct test_case *c)
{
    struct dt_err e = {0};
    size_t len;
    bool print = false, from = false;
    const char *line, *rest;
    *c = (struct test_case){0};
    if (dt_read_file(path, 16u << 20, &c->text, &len, &e) < 0)
        fail_msg("%s", e.detail);
    for (line = c->text; !strncmp(line, "//", 2); line = strchr(line, '\n') + 1) {
        print |= word_at(line, "PRINT", &rest);
        from |= word_at(line, "FROM", &rest);
        c->assemble |= word_at(line, "ASM", &rest);
        if (word_at(line, "OPAQUE", &rest))
            c->opaque = (unsigned)strtoul(rest, NULL, 10);
        if (!strchr(line, '\n'))
            break;
    }
    c->input = c->want = line;
    if (from) {
        char *to = strstr(c->text, "\n// TO\n");
        if (!to)
            fail_msg("%s: FROM without TO", path);
        to[1] = 0;
        c->want = to + 7;
    }
    c->head = (size_t)(c->want - c->text);
    if (!print && !from)
        free(c->text);
    return print || from;
}

static void see_opnd(const struct ptx_opnd *o)
{
    if (o->kind == PTX_O_SREG)
        seen_sreg[o->sreg] = 1;
}

static unsigned see(const struct ptx_module *m)
{
    unsigned opaque = 0;
    for (uint32_t f = 0; f < m->nfunc; f++)
        for (uint32_t k = 0; k < m->func[f]->ninst; k++) {
            const struct ptx_inst *i = &m->func[f]->inst[k];
            opaque += i->op == PTX_OP_OPAQUE;
            seen_op[i->op] = 1;
            for (unsigned j = 0; j < i->nmod; j++)
                seen_mod[i->mod[j]] = 1;
            for (unsigned j = 0; j < i->nopnd; j++)
                see_opnd(&i->opnd[j]);
        }
    return opaque;
}

static char *print(const char *path, const char *text, unsigned *ret_opaque)
{
    struct ptx_module *m;
    struct dt_err e = {0};
    struct dt_str s = {0};
    if (ptx_parse(text, strlen(text), &m, &e) < 0 || ptx_verify(m, &e) < 0)
        fail_msg("%s: %s", path, e.detail);
    *ret_opaque = see(m);
    assert_int_equal(ptx_print(m, &s), 0);
    ptx_module_free(m);
    return dt_str_take(&s);
}

static void assemble(const char *path, const char *text)
{
    char tmp[] = "/tmp/dt-ptx-XXXXXX", target[32] = "", command[8192];
    const char *line = strstr(text, "\n.target ");
    int fd = mkstemp(tmp);
    assert_true(fd >= 0 && line && sscanf(line + 9, "%31[a-z0-9_]", target) == 1);
    assert_int_equal(dt_write_full(fd, text, strlen(text)), 0);
    close(fd);
    snprintf(command, sizeof command, "'%s' -arch=%s '%s' -o /dev/null", ptxas, target, tmp);
    int r = system(command);
    unlink(tmp);
    if (r)
        fail_msg("%s: ptxas refuses what is printed", path);
}

static void one(const char *path)
{
    struct test_case c;
    unsigned opaque;
    if (!load(path, &c))
        return;
    char *got = print(path, c.input, &opaque), *again = print(path, got, &opaque);
    if (strcmp(got, c.want)) {
        size_t at = 0;
        while (got[at] && got[at] == c.want[at])
            at++;
        while (at && got[at - 1] != '\n')
            at--;
        fail_msg("%s prints otherwise:\n got    %.*s\n wanted %.*s", path, (int)strcspn(got + at, "\n"), got + at,
                 (int)strcspn(c.want + at, "\n"), c.want + at);
    }
    assert_string_equal(got, again);
    if (opaque != c.opaque)
        fail_msg("%s: %u opaque statements, %u wanted", path, opaque, c.opaque);
    if (c.assemble && *ptxas)
        assemble(path, got);
    free(got);
    free(again);
    free(c.text);
}

static void update(const char *path)
{
    struct test_case c;
    unsigned opaque;
    struct dt_err e = {0};
    struct dt_str s = {0};
    if (!load(path, &c))
        return;
    char *got = print(path, c.input, &opaque);
    if (c.want != c.input) /* FROM: put back the byte that load() cut */
        c.text[c.head - 6] = '/';
    dt_str_addn(&s, c.text, c.head);
    dt_str_add(&s, got);
    if (s.failed || dt_write_file(path, s.s, s.len, &e) < 0)
        fail_msg("%s: %s", path, e.detail);
    dt_str_done(&s);
    free(got);
    free(c.text);
}

static void test_cases(void **state)
{
    unsigned n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        size_t len = strlen(f->d_name);
        char path[4096];
        if (len < 4 || strcmp(f->d_name + len - 4, ".ptx"))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        one(path);
        n++;
    }
    closedir(d);
    assert_true(n > 0);
    all_read = true;
}

static void test_rows(void **state)
{
    unsigned missing = 0;
    if (!all_read)
        SKIP("only a part of the cases was read: ops.def cannot be held against them");
    for (unsigned k = 0; k < PTX_OP_COUNT; k++)
        if (!seen_op[k]) {
            print_error("ops.def: no case has %s\n", ptx_op_info(k)->mnemonic);
            missing++;
        }
    for (unsigned k = 1; k < PTX_M_COUNT; k++)
        if (!seen_mod[k]) {
            print_error("mods.def: no case has .%s\n", ptx_mod_text(k));
            missing++;
        }
    for (unsigned k = 1; k < PTX_SR_COUNT; k++)
        if (!seen_sreg[k]) {
            print_error("sregs.def: no case has %%%s\n", ptx_sreg_text(k));
            missing++;
        }
    assert_int_equal(missing, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_rows)};
    if (argc > 2 && !strcmp(argv[1], "--update")) {
        for (int k = 2; k < argc; k++)
            update(argv[k]);
        return 0;
    }
    if (argc < 2) {
        fprintf(stderr, "usage: print-cases DIR [PTXAS] | --update FILE…\n");
        return 2;
    }
    dir = argv[1];
    ptxas = argc > 2 ? argv[2] : "";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
