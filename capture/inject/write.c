/* The trace file of this process: DIR/PID.trace, made at the first call of the driver, mode 0600, never over another.
 *
 * A child of fork() writes nothing: it has no device. Records go through stdio's buffer and are whole when the process
 * ends by itself (exit, the end of main); a process that is killed leaves a torn last record, which the reader drops.
 * What cannot be written (a full disk) ends the trace without its CAP_END.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/inject/inject.h"

#define BECAME 16 /* programs that one process may be, one after another */

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static FILE *file;
static pid_t owner;
static enum inj_data data;

static void start(void)
{
    const char *dir = secure_getenv(CAP_DIR), *what = getenv(CAP_DATA);
    char path[PATH_MAX];
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &a);
    pthread_mutexattr_destroy(&a);
    if (!dir || !*dir)
        return;
    data = what && !strcmp(what, "none") ? INJ_NONE : what && !strcmp(what, "all") ? INJ_ALL : INJ_INDICES;
    owner = getpid();
    int fd = -1;
    for (int i = 0; fd < 0 && i < BECAME && (!i || errno == EEXIST); i++) {
        int n = i ? snprintf(path, sizeof path, "%s/%ld-%d.trace", dir, (long)owner, i)
                  : snprintf(path, sizeof path, "%s/%ld.trace", dir, (long)owner);
        if (n > 0 && (size_t)n < sizeof path)
            fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file)
        fprintf(stderr, "dovetail capture: %s: %s\n", path, strerror(errno));
    else
        fwrite(CAP_MAGIC, 1, 16, file);
}

bool inj_on(void)
{
    pthread_once(&once, start);
    return file && owner == getpid();
}

enum inj_data inj_data(void) { return data; }

void inj_lock(void)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&lock);
}

void inj_unlock(const int *unused) { pthread_mutex_unlock(&lock); }

/* Of a record that begins with a stream: does that not wait for the default one? */
static bool write_apart(enum cap_kind kind, const void *head)
{
    uint64_t stream;
    unsigned flags = 0;
    if (kind != CAP_LAUNCH && kind != CAP_SET && kind != CAP_COPY && kind != CAP_ORDER)
        return false;
    if (kind == CAP_ORDER && ((const struct cap_order *)head)->what == CAP_GONE)
        return false;
    memcpy(&stream, head, sizeof stream);
    return stream > CAP_PER_THREAD && REAL(cuStreamGetFlags, (CUstream)(uintptr_t)stream, &flags) == CUDA_SUCCESS &&
           flags & CU_STREAM_NON_BLOCKING;
}

void inj_record(enum cap_kind kind, const void *head, size_t nhead, const void *more, size_t nmore, const void *rest,
                size_t nrest)
{
    static const char zero[8];
    static uint32_t threads;
    static _Thread_local uint32_t me; /* + 1 */
    struct cap_head h = {.kind = kind, .bytes = nhead + nmore + nrest};
    INJ_LOCK();
    if (!inj_on() || ferror(file))
        return;
    me = me ? me : ++threads;
    h.by = ((me - 1) & CAP_THREAD) | (write_apart(kind, head) ? CAP_APART : 0);
    fwrite(&h, sizeof h, 1, file);
    fwrite(head, 1, nhead, file);
    fwrite(more ? more : "", 1, nmore, file);
    fwrite(rest ? rest : "", 1, nrest, file);
    fwrite(zero, 1, -h.bytes & 7, file);
}

void inj_untaken(const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    inj_record(CAP_UNTAKEN, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1, NULL, 0, NULL, 0);
}

static __attribute__((destructor)) void end(void)
{
    if (!file || owner != getpid())
        return;
    inj_record(CAP_END, NULL, 0, NULL, 0, NULL, 0);
    fflush(file);
}
