/* Where an address lies, in the words of the graph: messages about stray accesses name buffers and offsets, not
 * addresses.
 *
 * Addresses differ from run to run, and tell a reader nothing; "0 bytes past the end of buffer 'x' of 256 bytes" does.
 * The nearest buffer is the one with the least distance to the accessed bytes; over 2^32 bytes away it is none. Numbers
 * below 4096 are called null pointers; others that are near nothing are printed, as they come from data or arguments.
 * Of shared, local and parameter memory the device itself says the offset.
 */
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "base/subject.h"
#include "device/run-priv.h"

#define NEAR (UINT64_C(1) << 32)

void dev_where(const struct dt_graph *g, const dev_ptr *addr, dev_ptr at, uint64_t bytes, struct dt_str *out)
{
    uint64_t best = NEAR;
    uint32_t b = g->nbuffer;
    for (uint32_t i = 0; i < g->nbuffer; i++) {
        uint64_t end = addr[i] + g->buffer[i].bytes, far = at < addr[i] ? addr[i] - at : at >= end ? at - end : 0;
        bool inside = at >= addr[i] && at < end;
        if (addr[i] && g->buffer[i].bytes && (far < best || inside)) {
            best = far;
            b = i;
            if (inside)
                break;
        }
    }
    if (at < 4096)
        dt_str_addf(out, "at address %" PRIu64 ", a null pointer", at);
    else if (b == g->nbuffer)
        dt_str_addf(out, "at 0x%" PRIx64 ", near no buffer", at);
    else if (at < addr[b])
        dt_str_addf(out, "%" PRIu64 " bytes before buffer " DT_BUFFER, addr[b] - at, g->buffer[b].name);
    else if (at >= addr[b] + g->buffer[b].bytes)
        dt_str_addf(out, "%" PRIu64 " bytes past the end of buffer " DT_BUFFER " of %" PRIu64 " bytes",
                    at - addr[b] - g->buffer[b].bytes, g->buffer[b].name, g->buffer[b].bytes);
    else
        dt_str_addf(out, "at offset %" PRIu64 " of buffer " DT_BUFFER " of %" PRIu64 " bytes%s", at - addr[b],
                    g->buffer[b].name, g->buffer[b].bytes,
                    bytes > addr[b] + g->buffer[b].bytes - at ? ", over its end" : "");
}

int dev_run_fault(struct dev_run *r, uint32_t step, int err, struct dt_err *e)
{
    struct dev_device *d = r->dev;
    const struct dt_graph *g = r->prog->graph;
    struct dovetail_fault f;
    struct dt_str s = {0};
    if (err >= 0 || !d->cu->soft || dev_use(d, NULL) || d->cu->dovetailGetFault(&f) != CUDA_SUCCESS || !f.num)
        return err;
    /* the device's sentence without what it says of addresses: "kernel k, …, PTX line 9: ld.global.u32 …" */
    size_t n = f.num == DT_E_BOUNDS && f.bytes && !*f.place ? f.where : 0;
    dt_str_addf(&s, "launch " DT_LAUNCH_BARE ": ", g->launch[step].name);
    dt_str_addn(&s, f.text, n ? n : strlen(f.text));
    if (n) {
        bool kept = !f.misaligned && strstr(f.text, "are read-only"); /* dev_run_protect */
        dt_str_addf(&s, ": %u bytes %s: ", f.bytes,
                    f.misaligned ? "at a misaligned address"
                    : kept       ? "in read-only memory"
                                 : "outside every buffer");
        dev_where(g, r->addr, f.address, f.bytes, &s);
    }
    if (e) {
        dt_err_done(e);
        *e = (struct dt_err){0};
    }
    err = dt_err_set(e, f.num, "%s", s.failed ? f.text : s.s);
    dt_str_done(&s);
    return err;
}
