/* base/: errors, arenas, strings, hashes, frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/elf-file.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/json.h"
#include "base/large.h"
#include "base/nearest.h"
#include "base/radix.h"
#include "base/str.h"
#include "base/subject.h"
#include "base/vec.h"
#include "base/wire.h"

static void err_keeps_the_first(void **s)
{
    struct dt_err e = {0};
    assert_int_equal(dt_err_at(&e, DT_E_GRAPH, "/buffers/x", "no %s", "size"), DT_E_GRAPH);
    assert_int_equal(dt_err_set(&e, DT_E_IO, "later"), DT_E_IO);
    assert_int_equal(e.num, DT_E_GRAPH);
    assert_string_equal(e.detail, "no size");
    assert_string_equal(e.pointer, "/buffers/x");
    assert_string_equal(dt_err_code(e.num), "bad-graph");
    assert_int_equal(dt_err_exit(e.num), 3);
    assert_int_equal(dt_err_from_code("bad-graph"), DT_E_GRAPH);
    char *p = dt_problem_json(&e);
    json_t *o = json_loads(p, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(o, "code")), "bad-graph");
    assert_int_equal(json_integer_value(json_object_get(o, "status")), 422);
    json_decref(o);
    free(p);
    dt_err_done(&e);
    assert_null(e.detail);
}

static void problem_of_bytes_that_are_not_utf8(void **s)
{
    struct dt_err e = {0};
    dt_err_set(&e, DT_E_IO, "\xff\xfe");
    char *p = dt_problem_json(&e);
    assert_non_null(strstr(p, "\"io\""));
    free(p);
    dt_err_done(&e);
}

static void arena_is_zeroed_and_aligned(void **s)
{
    struct dt_arena a = {0};
    for (int i = 1; i < 300; i++) {
        unsigned char *p = dt_arena_alloc(&a, (size_t)i * 37);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (int k = 0; k < i * 37; k++)
            assert_int_equal(p[k], 0);
        memset(p, 0xAA, (size_t)i * 37);
    }
    assert_null(dt_arena_array(&a, SIZE_MAX, 16));
    assert_true(dt_arena_failed(&a));
    dt_arena_done(&a);
}

static void str_fails_softly(void **s)
{
    struct dt_str t = {0};
    dt_str_addf(&t, "%d-%s", 7, "x");
    assert_string_equal(t.s, "7-x");
    dt_alloc_fail_after(1);
    for (int i = 0; i < 100; i++)
        dt_str_add(&t, "more");
    dt_alloc_fail_after(0);
    assert_true(t.failed);
    assert_null(dt_str_take(&t));
}

static void sha_and_splitmix(void **s)
{
    char t[DT_SHA256_TEXT];
    assert_int_equal(dt_sha256_text("abc", 3, t), 0);
    assert_string_equal(t, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    /* first outputs of the reference splitmix64 for seed 1234567 */
    assert_true(dt_splitmix64(1234567, 0) == 6457827717110365317u);
    assert_true(dt_splitmix64(1234567, 1) == 3203168211198807973u);
}

static void names(void **s)
{
    struct dt_names t = {0};
    static char key[1000][8];
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(key[i], sizeof key[i], "n%u", i);
        assert_int_equal(dt_names_put(&t, key[i], i), 0);
    }
    assert_int_equal(dt_names_put(&t, "n5", 9), 1);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(dt_names_get(&t, key[i], strlen(key[i])), i);
    assert_int_equal(dt_names_get(&t, "n", 1), DT_NAME_NONE);
    dt_names_done(&t);
}

