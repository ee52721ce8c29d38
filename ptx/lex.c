/* Characters to tokens.
 *
 * The text ends with a NUL that is not part of it, so the scanner needs no bounds checks inside a token. Comments are
 * white space; a carriage return is too. Numbers (§4.5): decimal, 0x, 0b, octal, each with an optional U; 0f and 0d
 * with the bits of a float in hex; decimal floating point. A number with the top bit clear is S64, else U64, whatever
 * its suffix: only constant expressions could see the difference, and printing needs no suffix then.
 * A `.word` takes its `::word` parts with it. Not here: what a word means (words.c).
 */
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx-priv.h"

enum { C_ID = 1, C_DIGIT = 2, C_HEX = 4 };
static const uint8_t class[256] = {
    ['a' ... 'f'] = C_ID | C_HEX,
    ['g' ... 'z'] = C_ID,
    ['A' ... 'F'] = C_ID | C_HEX,
    ['G' ... 'Z'] = C_ID,
    ['0' ... '9'] = C_ID | C_DIGIT | C_HEX,
    ['_'] = C_ID,
    ['$'] = C_ID,
    ['%'] = 0,
};
#define IS(c, k) (class[(unsigned char)(c)] & (k))

void ptx_lex_init(struct ptx_lexer *lx, const char *text, size_t len)
{
    *lx = (struct ptx_lexer){.p = text, .end = text + len, .line_start = text, .line = 1};
    ptx_lex_next(lx);
}

static void skip_space(struct ptx_lexer *lx)
{
    const char *p = lx->p;
    for (;; p++) {
        if (*p == '\n') {
            lx->line++;
            lx->line_start = p + 1;
        } else if (*p == '/' && p[1] == '/') {
            const char *nl = memchr(p, '\n', (size_t)(lx->end - p));
            p = (nl ? nl : lx->end) - 1;
        } else if (*p == '/' && p[1] == '*') {
            const char *q = p + 2;
            for (; q < lx->end && !(*q == '*' && q[1] == '/'); q++)
                if (*q == '\n') {
                    lx->line++;
                    lx->line_start = q + 1;
                }
            if (q >= lx->end) {
                lx->bad = "comment that does not end";
                p = lx->end;
                break;
            }
            p = q + 1;
        } else if (*p != ' ' && *p != '\t' && *p != '\r' && *p != '\f' && *p != '\v') {
            break;
        }
    }
    lx->p = p;
}

static void lex_bad(struct ptx_lexer *lx, const char *why)
{
    lx->t.kind = PTX_TK_BAD;
    lx->bad = why;
}

static unsigned digit(char c) { return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a' + 10); }

static void lex_number(struct ptx_lexer *lx)
{
    struct ptx_tok *t = &lx->t;
    const char *p = lx->p, *start = p;
    t->kind = PTX_TK_NUM;
    if (*p == '0' && ((p[1] | 32) == 'f' || (p[1] | 32) == 'd')) {
        unsigned want = (p[1] | 32) == 'f' ? 8 : 16;
        t->type = want == 8 ? PTX_F32 : PTX_F64;
        for (p += 2; IS(*p, C_HEX); p++)
            t->val = t->val << 4 | digit(*p);
        if ((size_t)(p - start) != want + 2)
            lex_bad(lx, want == 8 ? "0f needs 8 hexadecimal digits" : "0d needs 16 hexadecimal digits");
        lx->p = p;
        return;
    }
    unsigned base = 10;
    if (*p == '0' && (p[1] | 32) == 'x')
        base = 16, p += 2;
    else if (*p == '0' && (p[1] | 32) == 'b')
        base = 2, p += 2;
    else if (*p == '0' && IS(p[1], C_DIGIT))
        base = 8, p++;
    const char *digits = p;
    bool over = false;
    while (IS(*p, C_HEX) && digit(*p) < base) {
        over |= __builtin_mul_overflow(t->val, (uint64_t)base, &t->val);
        over |= __builtin_add_overflow(t->val, (uint64_t)digit(*p++), &t->val);
    }
    if ((base == 10 || base == 8) &&
        ((*p == '.' && IS(p[1], C_DIGIT)) || (*p | 32) == 'e' || (*p == '.' && !IS(p[1], C_ID)))) {
        char buf[64], *stop;
        size_t n = 0;
        for (p = start; n < sizeof buf - 1 && (IS(*p, C_DIGIT) || *p == '.' || (*p | 32) == 'e' ||
                                               ((*p == '-' || *p == '+') && (p[-1] | 32) == 'e'));)
            buf[n++] = *p++;
        buf[n] = 0;
        double d = strtod(buf, &stop);
        if (*stop || IS(*p, C_ID))
            lex_bad(lx, "malformed number");
        memcpy(&t->val, &d, sizeof d);
        t->type = PTX_F64;
        lx->p = p;
        return;
    }
    if (p == digits && base != 8)
        lex_bad(lx, "number without digits");
    if (over)
        lex_bad(lx, "number is over 64 bits");
    if ((*p | 32) == 'u')
        p++;
    if (IS(*p, C_ID))
        lex_bad(lx, "malformed number");
    t->type = t->val >> 63 ? PTX_U64 : PTX_S64;
    lx->p = p;
}

void ptx_lex_next(struct ptx_lexer *lx)
{
    skip_space(lx);
    const char *p = lx->p;
    lx->t = (struct ptx_tok){.s = p, .line = lx->line, .col = (uint32_t)(p - lx->line_start) + 1};
    struct ptx_tok *t = &lx->t;
    if (p >= lx->end) {
        t->kind = lx->bad ? PTX_TK_BAD : PTX_TK_EOF;
        return;
    }
    if (IS(*p, C_DIGIT)) {
        lex_number(lx);
    } else if (IS(*p, C_ID) || (*p == '%' && IS(p[1], C_ID))) {
        t->kind = PTX_TK_IDENT;
        for (p++; IS(*p, C_ID); p++)
            ;
        lx->p = p;
    } else if (*p == '.' && IS(p[1], C_ID)) {
        t->kind = PTX_TK_DOT;
        t->s = ++p;
        for (;; p += 2) {
            while (IS(*p, C_ID))
                p++;
            if (*p != ':' || p[1] != ':' || !IS(p[2], C_ID))
                break;
        }
        lx->p = p;
    } else if (*p == '"') {
        t->kind = PTX_TK_STRING;
        for (p++; *p && *p != '"' && *p != '\n'; p++)
            if (*p == '\\' && p[1] && p[1] != '\n')
                p++;
        if (p >= lx->end || *p != '"')
            lex_bad(lx, "string that does not end");
        else
            p++;
        lx->p = p;
    } else {
        t->kind = PTX_TK_PUNCT;
        t->val = (unsigned char)*p++;
        if (*p == (char)t->val && memchr("<>&|=", *p, 5))
            t->val = (uint64_t)PTX_P2((int)t->val, *p++);
        else if (*p == '=' && (t->val == '!' || t->val == '<' || t->val == '>'))
            t->val = (uint64_t)PTX_P2((int)t->val, *p++);
        lx->p = p;
        if (t->val < 128 && !memchr("%,;:()[]{}<>@!|+-*/~&^=?.", (int)t->val, 25))
            lex_bad(lx, "stray character");
        else if (t->val >= 128 && t->val < 256)
            lex_bad(lx, "character outside ASCII");
    }
    t->len = (uint32_t)(lx->p - t->s);
}

char ptx_lex_peek(struct ptx_lexer *lx)
{
    skip_space(lx);
    return lx->p < lx->end ? *lx->p : 0;
}
