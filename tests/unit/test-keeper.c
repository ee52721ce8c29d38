/* The cache of a program that lives on: without a file, after an unclean end, over its bound, on a full disk; what
 * happens is waited for, with a deadline far off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <sqlite3.h>

#include "base/file.h"
#include "base/str.h"
#include "cache/cache.h"

#define LONG_S 120

static char dir[64], path[128];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char said[8192];

static int set_up(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/dt-keeper-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/sub/cache.db", dir);
    said[0] = 0;
    return 0;
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *at) { return remove(name); }

static int tear_down(void **state)
{
    if (getuid() == 0 && seteuid(0) < 0) /* test_only_read is somebody else */
        return -1;
    return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void tell(void *user, bool bad, const char *text)
{
    pthread_mutex_lock(&lock);
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s%s\n", bad ? "BAD " : "", text);
    pthread_mutex_unlock(&lock);
}

static bool was_said(const char *what)
{
    pthread_mutex_lock(&lock);
    bool yes = strstr(said, what);
    pthread_mutex_unlock(&lock);
    return yes;
}

/* Wait until `what` was said. */
static void until_said(const char *what)
{
    for (int i = 0; i < LONG_S * 100 && !was_said(what); i++)
        usleep(10000);
    if (!was_said(what))
        fail_msg("not said: %s, but:\n%s", what, said);
}

static struct cache_figures figures(struct cache *c)
{
    struct cache_figures f;
    cache_figures(c, &f);
    return f;
}

static struct cache *hold(int64_t max_bytes)
{
    struct cache *c = NULL;
    struct dt_err e = {0};
    assert_true(cache_hold(path, &c, &e) >= 0);
    dt_err_done(&e);
    cache_told(c, tell, NULL);
    assert_int_equal(cache_keep(c, max_bytes, NULL), 0);
    return c;
}

static void number(char out[DT_SHA256_TEXT], const char *kind, int i)
{
    char text[64];
    snprintf(text, sizeof text, "%s %d", kind, i);
    assert_int_equal(dt_sha256_text(text, strlen(text), out), 0);
}

/* Document i of `bytes` bytes under a signature of its own, with its graph. */
static int put(struct cache *c, int i, size_t bytes)
{
    char sig[DT_SHA256_TEXT], dig[DT_SHA256_TEXT];
    number(sig, "signature", i);
    number(dig, "digest", i);
    struct cache_key k = {"plan", sig, "soft:h200", "dovetail 1", ""};
    char *fill = malloc(bytes + 1);
    memset(fill, 'a' + i % 26, bytes);
    fill[bytes] = 0;
    json_t *doc = json_pack("{s:i, s:s}", "n", i, "fill", fill), *g = json_pack("{s:i}", "graph", i);
    int r = cache_put(c, &k, dig, doc, NULL, NULL);
    if (r == 0)
        r = cache_digest_put(c, dig, "sm_90", sig, g, NULL);
    cache_own(c, sig, 7);
    json_decref(doc);
    json_decref(g);
    free(fill);
    return r;
}

/* Is document i there, and right? And does its graph go with it? */
static bool there(struct cache *c, int i)
{
    char sig[DT_SHA256_TEXT], dig[DT_SHA256_TEXT], back[DT_SHA256_TEXT];
    number(sig, "signature", i);
    number(dig, "digest", i);
    struct cache_key k = {"plan", sig, "soft:h200", "dovetail 1", ""};
    json_t *doc = NULL;
    int r = cache_get(c, &k, &doc, NULL);
    if (r == 1)
        assert_int_equal(json_integer_value(json_object_get(doc, "n")), i);
    json_decref(doc);
    if (r == 1)
        assert_int_equal(cache_digest_get(c, dig, "sm_90", back, NULL), 1);
    return r == 1;
}

static int64_t sql(const char *text)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    int64_t n = 0;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_prepare_v2(db, text, -1, &s, NULL) != SQLITE_OK)
        fail_msg("%s: %s", text, sqlite3_errmsg(db));
    if (sqlite3_step(s) == SQLITE_ROW)
        n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

static bool exists(const char *suffix)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return access(name, F_OK) == 0;
}

