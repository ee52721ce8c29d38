/* daemon/service/http*.c: the pure helpers, and the server on a real socket, fed with right and broken bytes. The
 * server runs in a thread of its own; its handler answers with what it was asked, streams on /stream, answers late on
 * /late and never on /never.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/str.h"
#include "daemon/service/http-priv.h"
#include "daemon/service/service.h"

static char path[64];
static uv_loop_t loop;
static uv_async_t quit;
static uv_thread_t thread;
static struct dtd_http *http;
static int gone;

struct late {
    uv_timer_t timer;
    struct dtd_req *r;
};

static void free_handle(uv_handle_t *h) { free(h); }

static void on_late(uv_timer_t *t)
{
    struct late *l = (struct late *)t;
    if (l->r)
        dtd_reply_take(l->r, 200, "text/plain", NULL, dt_strdup("late"), 4);
    uv_close((uv_handle_t *)t, free_handle);
}

static void on_gone(struct dtd_req *r) { gone++; }

static void serve(struct dtd_req *r)
{
    if (!strcmp(r->path, "/stream")) {
        dtd_stream_begin(r, "text/plain");
        for (int i = 0; i < 3; i++)
            dtd_stream_put(r, "line\n", 5);
        dtd_stream_end(r);
    } else if (!strcmp(r->path, "/late")) {
        struct late *l = dt_calloc(1, sizeof *l);
        uv_timer_init(&loop, &l->timer);
        l->r = r;
        uv_timer_start(&l->timer, on_late, 50, 0);
    } else if (!strcmp(r->path, "/field")) {
        struct dt_str s = {0};
        const char *v = dtd_req_header(r, "X-Echo");
        dt_str_addf(&s, v ? "[%s]" : "none", v);
        size_t n = s.len;
        dtd_reply_take(r, 200, "text/plain", NULL, dt_str_take(&s), n);
    } else if (!strcmp(r->path, "/never")) {
        r->gone = on_gone;
    } else if (strcmp(r->path, "/counted") || dtd_req_scan(r, r->body, r->body_len)) {
        struct dt_str s = {0};
        dt_str_addf(&s, "%s %s ?%s %zu", llhttp_method_name(r->method), r->path, r->query, r->body_len);
        size_t n = s.len;
        dtd_reply_take(r, 200, "text/plain", NULL, dt_str_take(&s), n);
    }
}

static bool begin(struct dtd_req *r, struct dtd_body_rule *body)
{
    if (!strcmp(r->path, "/no"))
        dtd_reply_err(r, DT_E_METHOD, "not here");
    if (!strcmp(r->path, "/small"))
        body->max = 10;
    body->graph = !strcmp(r->path, "/graph") || !strcmp(r->path, "/counted");
    body->late = strcmp(r->path, "/counted") ? 0 : 100;
    return strcmp(r->path, "/no") != 0;
}

static bool vital(const struct dtd_req *r) { return !strcmp(r->path, "/vital"); }

static void on_quit(uv_async_t *a)
{
    dtd_http_stop(http);
    dtd_http_drop(http);
    uv_close((uv_handle_t *)a, NULL);
}

static void run_loop(void *arg) { uv_run(&loop, UV_RUN_DEFAULT); }

static int start(void **state)
{
    signal(SIGPIPE, SIG_IGN); /* as the service does */
    struct dtd_http_limits l = {
        .max_body = 1000, .max_bodies = 1500, .max_connections = 4, .request_ms = 400, .idle_ms = 2000};
    snprintf(path, sizeof path, "/tmp/dtd-test-http-%d.sock", (int)getpid());
    uv_loop_init(&loop);
    uv_async_init(&loop, &quit, on_quit);
    static const struct dtd_http_hooks hooks = {.begin = begin, .vital = vital};
    if (dtd_http_new(&loop, &l, serve, NULL, &http, NULL) < 0)
        return -1;
    dtd_http_hook(http, &hooks);
    if (dtd_http_listen(http, path, NULL) < 0)
        return -1;
    return uv_thread_create(&thread, run_loop, NULL);
}