static void frames_cross_a_pipe(void **s)
{
    int fd[2];
    char type, *body;
    size_t len;
    assert_int_equal(pipe(fd), 0);
    uint32_t number = 0;
    assert_int_equal(dt_wire_write(fd[1], 'Q', 0x81020304, "{}", 2), 0);
    close(fd[1]);
    assert_int_equal(dt_wire_read(fd[0], &type, &number, &body, &len, NULL), 0);
    assert_int_equal(type, 'Q');
    assert_int_equal(number, 0x81020304);
    assert_int_equal(len, 2);
    assert_string_equal(body, "{}");
    free(body);
    assert_int_equal(dt_wire_read(fd[0], &type, &number, &body, &len, NULL), 1);
    close(fd[0]);
    unsigned char huge[DT_WIRE_HEAD] = {0xff, 0xff, 0xff, 0xff, 'Q'};
    assert_int_equal(dt_wire_frame_size(huge), 0);
    unsigned char small[DT_WIRE_HEAD] = {4, 0, 0, 0, 'R'}; /* less than the head that it is */
    assert_int_equal(dt_wire_frame_size(small), 0);
    small[0] = 5;
    assert_int_equal(dt_wire_frame_size(small), DT_WIRE_HEAD);
    assert_int_equal(dt_wire_write(-1, 'R', 1, NULL, DT_WIRE_MAX - 4), DT_E_TOO_LARGE);
}

static char sunk[256];
static bool sink_takes;

static bool sink(enum dt_log_level level, const char *message, const struct dt_log_field *f, size_t n)
{
    snprintf(sunk, sizeof sunk, "%d %s %s=%s", (int)level, message, n ? f[0].name : "", n ? f[0].value : "");
    return sink_takes;
}

/* What one line looks like on stderr. */
static size_t logged(const struct dt_log_field *f, size_t n, char *out, size_t cap)
{
    int fd[2], err = dup(2);
    assert_int_equal(pipe(fd), 0);
    dup2(fd[1], 2);
    dt_log_fields(DT_LOG_WARN, f, n, "job %d", 7);
    dup2(err, 2);
    close(fd[1]);
    close(err);
    ssize_t got = read(fd[0], out, cap - 1);
    close(fd[0]);
    out[got < 0 ? 0 : got] = 0;
    return strlen(out);
}

static void log_lines(void **s)
{
    static char line[8192], large[6000];
    const struct dt_log_field f[] = {
        {"job", "a-1.b"}, {"graph", "two words"}, {"digest", ""}, {"bad", "x\n<3>y\"\\\x1b="}};
    memset(large, 'q', sizeof large - 1);
    unsetenv("DOVETAIL_LOG");
    dt_log_init("prog", DT_LOG_INFO);
    assert_false(dt_log_is_journal());
    logged(f, 4, line, sizeof line);
    assert_string_equal(line + 8, " prog: job 7 job=a-1.b graph=\"two words\" digest=\"\" bad=\"x.<3>y...=\"\n");
    /* a value that is too long is cut, and the line ends all the same */
    const struct dt_log_field big[] = {{"a", large}, {"b", "c"}};
    size_t n = logged(big, 2, line, sizeof line);
    assert_true(n <= 4096 && line[n - 1] == '\n' && strchr(line, '\n') == line + n - 1);
    /* a sink that takes the line, and one that does not */
    dt_log_to(sink);
    sink_takes = true;
    assert_int_equal(logged(f, 1, line, sizeof line), 0);
    assert_string_equal(sunk, "4 job 7 job=a-1.b");
    sink_takes = false;
    assert_true(logged(f, 1, line, sizeof line) > 0);
    dt_log_to(NULL);
}

struct keyed {
    uint64_t key, place;
};
DT_RADIX(by_key, struct keyed, x->key)

static int keyed_order(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    return x->key != y->key ? x->key < y->key ? -1 : 1 : x->place < y->place ? -1 : x->place > y->place;
}

static void radix_sorts_and_is_stable(void **state)
{
    /* keys: all alike, few different, low bits, high bits, both, any, ascending */
    static const uint64_t cut[] = {0, 3, 0xff80, UINT64_C(0xff) << 56, (UINT64_C(1) << 63) | 1, UINT64_MAX, 1};
    static const size_t size[] = {0, 1, 2, 24, 25, 1000, 4097};
    for (size_t c = 0; c < sizeof cut / sizeof *cut; c++)
        for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
            size_t n = size[k];
            struct keyed *v = calloc(n + 1, sizeof *v), *w = calloc(n + 1, sizeof *w);
            for (unsigned i = 0; i < n; i++)
                v[i] = w[i] = (struct keyed){c == 6 ? i / 3 : dt_splitmix64(c, i) & cut[c], i};
            qsort(w, n, sizeof *w, keyed_order);
            assert_true(by_key(v, n));
            assert_memory_equal(v, w, n * sizeof *v);
            free(v), free(w);
        }
    struct keyed v[30];
    for (unsigned i = 0; i < 30; i++)
        v[i] = (struct keyed){30 - i, i};
    dt_alloc_fail_after(1);
    bool ok = by_key(v, 30);
    dt_alloc_fail_after(0);
    assert_false(ok);
    assert_int_equal(v[0].key, 30);
}

