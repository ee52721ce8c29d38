/* Wall clocks that are wrong by $WRONG_BY seconds, for a program that this is preloaded into. Monotonic clocks are
 * right: it is a host whose time was set wrong, not one that runs fast.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long wrong_by;
static int (*right_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void clock_open(void)
{
    const char *text = getenv("WRONG_BY");
    wrong_by = text ? strtol(text, NULL, 10) : 0;
    *(void **)&right_clock = dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (!right_clock) /* another library's constructor was first */
        clock_open();
    int r = right_clock(id, ts);
    if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        ts->tv_sec += wrong_by;
    return r;
}

int gettimeofday(struct timeval *tv, void *zone)
{
    struct timespec ts;
    int r = clock_gettime(CLOCK_REALTIME, &ts);
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return r;
}

time_t time(time_t *to)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    if (to)
        *to = ts.tv_sec;
    return ts.tv_sec;
}
