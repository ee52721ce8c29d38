/* Hex, the form of struct arguments in a graph document: pairs of digits of either case. (Content and machine code are
 * base64: base/base64.h.)
 */
#include "graph-priv.h"

static int value16(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 32);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

long g_hex_decode(const char *s, size_t n, uint8_t *out)
{
    if (n % 2)
        return -1;
    for (size_t i = 0; i < n; i += 2) {
        int hi = value16(s[i]), lo = value16(s[i + 1]);
        if (hi < 0 || lo < 0)
            return -1;
        out[i / 2] = (uint8_t)(hi << 4 | lo);
    }
    return (long)(n / 2);
}