/* A header, two sections, one segment; then every byte of it changed, and cut everywhere. */
static void elf_files(void **s)
{
    struct {
        Elf64_Ehdr h;
        Elf64_Phdr p;
        char data[32];
        Elf64_Shdr s[3];
    } f = {.h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                 .e_phentsize = sizeof(Elf64_Phdr),
                 .e_phnum = 1,
                 .e_shentsize = sizeof(Elf64_Shdr),
                 .e_shnum = 3,
                 .e_shstrndx = 1}};
    f.h.e_phoff = offsetof(__typeof__(f), p);
    f.h.e_shoff = offsetof(__typeof__(f), s);
    f.p.p_offset = f.s[1].sh_offset = offsetof(__typeof__(f), data);
    f.p.p_filesz = f.s[1].sh_size = sizeof f.data;
    f.s[2] = (Elf64_Shdr){.sh_type = SHT_NOBITS, .sh_size = UINT64_MAX};
    assert_true(dt_elf_whole(&f, sizeof f));
    for (size_t n = 0; n < sizeof f; n++) {
        uint8_t *cut = malloc(n + 1); /* of its exact length, for the sanitizer */
        cut = realloc(cut, n ? n : 1);
        memcpy(cut, &f, n);
        assert_false(dt_elf_whole(cut, n));
        free(cut);
    }
    unsigned refused = 0;
    for (size_t n = 0; n < sizeof f * 8; n++) {
        uint8_t *other = malloc(sizeof f);
        memcpy(other, &f, sizeof f);
        other[n / 8] ^= (uint8_t)(1 << n % 8);
        refused += !dt_elf_whole(other, sizeof f);
        free(other);
    }
    assert_true(refused > 300);
    f.s[1].sh_size = UINT64_MAX; /* wraps */
    assert_false(dt_elf_whole(&f, sizeof f));
}

static void base64_has_one_spelling(void **s)
{
    uint8_t in[64], out[64];
    for (unsigned n = 0; n < sizeof in; n++) {
        struct dt_str t = {0};
        in[n] = (uint8_t)(n * 37 + 5);
        dt_base64_encode(in, n, &t);
        assert_int_equal(t.len, (n + 2) / 3 * 4);
        assert_int_equal(dt_base64_decode(t.len ? t.s : "", t.len, out), n);
        assert_memory_equal(in, out, n);
        dt_str_done(&t);
    }
    assert_int_equal(dt_base64_decode("QQ==", 4, out), 1);
    assert_int_equal(dt_base64_decode("QR==", 4, out), -1);
    assert_int_equal(dt_base64_decode("QQ=", 3, out), -1);
    assert_int_equal(dt_base64_decode("Q Q=", 4, out), -1);
}