/* In a process that is killed, so that nobody closes the file. */
static void unclean(int n, size_t bytes)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct cache *c = NULL;
        if (cache_open(path, &c, NULL) == 0)
            for (int i = 0; i < n; i++)
                put(c, i, bytes);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

/* ---- without a file -------------------------------------------------------------------------------------------- */

/* The folder cannot be made, then it can: every call is a miss or an error, then the cache works. */
static void test_no_folder(void **state)
{
    char folder[128];
    snprintf(folder, sizeof folder, "%s/sub", dir);
    assert_int_equal(dt_write_file(folder, "x", 1, NULL), 0); /* a file where the folder should be */
    struct cache *c = NULL;
    struct dt_err e = {0};
    assert_int_equal(cache_hold(path, &c, &e), 0);
    assert_non_null(e.detail);
    dt_err_done(&e);
    cache_told(c, tell, NULL);
    assert_int_equal(cache_keep(c, 0, NULL), 0);
    struct cache_figures f = figures(c);
    assert_false(f.open);
    assert_true(*f.trouble);
    assert_false(there(c, 1));
    assert_true(put(c, 1, 10) < 0);
    assert_true(figures(c).failed_writes > 0);
    json_t *o = cache_stats(c);
    assert_string_equal(json_string_value(json_object_get(json_object_get(o, "store"), "state")), "absent");
    json_decref(o);
    assert_int_equal(unlink(folder), 0);
    until_said("is open again");
    for (int i = 0; i < LONG_S * 100 && put(c, 1, 10) < 0; i++) /* the keeper was first */
        usleep(10000);
    assert_true(there(c, 1));
    f = figures(c);
    assert_true(f.open && f.writable && !*f.trouble);
    cache_close(c);
}

/* Another program's database is not touched; without it, the cache begins. */
static void test_another_program(void **state)
{
    char folder[128];
    snprintf(folder, sizeof folder, "%s/sub", dir);
    assert_int_equal(mkdir(folder, 0700), 0);
    sql("CREATE TABLE theirs AS SELECT 5 AS x");
    struct cache *c = hold(0);
    assert_false(figures(c).open);
    assert_true(put(c, 1, 10) < 0);
    assert_int_equal(sql("SELECT x FROM theirs"), 5);
    assert_false(exists(".bad"));
    assert_int_equal(unlink(path), 0);
    until_said("is open again");
    cache_close(c);
    assert_int_equal(sql("SELECT count(*) FROM entry"), 0);
}