static int stop(void **state)
{
    uv_async_send(&quit);
    uv_thread_join(&thread);
    dtd_http_free(http);
    return uv_loop_close(&loop) || access(path, F_OK) == 0; /* every handle is closed, the socket file is gone */
}

static int dial(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

/* Everything that comes until the server closes. */
static char *read_all(int fd)
{
    struct dt_str s = {0};
    char buf[4096];
    for (ssize_t n; (n = read(fd, buf, sizeof buf)) > 0;)
        dt_str_addn(&s, buf, (size_t)n);
    close(fd);
    dt_str_add(&s, "");
    return dt_str_take(&s);
}

static char *talk(const char *bytes, size_t n)
{
    int fd = dial();
    while (n) {
        ssize_t w = send(fd, bytes, n, MSG_NOSIGNAL);
        if (w <= 0)
            break;
        bytes += w;
        n -= (size_t)w;
    }
    shutdown(fd, SHUT_WR);
    return read_all(fd);
}

static void expect(const char *request, const char *status, const char *needle)
{
    char *r = talk(request, strlen(request));
    if (strncmp(r + 9, status, 3) || (needle && !strstr(r, needle)))
        fail_msg("request %.60s: expected %s with %s, got %.300s", request, status, needle ? needle : "-", r);
    free(r);
}

static void right_requests(void **state)
{
    expect("GET / HTTP/1.1\r\nHost: d\r\n\r\n", "200", "GET / ? 0");
    expect("GET /a%20b?x=1&y=%2f HTTP/1.1\r\nHost: d\r\n\r\n", "200", "GET /a b ?x=1&y=%2f 0");
    expect("GET http://d/v1?q HTTP/1.1\r\nHost: d\r\n\r\n", "200", "GET /v1 ?q 0");
    expect("POST /p HTTP/1.1\r\nHost: d\r\nContent-Length: 5\r\n\r\nhello", "200", "POST /p ? 5");
    expect("POST /p HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n",
           "200", "POST /p ? 7");
    expect("GET /stream HTTP/1.1\r\nHost: d\r\n\r\n", "200", "5\r\nline\n\r\n5\r\nline\n\r\n5\r\nline\n\r\n0\r\n\r\n");
    expect("GET /stream HTTP/1.0\r\n\r\n", "200", "\r\n\r\nline\nline\nline\n");
    expect("HEAD /x HTTP/1.1\r\nHost: d\r\n\r\n", "200", "Content-Length: 11\r\nConnection: keep-alive\r\n\r\n");
    expect("GET /late HTTP/1.1\r\nHost: d\r\n\r\n", "200",
           "late"); /* the client has shut its side: it still gets its answer */
    expect("POST / HTTP/1.1\r\nHost: d\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", "100", "200 OK");
}

static void pipelined(void **state)
{
    const char *two = "GET /late HTTP/1.1\r\nHost: d\r\n\r\nGET /two HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n";
    char *r = talk(two, strlen(two));
    const char *a = strstr(r, "late"), *b = strstr(r, "GET /two");
    assert_true(a && b && a < b);
    free(r);
}

static void broken_requests(void **state)
{
    expect("nonsense\r\n\r\n", "400", "\"code\":\"usage\"");
    expect("GET * HTTP/1.1\r\nHost: d\r\n\r\n", "400", NULL);
    expect("GET /%zz HTTP/1.1\r\nHost: d\r\n\r\n", "400", NULL);
    expect("GET /%00 HTTP/1.1\r\nHost: d\r\n\r\n", "400", NULL);
    expect("POST / HTTP/1.1\r\nHost: d\r\nContent-Length: -1\r\n\r\n", "400", NULL);
    expect("POST / HTTP/1.1\r\nHost: d\r\nContent-Length: 99999999999999999999\r\n\r\n", "400", NULL);
    expect("POST / HTTP/1.1\r\nHost: d\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", "400", NULL);
    expect("POST / HTTP/1.1\r\nHost: d\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400",
           NULL);
    expect("POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400", NULL);
    expect("POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "400", NULL);
    expect("POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "413", NULL);
    expect("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505", NULL);
    expect("GET / HTTP/2.0\r\nHost: d\r\n\r\n", "505", NULL);
}

/* Bytes that two readers may take for different requests: each is refused, with words that say why. */
static void strict_requests(void **state)
{
    static const struct {
        const char *request, *status, *words;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", "400", "Host is missing"},
        {"GET / HTTP/1.1\r\nHost: d\r\nHost: d\r\n\r\n", "400", "there twice"},
        {"GET / HTTP/1.0\r\nHost: d\r\nhOST: e\r\n\r\n", "400", "there twice"},
        {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "400", "no host"},
        {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400", "no host"},
        {"GET / HTTP/1.1\r\nHost : d\r\n\r\n", "400", NULL},
        {"GET / HTTP/1.1\r\nHost: d\r\nX: a\r\n b\r\n\r\n", "400", "folded"},
        {"GET / HTTP/1.1\r\nHost: d\r\nX: a\r\n\tb\r\n\r\n", "400", "folded"},
        {"GET / HTTP/1.1\r\n Host: d\r\n\r\n", "400", "blank"},
        {"GET / HTTP/1.1\nHost: d\r\n\r\n", "400", NULL},
        {"GET / HTTP/1.1\r\nHost: d\n\r\n", "400", "LF without CR"},
        {"GET / HTTP/1.1\r\nHost: d\r\n\n", "400", "LF without CR"},
        {"\nGET / HTTP/1.1\r\nHost: d\r\n\r\n", "400", "LF without CR"},
        {"GET / HTTP/1.1\r\nHost: d\rX: y\r\n\r\n", "400", NULL},
        {"GET / HTTP/1.1\r\nHost: d\r\n\rX", "400", "not followed by LF"},
        {"GET / HTTP/1.1\r\nHost: d\r\nX\r\n\r\n", "400", NULL},
        {"GET / HTTP/1.1\r\nHost: d\r\nX(: y\r\n\r\n", "400", NULL},
        {"GET / HTTP/1.1\r\nHost: d\r\nX: \001\r\n\r\n", "400", NULL},
        {"POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501", "chunked"},
        {"POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: identity\r\n\r\n", "501", "chunked"},
        {"POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: gzip\r\n\r\n", "501", "chunked"},
        {"POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "400", NULL},
        {"POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n",
         "400", NULL},
        {"POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "400", NULL},
        {"POST / HTTP/1.0\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", "HTTP/1.0 has no"},
        {"POST / HTTP/1.1\r\nHost: d\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "400", NULL},
        {"POST / HTTP/1.1\r\nHost: d\r\nContent-Length: 3, 3\r\n\r\nabc", "400", NULL},
        {"POST / HTTP/1.1\r\nHost: d\r\nContent-Length: +3\r\n\r\nabc", "400", NULL},
        {"POST / HTTP/1.1\r\nHost: d\r\nContent-Length: 0x3\r\n\r\nabc", "400", NULL},
        {"POST / HTTP/1.1\r\nHost: d\r\nContent-Length: \r\n\r\nabc", "400", NULL},
        {"POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", "400", NULL},
        {"POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc0\r\n\r\n", "400", NULL},
        {"POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n", "400", NULL},
        {"POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", "400", "trailer"},
        {"POST / HTTP/1.1\r\nHost: d\r\nExpect: something\r\nContent-Length: 1\r\n\r\nx", "417", "100-continue"},
        {"\r\n\r\nGET / HTTP/1.1\r\nHost: d\r\n\r\n", "200", "GET / ? 0"},
        {"GET / HTTP/1.0\r\n\r\n", "200", "GET / ? 0"},
        {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200", "GET / ? 0"},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "200", "GET / ? 0"},
        {"POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "200", "POST / ? 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i].request, cases[i].status, cases[i].words);
}

/* The fields that a handler sees: any case, blanks trimmed, repeated ones joined; and a request's end is found where it
 * is, however the bytes are cut. */
static void fields(void **state)
{
    expect("GET /field HTTP/1.1\r\nHost: d\r\nX-ECHO:  \t a b \t \r\n\r\n", "200", "[a b]");
    expect("GET /field HTTP/1.1\r\nHost: d\r\nx-echo: a\r\nY: z\r\nX-Echo: b\r\nX-Echo:\r\n\r\n", "200", "[a, b, ]");
    expect("GET /field HTTP/1.1\r\nHost: d\r\nX-Echo:\r\n\r\n", "200", "[]");
    expect("GET /field HTTP/1.1\r\nHost: d\r\n\r\n", "200", "none");
    struct dt_str s = {0};
    dt_str_add(&s, "GET / HTTP/1.1\r\nHost: d\r\n");
    for (int i = 0; i < 100; i++)
        dt_str_addf(&s, "X%d: y\r\n", i);
    dt_str_add(&s, "\r\n");
    expect(s.s, "431", "more than 100 fields");
    s.len = 0;
    dt_str_add(&s, "GET / HTTP/1.1\r\nHost: d\r\n");
    for (int i = 0; i < 90; i++)
        dt_str_addf(&s, "X: %0150d\r\n", i);
    dt_str_add(&s, "\r\n");
    expect(s.s, "400", "repeated too often");
    s.len = 0;
    dt_str_add(&s, "POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n3;");
    for (int i = 0; i < 5000; i++)
        dt_str_addc(&s, 'x');
    dt_str_add(&s, "\r\nabc\r\n0\r\n\r\n");
    expect(s.s, "400", "extensions");
    dt_str_done(&s);

    static const char two[] =
        "POST /one HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\n\r\n"
        "GET /field HTTP/1.1\r\nHost: d\r\nX-Echo: v\r\nConnection: close\r\n\r\n";
    for (size_t cut = 1; cut < sizeof two - 1; cut += 7) {
        int fd = dial();
        assert_int_equal(write(fd, two, cut), cut);
        usleep(2000);
        assert_int_equal(write(fd, two + cut, sizeof two - 1 - cut), sizeof two - 1 - cut);
        char *r = read_all(fd), *first = strstr(r, "POST /one ? 3");
        if (!first || !strstr(first, "[v]"))
            fail_msg("cut at %zu: %s", cut, r);
        free(r);
    }
}

static void limits(void **state)
{
    struct dt_str s = {0};
    dt_str_add(&s, "GET / HTTP/1.1\r\nHost: d\r\nX: ");
    for (int i = 0; i < 40000; i++)
        dt_str_addc(&s, 'x');
    dt_str_add(&s, "\r\n\r\n");
    expect(s.s, "431", "\"status\":431");
    s.len = 0;
    dt_str_add(&s, "GET /");
    for (int i = 0; i < 9000; i++)
        dt_str_addc(&s, 'x');
    dt_str_add(&s, " HTTP/1.1\r\nHost: d\r\n\r\n");
    expect(s.s, "414", NULL);
    s.len = 0;
    expect("POST / HTTP/1.1\r\nHost: d\r\nContent-Length: 1001\r\n\r\n", "413", "\"code\":\"too-large\"");
    dt_str_add(&s, "POST / HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n");
    for (int i = 0; i < 2000; i++)
        dt_str_addc(&s, 'x');
    dt_str_add(&s, "\r\n0\r\n\r\n");
    expect(s.s, "413", NULL);
    dt_str_done(&s);
}

static void slow_and_half(void **state)
{
    /* a dribbling client is told, and its connection ends although it keeps it open */
    int fd = dial();
    assert_int_equal(write(fd, "GET / HT", 8), 8);
    char *r = read_all(fd);
    assert_int_equal(strncmp(r + 9, "408", 3), 0);
    free(r);
    /* half a request and then the end: closed without an answer */
    r = talk("POST / HTTP/1.1\r\nHost: d\r\nContent-Length: 10\r\n\r\nabc", 52);
    assert_string_equal(r, "");
    free(r);
}

static void bodies_together(void **state)
{
    /* two bodies under way of 900 and 800 bytes: the second is over the limit for all, and the first is not
     * disturbed */
    char body[901], head[] = "POST / HTTP/1.1\r\nHost: d\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n";
    memset(body, 'x', sizeof body);
    int a = dial(), b = dial();
    assert_true(write(a, head, sizeof head - 1) > 0 && write(a, body, 900) == 900);
    usleep(50000);
    assert_true(write(b, head, sizeof head - 1) > 0 && write(b, body, 800) == 800);
    char *r = read_all(b);
    assert_int_equal(strncmp(r + 9, "429", 3), 0);
    assert_non_null(strstr(r, "Retry-After: "));
    free(r);
    assert_int_equal(write(a, body, 100), 100);
    r = read_all(a);
    assert_non_null(strstr(r, "POST / ? 1000"));
    free(r);
}

/* All four connections are taken: what is vital is answered nevertheless, all else is refused with a document that says
 * so, even when the reserved connections are held by somebody who sends nothing. */
static void too_many(void **state)
{
    int fd[4], idle[30];
    for (int i = 0; i < 300 && *(volatile const unsigned *)&dtd_http_counts(http)->connections; i++)
        usleep(10000); /* connections of earlier cases are still being closed */
    for (int i = 0; i < 4; i++) {
        fd[i] = dial();
        assert_true(write(fd[i], "GET /never HTTP/1.1\r\nHost: d\r\n\r\n", 32) == 32);
    }
    usleep(50000);
    expect("GET / HTTP/1.1\r\nHost: d\r\n\r\n", "429", "\"code\":\"share\"");
    expect("POST / HTTP/1.1\r\nHost: d\r\nContent-Length: 500\r\n\r\n", "429", "Retry-After: ");
    expect("GET /vital HTTP/1.1\r\nHost: d\r\n\r\n", "200", "Connection: close");
    for (int i = 0; i < 30; i++)
        idle[i] = dial();
    expect("GET /vital HTTP/1.1\r\nHost: d\r\n\r\n", "200", "GET /vital");
    for (int i = 0; i < 30; i++)
        close(idle[i]);
    for (int i = 0; i < 4; i++)
        close(fd[i]);
    usleep(50000);
}

/* A handler that looks at the header may refuse before the body has come, and what it asks for holds for the body. */
static void body_rules(void **state)
{
    expect("POST /no HTTP/1.1\r\nHost: d\r\nContent-Length: 900\r\n\r\n", "405", "Connection: close");
    expect("POST /no HTTP/1.1\r\nHost: d\r\nExpect: 100-continue\r\nContent-Length: 900\r\n\r\n", "405", "not here");
    expect("POST /small HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n", "413", "too-large");
    expect("POST /small HTTP/1.1\r\nHost: d\r\nContent-Length: 10\r\n\r\n0123456789", "200", "POST /small ? 10");
    char deep[100] = "", request[300];
    memset(deep, '[', 70);
    snprintf(request, sizeof request, "POST /graph HTTP/1.1\r\nHost: d\r\nContent-Length: 1000\r\n\r\n{\"a\":%s", deep);
    expect(request, "413", "nested more than 64 deep"); /* 925 bytes are still to come */
    snprintf(request, sizeof request, "POST /counted HTTP/1.1\r\nHost: d\r\nContent-Length: 75\r\n\r\n{\"a\":%s", deep);
    expect(request, "413", "nested more than 64 deep"); /* by the handler */
    snprintf(request, sizeof request, "POST /counted HTTP/1.1\r\nHost: d\r\nContent-Length: 101\r\n\r\n{\"a\":%s",
             deep);
    expect(request, "413", "nested more than 64 deep"); /* too long to wait for its end */
    snprintf(request, sizeof request,
             "POST /counted HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n4b\r\n{\"a\":%s", deep);
    expect(request, "413", "nested more than 64 deep"); /* nor is it known to be short */
    expect("POST /counted HTTP/1.1\r\nHost: d\r\nContent-Length: 7\r\n\r\n{\"a\":1}", "200", "POST /counted ? 7");
}

/* ---- the scanner ------------------------------------------------------------------------------------------------- */
/* The error of a document that comes in pieces of n bytes, and where it shows. */
static int scan(const char *text, size_t n, struct dt_err *e, size_t *at)
{
    struct dtd_scan s = {0};
    size_t len = strlen(text);
    int r = 0;
    for (*at = 0; *at < len && !r; *at += n)
        r = dtd_scan_feed(&s, text + *at, len - *at < n ? len - *at : n, e);
    return r;
}

static void scanned(const char *text, int want, const char *pointer)
{
    static const size_t pieces[] = {1, 7, 1000, 1u << 20};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct dt_err e = {0};
        size_t at;
        int r = scan(text, pieces[i], &e, &at);
        if (r != want || strcmp(e.pointer ? e.pointer : "", pointer))
            fail_msg("%.60s… in pieces of %zu: %d at %zu, %s", text, pieces[i], r, at, e.pointer ? e.pointer : "-");
        dt_err_done(&e);
    }
}

/* head, n times item with commas between, tail */
static char *many(const char *head, const char *item, unsigned n, const char *tail)
{
    struct dt_str s = {0};
    dt_str_add(&s, head);
    for (unsigned i = 0; i < n; i++)
        dt_str_addf(&s, "%s%s", i ? "," : "", item);
    dt_str_add(&s, tail);
    return dt_str_take(&s);
}

static void scanner(void **state)
{
    static const struct {
        const char *head, *item;
        unsigned n;
        const char *tail;
        int want;
        const char *pointer;
    } cases[] = {
        {"{\"launches\":[", "{\"args\":[1,2]}", 16384, "]}", 0, ""},
        {"{\"launches\":[", "{\"args\":[1,2]}", 16385, "]}", DT_E_TOO_LARGE, "/launches"},
        {"{ \"launches\" : [ ", "0", 16385, "", DT_E_TOO_LARGE, "/launches"},
        {"{\"x\":{\"launches\":[", "0", 16385, "]}}", 0, ""}, /* of something else */
        {"{\"launchesx\":[", "0", 16385, "]}", 0, ""},
        {"{\"x\":\"launches\",\"y\":[", "0", 16385, "]}", 0, ""},
        {"{\"modules\":{", "\"a\":{\"ptx\":\"launches [ { \\\" [\"}", 1024, "}}", 0, ""},
        {"{\"modules\":{", "\"a\":{\"ptx\":\"\"}", 1025, "}}", DT_E_TOO_LARGE, "/modules"},
        {"{\"launches\":[],\"buffers\":{", "\"a\":1", 4097, "}}", DT_E_TOO_LARGE, "/buffers"},
        {"{\"a\":[1,2,3,\"x\"],\"scratch\":{", "\"a\":{}", 4097, "}}", DT_E_TOO_LARGE, "/scratch"},
        {"[", "[]", 1000001, "]", DT_E_TOO_LARGE, ""},
        {"[", "0", 999999, "]", 0, ""},
        {"[", "0", 1000000, "]", DT_E_TOO_LARGE, ""},
        {"{\"\\u006caunches\":[", "0", 1000000, "]}", DT_E_TOO_LARGE, ""},
        {"", "[", 64, "", 0, ""},
        {"[1", "2", 600, "3]", 0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = many(cases[i].head, cases[i].item, cases[i].n, cases[i].tail);
        scanned(text, cases[i].want, cases[i].pointer);
        free(text);
    }
    struct dt_str s = {0};
    for (int i = 0; i < 64; i++)
        dt_str_add(&s, i % 2 ? "{\"a\":" : "[");
    scanned(s.s, 0, "");
    dt_str_add(&s, "[");
    scanned(s.s, DT_E_TOO_LARGE, "");
    s.len = 0;
    dt_str_add(&s, "{\"");
    for (int i = 0; i < 65537; i++)
        dt_str_addc(&s, 'x');
    scanned(s.s, DT_E_TOO_LARGE, "");
    s.len = 0;
    dt_str_add(&s, "[1");
    for (int i = 0; i < 1025; i++)
        dt_str_addc(&s, '0');
    scanned(s.s, DT_E_TOO_LARGE, "");
    s.len = 0;
    dt_str_add(&s, "[]]"); /* no JSON from here on: not this one's business */
    for (int i = 0; i < 100; i++)
        dt_str_addc(&s, '[');
    scanned(s.s, 0, "");
    dt_str_done(&s);
}

static void traces(void **state)
{
    static const char good[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    static const char *const broken[] = {NULL,
                                         "",
                                         "00",
                                         "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                                         "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                                         "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                                         "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                         "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
                                         "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
                                         "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                         "0-04bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};
    char a[DTD_TRACE], b[DTD_TRACE], c[DTD_TRACE];
    dtd_trace_take(good, a);
    assert_int_equal(strncmp(a, good, 36), 0);
    assert_int_not_equal(strncmp(a + 36, good + 36, 16), 0); /* this request's own part */
    assert_string_equal(a + 52, "-01");
    dtd_trace_take("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", b); /* a later version */
    assert_int_equal(strncmp(b, good, 36), 0);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        dtd_trace_take(broken[i], b);
        dtd_trace_take(broken[i], c);
        assert_int_equal(strlen(b), 55);
        assert_int_not_equal(strncmp(b + 3, good + 3, 32), 0);
        assert_int_not_equal(strncmp(b + 3, c + 3, 32), 0);
        dtd_trace_take(b, c); /* what is made can be taken on */
        assert_int_equal(strncmp(b, c, 36), 0);
    }
}

static void keys(void **state)
{
    struct dtd_keys ks = {0};
    struct dtd_key *k, *first;
    char name[300];
    assert_int_equal(dtd_keys_ask(&ks, 7, "a", "D", 1000, &first), DTD_KEY_NEW);
    assert_int_equal(dtd_keys_ask(&ks, 7, "a", "D", 1000, &k), DTD_KEY_BUSY);
    assert_int_equal(dtd_keys_ask(&ks, 7, "a", "E", 1000, &k), DTD_KEY_OTHER);
    assert_int_equal(dtd_keys_ask(&ks, 8, "a", "E", 1000, &k), DTD_KEY_NEW); /* another user's */
    dtd_keys_answer(&ks, k, false, "");                                      /* was refused: the key is free */
    assert_int_equal(dtd_keys_ask(&ks, 8, "a", "F", 1000, &k), DTD_KEY_NEW);
    dtd_keys_answer(&ks, first, true, "job-1");
    assert_int_equal(dtd_keys_ask(&ks, 7, "a", "D", 1001, &first), DTD_KEY_KNOWN);
    assert_int_equal(dtd_keys_ask(&ks, 7, "a", "E", 1001, &first), DTD_KEY_OTHER);
    assert_int_equal(dtd_keys_ask(&ks, 7, "a", "E", 1001 + 24 * 3600 * 1000, &first), DTD_KEY_NEW); /* a day later */
    dtd_keys_answer(&ks, first, true, "job-2");
    for (unsigned uid = 100; uid < 120; uid++)
        for (int i = 0; i < (uid == 100 ? 2000 : 700); i++) {
            snprintf(name, sizeof name, "key-%d", i);
            assert_int_equal(dtd_keys_ask(&ks, uid, name, "D", 2000, &k), DTD_KEY_NEW);
            dtd_keys_answer(&ks, k, true, "job");
            assert_true(ks.n <= 8192);
        }
    assert_int_equal(dtd_keys_ask(&ks, 119, "key-699", "D", 2000, &k), DTD_KEY_KNOWN);
    assert_int_equal(dtd_keys_ask(&ks, 100, "key-0", "E", 2000, &k), DTD_KEY_NEW); /* the oldest went */
    dtd_keys_done(&ks);
    assert_int_equal(ks.n, 0);
}

/* 100 places. */
static void shares(void **state)
{
    static const struct {
        unsigned mine, all, others, more;
        int want;
    } cases[] = {
        {0, 0, 0, 1, 0},     {0, 0, 0, 100, 0},    {80, 80, 0, 1, 0},   {87, 87, 0, 1, 0}, {88, 88, 0, 1, 429},
        {0, 88, 1, 1, 0},    {5, 93, 1, 1, 0},     {6, 94, 1, 1, 429},  {0, 99, 1, 1, 0},  {0, 100, 1, 1, 503},
        {33, 40, 1, 1, 429}, {32, 40, 1, 1, 0},    {20, 40, 3, 1, 429}, {19, 40, 3, 1, 0}, {100, 100, 0, 1, 429},
        {1, 100, 1, 1, 503}, {40, 100, 1, 1, 429}, {0, 0, 0, 101, 503},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int r = dtd_share_of(cases[i].mine, cases[i].all, 100, cases[i].others, cases[i].more);
        if (r != cases[i].want)
            fail_msg("case %zu: %d, expected %d", i, r, cases[i].want);
    }
}

static void stale_socket(void **state)
{
    struct dtd_http *other;
    struct dtd_http_limits l = {.max_connections = 1};
    struct dt_err e = {0};
    struct stat st;
    char name[80];
    uv_loop_t lp;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    uv_loop_init(&lp);
    assert_int_equal(dtd_http_new(&lp, &l, serve, NULL, &other, NULL), 0);
    assert_int_equal(dtd_http_listen(other, path, &e), DT_E_IO); /* somebody listens there */
    assert_non_null(strstr(e.detail, "another service"));
    dt_err_done(&e);
    snprintf(name, sizeof name, "%s.file", path);
    fclose(fopen(name, "w"));
    assert_int_equal(dtd_http_listen(other, name, &e), DT_E_IO); /* not a socket: left alone */
    assert_int_equal(access(name, F_OK), 0);
    unlink(name);
    dt_err_done(&e);
    /* a socket file that nobody listens on is replaced */
    snprintf(name, sizeof name, "%s.old", path);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    strcpy(a.sun_path, name);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    close(fd);
    assert_int_equal(dtd_http_listen(other, name, &e), 0);
    dtd_http_stop(other);
    assert_int_not_equal(access(name, F_OK), 0);
    uv_run(&lp, UV_RUN_DEFAULT);
    dtd_http_free(other);
    assert_int_equal(uv_loop_close(&lp), 0);
}

static void queries_and_paths(void **state)
{
    const char *at = "a=1&&b=x%20y+z&c&d=";
    char n[8], v[16];
    const char *expect_n[] = {"a", "b", "c", "d"}, *expect_v[] = {"1", "x y z", "", ""};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(dtd_query_next(&at, n, sizeof n, v, sizeof v), 1);
        assert_string_equal(n, expect_n[i]);
        assert_string_equal(v, expect_v[i]);
    }
    assert_int_equal(dtd_query_next(&at, n, sizeof n, v, sizeof v), 0);
    static const char *const bad[] = {"a=%", "a=%1", "a=%g0", "a=%00", "verylongname=1", "a=0123456789abcdef"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        at = bad[i];
        assert_int_equal(dtd_query_next(&at, n, sizeof n, v, sizeof v), DT_E_USAGE);
    }
    char buf[16];
    const char *param[DTD_MAX_PARAMS];
    assert_true(dtd_path_match("/v1/jobs/*", "/v1/jobs/7", buf, sizeof buf, param));
    assert_string_equal(param[0], "7");
    assert_true(dtd_path_match("/a/*/b/*", "/a/x/b/y", buf, sizeof buf, param));
    assert_string_equal(param[1], "y");
    assert_false(dtd_path_match("/v1/jobs/*", "/v1/jobs/", buf, sizeof buf, param));
    assert_false(dtd_path_match("/v1/jobs/*", "/v1/jobs/7/x", buf, sizeof buf, param));
    assert_false(dtd_path_match("/v1/jobs", "/v1/jobs/", buf, sizeof buf, param));
    assert_false(dtd_path_match("/a/*", "/a/0123456789abcdef", buf, sizeof buf, param)); /* does not fit */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_and_paths),
        cmocka_unit_test(right_requests),
        cmocka_unit_test(pipelined),
        cmocka_unit_test(broken_requests),
        cmocka_unit_test(strict_requests),
        cmocka_unit_test(fields),
        cmocka_unit_test(body_rules),
        cmocka_unit_test(scanner),
        cmocka_unit_test(shares),
        cmocka_unit_test(traces),
        cmocka_unit_test(keys),
        cmocka_unit_test(limits),
        cmocka_unit_test(slow_and_half),
        cmocka_unit_test(bodies_together),
        cmocka_unit_test(too_many),
        cmocka_unit_test(stale_socket),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
