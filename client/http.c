/* One request, one connection: connect, send, parse the answer with llhttp, close. A connection over a Unix socket
 * costs some microseconds, so none is kept open.
 *
 * The service may answer before it has read all of a large body (413). So sending stops at the first error, and the
 * answer is read in any case. Answers are bounded (REPLY_MAX). For event streams a body can be taken line by line.
 */
#include "client/http.h"

#include <errno.h>
#include <llhttp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"

#define REPLY_MAX ((size_t)1 << 30)

struct exchange {
    struct dovetail_reply *reply;
    struct dt_str body, field, value;
    bool in_value, complete, too_large;
    void (*line)(char *line, size_t len, void *user);
    void *user;
};

static void http_keep(char **to, const struct dt_str *v)
{
    free(*to);
    *to = dt_strdup(v->len ? v->s : "");
}

static void header_done(struct exchange *x)
{
    static const struct {
        const char *name;
        size_t offset;
    } wanted[] = {{"content-type", offsetof(struct dovetail_reply, content_type)},
                  {"location", offsetof(struct dovetail_reply, location)},
                  {"dovetail-cache", offsetof(struct dovetail_reply, cache)},
                  {"dovetail-signature", offsetof(struct dovetail_reply, signature)},
                  {"dovetail-digest", offsetof(struct dovetail_reply, digest)}};
    for (size_t i = 0; x->field.len && i < sizeof wanted / sizeof *wanted; i++)
        if (!strcasecmp(x->field.s, wanted[i].name))
            http_keep((char **)((char *)x->reply + wanted[i].offset), &x->value);
    x->field.len = x->value.len = 0;
    x->in_value = false;
}

static int on_field(llhttp_t *p, const char *at, size_t n)
{
    struct exchange *x = p->data;
    if (x->in_value)
        header_done(x);
    dt_str_addn(&x->field, at, n);
    return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t n)
{
    struct exchange *x = p->data;
    x->in_value = true;
    dt_str_addn(&x->value, at, n);
    return 0;
}

static int on_headers(llhttp_t *p)
{
    struct exchange *x = p->data;
    if (x->in_value)
        header_done(x);
    x->reply->status = p->status_code;
    return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
    struct exchange *x = p->data;
    x->too_large = x->body.len + n > REPLY_MAX;
    if (x->too_large)
        return -1;
    dt_str_addn(&x->body, at, n);
    if (!x->line || x->reply->status / 100 != 2 || x->body.failed)
        return x->body.failed ? -1 : 0;
    size_t from = 0;
    for (char *nl; (nl = memchr(x->body.s + from, '\n', x->body.len - from));) {
        size_t len = (size_t)(nl - x->body.s) - from;
        *nl = 0;
        if (len)
            x->line(x->body.s + from, len, x->user);
        from += len + 1;
    }
    memmove(x->body.s, x->body.s + from, x->body.len - from + 1);
    x->body.len -= from;
    return 0;
}

static int on_message(llhttp_t *p)
{
    struct exchange *x = p->data;
    if (x->reply->status / 100 == 1) /* 100 Continue is not the answer */
        return 0;
    x->complete = true;
    return HPE_PAUSED;
}

static int connect_to(const char *path, int silence_s, struct dt_err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path)
        return dt_err_set(e, DT_E_USAGE, "the socket's path is longer than %zu bytes", sizeof a.sun_path - 1);
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return dt_err_set(e, DT_E_IO, "socket: %s", strerror(errno));
    struct timeval t = {.tv_sec = silence_s};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    while (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
        if (errno == EINTR)
            continue;
        int err = errno;
        close(fd);
        return dt_err_set(e, DT_E_NO_SERVICE, "%s: %s; start dovetaild, or use --local", path, strerror(err));
    }
    return fd;
}

static bool send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t w = send(fd, p, n, MSG_NOSIGNAL);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return false;
        p += w;
        n -= (size_t)w;
    }
    return true;
}

static int receive(int fd, struct exchange *x, struct dt_err *e)
{
    static const llhttp_settings_t settings = {.on_header_field = on_field,
                                               .on_header_value = on_value,
                                               .on_headers_complete = on_headers,
                                               .on_body = on_body,
                                               .on_message_complete = on_message};
    llhttp_t p;
    char buf[65536];
    llhttp_init(&p, HTTP_RESPONSE, &settings);
    p.data = x;
    while (!x->complete) {
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_set(e, DT_E_NO_SERVICE, "%s",
                              errno == EAGAIN ? "the service does not answer in time" : strerror(errno));
        llhttp_errno_t err = n ? llhttp_execute(&p, buf, (size_t)n) : llhttp_finish(&p);
        if (x->complete)
            break;
        if (x->too_large)
            return dt_err_set(e, DT_E_TOO_LARGE, "the answer is larger than 1 GiB");
        if (x->body.failed || x->field.failed || x->value.failed)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        if (!n)
            return dt_err_set(e, DT_E_NO_SERVICE, "the service closed the connection before its answer was complete");
        if (err != HPE_OK)
            return dt_err_set(e, DT_E_IO, "the answer is not HTTP: %s", llhttp_get_error_reason(&p));
    }
    return 0;
}

int client_http(const char *socket, const char *method, const char *path, const void *body, size_t len, int silence_s,
                void (*line)(char *line, size_t len, void *user), void *user, struct dovetail_reply *ret,
                struct dt_err *e)
{
    struct dovetail_reply reply = {0};
    struct exchange x = {.reply = &reply, .line = line, .user = user};
    struct dt_str head = {0};
    int fd = connect_to(socket, silence_s, e);
    if (fd < 0)
        return fd;
    dt_str_addf(&head, "%s %s HTTP/1.1\r\nHost: dovetail\r\nUser-Agent: libdovetail/%s\r\nConnection: close\r\n",
                method, path, DOVETAIL_VERSION);
    if (body)
        dt_str_addf(&head, "Content-Type: application/json\r\nContent-Length: %zu\r\n", len);
    dt_str_add(&head, "\r\n");
    int r = head.failed ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
    if (!r) {
        if (send_all(fd, head.s, head.len) && body)
            send_all(fd, body, len); /* what could not be sent shows in the answer, or in its absence */
        r = receive(fd, &x, e);
    }
    close(fd);
    dt_str_done(&head);
    dt_str_done(&x.field);
    dt_str_done(&x.value);
    reply.len = x.body.len;
    if (!r && !x.body.s)
        dt_str_add(&x.body, "");
    reply.body = dt_str_take(&x.body);
    if (!r && !reply.body && !(reply.body = dt_strdup("")))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r < 0) {
        dovetail_reply_done(&reply);
        return r;
    }
    *ret = reply;
    return 0;
}