/* The file is taken away while it is open: a new one is found. */
static void test_taken_away(void **state)
{
    struct cache *c = hold(0);
    struct stat st;
    assert_int_equal(put(c, 1, 10), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(unlink(path), 0);
    for (int i = 0; i < LONG_S * 100 && (there(c, 1) || put(c, 2, 10) < 0); i++)
        usleep(10000);
    assert_true(there(c, 2));
    cache_close(c);
    assert_int_equal(sql("SELECT count(*) FROM entry"), 1);
}

/* ---- after an unclean end -------------------------------------------------------------------------------------- */

static void test_unclean(void **state)
{
    unclean(20, 100);
    assert_true(exists("-wal"));
    struct cache *c = hold(0);
    until_said("was checked and is sound");
    for (int i = 0; i < 20; i++)
        assert_true(there(c, i));
    cache_close(c);
    assert_false(exists("-wal"));
    said[0] = 0;
    c = hold(0);
    assert_int_equal(put(c, 1, 10), 0);
    cache_close(c); /* after a clean end there is nothing to check, nor is there in a new file */
    assert_int_equal(unlink(path), 0);
    c = hold(0);
    assert_int_equal(put(c, 1, 10), 0);
    cache_close(c);
    assert_string_equal(said, "");
    /* a check that did not come to its end is made at the next start, though that found no log */
    sql("INSERT INTO counter VALUES ('', 'unclean', 1)");
    c = hold(0);
    until_said("was checked and is sound");
    cache_close(c);
    assert_int_equal(sql("SELECT count(*) FROM counter WHERE want = ''"), 0);
}

/* A page in the middle is bad: the file goes aside, and what other pages hold comes back. */
static void test_damaged(void **state)
{
    char junk[4096], bad[160];
    memset(junk, 0xee, sizeof junk);
    unclean(300, 900);
    sql("PRAGMA wal_checkpoint(TRUNCATE)");
    int64_t root = sql("SELECT rootpage FROM sqlite_schema WHERE name = 'entry'");
    unclean(1, 900); /* leaves a log, and with it a reason to check */
    FILE *f = fopen(path, "r+");
    unsigned char page[4096];
    assert_non_null(f);
    assert_int_equal(fseek(f, (root - 1) * 4096, SEEK_SET), 0);
    assert_int_equal(fread(page, 1, sizeof page, f), sizeof page);
    assert_int_equal(page[0], 5); /* an inner page: its first cells name leaves; take one in the middle */
    unsigned cells = page[3] << 8 | page[4], cell = 12 + cells / 2 * 2, at = page[cell] << 8 | page[cell + 1];
    long leaf = (long)page[at] << 24 | page[at + 1] << 16 | page[at + 2] << 8 | page[at + 3];
    assert_int_equal(fseek(f, (leaf - 1) * 4096, SEEK_SET), 0);
    assert_int_equal(fwrite(junk, 1, sizeof junk, f), sizeof junk);
    fclose(f);
    struct cache *c = hold(0);
    until_said("sound rows were taken over");
    assert_true(was_said("BAD"));
    assert_true(exists(".bad"));
    struct cache_figures g = figures(c);
    assert_int_equal(g.damaged_files, 1);
    int n = 0;
    for (int i = 0; i < 300; i++)
        n += there(c, i);
    assert_true(n > 280 && n < 300); /* four or so to a page */
    assert_true(g.saved_rows > 280);
    assert_int_equal(put(c, 1000, 10), 0);
    cache_close(c);
    snprintf(bad, sizeof bad, "%s.bad", path);
    assert_int_equal(unlink(bad), 0);
}

/* A damaged row is set aside, counted and told. */
static void test_damaged_row(void **state)
{
    struct cache *c = hold(0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(put(c, i, 10), 0);
    sql("UPDATE entry SET body = 'x' || body WHERE id = 2");
    assert_false(there(c, 1));
    assert_true(there(c, 0) && there(c, 2));
    assert_int_equal(figures(c).damaged_rows, 1);
    assert_true(was_said("BAD cache"));
    cache_close(c);
    assert_int_equal(sql("SELECT count(*) FROM aside WHERE tbl = 'entry' AND key = '2' AND body LIKE 'x{%'"), 1);
    for (int i = 0; i < 100; i++) { /* it is bounded */
        c = NULL;
        assert_int_equal(cache_open(path, &c, NULL), 0);
        assert_int_equal(put(c, 5, 10), 0);
        sql("UPDATE entry SET body = 'x' WHERE id = (SELECT max(id) FROM entry)");
        assert_false(there(c, 5));
        cache_close(c);
    }
    assert_in_range(sql("SELECT count(*) FROM aside"), 60, 64);
}

/* ---- the bound ------------------------------------------------------------------------------------------------- */

static void until_small(struct cache *c, int64_t bytes)
{
    for (int i = 0; i < LONG_S * 100 && (!figures(c).bytes || figures(c).bytes > bytes); i++)
        usleep(10000);
    assert_in_range(figures(c).bytes, 1, bytes);
}

static void test_bound(void **state)
{
    struct cache *c = NULL;
    assert_int_equal(cache_open(path, &c, NULL), 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(put(c, i, 10000), 0);
    cache_close(c);
    sql("UPDATE entry SET used = unixepoch() - 100000 + id");
    sql("UPDATE entry SET used = unixepoch() + 1000000 WHERE id = 1"); /* the clock was wrong */
    sql("UPDATE entry SET used = unixepoch() - 10 WHERE id = 51");     /* it was hit */
    struct stat before, after;
    assert_int_equal(stat(path, &before), 0);
    c = hold(1 << 20);
    until_small(c, 1 << 20);
    assert_true(there(c, 299) && there(c, 50) && there(c, 0));
    assert_false(there(c, 1) || there(c, 150));
    assert_true(figures(c).evicted > 0);
    cache_close(c);
    int64_t left = sql("SELECT count(*) FROM entry");
    assert_in_range(left, 60, 100);
    assert_int_equal(sql("SELECT count(*) FROM graph"), left); /* what hangs on an entry goes with it */
    assert_int_equal(sql("SELECT count(*) FROM known"), left);
    assert_int_equal(sql("SELECT count(*) FROM owner"), left);
    assert_int_equal(stat(path, &after), 0);
    assert_true(after.st_size < before.st_size * 2 / 3); /* the disk has got some of it back */
}

/* ---- a file that cannot be written ------------------------------------------------------------------------------ */

static void modes(mode_t file, mode_t log_index)
{
    static const char *const beside[] = {"", "-wal", "-shm"};
    char name[160];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", path, beside[i]);
        assert_int_equal(chmod(name, i < 2 ? file : log_index), 0);
    }
}

/* It is not opened, and says so, as long as it cannot be written; then it is, with all that it had. */
static void test_only_read(void **state)
{
    static const mode_t mode[][2] = {{0400, 0400}, {0600, 0400}};
    if (geteuid() == 0) { /* who may write everything */
        assert_int_equal(chown(dir, 54321, (gid_t)-1), 0);
        assert_int_equal(seteuid(54321), 0);
    }
    for (int k = 0; k < 2; k++) {
        unclean(3, 100); /* what SQLite could read: file, log and index */
        modes(mode[k][0], mode[k][1]);
        said[0] = 0;
        struct cache *c = hold(0);
        for (int i = 0; i < 3 * CACHE_RETRY_S; i++) { /* while the keeper tries, too */
            struct cache_figures f = figures(c);
            assert_false(f.open);
            assert_non_null(strstr(f.trouble, "cannot be opened for writing"));
            assert_true(!there(c, 0) && put(c, 3, 100) < 0);
            usleep(500000);
        }
        assert_false(was_said("again"));
        modes(0600, 0600);
        until_said("is open again");
        for (int i = 0; i < LONG_S * 100 && put(c, 3, 100) < 0; i++) /* the keeper was first */
            usleep(10000);
        assert_true(there(c, 0) && there(c, 2) && there(c, 3));
        assert_true(figures(c).open && figures(c).writable);
        cache_close(c);
        assert_false(exists(".bad"));
    }
}

/* ---- a full disk ----------------------------------------------------------------------------------------------- */

/* Nothing can be written, not a byte: gc makes room all the same, and then the cache works. */
static void test_full_disk(void **state)
{
    char folder[128], filler[160];
    snprintf(folder, sizeof folder, "%s/sub", dir);
    snprintf(filler, sizeof filler, "%s/filler", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    if (mount("none", folder, "tmpfs", 0, "size=24m,mode=0700") < 0) {
        print_message("no small disk: mounting is not allowed here (tests/fault/ has the same without one)\n");
        return;
    }
    struct cache *c = hold(0);
    struct dt_err e = {0};
    int n = 0, fd;
    char zero[4096] = "";
    for (int i = 0; i < LONG_S * 100 && !exists(".reserve"); i++)
        usleep(10000);
    while (n < 100 && put(c, n, 20000) == 0)
        n++;
    assert_int_equal(n, 100);
    fd = open(filler, O_WRONLY | O_CREAT, 0600);
    while (write(fd, zero, sizeof zero) > 0)
        ;
    close(fd);
    while (n < 3000 && put(c, n, 20000) == 0)
        n++;
    assert_in_range(n, 100, 2999);
    struct cache_figures f = figures(c);
    assert_true(f.open && !f.writable && f.failed_writes);
    assert_true(was_said("cannot be written"));
    for (int i = 0; i < 100; i++)
        assert_true(there(c, i)); /* what it has is served */
    json_t *o = NULL;
    if (cache_gc(c, -1, 400000, &o, &e) < 0)
        fail_msg("%s", e.detail);
    assert_true(json_integer_value(json_object_get(o, "bytes")) <= 400000);
    json_decref(o);
    for (int i = 0; i < LONG_S * 100 && !figures(c).writable; i++) {
        assert_int_equal(put(c, 5000, 20000), 0);
        assert_true(there(c, 5000));
        usleep(10000);
    }
    assert_true(was_said("can be written again"));
    cache_close(c);
    assert_int_equal(umount(folder), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {T(test_no_folder), T(test_another_program), T(test_taken_away),
                                       T(test_unclean),   T(test_damaged),         T(test_damaged_row),
                                       T(test_bound),     T(test_only_read),       T(test_full_disk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
