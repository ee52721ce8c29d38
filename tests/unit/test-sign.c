/* Keys, signers, seals and packed files: what is believed, what is not and why, what hostile files cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <zstd.h>

#include "base/file.h"
#include "base/str.h"
#include "sign/sign.h"

#define SIG "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define DIG "sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddee00"
#define NOW 1767225600 /* 2026-01-01 */
#define DAY 86400

static char dir[64], path[128], public[SIGN_PUBLIC_TEXT];
static struct sign_key *key;

static int set_up(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/dt-sign-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/farm.key", dir);
    return sign_keygen("farm", path, public, NULL) < 0 || sign_key_read(path, &key, NULL) < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    key = sign_key_free(key);
    unlink(path);
    return rmdir(dir);
}

static struct sign_signers *signers(const char *fmt, ...)
{
    struct sign_signers *s = NULL;
    struct dt_err e = {0};
    struct dt_str text = {0};
    va_list ap;
    va_start(ap, fmt);
    dt_str_addfv(&text, fmt, ap);
    va_end(ap);
    if (sign_signers_parse(text.s, "signers", &s, &e) < 0)
        fail_msg("%s", e.detail);
    dt_str_done(&text);
    return s;
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static void refused_key(const char *text, mode_t mode, const char *word)
{
    struct sign_key *k = NULL;
    struct dt_err e = {0};
    char other[160];
    snprintf(other, sizeof other, "%s/other", dir);
    assert_int_equal(dt_write_file(other, text, strlen(text), NULL), 0);
    chmod(other, mode);
    assert_int_equal(sign_key_read(other, &k, &e), DT_E_USAGE);
    assert_null(k);
    assert_non_null(strstr(e.detail, word));
    dt_err_done(&e);
    unlink(other);
}

static void test_key_files(void **state)
{
    struct stat st;
    struct dt_err e = {0};
    char *text, again[SIGN_PUBLIC_TEXT];
    size_t n;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_string_equal(sign_key_name(key), "farm");
    assert_int_equal(sign_keygen("farm", path, again, &e), DT_E_USAGE); /* never over another */
    assert_non_null(strstr(e.detail, "never written over"));
    dt_err_done(&e);
    assert_int_equal(dt_read_file(path, 4096, &text, &n, NULL), 0);
    assert_null(strstr(text, public)); /* it is the secret half */
    refused_key(text, 0640, "chmod 600");
    refused_key(text, 0604, "chmod 600");
    text[n - 1] = 0;
    refused_key(text, 0600, "no key file");
    free(text);
    refused_key("", 0600, "no key file");
    refused_key("name farm\nsecret ed25519:AAAA\n", 0600, "no key file");
    static const char *const bad[] = {
        "", "a b", "-x", "../x", "a/b", "ä", "0123456789012345678901234567890123456789012345678901234567890123"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sign_keygen(bad[i], "/nonexistent/x", again, &e), DT_E_USAGE);
        assert_non_null(strstr(e.detail, "a signer's name"));
        dt_err_done(&e);
    }
    assert_int_equal(sign_keygen("x", "/nonexistent/x", again, NULL), DT_E_USAGE);
    assert_int_equal(sign_key_read("/nonexistent/x", &key, NULL), DT_E_USAGE);
}

