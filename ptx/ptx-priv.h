/* What only the files of ptx/ share: words, tokens, scopes, the parser's state. */
#ifndef DT_PTX_PTX_PRIV_H
#define DT_PTX_PTX_PRIV_H

#include "base/hash.h"
#include "ptx/ptx.h"

/* ---- words.c: from text to table rows ---------------------------------------------------------------------------- */
enum ptx_word_kind { PTX_W_NONE, PTX_W_MOD, PTX_W_TYPE, PTX_W_SPACE };
struct ptx_word {
    uint8_t kind;
    uint16_t value;
};
struct ptx_word ptx_word_find(const char *s, size_t len); /* without the dot */
/* Operation of a mnemonic, PTX_OP_COUNT if none. *ret_longest: most words of a mnemonic that starts with this first
 * word. */
enum ptx_op ptx_mnemonic_find(const char *s, size_t len, unsigned *ret_longest);
enum ptx_sreg ptx_sreg_find(const char *s, size_t len); /* without the percent sign */
const char *ptx_space_text(unsigned space);

/* ---- lex.c ------------------------------------------------------------------------------------------------------- */
enum ptx_tok_kind {
    PTX_TK_EOF,
    PTX_TK_IDENT,
    PTX_TK_DOT /* .word, without the dot */,
    PTX_TK_NUM,
    PTX_TK_STRING /* with its quotes */,
    PTX_TK_PUNCT, /* val: the character; << >> && || == != <= >= as PTX_P2(a, b) */
    PTX_TK_BAD,
};
#define PTX_P2(a, b) ((a) << 8 | (b))
struct ptx_tok {
    uint8_t kind, type; /* type of a number: PTX_S64 PTX_U64 PTX_F32 PTX_F64 */
    uint32_t len, line, col;
    const char *s;
    uint64_t val;
};
struct ptx_lexer {
    const char *p, *end, *line_start; /* *end is NUL */
    uint32_t line;
    struct ptx_tok t; /* the current token */
    const char *bad;  /* why PTX_TK_BAD */
};
void ptx_lex_init(struct ptx_lexer *lx, const char *text, size_t len);
void ptx_lex_next(struct ptx_lexer *lx);
char ptx_lex_peek(struct ptx_lexer *lx); /* first character of the token after the current one, 0 at the end */

/* ---- scope.c: names with shadowing ------------------------------------------------------------------------------- */
#define PTX_MAX_DEPTH 64 /* nested { } */
enum ptx_bind_kind { PTX_BIND_NONE, PTX_BIND_REG, PTX_BIND_VAR, PTX_BIND_FUNC };
struct ptx_bind {
    uint8_t kind, depth;
    uint8_t vec; /* REG: 2 or 4 where it is so many registers, from reg on */
    uint32_t sym;
    uint32_t reg;
    union {
        struct ptx_var *var;
        struct ptx_function *func;
    };
    struct ptx_bind *below, *next; /* same name, outer; same scope */
};
struct ptx_range { /* .reg .b32 %r<100>: registers appear when they are first named */
    uint8_t depth, type, vec;
    uint32_t count, sym;
    struct ptx_range *below, *next;
};
struct ptx_label_bind {
    uint32_t sym, label;
    uint8_t depth;
    struct ptx_label_bind *below, *next;
};
struct ptx_label_info { /* parallel to ptx_function.label while a function is read */
    uint32_t sym, alias, line, col;
    bool defined;
};
struct ptx_sym {
    const char *name;
    struct ptx_bind *bind;
    struct ptx_range *range;
    struct ptx_label_bind *label;
    /* function serials: name taken there; module-scope name used there; word of an opaque statement */
    uint32_t taken, used, mentioned;
    uint32_t suffix;
};
struct ptx_scope {
    struct dt_arena arena;
    struct dt_names names;
    struct ptx_sym *sym;
    uint32_t nsym, sym_cap;
    struct ptx_module *m;
    struct ptx_function *f;
    uint32_t serial;      /* of the function */
    unsigned depth;       /* 0 module, 1 function, 2… nested */
    unsigned range_depth; /* deepest scope with a range */
    struct ptx_bind *binds[PTX_MAX_DEPTH + 1];
    struct ptx_range *ranges[PTX_MAX_DEPTH + 1];
    struct ptx_label_bind *labels[PTX_MAX_DEPTH + 1];
    struct ptx_label_info *linfo;
    uint32_t nlinfo, linfo_cap;
    uint32_t seen_var, seen_func, seen_reg, seen_param, seen_fvar; /* what ptx_append_text has taken in */
};
struct ptx_scope *ptx_scope_new(struct ptx_module *m);
void ptx_scope_free(struct ptx_scope *sc);
uint32_t ptx_intern(struct ptx_scope *sc, const char *s, size_t len); /* DT_NAME_NONE: out of memory */
/* A name for something declared now: the name itself, or a fresh one where it is taken. NULL: out of memory. */
const char *ptx_unique(struct ptx_scope *sc, uint32_t sym, bool label);
/* 1: this scope has the name already. */
int ptx_bind_add(struct ptx_scope *sc, unsigned depth, uint32_t sym, struct ptx_bind b);
/* at module scope, under what is bound already, which is deeper */
int ptx_bind_under(struct ptx_scope *sc, uint32_t sym, struct ptx_bind b);
int ptx_range_add(struct ptx_scope *sc, const char *prefix, size_t len, unsigned type, unsigned vec, uint32_t count);
/* What a name means here; makes the register if it is one of a range. kind NONE: nothing. */
int ptx_lookup(struct ptx_scope *sc, const char *s, size_t len, struct ptx_bind *ret);
int ptx_label_ref(struct ptx_scope *sc, const char *s, size_t len, uint32_t line, uint32_t col, uint32_t *ret);
/* 1: twice */
int ptx_label_def(struct ptx_scope *sc, const char *s, size_t len, uint32_t line, uint32_t col, uint32_t *ret);
int ptx_scope_open(struct ptx_scope *sc); /* 1: too deep */
int ptx_scope_close(struct ptx_scope *sc);
uint32_t ptx_label_final(const struct ptx_scope *sc, uint32_t label);
int ptx_reg_add(struct ptx_function *f, const char *name, unsigned type, unsigned vec, uint32_t *ret);
int ptx_label_add(struct ptx_function *f, const char *name, uint32_t *ret);

