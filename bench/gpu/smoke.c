/* Is there a GPU that can be worked with? Each test says what it saw; what faults or hangs does so in a child, started
 * before this process opens the driver. What is there of profiling, and may bring a process down, is asked in others:
 * profiling.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/gpu/gpu.h"
#include "device/measure.h"

const char smoke_module[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                            ".visible .entry twice(.param .u64 p)\n{\n.reg .b32 %r<6>; .reg .b64 %rd<4>;\n"
                            "ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; "
                            "mad.lo.u32 %r4, %r1, %r2, %r3;\n"
                            "mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r5, [%rd3]; add.u32 "
                            "%r5, %r5, %r5; st.global.u32 [%rd3], %r5; ret;\n}\n"
                            ".visible .entry wild()\n{\n.reg .b64 %rd<2>; .reg .b32 %r<2>;\nmov.u64 %rd1, 8; mov.u32 "
                            "%r1, 1; st.global.u32 [%rd1], %r1; ret;\n}\n"
                            ".visible .entry spin()\n{\nL: bra L;\n}\n";

static json_t *tests;

static void result(const char *name, bool ok, const char *detail)
{
    json_array_append_new(tests, json_pack("{s:s, s:b, s:s}", "name", name, "ok", ok, "detail", detail ? detail : ""));
}

/* Launches `entry` in a process of its own; the error that came of it. */
static int in_child(const char *spec, const char *entry, unsigned deadline_ms, int rounds, char *detail, size_t n)
{
    int fd[2], err = DT_E_IO;
    if (pipe(fd) < 0)
        return err;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        struct dev_device *d = NULL;
        struct dev_module_handle *m = NULL;
        struct dt_err e = {0};
        static const uint32_t one[3] = {1, 1, 1};
        alarm(60);
        err = dev_open(spec, &d, &e);
        if (!err)
            dev_set_deadline(d, deadline_ms);
        if (!err)
            err = dev_module_load(d, smoke_module, strlen(smoke_module), &m, &e);
        for (int i = 0; i < rounds && !err; i++)
            err = dev_launch(d, m, entry, one, one, NULL, 0, NULL, 0, &e);
        if (!err)
            err = dev_sync(d, &e);
        struct {
            int err;
            char text[512];
        } say = {err, ""};
        snprintf(say.text, sizeof say.text, "%s", e.detail ? e.detail : "");
        _exit(write(fd[1], &say, sizeof say) == sizeof say ? 0 : 1);
    }
    struct {
        int err;
        char text[512];
    } said = {DT_E_WORKER_LOST, "the process ended without a word"};
    close(fd[1]);
    if (read(fd[0], &said, sizeof said) != sizeof said)
        said.err = DT_E_WORKER_LOST;
    close(fd[0]);
    waitpid(pid, NULL, 0);
    said.text[sizeof said.text - 1] = 0;
    snprintf(detail, n, "%s", said.text);
    return said.err;
}

static bool memory_works(struct dev_device *d, struct dt_err *e)
{
    size_t n = 64u << 20;
    uint32_t *p = malloc(n), *q = malloc(n);
    dev_ptr at = 0;
    for (size_t i = 0; p && i < n / 4; i++)
        p[i] = (uint32_t)i * 2654435761u;
    bool ok = p && q && dev_alloc(d, n, &at, e) == 0 && dev_upload(d, at, p, n, e) == 0 &&
              dev_download(d, q, at, n, e) == 0 && !memcmp(p, q, n);
    if (ok)
        ok = dev_set(d, at, 0xa5, n / 2, e) == 0 && dev_sync(d, e) == 0 && dev_download(d, q, at, n, e) == 0 &&
             q[0] == 0xa5a5a5a5u && q[n / 8] == p[n / 8];
    dev_free(d, at);
    free(p);
    free(q);
    return ok;
}

int launch_twice(void *user, struct dt_err *e)
{
    struct twice *t = user;
    return dev_launch(t->d, t->m, "twice", (uint32_t[]){1024, 1, 1}, (uint32_t[]){256, 1, 1}, NULL, 0, &t->p, 8, e);
}