static void test_signers_file(void **state)
{
    static const struct {
        const char *fmt, *word;
    } bad[] = {
        {"farm\n", "line 1 is not NAME"},
        {"# x\n\nfarm ed25519:AAAA\n", "line 3 has no public key"},
        {"farm ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", "no public key"}, /* of small order */
        {"a/b %s\n", "a name that is none"},
        {"farm %s 2026-13-01\n", "a day that is none"},
        {"farm %s 2026-02-30\n", "a day that is none"},
        {"farm %s 2026-2-3\n", "a day that is none"},
        {"farm %s +026-02-03\n", "a day that is none"},
        {"farm %s - - - revoked\n", "is not NAME"},
        {"farm %s Revoked\n", "a day that is none"},
        {"farm %s 2026-02-03 2026-02-02\n", "ends before it begins"},
        {"farm %1$s\nbarn %1$s\n", "another line has"},
        {"farm %1$s revoked\nfarm %1$s\n", "line 2 has a key that another line has"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct sign_signers *s = NULL;
        struct dt_err e = {0};
        struct dt_str text = {0};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        dt_str_addf(&text, bad[i].fmt, public);
#pragma GCC diagnostic pop
        assert_int_equal(sign_signers_parse(text.s, "s", &s, &e), DT_E_USAGE);
        if (!strstr(e.detail, bad[i].word))
            fail_msg("%s: %s", text.s, e.detail);
        dt_err_done(&e);
        dt_str_done(&text);
    }
    struct sign_signers *s = signers("# nobody\n\n  farm\t%s  -  2030-12-31 # until then\r\n", public);
    assert_true(sign_signers_has(s, "farm"));
    assert_false(sign_signers_has(s, "barn"));
    sign_signers_free(s);
    char other[160];
    snprintf(other, sizeof other, "%s/signers", dir);
    assert_int_equal(dt_write_file(other, "", 0, NULL), 0);
    chmod(other, 0644);
    assert_int_equal(sign_signers_read(other, &s, NULL), 0);
    sign_signers_free(s);
    chmod(other, 0664);
    assert_int_equal(sign_signers_read(other, &s, NULL), DT_E_USAGE); /* others could add themselves */
    unlink(other);
    assert_int_equal(sign_signers_read(dir, &s, NULL), DT_E_USAGE);
}

/* ---- seals ------------------------------------------------------------------------------------------------------- */

static struct sign_entry entry(void)
{
    static json_t *factors, *recipe;
    if (!recipe) {
        factors = json_pack("{s:s, s:i}", "arch", "sm_90", "launches", 2);
        recipe = json_pack("{s:[{s:s, s:i}]}", "steps", "kind", "block-fusion", "way", 1);
    }
    return (struct sign_entry){SIG, "soft:h200", "dovetail 1; rewriter 20", "allow=", factors, DIG, recipe,
                               20,  "modeled"};
}

static int verdict(const char *line, const struct sign_entry *en, const struct sign_seal *seal)
{
    struct sign_signers *s = signers("%s", line);
    struct sign_demand d = {s, NULL, NOW, -1};
    int v = sign_entry_check(&d, en, seal);
    sign_signers_free(s);
    return v;
}

static void test_seal(void **state)
{
    struct sign_entry en = entry();
    struct sign_seal seal;
    char line[256];
    snprintf(line, sizeof line, "farm %s", public);
    assert_int_equal(sign_entry_seal(key, &en, NOW - 5, &seal), 0);
    assert_int_equal(verdict(line, &en, &seal), SIGN_GOOD);
    assert_int_equal(verdict(line, &en, NULL), SIGN_NONE);
    assert_int_equal(verdict("", &en, &seal), SIGN_UNKNOWN);
    struct sign_demand nobody = {NULL, NULL, NOW, -1};
    assert_int_equal(sign_entry_check(&nobody, &en, &seal), SIGN_UNKNOWN);
    /* JSON in another spelling says the same */
    json_t *spelled = json_loads("{ \"launches\" : 2, \"arch\": \"sm_90\" }", 0, NULL);
    en.factors = spelled;
    assert_int_equal(verdict(line, &en, &seal), SIGN_GOOD);
    json_decref(spelled);
}

/* Every field counts, and none can run into its neighbour: a seal of one entry is none of another. */
static void test_replayed(void **state)
{
    json_t *recipe = json_pack("{s:[]}", "steps"), *factors = json_object();
    struct sign_seal seal;
    struct sign_entry en = entry();
    char line[256];
    snprintf(line, sizeof line, "farm %s", public);
    assert_int_equal(sign_entry_seal(key, &en, NOW, &seal), 0);
    struct sign_entry other[] = {entry(), entry(), entry(), entry(), entry(), entry(),
                                 entry(), entry(), entry(), entry(), entry(), entry()};
    other[0].signature = DIG;
    other[1].device = "soft:h100";
    other[2].toolchain = "dovetail 1; rewriter 21";
    other[3].policy = "allow=x";
    other[4].factors = factors;
    other[5].factors = NULL;
    other[6].digest = SIG;
    other[7].recipe = recipe;
    other[8].rewriter = 21;
    other[9].evidence = "measured";
    other[10].device = "soft:h200d", other[10].toolchain = "ovetail 1; rewriter 20";
    other[11].policy = "";
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_int_equal(verdict(line, &other[i], &seal), SIGN_FORGED);
    struct sign_seal forged = seal;
    forged.date--;
    assert_int_equal(verdict(line, &en, &forged), SIGN_FORGED);
    forged = seal;
    forged.text[5] = forged.text[5] == 'A' ? 'B' : 'A';
    assert_int_equal(verdict(line, &en, &forged), SIGN_FORGED);
    forged = seal;
    forged.text[40] = 0; /* cut */
    assert_int_equal(verdict(line, &en, &forged), SIGN_FORGED);
    forged = seal;
    snprintf(forged.signer, sizeof forged.signer, "barn");
    assert_int_equal(verdict(line, &en, &forged), SIGN_UNKNOWN);
    snprintf(line, sizeof line, "barn %s", public); /* the key is right, the name is signed too */
    assert_int_equal(verdict(line, &en, &forged), SIGN_FORGED);
    /* a seal of a file is none of an entry, nor the other way round */
    struct sign_signers *s = signers("farm %s", public);
    struct sign_demand d = {s, NULL, NOW, -1};
    assert_int_equal(sign_file_check(&d, DIG, &seal), SIGN_FORGED);
    assert_int_equal(sign_file_seal(key, DIG, NOW, &seal), 0);
    assert_int_equal(sign_file_check(&d, DIG, &seal), SIGN_GOOD);
    assert_int_equal(sign_file_check(&d, SIG, &seal), SIGN_FORGED);
    assert_int_equal(sign_entry_check(&d, &en, &seal), SIGN_FORGED);
    sign_signers_free(s);
    json_decref(recipe);
    json_decref(factors);
}

/* Of a measurement: every field counts, and it is none of an entry that is made of the same texts. */
static void test_measure(void **state)
{
    const struct sign_measure m = {"default", "times", "cuda:H200, 132 SMs", SIG, DIG};
    struct sign_measure other[] = {m, m, m, m, m, m};
    struct sign_signers *s = signers("farm %s", public);
    struct sign_demand d = {s, NULL, NOW, -1};
    struct sign_seal seal, forged;
    assert_int_equal(sign_measure_seal(key, &m, NOW, &seal), 0);
    assert_int_equal(sign_measure_check(&d, &m, &seal), SIGN_GOOD);
    assert_int_equal(sign_measure_check(&d, &m, NULL), SIGN_NONE);
    other[0].space = "defaul";
    other[1].kind = "trial";
    other[2].device = "cuda:H100, 132 SMs";
    other[3].key = DIG;
    other[4].digest = SIG;
    other[5].space = "defaultt", other[5].kind = "imes";
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_int_equal(sign_measure_check(&d, &other[i], &seal), SIGN_FORGED);
    forged = seal;
    forged.date++;
    assert_int_equal(sign_measure_check(&d, &m, &forged), SIGN_FORGED);
    struct sign_entry en = entry();
    en.space = m.space, en.signature = m.kind, en.device = m.device, en.toolchain = m.key, en.policy = m.digest;
    assert_int_equal(sign_entry_check(&d, &en, &seal), SIGN_FORGED);
    assert_int_equal(sign_file_check(&d, DIG, &seal), SIGN_FORGED);
    assert_int_equal(sign_entry_seal(key, &en, NOW, &seal), 0);
    assert_int_equal(sign_entry_check(&d, &en, &seal), SIGN_GOOD);
    assert_int_equal(sign_measure_check(&d, &m, &seal), SIGN_FORGED);
    sign_signers_free(s);
}

static void test_times(void **state)
{
    static const struct {
        const char *words;
        int64_t date, max_age;
        const char *signer;
        int expect;
    } c[] = {
        {"", NOW, -1, NULL, SIGN_GOOD},
        {"", NOW + SIGN_CLOCKS_S, -1, NULL, SIGN_GOOD},
        {"", NOW + SIGN_CLOCKS_S + 1, -1, NULL, SIGN_FUTURE},
        {"", INT64_MAX, -1, NULL, SIGN_FUTURE},
        {"", INT64_MIN, -1, NULL, SIGN_GOOD},
        {"", INT64_MIN, 5, NULL, SIGN_OLD},
        {"", NOW - 10, 10, NULL, SIGN_GOOD},
        {"", NOW - 11, 10, NULL, SIGN_OLD},
        {"2026-01-01 2026-01-01", NOW, -1, NULL, SIGN_GOOD},
        {"2026-01-01 2026-01-01", NOW - 1, -1, NULL, SIGN_EARLY},
        {"2026-01-02", NOW, -1, NULL, SIGN_EARLY},
        {"- 2025-12-31", NOW - DAY, -1, NULL, SIGN_EXPIRED}, /* dated in its time, and that is over now */
        {"- 2025-12-31", NOW, -1, NULL, SIGN_EXPIRED},
        {"revoked", NOW, -1, NULL, SIGN_REVOKED},
        {"- 2030-01-01 revoked", NOW - DAY, -1, NULL, SIGN_REVOKED},
        {"", NOW, -1, "farm", SIGN_GOOD},
        {"", NOW, -1, "barn", SIGN_OTHER},
    };
    struct sign_entry en = entry();
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct sign_seal seal;
        struct sign_signers *s = signers("farm %s %s", public, c[i].words);
        struct sign_demand d = {s, c[i].signer, NOW, c[i].max_age};
        assert_int_equal(sign_entry_seal(key, &en, c[i].date, &seal), 0);
        int v = sign_entry_check(&d, &en, &seal);
        if (v != c[i].expect)
            fail_msg("case %zu: %s", i, sign_verdict_text((enum sign_verdict)v));
        sign_signers_free(s);
    }
    for (int v = SIGN_GOOD; v <= SIGN_OTHER; v++)
        assert_true(strlen(sign_verdict_text((enum sign_verdict)v)) > 10);
}

