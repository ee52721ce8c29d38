/* Packed files: one zstd frame of text, and a seal behind it.
 *
 *   zstd frame      the text, with a checksum of its content; window of 8 MB at most
 *   skippable frame (magic 0x184D2A5D) JSON: {"signer", "date", "seal"}: a seal over the SHA-256 of the bytes before it
 *
 * The seal is over what is packed, so it can be checked before anything is unpacked. Unpacking holds a line and zstd's
 * window, whatever the file says of itself: a frame that wants a larger window, a line that does not end and a text
 * that does not end are refused where the bound is reached. The seal counts only in the place where this file puts it:
 * directly behind the first frame, with nothing behind it.
 *
 * A file that does not begin as a zstd frame does is taken as text. Not here: what the lines are (bundle.c).
 */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/json.h"
#include "sign-priv.h"

#define LEVEL 12
#define PACK_WINDOW_LOG 18 /* rows are alike, and small: more gains nothing and takes tens of megabytes */
#define PACK_TABLE_LOG 17
#define WINDOW_LOG 23 /* of what is unpacked */
#define SKIP_MAGIC 0x184D2A5Du
#define SKIP_HEAD 8
#define SEAL_MAX 1024 /* bytes of the JSON */
#define CHUNK (128u << 10)
#define FLUSH (16u << 10) /* bytes of text that a cut may cost beyond the row that it hits */

static uint32_t le32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void put_le32(char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(v >> 8 * i);
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

struct sign_packer {
    ZSTD_CCtx *z;
    size_t text, loose; /* bytes in all; since the last flush */
    struct dt_str out;
};

int sign_pack_new(struct sign_packer **ret, struct dt_err *e)
{
    struct sign_packer *p = dt_calloc(1, sizeof *p);
    if (p)
        p->z = ZSTD_createCCtx();
    if (!p || !p->z || ZSTD_isError(ZSTD_CCtx_setParameter(p->z, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->z, ZSTD_c_windowLog, PACK_WINDOW_LOG)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->z, ZSTD_c_hashLog, PACK_TABLE_LOG)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->z, ZSTD_c_chainLog, PACK_TABLE_LOG)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(p->z, ZSTD_c_checksumFlag, 1))) {
        sign_pack_free(p);
        return dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle");
    }
    *ret = p;
    return 0;
}

static int pack_feed(struct sign_packer *p, const char *text, size_t n, ZSTD_EndDirective end, struct dt_err *e)
{
    ZSTD_inBuffer in = {text, n, 0};
    size_t left;
    do {
        char chunk[16384];
        ZSTD_outBuffer out = {chunk, sizeof chunk, 0};
        left = ZSTD_compressStream2(p->z, &out, &in, end);
        dt_str_addn(&p->out, chunk, out.pos);
        if (ZSTD_isError(left) || p->out.failed)
            return dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle");
    } while (end == ZSTD_e_continue ? in.pos < in.size : left > 0);
    return 0;
}

int sign_pack_add(struct sign_packer *p, const char *text, size_t n, size_t max_text, struct dt_err *e)
{
    if (n > max_text || p->text > max_text - n)
        return dt_err_set(e, DT_E_TOO_LARGE, "that is more than a bundle may hold (%zu MB of text): select less",
                          max_text >> 20);
    p->text += n;
    p->loose += n;
    const bool flush = p->loose >= FLUSH;
    if (flush)
        p->loose = 0;
    return pack_feed(p, text, n, flush ? ZSTD_e_flush : ZSTD_e_continue, e);
}

static int pack_seal(struct sign_packer *p, const struct sign_key *key, int64_t date)
{
    struct sign_seal seal;
    char digest[DT_SHA256_TEXT], head[SKIP_HEAD];
    json_t *o = json_object();
    int r = dt_sha256_text(p->out.s, p->out.len, digest);
    if (!r)
        r = sign_file_seal(key, digest, date, &seal);
    dt_free_ char *text = !r && o && sign_seal_put(o, &seal) == 0 ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text)
        return DT_E_NOMEM;
    put_le32(head, SKIP_MAGIC);
    put_le32(head + 4, (uint32_t)strlen(text));
    dt_str_addn(&p->out, head, sizeof head);
    dt_str_add(&p->out, text);
    return p->out.failed ? DT_E_NOMEM : 0;
}

int sign_pack_end(struct sign_packer *p, const struct sign_key *key, int64_t date, char **ret, size_t *ret_len,
                  struct dt_err *e)
{
    int r = pack_feed(p, "", 0, ZSTD_e_end, e);
    if (r == 0 && key && (r = pack_seal(p, key, date)) < 0)
        r = dt_err_set(e, r, "out of memory for a bundle");
    if (r < 0)
        return r;
    size_t n = p->out.len;
    char *out = dt_str_take(&p->out);
    if (!out)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle");
    *ret = out;
    *ret_len = n;
    return 0;
}

