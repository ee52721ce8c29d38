/* Constant expressions (§4.6), which may stand wherever an immediate may.
 *
 * Precedence climbing over 64-bit values that are signed or unsigned as in C; a plain literal, optionally negated,
 * takes the short way. Floating-point constants may be negated, added, subtracted, multiplied and divided (in double
 * precision); 0f… keeps its own bits. Depth is bounded.
 */
#include <string.h>

#include "ptx/ptx-priv.h"

struct val {
    uint64_t bits;
    uint8_t type; /* PTX_S64 PTX_U64 PTX_F32 PTX_F64 */
};

static int ternary(struct ptx_parser *ps, struct val *ret);

static bool is_int(struct val v) { return v.type == PTX_S64 || v.type == PTX_U64; }

static double as_double(struct val v)
{
    if (v.type == PTX_F64) {
        double d;
        memcpy(&d, &v.bits, 8);
        return d;
    }
    if (v.type == PTX_F32) {
        float f;
        uint32_t b = (uint32_t)v.bits;
        memcpy(&f, &b, 4);
        return f;
    }
    return v.type == PTX_S64 ? (double)(int64_t)v.bits : (double)v.bits;
}

static struct val integer(uint64_t bits, bool is_unsigned)
{
    return (struct val){bits, is_unsigned ? PTX_U64 : PTX_S64};
}

static int primary(struct ptx_parser *ps, struct val *ret)
{
    struct ptx_tok *t = &ps->lx.t;
    if (t->kind == PTX_TK_NUM) {
        *ret = (struct val){t->val, t->type};
        ptx_next(ps);
        return 0;
    }
    if (t->kind == PTX_TK_IDENT && t->len == 7 && !memcmp(t->s, "WARP_SZ", 7)) {
        *ret = integer(32, false);
        ptx_next(ps);
        return 0;
    }
    if (ps->depth >= PTX_MAX_DEPTH)
        return ptx_perr(ps, "expression is nested too deeply");
    int r;
    if (ptx_is(ps, '(')) {
        ptx_next(ps);
        if (ptx_is_dot(ps, "s64") || ptx_is_dot(ps, "u64")) { /* a cast */
            bool u = ptx_is_dot(ps, "u64");
            ptx_next(ps);
            ps->depth++;
            r = ptx_expect(ps, ')');
            if (!r)
                r = primary(ps, ret);
            ps->depth--;
            if (!r && !is_int(*ret))
                return ptx_perr(ps, "cast of a floating-point constant");
            ret->type = u ? PTX_U64 : PTX_S64;
            return r;
        }
        ps->depth++;
        r = ternary(ps, ret);
        ps->depth--;
        return r < 0 ? r : ptx_expect(ps, ')');
    }
    int op = t->kind == PTX_TK_PUNCT ? (int)t->val : 0;
    if (op != '-' && op != '+' && op != '!' && op != '~')
        return ptx_unexpected(ps, "a constant");
    ptx_next(ps);
    ps->depth++;
    r = primary(ps, ret);
    ps->depth--;
    if (r < 0)
        return r;
    if (!is_int(*ret)) {
        if (op == '-')
            ret->bits ^= ret->type == PTX_F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
        else if (op != '+')
            return ptx_perr(ps, "operator does not take floating-point constants");
        return 0;
    }
    if (op == '-')
        *ret = integer(-ret->bits, ret->type == PTX_U64 && ret->bits != UINT64_C(1) << 63);
    else if (op == '~')
        ret->bits = ~ret->bits;
    else if (op == '!')
        *ret = integer(!ret->bits, false);
    return 0;
}

static unsigned level(const struct ptx_parser *ps)
{
    if (ps->lx.t.kind != PTX_TK_PUNCT)
        return 0;
    switch (ps->lx.t.val) {
    case PTX_P2('|', '|'): return 1;
    case PTX_P2('&', '&'): return 2;
    case '|': return 3;
    case '^': return 4;
    case '&': return 5;
    case PTX_P2('=', '='):
    case PTX_P2('!', '='): return 6;
    case '<':
    case '>':
    case PTX_P2('<', '='):
    case PTX_P2('>', '='): return 7;
    case PTX_P2('<', '<'):
    case PTX_P2('>', '>'): return 8;
    case '+':
    case '-': return 9;
    case '*':
    case '/':
    case '%': return 10;
    default: return 0;
    }
}