/* An entry of a cluster is signed with its namespace: a copy of it elsewhere, or in a bundle, does not match. */
static void test_namespaces(void **state)
{
    static const char *const spaces[] = {"blue", "green", "", "bluesha256:", NULL};
    char line[256];
    snprintf(line, sizeof line, "farm %s", public);
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 5; k++) {
            struct sign_entry en = entry(), moved = entry();
            struct sign_seal seal;
            en.space = spaces[i];
            moved.space = spaces[k];
            assert_int_equal(sign_entry_seal(key, &en, NOW, &seal), 0);
            assert_int_equal(verdict(line, &moved, &seal), i == k ? SIGN_GOOD : SIGN_FORGED);
        }
    struct sign_entry en = entry();
    struct sign_seal seal;
    en.space = "blue";
    assert_int_equal(sign_entry_seal(key, &en, NOW, &seal), 0);
    en.factors = NULL;
    assert_int_equal(verdict(line, &en, &seal), SIGN_FORGED);
    en = entry(), en.space = "blue";
    snprintf(line, sizeof line, "farm %s revoked", public);
    assert_int_equal(verdict(line, &en, &seal), SIGN_REVOKED);
}

/* Two keys of one name: both count, until one goes or is revoked. */
static void test_rotation(void **state)
{
    char other[160], old[SIGN_PUBLIC_TEXT];
    struct sign_key *was;
    struct sign_entry en = entry();
    struct sign_seal by_old, by_new;
    char line[512];
    snprintf(other, sizeof other, "%s/old.key", dir);
    assert_int_equal(sign_keygen("farm", other, old, NULL), 0);
    assert_int_equal(sign_key_read(other, &was, NULL), 0);
    unlink(other);
    assert_string_not_equal(old, public);
    assert_int_equal(sign_entry_seal(was, &en, NOW, &by_old), 0);
    assert_int_equal(sign_entry_seal(key, &en, NOW, &by_new), 0);
    snprintf(line, sizeof line, "farm %s\nfarm %s\n", old, public);
    assert_int_equal(verdict(line, &en, &by_old), SIGN_GOOD);
    assert_int_equal(verdict(line, &en, &by_new), SIGN_GOOD);
    snprintf(line, sizeof line, "farm %s revoked\nfarm %s\n", old, public);
    assert_int_equal(verdict(line, &en, &by_old), SIGN_REVOKED);
    assert_int_equal(verdict(line, &en, &by_new), SIGN_GOOD);
    snprintf(line, sizeof line, "farm %s\n", public);
    assert_int_equal(verdict(line, &en, &by_old), SIGN_FORGED);
    sign_key_free(was);
}