static bool kernel_works(struct twice *t, struct dt_err *e)
{
    enum { N = 1024 * 256 };
    static uint32_t v[N];
    for (unsigned i = 0; i < N; i++)
        v[i] = i;
    bool ok = dev_upload(t->d, t->p, v, sizeof v, e) == 0 && launch_twice(t, e) == 0 && dev_sync(t->d, e) == 0 &&
              dev_download(t->d, v, t->p, sizeof v, e) == 0;
    for (unsigned i = 0; i < N && ok; i++)
        ok = v[i] == 2 * i;
    return ok;
}

static json_t *state_json(const struct dev_state *s)
{
    return s->known ? json_pack("{s:i, s:i, s:i, s:i, s:I, s:i, s:b}", "sm_mhz", (int)s->sm_mhz, "mem_mhz",
                                (int)s->mem_mhz, "celsius", (int)s->celsius, "milliwatts", (int)s->milliwatts,
                                "reasons", (json_int_t)s->reasons, "other_processes", (int)s->others, "mig", s->mig)
                    : json_null();
}

static json_t *about(struct dev_device *d)
{
    const struct dev_info *i = dev_info(d);
    struct dev_state state;
    dev_state(d, &state);
    return json_pack("{s:{s:s, s:s, s:s, s:I, s:I, s:I, s:i, s:s}, s:o, s:s, s:s}", "device", "name", i->name, "kind",
                     dev_kind(i), "arch", i->arch, "sms", (json_int_t)i->sms, "shared_sm", (json_int_t)i->shared_sm,
                     "shared_reserved", (json_int_t)i->shared_reserved, "driver", i->driver_version, "sharing",
                     i->sharing, "state", state_json(&state), "nvrtc",
                     dev_nvrtc_version() ? dev_nvrtc_version() : "none", "nvjitlink",
                     dev_nvjitlink_version() ? dev_nvjitlink_version() : "none");
}

int cmd_about(const char *spec, int argc, char **argv)
{
    struct dt_err e = {0};
    struct dev_device *d = NULL;
    int err = dev_open(spec, &d, &e);
    if (err < 0)
        return failed(err, &e);
    say(about(d));
    dev_close(d);
    return 0;
}

int cmd_smoke(const char *spec, int argc, char **argv)
{
    struct dt_err e = {0};
    struct dev_device *d = NULL;
    char text[512];
    tests = json_array();
    int err = in_child(spec, "wild", 10000, 1, text, sizeof text);
    result("a wild store faults, in its process", err == DT_E_BOUNDS, text);
    err = in_child(spec, "spin", 2000, 1, text, sizeof text);
    result("a kernel that does not end meets its deadline", err == DT_E_TIMEOUT, text);
    err = dev_open(spec, &d, &e);
    if (err < 0)
        return failed(err, &e);
    result("the device works after both", memory_works(d, &e), e.detail);
    struct twice t = {.d = d};
    const char *bad =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\nadd.u32 %nonsense, 1, 2;\nret;\n}\n";
    err = dev_module_load(d, bad, strlen(bad), &t.m, &e);
    result("the driver's compiler refuses bad PTX with words", err == DT_E_PTX && e.detail && strlen(e.detail) > 10,
           e.detail);
    dt_err_done(&e);
    e = (struct dt_err){0};
    err = dev_module_load(d, smoke_module, strlen(smoke_module), &t.m, &e);
    if (!err)
        err = dev_alloc(d, 1u << 20, &t.p, &e);
    if (err < 0)
        return failed(err, &e);
    bool cubin = dev_module_is_cubin(t.m);
    snprintf(text, sizeof text, cubin ? "machine code by nvJitLink %s" : "PTX, compiled by the driver",
             dev_nvjitlink_version());
    bool works = kernel_works(&t, &e);
    result("a kernel computes", works, e.detail ? e.detail : text);
    if (cubin) { /* what is fallen back to must work too */
        struct twice other = {.d = d, .p = t.p};
        bool ok =
            dev_module_load_ptx(d, smoke_module, strlen(smoke_module), &other.m, &e) == 0 && kernel_works(&other, &e);
        result("a kernel that the driver compiled computes", ok, e.detail ? e.detail : "");
        if (other.m)
            dev_module_unload(d, other.m);
    }
    json_t *o = about(d);
    json_object_set_new(o, "modules", json_string(cubin ? "cubin" : "ptx"));
    json_object_set_new(o, "tests", tests);
    say(o);
    dt_err_done(&e);
    dev_free(d, t.p);
    dev_module_unload(d, t.m);
    dev_close(d);
    return 0;
}