struct sign_packer *sign_pack_free(struct sign_packer *p)
{
    if (p) {
        ZSTD_freeCCtx(p->z);
        dt_str_done(&p->out);
    }
    free(p);
    return NULL;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* Bytes of the first frame; 0: it has no end. */
static size_t frame_size(const char *bytes, size_t len)
{
    size_t n = ZSTD_findFrameCompressedSize(bytes, len);
    return ZSTD_isError(n) || n > len ? 0 : n;
}

static bool seal_in(const char *p, size_t n, struct sign_seal *ret)
{
    json_t *o = NULL;
    bool ok = n > SKIP_HEAD && n <= SKIP_HEAD + SEAL_MAX && le32(p) == SKIP_MAGIC && le32(p + 4) == n - SKIP_HEAD &&
              dt_json_load(p + SKIP_HEAD, n - SKIP_HEAD, &o, NULL) == 0 && sign_seal_get(o, ret);
    json_decref(o);
    return ok;
}

int sign_packed_look(const char *bytes, size_t len, struct sign_packed *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->packed = len >= 4 && le32(bytes) == ZSTD_MAGICNUMBER;
    size_t n = ret->packed ? frame_size(bytes, len) : 0;
    if (!n || n == len)
        return 0;
    if (!seal_in(bytes + n, len - n, &ret->seal)) {
        ret->broken = "what stands behind its text is no seal";
        return 0;
    }
    ret->sealed = true;
    return dt_sha256_text(bytes, n, ret->digest);
}

/* ---- unpacking --------------------------------------------------------------------------------------------------- */

struct unpack {
    sign_line_fn *fn;
    void *user;
    struct dt_str line; /* what has come of it */
    size_t text, max;
};

static int give(struct unpack *u, const char *line, size_t n, struct dt_err *e)
{
    if (!u->line.len)
        return u->fn(u->user, line, n, e);
    dt_str_addn(&u->line, line, n);
    if (u->line.failed)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle");
    int r = u->fn(u->user, u->line.s, u->line.len, e);
    u->line.len = 0;
    return r;
}

static int take_text(struct unpack *u, const char *p, size_t n, struct dt_err *e)
{
    int r = 0;
    if (n > u->max - u->text)
        return dt_err_set(e, DT_E_TOO_LARGE, "the bundle is refused: it holds more than %zu bytes of text", u->max);
    u->text += n;
    while (n && r >= 0) {
        const char *end = memchr(p, '\n', n);
        size_t k = end ? (size_t)(end - p) : n;
        if (k > SIGN_LINE_MAX - u->line.len)
            return dt_err_set(e, DT_E_TOO_LARGE, "the bundle is refused: it has a line of more than %u bytes",
                              SIGN_LINE_MAX);
        if (end) {
            r = give(u, p, k, e);
        } else {
            dt_str_addn(&u->line, p, k);
            if (u->line.failed)
                r = dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle");
        }
        p += k + (end != NULL);
        n -= k + (end != NULL);
    }
    return r;
}

/* One frame. Where it cannot be read on, ret says why, and that is no error. */
static int unpack_frame(struct unpack *u, const char *bytes, size_t len, struct sign_packed *ret, struct dt_err *e)
{
    ZSTD_DCtx *z = ZSTD_createDCtx();
    dt_free_ char *chunk = dt_malloc(CHUNK);
    ZSTD_inBuffer in = {bytes, len, 0};
    int r = z && chunk && !ZSTD_isError(ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, WINDOW_LOG))
                ? 0
                : dt_err_set(e, DT_E_NOMEM, "out of memory for a bundle");
    for (size_t left = 1; r >= 0 && left;) {
        ZSTD_outBuffer out = {chunk, CHUNK, 0};
        size_t was = in.pos;
        left = ZSTD_decompressStream(z, &out, &in);
        if (ZSTD_isError(left)) {
            ret->broken = "it is damaged";
            break;
        }
        r = take_text(u, chunk, out.pos, e);
        if (r >= 0 && left && in.pos == was && !out.pos) {
            ret->broken = "it is cut off";
            break;
        }
    }
    ZSTD_freeDCtx(z);
    return r;
}

int sign_packed_lines(const char *bytes, size_t len, size_t max_text, sign_line_fn *fn, void *user,
                      struct sign_packed *ret, struct dt_err *e)
{
    struct unpack u = {.fn = fn, .user = user, .max = max_text};
    int r = sign_packed_look(bytes, len, ret);
    if (r < 0)
        return dt_err_set(e, r, "out of memory for a bundle");
    r = ret->packed ? unpack_frame(&u, bytes, len, ret, e) : take_text(&u, bytes, len, e);
    if (r >= 0 && u.line.len) { /* no '\n' behind the last line */
        r = fn(user, u.line.s, u.line.len, e);
    }
    dt_str_done(&u.line);
    return r;
}
