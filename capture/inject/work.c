/* What calls ask for, as records: memory, launches, memsets, copies, order.
 *
 * What the host gives to a copy is read when the copy is asked for; an asynchronous copy to the host is read when the
 * program has waited for it (its stream, or everything). Memory of the host that kernels can read (managed, pinned) is
 * looked at before a launch if nothing has been launched since the program last waited: where it differs from then, the
 * host wrote it, and the trace has a copy from the host in that place.
 *
 * The sizes of a launch's parameters are the driver's word (cuFuncGetParamInfo, CUDA 12.4).
 */
#include <stdlib.h>
#include <string.h>

#include "capture/inject/inject.h"

#define WATCHED_MAX (64u << 20) /* of one allocation that the host can write */
#define PARAMS_MAX 4096u

static struct watched {
    CUdeviceptr at;
    size_t bytes;
    uint64_t hash;
    bool known; /* hash is of what was there when the program last waited */
    bool given; /* to a kernel: of pinned memory, which the host has for copies as a rule */
} * watched;
static size_t nwatched;
static bool busy; /* something was launched since the program last waited */
static uint64_t ncopy;
static struct { /* the last copy */
    CUstream stream;
    bool to_host;
} copied;

static struct pending { /* copies to the host that nobody has waited for */
    CUstream stream;
    uint64_t number;
    const uint8_t *to;
    size_t pitch, width, height;
} * pending;
static size_t npending;

void inj_alloc(CUdeviceptr at, size_t bytes, uint32_t how)
{
    struct cap_alloc c = {.at = at, .bytes = bytes, .how = how};
    inj_record(CAP_ALLOC, &c, sizeof c, NULL, 0, NULL, 0);
    if (how == CAP_DEVICE_MEMORY)
        return;
    struct watched *p = realloc(watched, (nwatched + 1) * sizeof *p);
    if (p) {
        watched = p;
        watched[nwatched++] = (struct watched){.at = at, .bytes = bytes, .given = how == CAP_MANAGED};
    }
}

void inj_free(CUdeviceptr at)
{
    struct cap_free c = {.at = at};
    inj_record(CAP_FREE, &c, sizeof c, NULL, 0, NULL, 0);
    for (size_t i = 0; i < nwatched; i++)
        if (watched[i].at == at)
            watched[i--] = watched[--nwatched];
}

static uint64_t watched_hash(const struct watched *w)
{
    const uint64_t *p = (const uint64_t *)(uintptr_t)w->at;
    uint64_t h = w->bytes;
    for (size_t i = 0; i < w->bytes / 8; i++)
        h = (h ^ p[i]) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
    for (size_t i = w->bytes & ~(size_t)7; i < w->bytes; i++)
        h = (h ^ ((const uint8_t *)p)[i]) * 0x9E3779B97F4A7C15u;
    return h;
}

void inj_host_memory(void)
{
    for (size_t i = 0; !busy && i < nwatched; i++) {
        struct watched *w = &watched[i];
        if (!w->given || (w->bytes > WATCHED_MAX && w->known))
            continue;
        if (w->bytes > WATCHED_MAX) {
            w->known = true; /* told once */
            inj_untaken("memory of more than %u MiB that the host can write by itself", WATCHED_MAX >> 20);
            continue;
        }
        uint64_t h = watched_hash(w);
        if (w->known && w->hash == h)
            continue;
        inj_copy(NULL, CU_MEMORYTYPE_DEVICE, w->at, 0, CU_MEMORYTYPE_HOST, w->at, 0, w->bytes, 1);
        w->known = true;
        w->hash = h;
    }
    busy = true;
}

bool inj_pinned_unwatched(void)
{
    for (size_t i = 0; i < nwatched; i++)
        if (!watched[i].given)
            return true;
    return false;
}

void inj_pinned_given(const struct inj_launch *l)
{
    for (uint32_t at = 0; at + 8 <= l->l.total; at += 8) {
        uint64_t v;
        memcpy(&v, l->block + at, 8);
        for (size_t i = 0; i < nwatched; i++)
            watched[i].given = watched[i].given || (v >= watched[i].at && v - watched[i].at < watched[i].bytes);
    }
}

/* ---- launches ---- */
static bool block_of_extra(void **extra, struct inj_launch *ret)
{
    const void *p = NULL;
    size_t n = 0;
    for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END && i < 16; i += 2)
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            p = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            n = *(size_t *)extra[i + 1];
    if (n > PARAMS_MAX * 8)
        return false;
    ret->block = calloc(1, n + 8);
    if (ret->block && n && p)
        memcpy(ret->block, p, n);
    ret->l.total = (uint32_t)n;
    ret->l.flags |= CAP_BLOCK;
    return ret->block && (p || !n);
}

