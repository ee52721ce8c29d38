/* Any bytes on a connection to the HTTP server, the real one on a real socket and loop.
 *
 * The first byte says in pieces of which length they come, and whether the client then ends its side. The handler
 * answers with what it was given. What the server sends is a sequence of whole replies: each has a status line that
 * there is, a Content-Length (or chunks) and as many bytes; a refusal is a problem document whose code is in
 * base/err.def, and after it the server closes. What the handler gets is bounded, decoded and ends in NUL.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "daemon/service/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BODY_MAX 5000

static uv_loop_t *loop;
static struct dtd_http *http;
static char path[64];

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz-http: %s\n", what);
        abort();
    }
}

static void serve(struct dtd_req *r)
{
    char name[32], value[64], *reply;
    size_t n = r->body_len;
    check(r->path && r->path[0] == '/' && strlen(r->path) < 65536 && r->query && n <= BODY_MAX, "an unbounded request");
    check(!n || !r->body[n], "a body without an end");
    for (const char *at = r->query; dtd_query_next(&at, name, sizeof name, value, sizeof value) > 0;)
        check(strlen(name) < sizeof name && strlen(value) < sizeof value, "a query out of its bounds");
    if (r->path[1] == 's') {
        dtd_stream_begin(r, "text/plain");
        dtd_stream_put(r, "line\n", 5);
        dtd_stream_end(r);
        return;
    }
    if (r->path[1] == 'e') {
        dtd_reply_err(r, DT_E_NOT_FOUND, "there is no %.40s", "such thing");
        return;
    }
    reply = dt_memdup(n ? r->body : "", n);
    dtd_reply_take(r, 200, "application/octet-stream", NULL, reply, n);
}

static void at_end(void) { unlink(path); }

static void start(void)
{
    struct dtd_http_limits l = {
        .max_body = BODY_MAX, .max_bodies = 2 * BODY_MAX, .max_connections = 4, .request_ms = 60000, .idle_ms = 60000};
    signal(SIGPIPE, SIG_IGN);
    snprintf(path, sizeof path, "/tmp/dt-fuzz-http-%d.sock", (int)getpid());
    loop = uv_default_loop();
    check(dtd_http_new(loop, &l, serve, NULL, &http, NULL) == 0 && dtd_http_listen(http, path, NULL) == 0, "no server");
    atexit(at_end);
}

static int dial(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    check(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0, "cannot connect");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* Let the server do what it can, and take what it sent. False: it closed. */
static bool turn(int fd, struct dt_str *got)
{
    static char buf[65536];
    for (int i = 0; i < 3; i++) {
        uv_run(loop, UV_RUN_NOWAIT);
        for (ssize_t n; (n = read(fd, buf, sizeof buf)) != -1;) {
            if (!n)
                return false;
            dt_str_addn(got, buf, (size_t)n);
        }
    }
    return true;
}

static const char *header(const char *head, const char *end, const char *name)
{
    for (const char *p = head; p < end; p = strstr(p, "\r\n") + 2)
        if (!strncasecmp(p, name, strlen(name)) && p[strlen(name)] == ':')
            return p + strlen(name) + 1 + strspn(p + strlen(name) + 1, " ");
    return NULL;
}

/* One reply off p[0..n): its length; 0: it is not whole. */
static size_t reply(const char *p, size_t n)
{
    static const char tail[] = "0\r\n\r\n";
    int status = 0;
    const char *end = memmem(p, n, "\r\n\r\n", 4);
    if (!end)
        return 0;
    check(sscanf(p, "HTTP/1.1 %3d ", &status) == 1 && status >= 100 && status < 600, "no status line");
    if (status == 100)
        return (size_t)(end + 4 - p);
    const char *length = header(p, end, "Content-Length"), *type = header(p, end, "Content-Type"), *body = end + 4;
    if (!length) {
        if (!header(p, end,
                    "Transfer-Encoding")) /* a stream to a client of HTTP/1.0: the end of the connection is its */
            return status == 204 || status == 304 ? (size_t)(body - p) : header(p, end, "Connection") ? n : 0;
        const char *last = memmem(body, n - (size_t)(body - p), tail, sizeof tail - 1);
        return last ? (size_t)(last + sizeof tail - 1 - p) : 0;
    }
    size_t want = strtoul(length, NULL, 10), have = n - (size_t)(body - p);
    if (have < want)
        return 0;
    if (status >= 400 && want) {
        check(type && !strncmp(type, "application/problem+json", 24), "a refusal that is no problem document");
        json_t *o = json_loadb(body, want, 0, NULL);
        const char *code = dt_json_text(o, "code");
        check(*code && !strcmp(dt_err_code(dt_err_from_code(code)), code), "a refusal without a code");
        json_decref(o);
    }
    return (size_t)(body - p) + want;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_str got = {0};
    if (!http)
        start();
    if (!size)
        return 0;
    size_t piece = 1u << (data[0] & 15);
    bool half = data[0] & 16, open = true;
    int fd = dial();
    for (size_t at = 1; at < size && open; at += piece) {
        ssize_t n = write(fd, data + at, size - at < piece ? size - at : piece);
        open = n > 0 && turn(fd, &got);
    }
    if (half && open)
        shutdown(fd, SHUT_WR);
    open = open && turn(fd, &got);
    dt_str_add(&got, "");
    check(!got.failed, "no memory");
    bool head = !!memmem(data, size, "HEAD", 4); /* its reply has a length and no body: not told apart here */
    for (size_t at = 0, n; at < got.len && !head; at += n) {
        n = reply(got.s + at, got.len - at);
        check(n || open, "the server closed within a reply");
        if (!n)
            break;
    }
    dt_str_done(&got);
    close(fd);
    for (int i = 0; i < 100 && (i < 3 || (dtd_http_counts(http)->connections && !open)); i++)
        uv_run(loop, UV_RUN_NOWAIT);
    check(dtd_http_counts(http)->connections == 0 || open, "a connection is left over");
    return 0;
}