/* ---- packed files ------------------------------------------------------------------------------------------------ */

static size_t lines_seen, bytes_seen;

static int count_line(void *user, const char *line, size_t n, struct dt_err *e)
{
    lines_seen++;
    bytes_seen += n;
    return 0;
}

static int unpack(const char *bytes, size_t n, size_t max, struct sign_packed *file, struct dt_err *e)
{
    char *exact = malloc(n ? n : 1); /* a read past its end is seen by ASan */
    lines_seen = bytes_seen = 0;
    memcpy(exact, bytes, n);
    int r = sign_packed_lines(exact, n, max, count_line, NULL, file, e);
    free(exact);
    return r;
}

static char *packed(unsigned lines, const struct sign_key *k, size_t *ret_len)
{
    struct sign_packer *p;
    char *bytes, line[64];
    assert_int_equal(sign_pack_new(&p, NULL), 0);
    for (unsigned i = 0; i < lines; i++) {
        int n = snprintf(line, sizeof line, "line %u %u\n", i, i * 2654435761u);
        assert_int_equal(sign_pack_add(p, line, (size_t)n, 1 << 20, NULL), 0);
    }
    assert_int_equal(sign_pack_end(p, k, NOW, &bytes, ret_len, NULL), 0);
    sign_pack_free(p);
    return bytes;
}