static bool block_of_params(CUfunction f, void **params, struct inj_launch *ret)
{
    ret->param = calloc(PARAMS_MAX, sizeof *ret->param);
    ret->block = calloc(1, PARAMS_MAX * 8);
    if (!ret->param || !ret->block)
        return false;
    for (uint32_t i = 0; i < PARAMS_MAX; i++) {
        size_t at = 0, bytes = 0;
        CUresult r = REAL(cuFuncGetParamInfo, f, (size_t)i, &at, &bytes);
        if (r == CUDA_ERROR_INVALID_HANDLE) /* a kernel of a library, used as a function */
            r = REAL(cuKernelGetParamInfo, (CUkernel)f, (size_t)i, &at, &bytes);
        if (r != CUDA_SUCCESS)
            return i || r == CUDA_ERROR_INVALID_VALUE; /* there are so many */
        if (!params || !params[i] || at > PARAMS_MAX * 8 || bytes > PARAMS_MAX * 8 - at)
            return false;
        memcpy(ret->block + at, params[i], bytes);
        ret->param[ret->l.nparam++] = (struct cap_param){(uint32_t)at, (uint32_t)bytes};
        ret->l.total = (uint32_t)(at + bytes);
    }
    return true;
}

bool inj_launch_of(const CUlaunchConfig *cfg, CUfunction f, void **params, void **extra, struct inj_launch *ret)
{
    *ret = (struct inj_launch){.l = {.stream = (uint64_t)(uintptr_t)cfg->hStream,
                                     .function = inj_function_number(f),
                                     .grid = {cfg->gridDimX, cfg->gridDimY, cfg->gridDimZ},
                                     .block = {cfg->blockDimX, cfg->blockDimY, cfg->blockDimZ},
                                     .shared = cfg->sharedMemBytes}};
    for (unsigned i = 0; i < cfg->numAttrs; i++) {
        const CUlaunchAttribute *a = &cfg->attrs[i];
        if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            ret->l.cluster[0] = a->value.clusterDim.x;
            ret->l.cluster[1] = a->value.clusterDim.y;
            ret->l.cluster[2] = a->value.clusterDim.z;
        } else if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a->value.cooperative)
            ret->l.flags |= CAP_COOPERATIVE;
        else if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                 a->value.programmaticStreamSerializationAllowed)
            ret->l.flags |= CAP_PROGRAMMATIC;
    }
    if (ret->l.function == CAP_NO_IMAGE) {
        inj_untaken("a launch of a function that the driver gives no name for");
        return false;
    }
    if (extra ? block_of_extra(extra, ret) : block_of_params(f, params, ret))
        return true;
    inj_untaken("a launch whose parameters' sizes the driver does not tell (it needs CUDA 12.4)");
    inj_launch_done(ret);
    return false;
}

void inj_launch_write(const struct inj_launch *l)
{
    size_t n = l->l.nparam * sizeof *l->param;
    uint8_t *more = malloc(n + l->l.total + 1);
    if (!more)
        return;
    memcpy(more, l->param ? l->param : (void *)"", n);
    memcpy(more + n, l->block, l->l.total);
    inj_record(CAP_LAUNCH, &l->l, sizeof l->l, more, n + l->l.total, NULL, 0);
    free(more);
}

void inj_launch_done(struct inj_launch *l)
{
    free(l->param);
    free(l->block);
    *l = (struct inj_launch){0};
}

/* ---- memsets and copies ---- */
void inj_set(CUstream s, CUdeviceptr at, size_t pitch, unsigned value, unsigned element, size_t width, size_t height)
{
    struct cap_set c = {.stream = (uint64_t)(uintptr_t)s,
                        .at = at,
                        .pitch = pitch ? pitch : width * element,
                        .width = width,
                        .height = height,
                        .value = value,
                        .element = element};
    if (width && height)
        inj_record(CAP_SET, &c, sizeof c, NULL, 0, NULL, 0);
}

/* Of a pointer that may be either. */
static bool on_host(CUmemorytype type, uint64_t at)
{
    CUmemorytype t = 0;
    unsigned managed = 0;
    if (type != CU_MEMORYTYPE_UNIFIED)
        return type == CU_MEMORYTYPE_HOST;
    if (REAL(cuPointerGetAttribute, &managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (CUdeviceptr)at) == CUDA_SUCCESS &&
        managed)
        return false;
    return REAL(cuPointerGetAttribute, &t, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)at) != CUDA_SUCCESS ||
           t != CU_MEMORYTYPE_DEVICE;
}

static uint8_t *packed(const uint8_t *p, size_t pitch, size_t width, size_t height)
{
    uint8_t *copy = malloc(width * height);
    for (size_t i = 0; copy && i < height; i++)
        memcpy(copy + i * width, p + i * pitch, width);
    return copy;
}

static bool work_wanted(size_t bytes)
{
    return inj_data() != INJ_NONE && bytes <= (inj_data() == INJ_ALL ? CAP_ALL_MAX : CAP_DATA_MAX);
}

