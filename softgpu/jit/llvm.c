/* LLVM by dlopen: the functions of its C API that compile a module, and their use in a child process. See llvm.h.
 *
 * Types of the C API are pointers to what only LLVM knows, so they are void * here; signatures are those of llvm-c of
 * LLVM 15 to 20 (Core, IRReader, TargetMachine, PassBuilder).
 */
#include "softgpu/jit/llvm.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* return type, name, parameters */
#define FUNCTIONS(F)                                                                                                   \
    F(void, ParseCommandLineOptions, (int, const char *const *, const char *))                                         \
    F(void, InitializeX86TargetInfo, (void))                                                                           \
    F(void, InitializeX86Target, (void))                                                                               \
    F(void, InitializeX86TargetMC, (void))                                                                             \
    F(void, InitializeX86AsmPrinter, (void))                                                                           \
    F(void *, ContextCreate, (void))                                                                                   \
    F(void *, CreateMemoryBufferWithMemoryRangeCopy, (const char *, size_t, const char *))                             \
    F(int, ParseIRInContext, (void *, void *, void **, char **))                                                       \
    F(void, DisposeMessage, (char *))                                                                                  \
    F(void *, CreatePassBuilderOptions, (void))                                                                        \
    F(void *, RunPasses, (void *, const char *, void *, void *))                                                       \
    F(char *, GetErrorMessage, (void *))                                                                               \
    F(char *, GetHostCPUName, (void))                                                                                  \
    F(char *, GetHostCPUFeatures, (void))                                                                              \
    F(char *, GetDefaultTargetTriple, (void))                                                                          \
    F(int, GetTargetFromTriple, (const char *, void **, char **))                                                      \
    F(void *, CreateTargetMachine, (void *, const char *, const char *, const char *, int, int, int))                  \
    F(int, TargetMachineEmitToMemoryBuffer, (void *, void *, int, char **, void **))                                   \
    F(const char *, GetBufferStart, (void *))                                                                          \
    F(size_t, GetBufferSize, (void *))

#define DECLARE(RET, NAME, PARAMS) static RET(*NAME) PARAMS;
FUNCTIONS(DECLARE)

enum { DEADLINE_MS = 20000, CPU_SECONDS = 20, MOST_BYTES = 16 << 20 };
#define MOST_MEMORY (2ull << 30) /* of the child, beyond what the process has already */

static const char *const libraries[] = {"libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM.so.20.1", "libLLVM.so.18.1",
                                        "libLLVM-17.so.1", "libLLVM-16.so.1", "libLLVM-15.so.1"};
/* What pays on straight code of vectors. The loop passes are few: loops were unrolled by who made the PTX. */
static const char *const passes[] = {
    "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),gvn,sccp,"
    "instcombine<no-verify-fixpoint>,simplifycfg,dse,adce)",
    "function(sroa,early-cse,instcombine,simplifycfg,loop-mssa(licm),gvn,sccp,instcombine,simplifycfg,dse,adce)"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char trouble[256];
static void *machine;

static void start(void)
{
#ifndef __x86_64__
    snprintf(trouble, sizeof trouble, "kernels are compiled for x86-64 only");
    return;
#endif
    void *lib = NULL;
    for (size_t i = 0; !lib && i < sizeof libraries / sizeof *libraries; i++)
        lib = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(trouble, sizeof trouble, "libLLVM (15 to 20) is not installed");
        return;
    }
#define FIND(RET, NAME, PARAMS)                                                                                        \
    *(void **)(void *)&NAME = dlsym(lib, "LLVM" #NAME);                                                                \
    if (!NAME)                                                                                                         \
        snprintf(trouble, sizeof trouble, "libLLVM has no LLVM" #NAME);
    FUNCTIONS(FIND)
    if (*trouble)
        return;
    /* Or it moves what one later basic block uses into that one: all of an unrolled loop's arithmetic behind all
     * of its loads. Scheduling of machine instructions takes time that grows with the square of a basic block, and
     * who made the PTX has ordered it. */
    static const char *const options[] = {"dovetail", "-instcombine-code-sinking=0", "-disable-post-ra",
                                          "-enable-misched=0"};
    ParseCommandLineOptions(4, options, NULL);
    InitializeX86TargetInfo();
    InitializeX86Target();
    InitializeX86TargetMC();
    InitializeX86AsmPrinter();
    char *triple = GetDefaultTargetTriple(), *cpu = GetHostCPUName(), *features = GetHostCPUFeatures(), *message = NULL;
    void *target = NULL;
    if (GetTargetFromTriple(triple, &target, &message))
        snprintf(trouble, sizeof trouble, "LLVM has no target %s", triple);
    else /* optimisation 2 (default), position-independent, small code model */
        machine = CreateTargetMachine(target, triple, cpu, features, 2, 2, 3);
    DisposeMessage(triple);
    DisposeMessage(cpu);
    DisposeMessage(features);
}

bool sg_llvm_ready(void)
{
    pthread_once(&once, start);
    return !*trouble;
}

const char *sg_llvm_why(void) { return sg_llvm_ready() ? NULL : trouble; }

/* ---- the child --------------------------------------------------------------------------------------------------- */
static void send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno != EINTR)
            _exit(3);
        p += k > 0 ? k : 0;
        n -= k > 0 ? (size_t)k : 0;
    }
}