static int apply(struct ptx_parser *ps, int op, struct val a, struct val b, struct val *ret)
{
    if (!is_int(a) || !is_int(b)) {
        double x = as_double(a), y = as_double(b), z;
        if (op == '+')
            z = x + y;
        else if (op == '-')
            z = x - y;
        else if (op == '*')
            z = x * y;
        else if (op == '/')
            z = x / y;
        else
            return ptx_perr(ps, "operator does not take floating-point constants");
        ret->type = PTX_F64;
        memcpy(&ret->bits, &z, 8);
        return 0;
    }
    bool u = a.type == PTX_U64 || b.type == PTX_U64;
    uint64_t x = a.bits, y = b.bits;
    int64_t sx = (int64_t)x, sy = (int64_t)y;
    switch (op) {
    case PTX_P2('|', '|'): *ret = integer(x || y, false); break;
    case PTX_P2('&', '&'): *ret = integer(x && y, false); break;
    case '|': *ret = integer(x | y, u); break;
    case '^': *ret = integer(x ^ y, u); break;
    case '&': *ret = integer(x & y, u); break;
    case PTX_P2('=', '='): *ret = integer(x == y, false); break;
    case PTX_P2('!', '='): *ret = integer(x != y, false); break;
    case '<': *ret = integer(u ? x < y : sx < sy, false); break;
    case '>': *ret = integer(u ? x > y : sx > sy, false); break;
    case PTX_P2('<', '='): *ret = integer(u ? x <= y : sx <= sy, false); break;
    case PTX_P2('>', '='): *ret = integer(u ? x >= y : sx >= sy, false); break;
    case PTX_P2('<', '<'): *ret = integer(y > 63 ? 0 : x << y, a.type == PTX_U64); break;
    case PTX_P2('>', '>'):
        if (a.type == PTX_U64)
            *ret = integer(y > 63 ? 0 : x >> y, true);
        else
            *ret = integer((uint64_t)(sx >> (y > 63 ? 63 : y)), false);
        break;
    case '+': *ret = integer(x + y, u); break;
    case '-': *ret = integer(x - y, u); break;
    case '*': *ret = integer(x * y, u); break;
    default:
        if (!y)
            return ptx_perr(ps, "division by zero in a constant");
        if (u)
            *ret = integer(op == '/' ? x / y : x % y, true);
        else if (sy == -1)
            *ret = integer(op == '/' ? -x : 0, false);
        else
            *ret = integer((uint64_t)(op == '/' ? sx / sy : sx % sy), false);
    }
    return 0;
}

static int binary(struct ptx_parser *ps, unsigned min, struct val *ret)
{
    int r = primary(ps, ret);
    unsigned l;
    while (r >= 0 && (l = level(ps)) && l >= min) {
        int op = (int)ps->lx.t.val;
        struct val rhs;
        ptx_next(ps);
        r = binary(ps, l + 1, &rhs); /* at most 10 deep: `min` grows */
        if (r >= 0)
            r = apply(ps, op, *ret, rhs, ret);
    }
    return r;
}

static int ternary(struct ptx_parser *ps, struct val *ret)
{
    int r = binary(ps, 1, ret);
    if (r < 0 || !ptx_is(ps, '?'))
        return r;
    if (ps->depth >= PTX_MAX_DEPTH)
        return ptx_perr(ps, "expression is nested too deeply");
    struct val a, b;
    ptx_next(ps);
    ps->depth++;
    if ((r = ternary(ps, &a)) >= 0 && (r = ptx_expect(ps, ':')) >= 0)
        r = ternary(ps, &b);
    ps->depth--;
    if (r >= 0)
        *ret = as_double(*ret) != 0 ? a : b;
    return r;
}

int ptx_parse_const(struct ptx_parser *ps, uint64_t *ret_bits, uint8_t *ret_type)
{
    struct val v;
    int r = ternary(ps, &v);
    if (r < 0)
        return r;
    if (is_int(v)) /* canonical, see lex.c; a negative number is S64 */
        v.type = v.type == PTX_U64 && v.bits >> 63 ? PTX_U64 : PTX_S64;
    *ret_bits = v.bits;
    *ret_type = v.type;
    return 0;
}

int ptx_parse_int(struct ptx_parser *ps, int64_t *ret)
{
    uint64_t bits;
    uint8_t type;
    struct ptx_tok at = ps->lx.t;
    int r = ptx_parse_const(ps, &bits, &type);
    if (r < 0)
        return r;
    if (type != PTX_S64 && type != PTX_U64)
        return ptx_perr_at(ps, at.line, at.col, "an integer is wanted here");
    *ret = (int64_t)bits;
    return 0;
}