uint64_t inj_copy(CUstream s, CUmemorytype to_type, uint64_t to, size_t to_pitch, CUmemorytype from_type, uint64_t from,
                  size_t from_pitch, size_t width, size_t height)
{
    struct cap_copy c = {.stream = (uint64_t)(uintptr_t)s,
                         .to = to,
                         .from = from,
                         .to_pitch = to_pitch ? to_pitch : width,
                         .from_pitch = from_pitch ? from_pitch : width,
                         .width = width,
                         .height = height,
                         .number = ++ncopy};
    copied.to_host = false;
    if (!width || !height)
        return ncopy;
    if (to_type == CU_MEMORYTYPE_ARRAY || from_type == CU_MEMORYTYPE_ARRAY) {
        inj_untaken("a copy of an array");
        return ncopy;
    }
    bool from_host = on_host(from_type, from), to_host = on_host(to_type, to);
    copied.stream = s;
    copied.to_host = to_host && !from_host;
    if (from_host && to_host)
        return ncopy;
    uint8_t *bytes = from_host && work_wanted(width * height)
                         ? packed((const uint8_t *)(uintptr_t)from, c.from_pitch, width, height)
                         : NULL;
    c.flags = (from_host ? CAP_FROM_HOST : 0) | (to_host ? CAP_TO_HOST : 0) | (bytes ? CAP_BYTES : 0);
    inj_record(CAP_COPY, &c, sizeof c, bytes, bytes ? width * height : 0, NULL, 0);
    free(bytes);
    if (to_host && inj_data() == INJ_ALL && width * height <= CAP_DATA_MAX) {
        struct pending *p = realloc(pending, (npending + 1) * sizeof *p);
        if (p) {
            pending = p;
            pending[npending++] = (struct pending){s, ncopy, (const uint8_t *)(uintptr_t)to, c.to_pitch, width, height};
        }
    }
    return ncopy;
}

static void pending_seen(size_t i)
{
    struct pending p = pending[i];
    struct cap_seen c = {.number = p.number};
    uint8_t *bytes = packed(p.to, p.pitch, p.width, p.height);
    if (bytes)
        inj_record(CAP_SEEN, &c, sizeof c, bytes, p.width * p.height, NULL, 0);
    free(bytes);
    pending[i] = pending[--npending];
}

void inj_copied(uint64_t number, bool ended)
{
    for (size_t i = 0; ended && i < npending; i++)
        if (pending[i].number == number)
            pending_seen(i--);
    if (ended && number == ncopy && copied.to_host) /* the host has waited for it */
        inj_order(copied.stream, NULL, CAP_SYNC_STREAM);
}

uint64_t inj_copy_3d(CUstream s, const CUDA_MEMCPY3D *p)
{
    uint64_t to = p->dstMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)p->dstHost : p->dstDevice;
    uint64_t from = p->srcMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)p->srcHost : p->srcDevice, last = 0;
    size_t tp = p->dstPitch ? p->dstPitch : p->WidthInBytes, fp = p->srcPitch ? p->srcPitch : p->WidthInBytes;
    size_t th = p->dstHeight ? p->dstHeight : p->Height, fh = p->srcHeight ? p->srcHeight : p->Height;
    to += p->dstXInBytes + tp * (p->dstY + th * p->dstZ);
    from += p->srcXInBytes + fp * (p->srcY + fh * p->srcZ);
    for (size_t z = 0; z < p->Depth; z++)
        last = inj_copy(s, p->dstMemoryType, to + z * tp * th, tp, p->srcMemoryType, from + z * fp * fh, fp,
                        p->WidthInBytes, p->Height);
    return last;
}

void inj_map(const CUtensorMap *m, struct cap_map *c, const cuuint64_t *dim, const cuuint64_t *stride,
             const cuuint32_t *box, const cuuint32_t *step)
{
    memcpy(c->map, m, sizeof c->map);
    for (uint32_t i = 0; i < c->rank && i < 5; i++) {
        c->dim[i] = dim[i];
        c->stride[i] = i && stride ? stride[i - 1] : 0;
        c->box[i] = box[i];
        c->step[i] = step[i];
    }
    inj_record(CAP_MAP, c, sizeof *c, NULL, 0, NULL, 0);
}

/* ---- order ---- */
void inj_order(CUstream s, CUevent e, uint32_t what)
{
    struct cap_order c = {.stream = (uint64_t)(uintptr_t)s, .event = (uint64_t)(uintptr_t)e, .what = what};
    inj_record(CAP_ORDER, &c, sizeof c, NULL, 0, NULL, 0);
    if (what == CAP_SYNC_STREAM || what == CAP_SYNC_ALL)
        for (size_t i = 0; i < npending; i++)
            if (what == CAP_SYNC_ALL || pending[i].stream == s)
                pending_seen(i--);
    if (what != CAP_SYNC_ALL)
        return;
    busy = false;
    for (size_t i = 0; i < nwatched; i++)
        if (watched[i].bytes <= WATCHED_MAX && watched[i].known)
            watched[i].hash = watched_hash(&watched[i]);
}
