/* bench-load: requests over a Unix socket from many clients at once, and how long the replies took.
 *
 * usage: bench-load http|redis SOCKET CLIENTS SECONDS REQUEST…
 *
 * Each REQUEST is a file with the bytes of one request. Every client has one connection, kept open, and sends the
 * requests in turn, each when the reply to the one before has come; clients begin at different requests. Replies are
 * taken by their length (Content-Length, or the length of a bulk string) and thrown away. Anything but 200, or a bulk
 * string, ends the run with status 1. The first tenth of the time does not count.
 *
 * Prints one JSON object: requests, seconds, bytes of replies, latencies in microseconds (p50, p99, max), and the CPU
 * seconds that this program itself took, so that one can see that it was not what was measured.
 *
 * One thread, level-triggered epoll, one buffer for all connections. Not here: TCP, pipelining, checking of contents.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX 4096
#define REQUESTS_MAX 64
#define SAMPLES_MAX (1u << 24)

struct request {
    char *p;
    size_t n;
};

struct client {
    int fd;
    unsigned at; /* the request under way */
    size_t sent;
    uint64_t since;
    char head[HEAD_MAX];
    size_t nhead;
    uint64_t left; /* bytes of the reply still to come; UINT64_MAX: its head is not complete */
    bool writing;  /* waits until it may write */
};

static struct request request[REQUESTS_MAX];
static unsigned nrequest;
static bool redis;
static int ep;
static uint32_t *sample; /* nanoseconds / 16 */
static size_t nsample;
static uint64_t bytes, counted;
static bool counting;
static char chunk[256u << 10];

static void load_die(const char *what)
{
    fprintf(stderr, "bench-load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t load_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void load_file(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct request *r = &request[nrequest++];
    if (fd < 0 || fstat(fd, &st) < 0 || !(r->p = malloc((size_t)st.st_size + 1)))
        load_die(path);
    r->n = (size_t)st.st_size;
    if (read(fd, r->p, r->n) != (ssize_t)r->n)
        load_die(path);
    close(fd);
}

static void watch(struct client *c, bool writing)
{
    struct epoll_event e = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = c};
    if (c->writing != writing && epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e) < 0)
        load_die("epoll_ctl");
    c->writing = writing;
}

static void load_write(struct client *c)
{
    const struct request *r = &request[c->at];
    while (c->sent < r->n) {
        ssize_t n = send(c->fd, r->p + c->sent, r->n - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0 && errno != EINTR)
            load_die("send");
        c->sent += n > 0 ? (size_t)n : 0;
    }
    watch(c, c->sent < r->n);
}

static void begin(struct client *c)
{
    c->sent = c->nhead = 0;
    c->left = UINT64_MAX;
    c->since = load_now();
    load_write(c);
}

/* How many bytes of the head there are, and of what follows; 0: more of it is to come. */
static size_t head_of(struct client *c, uint64_t *ret_body)
{
    c->head[c->nhead] = 0;
    const char *end = strstr(c->head, redis ? "\r\n" : "\r\n\r\n");
    if (!end)
        return 0;
    if (redis) {
        if (*c->head != '$' || c->head[1] == '-')
            goto wrong;
        *ret_body = strtoull(c->head + 1, NULL, 10) + 2;
        return (size_t)(end - c->head) + 2;
    }
    const char *length = strcasestr(c->head, "\r\nContent-Length:");
    if (strncmp(c->head, "HTTP/1.1 200 ", 13) || !length || length > end)
        goto wrong;
    *ret_body = strtoull(length + 17, NULL, 10);
    return (size_t)(end - c->head) + 4;
wrong:
    fprintf(stderr, "bench-load: not the reply that was expected: %.300s\n", c->head);
    exit(1);
}

static void finished(struct client *c)
{
    if (counting) {
        uint64_t t = (load_now() - c->since) / 16;
        if (nsample < SAMPLES_MAX)
            sample[nsample++] = t > UINT32_MAX ? UINT32_MAX : (uint32_t)t;
        counted++;
    }
    c->at = (c->at + 1) % nrequest;
    begin(c);
}

static void load_take(struct client *c, const char *p, size_t n)
{
    bytes += counting ? n : 0;
    if (c->left == UINT64_MAX) {
        size_t had = c->nhead, room = HEAD_MAX - 1 - had, some = n < room ? n : room;
        uint64_t body;
        memcpy(c->head + had, p, some);
        c->nhead += some;
        size_t head = head_of(c, &body);
        if (!head && c->nhead < HEAD_MAX - 1)
            return;
        if (!head)
            load_die("the head of a reply is too long");
        n -= head - had;
        c->left = body;
    }
    if (n > c->left)
        load_die("more than one reply came");
    c->left -= n;
    if (!c->left)
        finished(c);
}

static void load_read(struct client *c)
{
    ssize_t n = recv(c->fd, chunk, sizeof chunk, MSG_DONTWAIT);
    if (n > 0)
        load_take(c, chunk, (size_t)n);
    else if (!n || (errno != EAGAIN && errno != EINTR))
        load_die("the connection ended");
}

static void load_connect(struct client *c, const char *path, unsigned at)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof a) < 0 || fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0 ||
        epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e) < 0)
        load_die(path);
    c->at = at % nrequest;
    begin(c);
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static double quantile_us(double q) { return nsample ? sample[(size_t)(q * (double)(nsample - 1))] * 16 / 1e3 : 0; }

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    if (argc < 6 || argc - 5 > REQUESTS_MAX) {
        fprintf(stderr, "usage: bench-load http|redis SOCKET CLIENTS SECONDS REQUEST...\n");
        return 2;
    }
    redis = !strcmp(argv[1], "redis");
    unsigned clients = (unsigned)strtoul(argv[3], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    for (int i = 5; i < argc; i++)
        load_file(argv[i]);
    struct client *c = calloc(clients ? clients : 1, sizeof *c);
    sample = malloc(SAMPLES_MAX * sizeof *sample);
    ep = epoll_create1(EPOLL_CLOEXEC);
    if (!clients || !c || !sample || ep < 0)
        load_die("set-up");
    for (unsigned i = 0; i < clients; i++)
        load_connect(&c[i], argv[2], i);
    uint64_t start = load_now(), from = start + (uint64_t)(seconds * 1e8), end = start + (uint64_t)(seconds * 1e9);
    double cpu = 0;
    for (uint64_t t = start; t < end; t = load_now()) {
        struct epoll_event e[64];
        if (!counting && t >= from) {
            counting = true;
            from = t;
            cpu = cpu_seconds();
        }
        int n = epoll_wait(ep, e, 64, 100);
        for (int i = 0; i < n; i++) {
            if (e[i].events & EPOLLOUT)
                load_write(e[i].data.ptr);
            if (e[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                load_read(e[i].data.ptr);
        }
    }
    double took = (double)(load_now() - from) / 1e9;
    cpu = cpu_seconds() - cpu;
    qsort(sample, nsample, sizeof *sample, by_size);
    printf("{\"requests\": %llu, \"seconds\": %.6f, \"bytes\": %llu, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": "
           "%.1f, "
           "\"cpu_seconds\": %.4f}\n",
           (unsigned long long)counted, took, (unsigned long long)bytes, quantile_us(0.5), quantile_us(0.99),
           quantile_us(1), cpu);
    return 0;
}
