/* Entries of another toolchain: which of them may still be served.
 *
 * A new dovetail, compiler or rewriter makes every entry a miss, since another version may come to another document.
 * Most of these documents are still right; they only may not be the best any more. Right is what the gate vouched for:
 * that the plan's machine code gives the bits of the posted graph's. So an entry may be served when nothing differs on
 * which that rests:
 *
 *   rewriter    at least RW_SOUND_SINCE (rewrite/rewrite.h; the worker says it), and no newer than this one
 *   nvjitlink   the same: it makes the machine code that the gate compared
 *   nvrtc       may differ when every module of the graph is PTX. A graph in CUDA C++ is compiled anew by a new NVRTC,
 *               and that code, not the old, is what a plan must equal
 *   dovetail    may differ: what makes stored documents wrong raises RW_SOUND_SINCE, whichever folder it is in
 *
 * Everything else in the text (figures of a timing model, a GPU's driver) and everything else that a key has
 * (signature, device with its driver, policy) is the same. Whoever serves such an entry says so, and queues the graph
 * to be planned again.
 */
#include "daemon/shared/shared.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define PARTS 4
static const char *const part[PARTS] = {"dovetail ", "rewriter ", "nvrtc ", "nvjitlink "};

struct toolchain {
    const char *at[PARTS]; /* what follows the name */
    size_t n[PARTS];
    const char *rest; /* "; figures F" or "; driver D" (daemon/worker/device.c), or "" */
};

/* "dovetail V; rewriter V; nvrtc V; nvjitlink V", and what the device adds. */
static bool take_apart(const char *text, struct toolchain *ret)
{
    for (int i = 0; i < PARTS; i++) {
        size_t k = strlen(part[i]);
        if (strncmp(text, part[i], k))
            return false;
        ret->at[i] = text + k;
        ret->n[i] = strcspn(text + k, ";");
        text += k + ret->n[i];
        if (i + 1 < PARTS) {
            if (strncmp(text, "; ", 2))
                return false;
            text += 2;
        }
    }
    ret->rest = text;
    return true;
}

static bool same_part(const struct toolchain *a, const struct toolchain *b, int i)
{
    return a->n[i] == b->n[i] && !memcmp(a->at[i], b->at[i], a->n[i]);
}

/* A whole number, and nothing behind it; -1: it is none. */
static long version(const char *s, size_t n)
{
    long v = n && n < 9 ? 0 : -1;
    for (size_t i = 0; i < n && v >= 0; i++)
        v = s[i] >= '0' && s[i] <= '9' ? v * 10 + (s[i] - '0') : -1;
    return v;
}

bool dtd_toolchain_stands(const char *old, const char *mine, const char *since, bool ptx)
{
    struct toolchain a, b;
    if (!take_apart(old, &a) || !take_apart(mine, &b))
        return false;
    long was = version(a.at[1], a.n[1]), is = version(b.at[1], b.n[1]), from = version(since, strlen(since));
    return was >= 0 && from >= 0 && was >= from && was <= is && same_part(&a, &b, 3) && (ptx || same_part(&a, &b, 2)) &&
           !strcmp(a.rest, b.rest);
}

int dtd_lookup_stale(struct cache *c, const struct dtd_lookup *l, const char *since, struct dt_graph *g,
                     const char *digest, const char *signature, json_t **ret)
{
    dt_free_ char *policy = dtd_policy(l->opt, l->want);
    struct cache_key k = {l->want, signature, l->device, l->toolchain, policy};
    json_t *list = NULL, *v;
    bool ptx = true;
    size_t i;
    int r = 0;
    for (uint32_t m = 0; m < g->nmodule; m++)
        ptx = ptx && g->module[m].is_ptx;
    if (!c || !policy || cache_toolchains(c, &k, &list, NULL) < 0)
        return 0;
    json_array_foreach (list, i, v) {
        struct dtd_lookup old = *l;
        old.toolchain = json_string_value(v);
        if (!r && dtd_toolchain_stands(old.toolchain, l->toolchain, since, ptx))
            r = dtd_lookup_signature(c, &old, g, digest, signature, ret);
    }
    json_decref(list);
    return r;
}
