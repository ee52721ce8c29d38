/* dovetail doctor: is all there that dovetail needs? A line each: what, how it is, and where something is missing, the
 * command that mends it.
 *
 * A worker of the command line's own says what it finds (daemon/worker/doctor.c); a service, if one answers, how it is.
 * A check is `ok`; `missing`, where dovetail cannot work as it should without; `limited`, where it works with less;
 * or `not needed`, as a driver is on a machine without a GPU. Exit status: 4 if something is missing, else 0.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "client/cli.h"

#define WHEELS "python3 -m pip install"
#define NVIDIA_VENDOR "0x10de"

static void doctor_check(json_t *list, const char *what, const char *state, const char *says, const char *mend)
{
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s*}", "check", what, "state", state, "detail", says,
                                          "mend", !strcmp(state, "ok") ? NULL : mend));
}

/* How many GPUs of NVIDIA's are plugged in, driver or not. */
static int plugged_in(void)
{
    DIR *d = opendir("/sys/bus/pci/devices");
    int n = 0;
    for (const struct dirent *x; d && (x = readdir(d));) {
        char path[600], *text = NULL;
        size_t len;
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/vendor", x->d_name);
        bool ours = *x->d_name != '.' && dt_read_file(path, 64, &text, &len, NULL) == 0 &&
                    !strncmp(text, NVIDIA_VENDOR, sizeof NVIDIA_VENDOR - 1);
        free(text);
        text = NULL;
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/class", x->d_name);
        n += ours && dt_read_file(path, 64, &text, &len, NULL) == 0 && !strncmp(text, "0x03", 4);
        free(text);
    }
    if (d)
        closedir(d);
    return n;
}

/* A text of the JSON, or of a member of it. */
static const char *told(const json_t *o, const char *member, const char *in)
{
    return dt_json_text(in ? json_object_get(o, member) : o, in ? in : member);
}

static void device_checks(const json_t *doc, json_t *list)
{
    const json_t *d = json_object_get(doc, "device"), *driver = json_object_get(doc, "driver"), *v;
    const char *error = told(doc, "device_error", "error");
    char text[512];
    int gpus = plugged_in();
    size_t i, soft = 0;
    bool none = !*told(doc, "driver", "version");
    json_array_foreach (json_object_get(doc, "devices"), i, v)
        soft += !strcmp(dt_json_text(v, "kind"), "soft");
    snprintf(text, sizeof text, "%s (%s)", dt_json_text(d, "name"), dt_json_text(d, "arch"));
    doctor_check(list, "device", d ? "ok" : "missing", d ? text : error,
                 "dovetail devices --local; then --device with one of these");
    snprintf(text, sizeof text, "%zu models", soft);
    doctor_check(list, "software device", soft ? "ok" : "missing",
                 soft ? text : "libcuda.so.1 of dovetail is not where it is installed",
                 "meson install -C build, or ninja -C build");
    if (!none)
        snprintf(text, sizeof text, "%s for CUDA %s, %s", told(driver, "build", NULL), told(driver, "version", NULL),
                 told(driver, "name", NULL));
    else
        snprintf(text, sizeof text, "%s%s", told(driver, "error", NULL),
                 gpus ? "; a GPU of NVIDIA's is plugged in" : "; no GPU of NVIDIA's is plugged in");
    doctor_check(list, "NVIDIA driver",
                 !none  ? "ok"
                 : gpus ? "missing"
                        : "not needed",
                 text,
                 gpus
                     ? "apt-get install nvidia-driver, then reboot; in a container: give it the devices and the driver "
                       "(docker run --gpus all)"
                     : NULL);
    const json_t *cupti = json_object_get(doc, "cupti");
    snprintf(text, sizeof text, "version %.0f", jnum(cupti, "version"));
    bool there = json_object_get(cupti, "version") != NULL;
    doctor_check(list, "CUPTI",
                 there  ? "ok"
                 : none ? "not needed"
                        : "limited",
                 there ? text : told(cupti, "error", NULL),
                 none ? NULL : WHEELS " nvidia-cuda-cupti (times are those of events without it)");
}

