/* The switches of a build for tests (RW_TEST_HOOKS): which predicates are off. What is installed has none of this. */
#include "rewrite/facts/hooks.h"

#include <string.h>

#ifdef RW_TEST_HOOKS
struct rw_hooks rw_hooks;

bool rw_off(const char *name)
{
    size_t n = strlen(name);
    for (const char *p = rw_hooks.off; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == n && !memcmp(p, name, n))
            return true;
    return false;
}
#endif
