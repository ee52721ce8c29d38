/* Which options take a new value on while the service runs (the rows LIVE of config.def): for the service, and for the
 * program that prints the sample configuration and the manual page when dovetail is built. */
#ifndef DTD_CONFIG_LIVE_H
#define DTD_CONFIG_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool dtd_option_is_live(const char *name)
{
    static const char *const live[] = {
#define STR(n, def, doc)
#define NUM(n, def, lo, hi, doc)
#define LIVE(n) #n,
#include "daemon/service/config.def"
#undef STR
#undef NUM
    };
    for (size_t i = 0; i < sizeof live / sizeof *live; i++)
        if (!strcmp(live[i], name))
            return true;
    return false;
}

#endif
