/* The worker's device: opening it, verbs devices and ping.
 *
 * A process has one device, the one that it was started with, and opens it for the first request that needs it. With it
 * come the two texts that key the cache: what the device is, and which versions make its code. On the software device
 * the memory of the process is limited, so that a graph cannot exhaust the machine. Then the worker is confined
 * (confine.c). The list of all devices is made before, in a process of its own, as it opens both drivers: a process
 * that runs strangers' kernels on the software device has no descriptor of a GPU without need, and in one with the
 * software device open CUPTI is not used (device/cupti.c), so that a GPU's times would be those of events.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/analysis.h"
#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/worker/worker.h"
#include "rewrite/rewrite.h"

static void limit_memory(unsigned mb)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    if (mb || (pages > 0 && size > 0)) {
        rlim_t max = mb ? (rlim_t)mb << 20 : (rlim_t)pages * (rlim_t)size / 4 * 3;
        struct rlimit l = {max, max};
        setrlimit(RLIMIT_DATA, &l);
    }
#endif
}

static int open_device(struct wrk *w, struct dt_err *e)
{
    if (w->dev)
        return 0;
    dt_free_ char *figures = wrk_stored_figures(w);
    w->calibrated = figures;
    int r = dev_open_figures(w->spec, figures, &w->dev, e);
    if (r < 0 && figures) { /* figures that the device does not take: an entry of another version */
        dt_err_done(e);
        w->calibrated = false;
        dt_log(DT_LOG_WARN, "the figures of the stored calibration are not used");
        r = dev_open(w->spec, &w->dev, e);
    }
    if (r < 0)
        return r;
    const struct dev_info *i = dev_info(w->dev);
    const char *nvrtc = dev_nvrtc_build(), *link = dev_nvjitlink_build(), *given = getenv("DOVETAIL_SOFTGPU_FIGURES");
    char more[128] = "";
    w->calibrated = w->calibrated && i->soft;
    dev_driver_build(w->dev, w->driver, sizeof w->driver);
    const char *in_force = w->calibrated ? figures : i->soft && given && *given ? given : NULL;
    if (in_force && (r = dt_sha256_text(in_force, strlen(in_force), w->calibration)) < 0)
        return dt_err_set(e, r, "out of memory");
    if (!i->soft) /* that of the software device is part of dovetail */
        snprintf(more, sizeof more, "; driver %s", w->driver);
    else if (in_force)
        snprintf(more, sizeof more, "; figures %.16s", w->calibration + 7);
    if (i->soft) {
        limit_memory(w->memory_mb);
        snprintf(w->key, sizeof w->key, "soft:%s", i->model);
    } else {
        snprintf(w->key, sizeof w->key, "%s; %u SMs; driver %d", i->name, i->sms, i->driver_version);
    }
    snprintf(w->toolchain, sizeof w->toolchain, "dovetail %s; rewriter %s; nvrtc %s; nvjitlink %s%s", DOVETAIL_VERSION,
             RW_VERSION, nvrtc ? nvrtc : "none", link ? link : "none", more);
    return 0;
}

int wrk_open(struct wrk *w, struct dt_err *e)
{
    int r = open_device(w, e);
    return r < 0 ? r : wrk_confine(w, e);
}

static void add_device(const char *spec, const struct dev_info *i, void *user)
{
    json_t *o = dev_info_to_json(i);
    if (o && json_object_set_new(o, "spec", json_string(spec)) == 0)
        json_array_append_new(user, o);
    else
        json_decref(o);
}

/* What the environment says about this worker that can give another plan for the same graph. */
static void settings_text(char *out, size_t n)
{
    static const char *const name[] = {"DOVETAIL_CUPTI", "DOVETAIL_RECORDER"};
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        const char *v = getenv(name[i]);
        if (v && *v && at < n)
            at += (size_t)snprintf(out + at, n - at, "%s=%.32s ", name[i], v);
    }
}

json_t *wrk_list_devices(void)
{
    json_t *list = json_array();
    struct dt_err ignored = {0}; /* the worker's own device is open: a list that cannot be had is an empty one */
    if (dev_list(add_device, list, &ignored) < 0)
        dt_log(DT_LOG_WARN, "devices: %s", ignored.detail ? ignored.detail : "");
    dt_err_done(&ignored);
    return list;
}

json_t *wrk_apart(json_t *(*fn)(void))
{
    struct dt_str text = {0};
    char buf[4096];
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) < 0)
        return NULL;
    pid_t pid = fork();
    if (!pid) {
        dt_free_ char *s = json_dumps(fn(), JSON_COMPACT);
        for (size_t at = 0, n = s ? strlen(s) : 0; at < n;) {
            ssize_t w = write(fd[1], s + at, n - at);
            if (w <= 0)
                break;
            at += (size_t)w;
        }
        _exit(0);
    }
    close(fd[1]);
    for (ssize_t n; pid > 0 && (n = read(fd[0], buf, sizeof buf)) != 0;)
        if (n > 0)
            dt_str_addn(&text, buf, (size_t)n);
        else if (errno != EINTR)
            break;
    close(fd[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    json_t *list = text.len ? json_loadb(text.s, text.len, 0, NULL) : NULL;
    dt_str_done(&text);
    return list;
}

int wrk_devices(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    if (!w->dev) /* before: a driver is not used on both sides of a fork */
        w->devices = wrk_apart(wrk_list_devices);
    int r = open_device(w, e);
    if (r >= 0 && !w->devices && !w->files)
        w->devices = wrk_list_devices();
    if (r >= 0)
        r = wrk_confine(w, e);
    if (r < 0)
        return r;
    const char *given = getenv("DOVETAIL_SOFTGPU_FIGURES");
    char settings[128];
    settings_text(settings, sizeof settings);
    const char *figures = w->calibrated             ? "calibrated"
                          : !dev_info(w->dev)->soft ? NULL
                          : given && *given         ? "given"
                                                    : "stock";
    a->document = json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s?, s:o, s:o}", "spec", w->spec, "device",
                            dev_info_to_json(dev_info(w->dev)), "arch", dev_info(w->dev)->arch, "key", w->key,
                            "toolchain", w->toolchain, "sound_since", RW_SOUND_SINCE, "driver", w->driver,
                            "calibration", w->calibration, "settings", settings, "figures", figures, "devices",
                            w->devices ? json_incref(w->devices) : json_array(), "confinement", wrk_confinement(w));
    return a->document ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

int wrk_ping(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    int r = wrk_open(w, e);
    if (r >= 0)
        r = dev_sync(w->dev, e);
    a->document =
        r < 0 ? NULL : json_pack("{s:b, s:s, s:o}", "ok", 1, "device", w->key, "confinement", wrk_confinement(w));
    return r;
}
