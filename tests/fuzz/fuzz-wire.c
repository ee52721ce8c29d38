/* Frames, from both sides.
 *
 * The first byte says what the others are: even, a stream that dt_wire_read() takes whole frames off (the worker's and
 * the command line's side); odd, what a worker sends to the service, which waits for its first answer, for a ping or
 * for a job. The second byte says for which, and how long the pieces are in which the bytes come.
 *
 * A frame that is taken has the length that its head says and a NUL behind it. A worker's bytes never do more than end
 * the worker and its job: the job is then done with a document in braces, or failed with a problem document that has a
 * code of base/err.def, or goes back to the queue.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "daemon/service/pool-priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz-wire: %s\n", what);
        abort();
    }
}

static void blocking(const uint8_t *data, size_t size)
{
    int fd = memfd_create("frames", MFD_CLOEXEC), r;
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0, "no file");
    for (size_t at = 0;; at = (size_t)lseek(fd, 0, SEEK_CUR)) {
        struct dt_err e = {0};
        char type, *body;
        uint32_t number;
        size_t n;
        /* a head may ask for half a gigabyte, which is allowed and is no news */
        if (size - at >= DT_WIRE_HEAD && dt_wire_frame_size(data + at) > (1u << 20) + size)
            break;
        r = dt_wire_read(fd, &type, &number, &body, &n, &e);
        check(r < 0 ? e.num == r && e.detail : !e.num, "a refusal without a reason");
        dt_err_done(&e);
        if (r) {
            check(r < 0 || at == size, "a clean end within a frame");
            break;
        }
        check(n + DT_WIRE_HEAD <= size - at && !body[n] && !memcmp(body, data + at + DT_WIRE_HEAD, n), "another frame");
        free(body);
    }
    close(fd);
}

/* ---- the service's side ------------------------------------------------------------------------------------------ */

static struct dtd_service svc;

static struct dtd_worker *worker(enum worker_state state)
{
    struct dtd_worker *w = dt_calloc(1, sizeof *w);
    check(w != NULL, "no memory");
    w->pool = svc.pool;
    snprintf(w->device, sizeof w->device, "soft:h200");
    w->state = state;
    w->exited = true; /* there is no process to kill */
    w->number = 1;
    uv_pipe_init(svc.loop, &w->in, 0);
    uv_pipe_init(svc.loop, &w->out, 0);
    uv_timer_init(svc.loop, &w->timer);
    uv_timer_init(svc.loop, &w->watch);
    return w;
}

static struct dtd_job *post(void)
{
    struct dtd_job *j = NULL;
    struct dtd_post p = {
        .uid = 1000, .share = "share", .want = "plan", .device = "soft:h200", .request = dt_strdup("{}"), .len = 2};
    check(dtd_jobs_post(&svc.jobs, &p, &j, NULL) == 0, "no job");
    return j;
}

static void judge(const struct dtd_job *j)
{
    if (j->state == DTD_DONE) {
        check(j->result_len >= 2 && j->result[0] == '{' && j->result[j->result_len - 1] == '}', "done, no document");
        check(!*j->signature || dt_sha256_ok(j->signature), "done under something that is no signature");
    } else if (j->state == DTD_FAILED) {
        json_t *o = json_loads(j->problem, 0, NULL);
        const char *code = dt_json_text(o, "code");
        check(!strcmp(dt_err_code(dt_err_from_code(code)), code), "failed, and no code that there is");
        json_decref(o);
    } else {
        check(j->state == DTD_QUEUED || j->state == DTD_RUNNING, "a state that frames cannot make");
    }
}

static void from_worker(uint8_t how, const uint8_t *data, size_t size)
{
    static const enum worker_state state[4] = {WORKER_STARTING, WORKER_BUSY, WORKER_PINGING, WORKER_BUSY};
    dtd_jobs_init(&svc.jobs, 4, 4, 1 << 20);
    struct dtd_worker *w = worker(state[how & 3]);
    struct dtd_job *j = w->state == WORKER_BUSY ? post() : NULL;
    size_t piece = 1u << (how >> 4);
    w->job = j;
    for (size_t at = 0; at < size && w->state != WORKER_ENDING; at += piece)
        worker_take(w, (const char *)data + at, size - at < piece ? size - at : piece);
    if (j)
        judge(j);
    dt_str_done(&w->frame);
    dt_err_done(&w->refusal);
    uv_close((uv_handle_t *)&w->in, NULL);
    uv_close((uv_handle_t *)&w->out, NULL);
    uv_close((uv_handle_t *)&w->timer, NULL);
    uv_close((uv_handle_t *)&w->watch, NULL);
    uv_run(svc.loop, UV_RUN_NOWAIT);
    free(w->body);
    free(w);
    dtd_jobs_done(&svc.jobs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!svc.loop) {
        setenv("DOVETAIL_LOG", "error", 1);
        dt_log_init("fuzz-wire", DT_LOG_ERROR);
        svc.loop = uv_default_loop();
        check(dtd_config_init(&svc.cfg, NULL) == 0 && dtd_pool_new(&svc, &svc.pool, NULL) == 0, "no pool");
    }
    if (size >= 2 && data[0] & 1)
        from_worker(data[1], data + 2, size - 2);
    else if (size >= 1)
        blocking(data + 1, size - 1);
    return 0;
}
