/* Bundles: a kernel or plan that was made and then failed a check is kept, so that somebody can look at it.
 *
 * A kernel may fail as text (text.c), at the assembler (rw_resources) or at the loader (rw_state_make). A plan may fail
 * in a comparison, a race or a wait (plan/choose.c, whole.c). Each failure leaves a folder under $DOVETAIL_BUNDLES,
 * named by the plan's digest, with `original.json` and `plan.json`, both for `dovetail run`, and `what.txt`, the
 * reason. If there is a kernel but no plan with it yet, plan.json is the original with this kernel as one more module.
 * To run it, all modules are compiled, so it fails for the same reason.
 *
 * The worker sets the variable to `bundles` beside the cache if it is not set. If the variable is empty, nothing is
 * kept. Only the newest KEPT folders stay. A folder that cannot be written is no error.
 */
#include "rewrite/emit/emit-priv.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/subject.h"

#define KEPT 64

static const char *const files[] = {"original.json", "plan.json", "what.txt"};

/* The path, in `base`, of file k of a bundle, or (k = 3) of its folder. The caller frees it. NULL: out of memory. */
static char *path_of(const char *base, const char *bundle, unsigned k)
{
    struct dt_str s = {0};
    dt_str_addf(&s, "%s/%s%s%s", base, bundle, k < 3 ? "/" : "", k < 3 ? files[k] : "");
    return dt_str_take(&s);
}

/* Count the folders with names of bundles. *ret_oldest: the one whose reason was written first. */
static unsigned bundle_count(const char *base, char ret_oldest[17])
{
    DIR *d = opendir(base);
    struct timespec first = {0};
    unsigned n = 0;
    for (const struct dirent *x; d && (x = readdir(d)) != NULL;) {
        struct stat st;
        dt_free_ char *what =
            strlen(x->d_name) == 16 && strspn(x->d_name, "0123456789abcdef") == 16 ? path_of(base, x->d_name, 2) : NULL;
        if (!what || stat(what, &st) < 0)
            continue;
        if (!n++ || st.st_mtim.tv_sec < first.tv_sec ||
            (st.st_mtim.tv_sec == first.tv_sec && st.st_mtim.tv_nsec < first.tv_nsec)) {
            first = st.st_mtim;
            memcpy(ret_oldest, x->d_name, 17);
        }
    }
    if (d)
        closedir(d);
    return n;
}

/* Remove the oldest bundles so that there is room for one more. Other files in a folder stay, and then the folder does
 * too. */
static void make_room(const char *base)
{
    char oldest[17];
    for (unsigned n = bundle_count(base, oldest); n >= KEPT; n--) {
        for (unsigned k = 0; k < 3; k++) {
            dt_free_ char *path = path_of(base, oldest, k);
            if (path)
                unlink(path);
        }
        dt_free_ char *dir = path_of(base, oldest, 3);
        if (!dir || rmdir(dir) < 0 || bundle_count(base, oldest) != n - 1)
            break;
    }
}

static char *given; /* rw_bundles_in */

int rw_bundles_in(const char *dir)
{
    char *copy = dt_strdup(dir);
    if (!copy)
        return DT_E_NOMEM;
    free(given);
    given = copy;
    return 0;
}

/* Where bundles go; NULL or "": nowhere. */
static const char *folder(void)
{
    const char *env = getenv("DOVETAIL_BUNDLES");
    return env ? env : given;
}

/* Write a bundle. Takes over both documents. */
static void bundle_leave(json_t *original, json_t *plan, const char *what)
{
    const char *base = folder();
    dt_free_ char *first = original ? json_dumps(original, JSON_INDENT(1)) : NULL,
                  *second = plan ? json_dumps(plan, JSON_INDENT(1)) : NULL;
    dt_free_ char *words = dt_plain(dt_strdup(what));
    const char *const text[] = {first, second, words ? words : ""};
    char digest[DT_SHA256_TEXT];
    json_decref(original);
    json_decref(plan);
    if (!base || !first || !second || dt_sha256_text(second, strlen(second), digest) < 0)
        return;
    digest[7 + 16] = 0;
    dt_free_ char *dir = path_of(base, digest + 7, 3);
    if (!dir || access(dir, F_OK) == 0) /* another planning left the same bundle */
        return;
    make_room(base);
    bool ok = dt_mkdirs(dir, NULL) == 0 && chmod(dir, 0700) == 0; /* private: it has the user's kernels */
    for (unsigned k = 0; ok && k < 3; k++) {
        dt_free_ char *path = path_of(base, digest + 7, k);
        ok = path && dt_write_file(path, text[k], strlen(text[k]), NULL) == 0;
    }
}

bool rw_bundle_wanted(void) { return folder() && *folder(); }

void rw_bundle(const struct dev_prog *original, const struct dev_prog *plan, const char *what)
{
    if (rw_bundle_wanted())
        bundle_leave(rw_graph_ptx(original), rw_graph_ptx(plan), what);
}

void rw_bundle_document(const struct dev_prog *original, json_t *plan, const char *what)
{
    if (rw_bundle_wanted())
        bundle_leave(rw_graph_ptx(original), json_incref(plan), what);
}

void rw_bundle_kernel(const struct dev_prog *original, const char *ptx, const char *what)
{
    json_t *plan = rw_bundle_wanted() ? rw_graph_ptx(original) : NULL, *modules = json_object_get(plan, "modules");
    char name[32] = "refused";
    for (unsigned n = 1; json_object_get(modules, name); n++)
        snprintf(name, sizeof name, "refused%u", n);
    if (plan && json_object_set_new(modules, name, json_pack("{s:s}", "ptx", ptx)) == 0)
        bundle_leave(rw_graph_ptx(original), plan, what);
    else
        json_decref(plan);
}