/* What looks like a mark and is none stays. */
static void sentences_know_their_subjects(void **state)
{
    static const struct {
        const char *marked, *plain;
    } row[] = {{"", ""},
               {"nothing", "nothing"},
               {"\001lgemm\002 writes \001bh\002", "'gemm' writes 'h'"},
               {"\001mf0\002.\001l\002", "'f0'.''"},
               {"launch \001ngemm\002: \001bh\002", "launch gemm: 'h'"},
               {"\001xgemm\002 \001l\001bh\002 \001bno end", "\001xgemm\002 \001l'h' \001bno end"}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        char text[64];
        strcpy(text, row[k].marked);
        assert_string_equal(dt_plain(text), row[k].plain);
    }
    assert_null(dt_plain(NULL));
    char text[64] = DT_ROW("no-tail") ": none";
    assert_true(dt_has_row(text, "no-tail"));
    assert_false(dt_has_row(text, "no"));
    assert_false(dt_has_row("no-tail: none", "no-tail"));
    assert_false(dt_has_row(NULL, "no-tail"));
    assert_string_equal(dt_plain(text), "no-tail: none");
    struct dt_str s = {0};
    dt_add_row(&s, "no_tail");
    assert_string_equal(s.s, DT_ROW("no-tail"));
    dt_str_done(&s);
    struct dt_err e = {0};
    dt_err_set(&e, DT_E_INTERNAL, "in " DT_BUFFER, "h");
    assert_string_equal(e.detail, "in 'h'");
    assert_string_equal(e.marked, "in \001bh\002");
    dt_err_done(&e);
    dt_err_set(&e, DT_E_INTERNAL, "plain");
    assert_null(e.marked);
    dt_err_done(&e);
}

/* The block that fits best serves again; one too many, and one that is too large to be kept, go back; out of memory is
 * said. Whether anything was allocated, the count says. */
static void large_blocks_serve_again(void **state)
{
    char *small = dt_large_get(1000), *large = dt_large_get(3000), *many[20];
    long before = dt_alloc_count();
    memset(small, 1, 1000);
    memset(large, 2, 3000);
    dt_large_put(large);
    dt_large_put(small);
    char *again = dt_large_get(900);
    assert_ptr_equal(again, small);
    char *other = dt_large_get(900); /* larger than asked for, but there */
    assert_ptr_equal(other, large);
    assert_int_equal(dt_alloc_count(), before);
    char *made = dt_large_get(900);
    assert_int_equal(dt_alloc_count(), before + 1);
    dt_large_put(other);
    char *tiny = dt_large_get(700); /* that one is more than four times as large */
    assert_ptr_not_equal(tiny, other);
    dt_large_put(tiny);
    other = dt_large_get(3000);
    assert_ptr_equal(other, large);
    dt_large_put(made);
    char *bigger = dt_large_get(901); /* made is too small */
    assert_ptr_not_equal(bigger, made);
    dt_large_put(bigger);
    dt_large_put(again);
    dt_large_put(other);
    dt_large_put(NULL);
    for (int k = 0; k < 20; k++)
        many[k] = dt_large_get(64);
    for (int k = 0; k < 20; k++)
        dt_large_put(many[k]);
    dt_large_let_go();
    before = dt_alloc_count();
    char *huge = dt_large_get((size_t)600 << 20);
    assert_non_null(huge);
    dt_large_put(huge);
    dt_large_put(dt_large_get(64));
    assert_int_equal(dt_alloc_count(), before + 2);
    assert_null(dt_large_get(SIZE_MAX - 8));
    dt_large_let_go();
    dt_alloc_fail_after(1);
    assert_null(dt_large_get(64));
    dt_alloc_fail_after(0);
}

/* Each allocation fails once, jansson's among them: no memory is no fault of the text. */
static void test_json_memory(void **state)
{
    static const char text[] = "{\"a\": [1, 2.5, \"text\", {\"b\": null}], \"big\": 18446744073709551615, \"c\": []}";
    int r = DT_E_NOMEM;
    for (long n = 1; r; n++) {
        struct dt_err e = {0};
        json_t *doc = NULL;
        dt_alloc_fail_after(n);
        r = dt_json_load(text, sizeof text - 1, &doc, &e);
        dt_alloc_fail_after(0);
        assert_true(r == 0 || r == DT_E_NOMEM);
        assert_int_equal(e.num, r);
        dt_err_done(&e);
        json_decref(doc);
        assert_true(n < 1000);
    }
}

/* Keys of all lengths, so that each of their pieces meets the end of the room once. */
static void json_without_memory(void **st)
{
    char key[300];
    for (size_t n = 1; n < sizeof key; n++) {
        memset(key, 'k', n);
        key[n] = 0;
        json_t *o = json_pack("{s:i}", key, 1);
        for (unsigned fail = 1; fail < 8; fail++) {
            dt_alloc_fail_after(fail);
            char *text = dt_json_dumps(o, JSON_COMPACT);
            dt_alloc_fail_after(0);
            assert_true(!text || strlen(text) == n + 6);
            free(text);
        }
        json_decref(o);
    }
}

