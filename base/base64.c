/* base64, in which documents carry bytes.
 *
 * RFC 4648 §4 with padding and nothing else: no white space, no URL alphabet, no bits set past the end, so that every
 * content has exactly one spelling.
 */
#include "base/base64.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int value64(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

size_t dt_base64_room(size_t n) { return n / 4 * 3; }

long dt_base64_decode(const char *s, size_t n, uint8_t *out)
{
    size_t at = 0;
    if (n % 4)
        return -1;
    for (size_t i = 0; i < n; i += 4) {
        bool last = i + 4 == n;
        int pad = last ? (s[i + 3] == '=') + (s[i + 3] == '=' && s[i + 2] == '=') : 0;
        uint32_t v = 0;
        for (int k = 0; k < 4; k++) {
            int d = k >= 4 - pad ? 0 : value64(s[i + k]);
            if (d < 0)
                return -1;
            v = v << 6 | (uint32_t)d;
        }
        if ((pad == 1 && (v & 0xff)) || (pad == 2 && (v & 0xffff)))
            return -1;
        out[at++] = (uint8_t)(v >> 16);
        if (pad < 2)
            out[at++] = (uint8_t)(v >> 8);
        if (pad < 1)
            out[at++] = (uint8_t)v;
    }
    return (long)at;
}

void dt_base64_encode(const uint8_t *p, size_t n, struct dt_str *out)
{
    char line[256];
    size_t fill = 0;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        line[fill++] = digits[v >> 18];
        line[fill++] = digits[v >> 12 & 63];
        line[fill++] = i + 1 < n ? digits[v >> 6 & 63] : '=';
        line[fill++] = i + 2 < n ? digits[v & 63] : '=';
        if (fill == sizeof line) {
            dt_str_addn(out, line, fill);
            fill = 0;
        }
    }
    dt_str_addn(out, line, fill);
}