static void test_packed(void **state)
{
    struct sign_packed file;
    struct sign_signers *s = signers("farm %s", public);
    struct sign_demand d = {s, NULL, NOW, -1};
    size_t n, whole;
    char *bytes = packed(20000, key, &n);
    assert_int_equal(unpack(bytes, n, 1 << 20, &file, NULL), 0);
    assert_int_equal(lines_seen, 20000);
    assert_true(file.packed && file.sealed && !file.broken);
    assert_int_equal(sign_file_check(&d, file.digest, &file.seal), SIGN_GOOD);
    whole = bytes_seen + lines_seen;
    char *text = malloc(whole);
    assert_int_equal(ZSTD_decompress(text, whole, bytes, n), whole); /* zstd gives the text, and skips the seal */
    assert_int_equal(unpack(text, whole, 1 << 20, &file, NULL), 0);  /* which is taken, too */
    assert_int_equal(lines_seen, 20000);
    assert_false(file.packed || file.sealed);
    free(text);
    /* wherever it is cut: lines before that, no crash, and it is seen */
    for (size_t k = 0; k < n; k += k < 64 || n - k < 300 ? 1 : n / 37) {
        assert_int_equal(unpack(bytes, k, 1 << 20, &file, NULL), 0);
        assert_true(lines_seen <= 20000 && !file.sealed);
        assert_true(file.broken || k < 4 || lines_seen == 20000); /* behind the frame: all of it, without its seal */
    }
    /* a byte that changed: either it cannot be unpacked, or the seal does not match */
    for (size_t k = 4; k < n; k += n / 211 + 1) {
        bytes[k] ^= 0x20;
        int r = unpack(bytes, n, 1 << 20, &file, NULL);
        assert_true(r < 0 || file.broken || !file.sealed || sign_file_check(&d, file.digest, &file.seal) != SIGN_GOOD);
        bytes[k] ^= 0x20;
    }
    free(bytes);
    sign_signers_free(s);
}

/* A few bytes that become gigabytes; a line without an end; a window that would take gigabytes. */
static void test_bombs(void **state)
{
    struct sign_packed file;
    struct dt_err e = {0};
    struct dt_str bomb = {0};
    const size_t chunk = 16 << 20;
    char *zeros = calloc(1, chunk), *small = malloc(ZSTD_compressBound(chunk));
    size_t n = ZSTD_compress(small, ZSTD_compressBound(chunk), zeros, chunk, 19);
    assert_true(n < 4096);
    assert_int_equal(unpack(small, n, 1 << 20, &file, &e), DT_E_TOO_LARGE);
    assert_non_null(strstr(e.detail, "more than 1048576 bytes of text"));
    dt_err_done(&e);
    assert_int_equal(lines_seen, 0);
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, 27);
    char *out = malloc(1 << 20);
    ZSTD_inBuffer in = {zeros, chunk, 0};
    ZSTD_outBuffer ob = {out, 1 << 20, 0};
    for (size_t k = 0; k < 9; k++) { /* 144 MB of one line */
        in.pos = 0;
        while (in.pos < in.size)
            assert_false(ZSTD_isError(ZSTD_compressStream2(z, &ob, &in, ZSTD_e_continue)));
    }
    while (ZSTD_compressStream2(z, &ob, &in, ZSTD_e_end))
        ;
    assert_int_equal(unpack(out, ob.pos, SIGN_BUNDLE_TEXT, &file, NULL), 0);
    assert_string_equal(file.broken, "it is damaged"); /* the window */
    ZSTD_CCtx_reset(z, ZSTD_reset_session_only);
    ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, 20);
    ob.pos = 0;
    for (size_t k = 0; k < 9; k++) {
        in.pos = 0;
        while (in.pos < in.size)
            assert_false(ZSTD_isError(ZSTD_compressStream2(z, &ob, &in, ZSTD_e_continue)));
    }
    while (ZSTD_compressStream2(z, &ob, &in, ZSTD_e_end))
        ;
    assert_int_equal(unpack(out, ob.pos, SIGN_BUNDLE_TEXT, &file, &e), DT_E_TOO_LARGE);
    assert_non_null(strstr(e.detail, "a line of more than"));
    dt_err_done(&e);
    ZSTD_freeCCtx(z);
    free(out);
    free(zeros);
    free(small);
    dt_str_done(&bomb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key_files), cmocka_unit_test(test_signers_file), cmocka_unit_test(test_seal),
        cmocka_unit_test(test_replayed),  cmocka_unit_test(test_measure),      cmocka_unit_test(test_times),
        cmocka_unit_test(test_rotation),  cmocka_unit_test(test_namespaces),   cmocka_unit_test(test_packed),
        cmocka_unit_test(test_bombs),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
