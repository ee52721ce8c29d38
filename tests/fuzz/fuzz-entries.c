/* What stands in the cache's file, as somebody who can write there would have it.
 *
 * The first byte says what the others are. 'r': rows, a line each, "TABLE|COLUMN|…", which are put in with the checksum
 * that they must have, so that what is in a row is believed. 'w': bytes in place of the write-ahead log. Else: patches
 * of the file of a sound cache, three bytes of place and one of value each.
 *
 * Whatever the file holds, the cache opens, or says why not; every call ends with a result or a reason; and what comes
 * out under the key of a document that was put in is that document, or nothing.
 */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "cache/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIG "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define DIG "sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddee00"
#define COLUMNS 10

static char dir[64], path[96], wal[104], bad[104];
static uint8_t *image;
static size_t nimage;
static const struct cache_key key = {"plan", SIG, "soft:h200", "dovetail 1", "allow="};

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz-entries: %s\n", what);
        abort();
    }
}

static void clean(void)
{
    static const char *const tail[] = {"",         "-wal",   "-shm",  ".bad",    ".bad-wal",
                                       ".bad-shm", ".bad.2", ".lock", ".reserve"};
    for (size_t i = 0; i < sizeof tail / sizeof *tail; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", path, tail[i]);
        unlink(name);
    }
}

static void at_end(void)
{
    clean();
    rmdir(dir);
}

static void write_file(const char *name, const uint8_t *p, size_t n)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    check(fd >= 0 && write(fd, p, n) == (ssize_t)n && close(fd) == 0, "cannot write the file");
}

/* A sound cache with something in every table, as bytes. */
static void make_image(void)
{
    struct cache *c = NULL;
    json_t *doc = json_pack("{s:s, s:{s:s}}", "t", "a plan", "recipe", "by", "hand"), *g = json_pack("{s:i}", "d", 1);
    snprintf(dir, sizeof dir, "%s", access("/dev/shm", W_OK) ? "/tmp/dt-fuzz-XXXXXX" : "/dev/shm/dt-fuzz-XXXXXX");
    check(mkdtemp(dir) != NULL, "no folder");
    atexit(at_end);
    snprintf(path, sizeof path, "%s/cache.db", dir);
    snprintf(wal, sizeof wal, "%s-wal", path);
    snprintf(bad, sizeof bad, "%s.bad", path);
    check(cache_open(path, &c, NULL) == 0 && cache_put(c, &key, DIG, doc, g, NULL) == 0 &&
              cache_digest_put(c, DIG, "sm_90", SIG, g, NULL) == 0 &&
              cache_kept_put(c, CACHE_FOOTPRINTS, &(struct cache_bytes){"k", "foot", 4}, 1, 1 << 20, NULL) == 0 &&
              cache_kept_put(c, CACHE_TRIALS, &(struct cache_bytes){"k", "trial", 5}, 1, 1 << 20, NULL) == 0,
          "no sound cache");
    cache_own(c, SIG, 7);
    cache_close(c);
    json_decref(doc);
    json_decref(g);
    FILE *f = fopen(path, "rb");
    check(f && fseek(f, 0, SEEK_END) == 0, "no file");
    nimage = (size_t)ftell(f);
    image = malloc(nimage);
    check(image && fseek(f, 0, SEEK_SET) == 0 && fread(image, 1, nimage, f) == nimage, "cannot be read");
    fclose(f);
}

static const struct {
    const char *table, *sql;
    int columns; /* that the checksum is over, in the order of a line */
} tables[] = {
    {"entry",
     "INSERT OR REPLACE INTO entry (want, signature, device, toolchain, policy, digest, body, factors, sha256, "
     "created, used) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1, 1)",
     8},
    {"graph", "INSERT OR REPLACE INTO graph (digest, body, sha256, created) VALUES (?1, ?2, ?3, 1)", 2},
    {"known", "INSERT OR REPLACE INTO known (digest, arch, signature, sha256) VALUES (?1, ?2, ?3, ?4)", 3},
    {"recipe",
     "INSERT OR REPLACE INTO recipe (signature, device, toolchain, policy, digest, body, sha256, origin, created, "
     "state, reason, tried, tries) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, '', 1, 'recipe', '', 0, 0)",
     6},
};

static void put_row(sqlite3 *db, char *line)
{
    char *field[COLUMNS] = {NULL}, sum[DT_SHA256_TEXT];
    struct dt_sha256 h;
    sqlite3_stmt *s;
    int n = 0;
    for (char *p = line; p && n < COLUMNS; n++) {
        field[n] = p;
        p = strchr(p, '|');
        if (p)
            *p++ = 0;
    }
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        if (strcmp(tables[t].table, field[0]) || n < 2)
            continue;
        check(sqlite3_prepare_v2(db, tables[t].sql, -1, &s, NULL) == SQLITE_OK && dt_sha256_init(&h) == 0, "no row");
        for (int i = 1; i <= tables[t].columns; i++) {
            const char *text = i < n ? field[i] : "";
            sqlite3_bind_text(s, i, text, -1, SQLITE_STATIC);
            dt_sha256_addstr(&h, text);
        }
        dt_sha256_final(&h, sum);
        sqlite3_bind_text(s, tables[t].columns + 1, sum, -1, SQLITE_STATIC);
        sqlite3_step(s);
        sqlite3_finalize(s);
    }
}