/* The object file, or 'E' and a message, to fd. The other threads of the process do not exist here. */
static void child(const char *text, size_t bytes, int fd)
{
    uint64_t have = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f) {
        char line[64];
        have = fgets(line, sizeof line, f) ? strtoull(line, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
        fclose(f);
    }
    setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_SECONDS, CPU_SECONDS});
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (have)
        setrlimit(RLIMIT_AS, &(struct rlimit){have + MOST_MEMORY, have + MOST_MEMORY});
    signal(SIGPIPE, SIG_DFL);
    char *message = NULL;
    void *module = NULL, *error = NULL, *object = NULL;
    /* parsing takes the buffer */
    if (ParseIRInContext(ContextCreate(), CreateMemoryBufferWithMemoryRangeCopy(text, bytes, "region"), &module,
                         &message))
        goto out;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (!(error = RunPasses(module, passes[i], machine, CreatePassBuilderOptions())))
            break;
    if (error)
        message = GetErrorMessage(error);
    else if (!TargetMachineEmitToMemoryBuffer(machine, module, 1, &message, &object))
        send_all(fd, GetBufferStart(object), GetBufferSize(object));
out:
    if (!object) {
        send_all(fd, "E", 1);
        send_all(fd, message ? message : "no reason given", message ? strlen(message) : 15);
    }
    _exit(0);
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */
static int64_t milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Everything that comes, until its end or the deadline. */
static bool receive(int fd, struct dt_str *ret)
{
    int64_t until = milliseconds() + DEADLINE_MS;
    char piece[65536];
    for (;;) {
        int64_t left = until - milliseconds();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int r = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0 || ret->len > MOST_BYTES)
            return false;
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 && !ret->failed;
        dt_str_addn(ret, piece, (size_t)n);
    }
}

bool sg_llvm_compile(const char *text, size_t bytes, struct dt_str *ret, char *why, size_t why_bytes)
{
    *ret = (struct dt_str){0};
    if (!sg_llvm_ready()) {
        snprintf(why, why_bytes, "%s", trouble);
        return false;
    }
    pthread_mutex_lock(&lock);
    int fd[2];
    pid_t pid = -1;
    if (pipe2(fd, O_CLOEXEC) == 0) {
        pid = fork();
        if (pid == 0) {
            close(fd[0]);
            child(text, bytes, fd[1]);
        }
        close(fd[1]);
        if (pid < 0)
            close(fd[0]);
    }
    bool ok = false;
    if (pid > 0) {
        ok = receive(fd[0], ret);
        close(fd[0]);
        if (!ok)
            kill(pid, SIGKILL);
        int status;
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    pthread_mutex_unlock(&lock);
    snprintf(why, why_bytes, "%s",
             pid < 0 ? "no child process"
             : ok    ? "LLVM ended early"
                     : "LLVM took too long, or too much");
    if (ok && (!ret->len || *ret->s == 'E')) {
        if (ret->len)
            snprintf(why, why_bytes, "%s", ret->s + 1);
        ok = false;
    }
    if (!ok)
        dt_str_done(ret);
    return ok;
}
