/* Trace context of a request (W3C Trace Context, level 1): 00-TRACE-PARENT-FLAGS, 32, 16 and 2 lower-case hexadecimal
 * digits. The trace and its flags are the caller's, the last part is of this request; a field that is missing or broken
 * (wrong length, upper case, all zeros, version ff) begins a new trace. A field of a later version is read as far as
 * version 00 knows it. `tracestate` is nobody's business here.
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"
#include "daemon/service/http-priv.h"

static bool digits(const char *s, size_t n) { return strspn(s, "0123456789abcdef") >= n; }

static bool zeros(const char *s, size_t n) { return strspn(s, "0") >= n; }

static bool trace_ok(const char *s)
{
    size_t n = s ? strlen(s) : 0;
    return n >= 55 && digits(s, 2) && s[2] == '-' && digits(s + 3, 32) && s[35] == '-' && digits(s + 36, 16) &&
           s[52] == '-' && digits(s + 53, 2) && !zeros(s + 3, 32) && !zeros(s + 36, 16) && strncmp(s, "ff", 2) != 0 &&
           (n == 55 || (s[55] == '-' && strncmp(s, "00", 2) != 0));
}

static uint64_t random_id(void)
{
    static uint64_t n;
    uint64_t v;
    if (getrandom(&v, sizeof v, GRND_NONBLOCK) != sizeof v)
        v = dt_splitmix64(uv_hrtime(), ++n);
    return v ? v : 1;
}

void dtd_trace_take(const char *field, char out[DTD_TRACE])
{
    char trace[33], flags[3] = "00";
    if (trace_ok(field)) {
        snprintf(trace, sizeof trace, "%.32s", field + 3);
        snprintf(flags, sizeof flags, "%.2s", field + 53);
    } else {
        snprintf(trace, sizeof trace, "%016llx%016llx", (unsigned long long)random_id(),
                 (unsigned long long)random_id());
    }
    snprintf(out, DTD_TRACE, "00-%s-%016llx-%s", trace, (unsigned long long)random_id(), flags);
}

const char *dtd_req_trace(struct dtd_req *r)
{
    if (!*r->trace)
        dtd_trace_take(dtd_req_header(r, "traceparent"), r->trace);
    return r->trace;
}
