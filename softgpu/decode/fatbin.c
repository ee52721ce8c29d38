/* Fat binaries: the container that nvcc's `fatbinary` makes, and the best PTX in it.
 *
 * A container is a header of 16 bytes (magic 0xBA55ED50, version 1, size of the header, bytes after it) and entries one
 * after another. An entry is a header, whose length it says, and a payload:
 *
 *    0 u16 kind: 1 PTX, 2 SASS      16 u32 stored bytes, 0: not compressed   40 u64 flags: 0x2000 LZ4, 0x8000 zstd
 *                                   (12.8 and later)
 *    4 u32 bytes of this header     24 u16 minor, 26 u16 major version       56 u64 bytes when decompressed
 *    8 u64 bytes of payload, padded 28 u32 architecture (80, 90, …)
 *
 * Read from files of CUDA 13.0's fatbinary (all its compress modes). The LZ4 ones hold one block. The best PTX is the
 * one for the highest architecture that the device can run; of targets with a suffix (sm_90a, sm_100f) only what fits
 * exactly or by family. Nothing in a container is trusted: every length is checked before it is used.
 */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/alloc.h"
#include "softgpu/sg.h"

#define MAGIC 0xBA55ED50u
enum { HEADER = 16, ENTRY = 64, KIND_PTX = 1, LZ4 = 0x2000, ZSTD = 0x8000 };

static uint64_t fatbin_number(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

/* A length of LZ4: a nibble, and while bytes of 255 follow, those and one more. */
static bool lz4_length(const uint8_t **s, const uint8_t *end, unsigned nibble, size_t *ret)
{
    size_t n = nibble;
    if (nibble == 15)
        for (unsigned b = 255; b == 255;) {
            if (*s == end || n > PTX_MAX_BYTES)
                return false;
            b = *(*s)++;
            n += b;
        }
    *ret = n;
    return true;
}

/* One LZ4 block: sequences of literals and a copy of earlier output (16-bit distance). It must give `room` bytes
 * exactly. */
static bool lz4(const uint8_t *s, size_t len, uint8_t *out, size_t room)
{
    const uint8_t *end = s + len;
    size_t at = 0, n;
    while (s < end) {
        unsigned token = *s++;
        if (!lz4_length(&s, end, token >> 4, &n) || n > (size_t)(end - s) || n > room - at)
            return false;
        memcpy(out + at, s, n);
        s += n;
        at += n;
        if (s == end)
            break;
        if (end - s < 2)
            return false;
        size_t distance = (size_t)fatbin_number(s, 2);
        s += 2;
        if (!distance || distance > at || !lz4_length(&s, end, token & 15, &n))
            return false;
        n += 4;
        if (n > room - at)
            return false;
        for (; n; n--, at++) /* may overlap itself */
            out[at] = out[at - distance];
    }
    return at == room;
}

static int fatbin_unpack(const uint8_t *e, const uint8_t *payload, uint64_t payload_bytes, char **ret, size_t *ret_len)
{
    uint64_t flags = fatbin_number(e + 40, 8), stored = fatbin_number(e + 16, 4), bytes = fatbin_number(e + 56, 8);
    if (!(flags & (LZ4 | ZSTD)))
        stored = bytes = payload_bytes;
    if (stored > payload_bytes || bytes > PTX_MAX_BYTES || !bytes)
        return DT_E_PTX;
    char *text = dt_malloc(bytes + 1);
    if (!text)
        return DT_E_NOMEM;
    bool ok = true;
    if (flags & ZSTD)
        ok = ZSTD_decompress(text, bytes, payload, stored) == bytes;
    else if (flags & LZ4)
        ok = lz4(payload, stored, (uint8_t *)text, bytes);
    else
        memcpy(text, payload, bytes);
    if (!ok) {
        free(text);
        return DT_E_PTX;
    }
    text[bytes] = 0;
    *ret = text;
    *ret_len = strnlen(text, bytes);
    return 0;
}

bool sg_target_fits(const char *ptx, size_t len, unsigned cc)
{
    const char *p = memmem(ptx, len, ".target", 7);
    p = p ? memmem(p, len - (size_t)(p - ptx), "sm_", 3) : NULL;
    if (!p)
        return true; /* no target: the parser has a word to say */
    const char *end = ptx + len;
    unsigned n = 0;
    for (p += 3; p < end && *p >= '0' && *p <= '9' && n < 10000; p++)
        n = n * 10 + (unsigned)(*p - '0');
    char suffix = p < end ? *p : 0;
    return suffix == 'a' ? n == cc : n <= cc && (suffix != 'f' || n / 10 == cc / 10);
}

int sg_fatbin_ptx(const void *data, size_t len, unsigned cc, char **ret, size_t *ret_len)
{
    const uint8_t *p = data;
    if (len < HEADER || fatbin_number(p, 4) != MAGIC || fatbin_number(p + 4, 2) != 1 ||
        fatbin_number(p + 6, 2) != HEADER)
        return DT_E_PTX;
    uint64_t at = HEADER, end = fatbin_number(p + 8, 8), best = 0;
    if (at > len || end > len - at)
        return DT_E_PTX;
    end += at;
    char *text = NULL;
    size_t text_len = 0;
    while (end - at >= ENTRY) {
        const uint8_t *e = p + at;
        uint64_t head = fatbin_number(e + 4, 4), bytes = fatbin_number(e + 8, 8), arch = fatbin_number(e + 28, 4);
        if (head < ENTRY || head > end - at || bytes > end - at - head) {
            free(text);
            return DT_E_PTX;
        }
        if (fatbin_number(e, 2) == KIND_PTX && arch <= cc && arch >= best) {
            char *t;
            size_t n;
            int r = fatbin_unpack(e, e + head, bytes, &t, &n);
            if (r < 0) {
                free(text);
                return r;
            }
            if (sg_target_fits(t, n, cc)) {
                free(text);
                text = t;
                text_len = n;
                best = arch;
            } else {
                free(t);
            }
        }
        at += head + bytes;
    }
    if (!text)
        return DT_E_NOT_FOUND;
    *ret = text;
    *ret_len = text_len;
    return 0;
}

bool sg_fatbin_is(const void *data)
{
    const uint8_t *p = data;
    return p[0] == (MAGIC & 255) && p[1] == (MAGIC >> 8 & 255) && p[2] == (MAGIC >> 16 & 255) && p[3] == MAGIC >> 24;
}

size_t sg_fatbin_bytes(const void *data)
{
    const uint8_t *p = data;
    uint64_t n = fatbin_number(p + 8, 8);
    return n > SIZE_MAX / 2 ? SIZE_MAX / 2 : (size_t)(HEADER + n);
}