static void add_row(json_t *o, const char *key, int n)
{
    json_t *row = json_pack("{s:i, s:s}", "n", n, "text", "some text");
    json_object_set_new(row, "more", json_string("and more"));
    json_object_set_new(o, key, row);
}

/* A document of which a part could not be made, and nobody looked: its text is the whole or none. What comes after it
 * has one again. */
static void json_lacks_nothing(void **st)
{
    json_t *doc = NULL;
    assert_int_equal(dt_json_load("{}", 2, &doc, NULL), 0); /* from here on jansson's memory is ours */
    json_decref(doc);
    unsigned whole = 0;
    for (unsigned fail = 1; !whole; fail++) {
        dt_json_fresh();
        dt_alloc_fail_after(fail);
        json_t *o = json_object();
        add_row(o, "a", 1);
        add_row(o, "b", 2);
        dt_alloc_fail_after(0);
        char *text = dt_json_dumps(o, JSON_COMPACT);
        whole = text ? fail : 0;
        assert_true(!text || (strstr(text, "\"a\":{\"n\":1,\"text\":\"some text\",\"more\":\"and more\"}") &&
                              strstr(text, "\"b\":{\"n\":2,")));
        free(text);
        json_decref(o);
        o = json_pack("{s:i}", "c", 3);
        text = dt_json_dumps(o, JSON_COMPACT);
        assert_string_equal(text, "{\"c\":3}");
        free(text);
        json_decref(o);
    }
    assert_true(whole > 10);
}

static void nearest_words(void **state)
{
    static const char list[] = "shared, cluster, offset, bytes, role, out";
    static const struct {
        const char *word, *like; /* NULL: nothing */
    } rows[] = {{"shred", "shared"}, {"SHARED", "shared"}, {"hsared", "shared"}, {"byts", "bytes"}, {"rolle", "role"},
                {"clu", "cluster"},  {"cl", NULL},         {"x", NULL},          {"", NULL},        {"ofset", "offset"},
                {"output", "out"},   {"sharpened", NULL},  {"bxtxs", NULL}};
    size_t n;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *got = dt_nearest_in(rows[i].word, list, &n);
        if (!rows[i].like ? got != NULL : !got || n != strlen(rows[i].like) || strncmp(got, rows[i].like, n))
            fail_msg("%s: %.*s", rows[i].word, got ? (int)n : 4, got ? got : "none");
    }
    char longest[DT_NEAREST_MOST + 2];
    memset(longest, 'a', sizeof longest);
    struct dt_nearest all = dt_nearest_of(longest, DT_NEAREST_MOST), more = dt_nearest_of(longest, DT_NEAREST_MOST + 1);
    dt_nearest_try(&all, longest, DT_NEAREST_MOST);
    dt_nearest_try(&more, longest, DT_NEAREST_MOST + 1);
    assert_non_null(all.best);
    assert_int_equal(all.distance, 0);
    assert_null(more.best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_blocks_serve_again),
        cmocka_unit_test(test_json_memory),
        cmocka_unit_test(err_keeps_the_first),
        cmocka_unit_test(problem_of_bytes_that_are_not_utf8),
        cmocka_unit_test(arena_is_zeroed_and_aligned),
        cmocka_unit_test(str_fails_softly),
        cmocka_unit_test(sha_and_splitmix),
        cmocka_unit_test(names),
        cmocka_unit_test(elf_files),
        cmocka_unit_test(base64_has_one_spelling),
        cmocka_unit_test(sentences_know_their_subjects),
        cmocka_unit_test(radix_sorts_and_is_stable),
        cmocka_unit_test(json_without_memory),
        cmocka_unit_test(json_lacks_nothing),
        cmocka_unit_test(nearest_words),
        cmocka_unit_test(log_lines),
        cmocka_unit_test(frames_cross_a_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
