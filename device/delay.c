/* Delays in front of blocks, on a real GPU. Nobody can choose the order of blocks there, but many orders occur when
 * some blocks sleep before they begin.
 *
 * A few instructions at the head of every entry hash the block's number with the low bits of the device's clock. They
 * let about one block in four sleep, up to 15 times 2 microseconds, other blocks in every run. If a plan relies on an
 * order that it does not enforce, the bytes differ. The software device needs none of this: its clock stands still
 * within a launch, and its own shuffled orders find more.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "device/device.h"

static const char delay[] =
    "\n{ .reg .b32 %dvd<8>; .reg .pred %dvp;\n"
    "mov.u32 %dvd0, %ctaid.x; mov.u32 %dvd1, %ctaid.y; mov.u32 %dvd2, %ctaid.z; mov.u32 %dvd3, %globaltimer_lo; "
    "shr.u32 %dvd3, %dvd3, 10;\n"
    "mad.lo.u32 %dvd0, %dvd1, 40503, %dvd0; mad.lo.u32 %dvd0, %dvd2, 69069, %dvd0; xor.b32 %dvd0, %dvd0, %dvd3; "
    "mul.lo.u32 %dvd0, %dvd0, 2654435761;\n"
    "shr.u32 %dvd4, %dvd0, 30; setp.ne.u32 %dvp, %dvd4, 0; @%dvp bra DVGO; shr.u32 %dvd5, %dvd0, 26; and.b32 %dvd5, "
    "%dvd5, 15;\n"
    "DVSLEEP: setp.eq.u32 %dvp, %dvd5, 0; @%dvp bra DVGO; nanosleep.u32 2000; sub.u32 %dvd5, %dvd5, 1; bra DVSLEEP;\n"
    "DVGO: }\n";

char *dev_delayed_ptx(const char *ptx)
{
    struct dt_str s = {0};
    const char *at = ptx;
    for (const char *p; (p = strstr(at, ".entry"));) {
        const char *body = strchr(p, '{'), *end = strchr(p, ';');
        for (const char *c = p; body && (c = strstr(c, "//")) && c < body; c++) /* a brace in a comment between */
            if (memchr(c, '\n', (size_t)(body - c)) == NULL)
                body = strchr(c + strcspn(c, "\n"), '{');
        if (!body || (end && end < body)) { /* a declaration */
            dt_str_addn(&s, at, (size_t)(p + 6 - at));
            at = p + 6;
            continue;
        }
        dt_str_addn(&s, at, (size_t)(body + 1 - at));
        dt_str_add(&s, delay);
        at = body + 1;
    }
    dt_str_add(&s, at);
    return dt_str_take(&s);
}