/* Room for one more element of an arena array. */
bool ptx_grow(struct dt_arena *a, void **p, uint32_t n, uint32_t *cap, size_t size);
#define PTX_GROW(a, p, n, cap) ptx_grow((a), (void **)&(p), (n), &(cap), sizeof *(p))

/* ---- parser state (parse*.c) ------------------------------------------------------------------------------------- */
#define PTX_MAX_ARENA ((size_t)1 << 30) /* a module may grow to this, whatever its text says */
struct ptx_parser {
    struct ptx_lexer lx;
    struct ptx_module *m;
    struct ptx_function *f;
    struct ptx_scope *sc;
    struct dt_err *e;
    const char *text;      /* the whole of it */
    unsigned depth;        /* of recursion: expressions, initialisers */
    uint16_t *sel;         /* where the operand at hand may have a video selector: that of it; else NULL */
    bool dst;              /* the operand at hand is a destination */
    struct ptx_reg_param { /* a parameter of the function that the text has in a register */
        struct ptx_var *var;
        uint32_t reg;
        uint8_t vec;
        bool result;
        struct ptx_reg_param *next;
    } * reg_param;
    struct ptx_late { /* a result of the call at hand that is a vector */
        struct ptx_var *var;
        struct ptx_opnd value;
        struct ptx_late *next;
    } * late;
};
/* at the current token */
int ptx_perr(struct ptx_parser *ps, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int ptx_perr_at(struct ptx_parser *ps, uint32_t line, uint32_t col, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int ptx_nomem(struct ptx_parser *ps);
static inline void ptx_next(struct ptx_parser *ps) { ptx_lex_next(&ps->lx); }
static inline bool ptx_is(const struct ptx_parser *ps, int c)
{
    return ps->lx.t.kind == PTX_TK_PUNCT && ps->lx.t.val == (uint64_t)c;
}
bool ptx_is_dot(const struct ptx_parser *ps, const char *word);
int ptx_expect(struct ptx_parser *ps, char c);
int ptx_unexpected(struct ptx_parser *ps, const char *wanted);
int ptx_parse_uint(struct ptx_parser *ps, uint64_t max, uint64_t *ret);
/* parse-expr.c: a constant, starting at the current token */
int ptx_parse_const(struct ptx_parser *ps, uint64_t *ret_bits, uint8_t *ret_type);
int ptx_parse_int(struct ptx_parser *ps, int64_t *ret);
/* parse-decl.c */
struct ptx_linkage {
    bool is_extern, visible, weak, common;
};
int ptx_parse_var(struct ptx_parser *ps, struct ptx_linkage l, unsigned space); /* after the space word; to the `;` */
int ptx_parse_param(struct ptx_parser *ps, struct ptx_function *f, bool result, struct ptx_var **ret);
int ptx_parse_reg(struct ptx_parser *ps);
/* parse-inst.c: statements up to the `}` that closes depth `until` (or the end of text, where until is 0) */
int ptx_parse_body(struct ptx_parser *ps, bool text);
void ptx_finish_labels(struct ptx_parser *ps, uint32_t first_inst);

/* verify-words.c: what is wrong with an instruction's words, which its row allows; NULL: nothing */
const char *ptx_words_wrong(const struct ptx_inst *i);

/* lower.c */
int ptx_vector_add(struct ptx_scope *sc, uint32_t sym, unsigned type, unsigned vec, uint32_t *ret); /* its registers */
/* behind a register's name: the component that is written, all of a vector, or nothing to do */
int ptx_vector_part(struct ptx_parser *ps, const struct ptx_bind *b, struct ptx_opnd *o);
int ptx_lower_moves(struct ptx_parser *ps, const struct ptx_inst *i, struct ptx_opnd *o); /* mov.vN */
int ptx_lower_sum(struct ptx_parser *ps, struct ptx_opnd *o); /* at the sign behind a register */
/* at the [ behind a variable */
int ptx_lower_index(struct ptx_parser *ps, const struct ptx_inst *i, struct ptx_opnd *o);
/* vectors among a call's arguments, before it; among its results, before and behind it */
int ptx_lower_args(struct ptx_parser *ps, const struct ptx_inst *i, struct ptx_opnd *list, bool result);
int ptx_lower_results(struct ptx_parser *ps, const struct ptx_inst *i);
int ptx_parse_reg_param(struct ptx_parser *ps, struct ptx_function *f, const struct ptx_tok *t, unsigned type,
                        unsigned vec, bool result, struct ptx_var **ret);
/* load the parameters, or store the results: under the guard of `like` (NULL: none) */
int ptx_lower_params(struct ptx_parser *ps, const struct ptx_inst *like, bool results);
int ptx_lower_prototype(struct ptx_parser *ps, struct ptx_inst *i); /* its text */
int ptx_lower_end(struct ptx_parser *ps);                           /* the end of a body */
/* a name at module scope for a variable of the function; NULL: memory is out */
const char *ptx_lower_static(struct ptx_parser *ps, const struct ptx_tok *t, struct ptx_var *v);

/* debug.c: .loc, .file, .section at the current token are read; *ret_was: it was one of them */
int ptx_parse_debug(struct ptx_parser *ps, bool *ret_was);

/* video.c */
uint16_t ptx_sel_parse(const char *s, size_t n); /* without the dot; 0: no selector */
struct ptx_opnd ptx_sel_opnd(const uint16_t sel[PTX_SELS]);
void ptx_put_sel(struct dt_str *out, uint16_t sel); /* with the dot; nothing for 0 */
/* what is wrong with words and selectors; NULL: nothing. Operands are there */
const char *ptx_video_wrong(const struct ptx_inst *i);

/* texture.c: what is wrong with words and operands, whose number fits the row; NULL: nothing */
const char *ptx_texture_wrong(const struct ptx_function *f, const struct ptx_inst *i);
/* at the `{` behind the `=` of a variable: its properties */
int ptx_texture_init(struct ptx_parser *ps, struct ptx_var *v);

/* use.c: what a function needs, transitively, in order of first appearance (module-scope variables, functions) */
struct ptx_use {
    struct dt_names var_at, func_at; /* name: place in var, func */
    const struct ptx_var **var;
    const struct ptx_function **func; /* func[0] is the function asked about */
    uint32_t nvar, var_cap, nfunc, func_cap;
    struct dt_arena arena;
};
int ptx_use_of(const struct ptx_function *f, struct ptx_use *u); /* 0 or DT_E_NOMEM; pair with done in either case */
void ptx_use_done(struct ptx_use *u);
static inline bool ptx_use_has_var(const struct ptx_use *u, const struct ptx_var *v)
{
    return dt_names_get(&u->var_at, v->name, __builtin_strlen(v->name)) != DT_NAME_NONE;
}
static inline bool ptx_use_has_func(const struct ptx_use *u, const struct ptx_function *f)
{
    return dt_names_get(&u->func_at, f->name, __builtin_strlen(f->name)) != DT_NAME_NONE;
}
/* use NULL: everything */
int ptx_print_some(const struct ptx_module *m, const struct ptx_use *use, struct dt_str *out);

/* origin.c */
struct ptx_origins { /* the texts that a module's instructions come from; .file of text[k] is k + 2 */
    struct dt_arena arena;
    uint64_t *text;
    uint32_t n, cap;
};
int ptx_put_origins(struct dt_str *out, const struct ptx_module *m, struct ptx_origins *o);
/* where it changes; *last NULL at first */
void ptx_put_loc(struct dt_str *out, const struct ptx_origins *o, const struct ptx_inst *i,
                 const struct ptx_inst **last);
/* `to` is a copy of it, or of some of its functions */
void ptx_origin_copy(const struct ptx_module *m, struct ptx_module *to);

/* print.c */
struct ptx_namer; /* canonical names, canon.c */
struct ptx_printer {
    struct dt_str *out;
    const struct ptx_function *f;
    struct ptx_namer *canon; /* NULL: names as they are */
};
void ptx_put_inst(struct ptx_printer *p, const struct ptx_inst *i);
void ptx_put_var(struct ptx_printer *p, const struct ptx_var *v); /* without `;` */
void ptx_put_directives(struct dt_str *out, const struct ptx_function *f, const char *sep);
void ptx_put_u64(struct dt_str *out, uint64_t v);
/* canon.c: the name to print */
void ptx_canon_reg(struct ptx_printer *p, uint32_t reg);
void ptx_canon_label(struct ptx_printer *p, uint32_t label);
void ptx_canon_var(struct ptx_printer *p, const struct ptx_var *v);
void ptx_canon_func(struct ptx_printer *p, const struct ptx_function *f);

/* parse-decl.c: bytes that a variable is aligned to where no .align says so */
uint32_t ptx_natural_align(const struct ptx_var *v);

#endif