static void compiler_checks(const json_t *doc, json_t *list)
{
    static const char home[] =
        "; then CUDA_HOME=SITE-PACKAGES/nvidia/cu13. Or CUDA's own toolkit, CUDA_HOME=/usr/local/cuda";
    static const struct {
        const char *what, *member, *state, *without, *wheel;
    } row[] = {
        {"NVRTC", "nvrtc", "missing", "CUDA C++ cannot be compiled, PTX can be posted", "nvidia-cuda-nvrtc"},
        {"nvJitLink", "nvjitlink", "limited", "machine code is not compared, and registers are estimated",
         "nvidia-nvjitlink"},
        {"CUDA headers", "headers", "limited", "sources that include <cuda_fp16.h> or <cub/…> do not compile",
         "nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *has = dt_json_text(doc, row[i].member);
        dt_free_ char *mend = NULL;
        if (asprintf(&mend, "%s %s%s", WHEELS, row[i].wheel, home) < 0)
            mend = NULL;
        doctor_check(list, row[i].what, *has ? "ok" : row[i].state, *has ? has : row[i].without, mend);
    }
}

static void confinement_check(const json_t *doc, json_t *list)
{
    const json_t *c = json_object_get(doc, "confinement"), *w = json_object_get(c, "worker");
    const char *files = dt_json_text(w, "files"), *calls = dt_json_text(w, "calls"),
               *child = told(c, "compiler", "files");
    bool off = !strcmp(dt_json_text(c, "mode"), "off"), lacks = !strcmp(child, "unavailable"),
         cuda = !strcmp(told(doc, "device", "kind"), "cuda");
    char text[256];
    snprintf(text, sizeof text, "worker: files %s, system calls %s; compilers: files %s, system calls %s", files, calls,
             child, told(c, "compiler", "calls"));
    bool all = !lacks && (cuda || (!strcmp(files, "enforced") && !strcmp(calls, "enforced")));
    if (!json_object_get(doc, "device"))
        doctor_check(list, "confinement", "limited", "not tried: there is no device", "see device");
    else
        doctor_check(list, "confinement", all && !off ? "ok" : "limited", text,
                     off ? "unset DOVETAIL_CONFINE; in dovetail.conf, confine = try"
                     : lacks
                         ? "Linux 5.13 or newer, with landlock in /sys/kernel/security/lsm (boot with lsm=landlock,…)"
                         : "a kernel and a container that allow Landlock and seccomp");
}

static void cache_check(const json_t *doc, json_t *list)
{
    const json_t *c = json_object_get(doc, "cache");
    dt_free_ char *text = NULL, *mend = NULL;
    const char *path = dt_json_text(c, "path"), *slash = strrchr(path, '/');
    bool ok = json_object_get(c, "entries") != NULL;
    if (asprintf(&text, "%s: %.0f entries, %.0f bytes", path, jnum(c, "entries"), jnum(c, "bytes")) < 0)
        text = NULL;
    if (asprintf(&mend, "mkdir -p %.*s, and look who owns it; or --cache FILE with --local",
                 slash ? (int)(slash - path) : 1, slash ? path : ".") < 0)
        mend = NULL;
    doctor_check(list, "cache", ok ? "ok" : "limited", ok && text ? text : dt_json_text(c, "error"), mend);
}

static void service_check(struct cli *c, json_t *list)
{
    struct dovetail *d = NULL;
    struct dovetail_reply r = {0};
    char text[512];
    if (c->local || dovetail_open(c->socket, &d) < 0)
        return;
    bool there = dovetail_request(d, "GET", "/healthz", NULL, 0, &r) == 0;
    json_t *doc = there ? json_loadb(r.body, r.len, 0, NULL) : NULL;
    snprintf(text, sizeof text, "%s: %s%s%s", dovetail_socket(d),
             there ? dt_json_text(doc, "status") : "nobody answers", *dt_json_text(doc, "device") ? ", device " : "",
             dt_json_text(doc, "device"));
    const char *version = dt_json_text(doc, "version");
    bool other = *version && strcmp(version, dovetail_version()) != 0;
    if (other)
        snprintf(text, sizeof text, "%s: dovetaild %s, and this is dovetail %s", dovetail_socket(d), version,
                 dovetail_version());
    if (there && !*dt_json_text(doc, "status"))
        snprintf(text, sizeof text, "%s: %s", dovetail_socket(d), dt_json_text(doc, "detail"));
    doctor_check(list, "service", r.status == 200 && !other ? "ok" : "limited", text,
                 other   ? "systemctl restart dovetaild"
                 : there ? "journalctl -u dovetaild"
                         : "systemctl enable --now dovetaild.socket; or dovetaild & by hand; or --local");
    json_decref(doc);
    dovetail_reply_done(&r);
    dovetail_close(d);
}

static int cmd_doctor_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    struct table t = {0};
    size_t i;
    const json_t *v;
    table_row(&t, 3, "check", "state", "");
    json_array_foreach (json_object_get(doc, "checks"), i, v)
        table_row(&t, 3, dt_json_text(v, "check"), dt_json_text(v, "state"), dt_json_text(v, "detail"));
    table_print(&t, c);
    json_array_foreach (json_object_get(doc, "checks"), i, v)
        if (*dt_json_text(v, "mend")) {
            printf("%s: ", dt_json_text(v, "check"));
            print_clean(stdout, dt_json_text(v, "mend"));
            fputc('\n', stdout);
        }
    return 0;
}

int cmd_doctor(struct cli *c)
{
    struct outcome o;
    json_t *list = json_array(), *facts = NULL, *v;
    bool missing = false;
    size_t i;
    local_request(c, "doctor", NULL, NULL, NULL, 0, &o);
    json_t *said = o.text ? json_loadb(o.text, o.len, 0, NULL) : NULL;
    if (o.failed || !said) {
        doctor_check(list, "worker", "missing", dt_json_text(said, "detail"),
                     "meson install -C build, or ninja -C build; DOVETAIL_WORKER names another one");
        json_decref(said);
    } else {
        facts = said;
        doctor_check(list, "worker", "ok", "it starts and answers", NULL);
        device_checks(facts, list);
        compiler_checks(facts, list);
        confinement_check(facts, list);
        cache_check(facts, list);
    }
    service_check(c, list);
    json_array_foreach (list, i, v)
        missing |= !strcmp(dt_json_text(v, "state"), "missing");
    outcome_done(&o);
    outcome_set(&o, json_pack("{s:b, s:s, s:o, s:o*}", "ok", !missing, "version", dovetail_version(), "checks", list,
                              "facts", facts));
    int r = finish(c, &o, cmd_doctor_human);
    return r ? r : missing ? 4 : 0;
}