static void put_rows(const uint8_t *data, size_t size)
{
    sqlite3 *db;
    char *text = malloc(size + 1), *next;
    memcpy(text, data, size);
    text[size] = 0;
    check(sqlite3_open(path, &db) == SQLITE_OK, "no database");
    sqlite3_exec(db, "PRAGMA synchronous = OFF; BEGIN", NULL, NULL, NULL);
    for (char *p = text; p; p = next) {
        next = strchr(p, '\n');
        if (next)
            *next++ = 0;
        put_row(db, p);
    }
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    free(text);
}

static void said(int r, struct dt_err *e)
{
    check(r >= 0 || (e->num == r && e->detail && *e->detail), "an error without a reason");
    dt_err_done(e);
}

static void take(int r, json_t **o, struct dt_err *e)
{
    said(r, e);
    json_decref(*o);
    *o = NULL;
}

/* Of an export: each line is JSON, and no damaged row is in it. */
static int exported_line(void *user, const char *line, size_t n, struct dt_err *e)
{
    struct sign_row row;
    json_t *o = json_loadb(line, n, 0, NULL);
    check(json_is_object(o), "an exported line that is no JSON object");
    if (json_object_get(o, "table")) {
        const char *faulty = sign_row_read(o, &row);
        check(!faulty, faulty ? faulty : "");
        sign_row_done(&row);
    }
    json_decref(o);
    return 0;
}

/* Every call that reads; `ours`: only the target's own documents may come out. */
static void read_all(struct cache *c, bool ours)
{
    struct dt_err e = {0};
    json_t *o = NULL;
    char text[DT_SHA256_TEXT], *bundle = NULL;
    void *p = NULL;
    size_t n = 0;
    int r = cache_get(c, &key, &o, &e);
    check(r != 1 || !ours || !strcmp(json_string_value(json_object_get(o, "t")), "a plan"), "another document");
    take(r, &o, &e);
    take(cache_find(c, "plan", SIG, NULL, &o, &e), &o, &e);
    r = cache_digest_get(c, DIG, "sm_90", text, &e);
    check(r != 1 || (ours ? !strcmp(text, SIG) : dt_sha256_ok(text)), "another signature");
    said(r, &e);
    take(cache_graph_get(c, DIG, &o, &e), &o, &e);
    if ((r = cache_kept_get(c, CACHE_FOOTPRINTS, "k", &p, &n, &e)) == 1) {
        check(n == 4 && !memcmp(p, "foot", 4), "another footprint");
        free(p);
    }
    check(r >= 0 || e.detail, "an error without a reason");
    dt_err_done(&e);
    take(cache_list(c, NULL, NULL, 100, &o, &e), &o, &e);
    take(cache_list(c, SIG, NULL, 100, &o, &e), &o, &e);
    take(cache_nearest(c, &(struct cache_key){.want = "plan", .signature = SIG}, NULL, NULL, &o, &e), &o, &e);
    take(cache_stale(c, "sm_90", "soft:h200", "other", true, NULL, 10, &o, &e), &o, &e);
    take(cache_recipe_get(c, &key, &o, text), &o, &e);
    take(cache_verify(c, &o, &e), &o, &e);
    if ((r = cache_export(c, NULL, &bundle, &n, &e)) == 0) {
        struct sign_packed file;
        check(sign_packed_lines(bundle, n, SIGN_BUNDLE_TEXT, exported_line, NULL, &file, NULL) == 0 && file.packed &&
                  !file.broken,
              "a bundle that cannot be read");
        free(bundle);
    }
    said(r, &e);
    json_decref(cache_stats(c));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cache *c = NULL;
    struct dt_err e = {0};
    json_t *o = NULL;
    if (!image)
        make_image();
    bool rows = size && data[0] == 'r', log = size && data[0] == 'w';
    write_file(path, image, nimage);
    if (rows) {
        put_rows(data + 1, size - 1);
    } else if (log) {
        write_file(wal, data + 1, size - 1);
    } else {
        int fd = open(path, O_WRONLY);
        for (size_t i = 1; i + 4 <= size; i += 4) {
            size_t at = ((size_t)data[i] | (size_t)data[i + 1] << 8 | (size_t)data[i + 2] << 16) % nimage;
            check(pwrite(fd, data + i + 3, 1, (off_t)at) == 1, "cannot write the file");
        }
        close(fd);
    }
    int r = cache_open(path, &c, &e);
    said(r, &e);
    if (r == 0) {
        read_all(c, !rows);
        take(cache_gc(c, -1, 1 << 20, &o, &e), &o, &e);
        read_all(c, !rows);
        cache_close(c);
    }
    clean();
    return 0;
}
