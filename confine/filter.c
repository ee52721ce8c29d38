/* seccomp: the system calls that a process may still make. calls.def has the list, libseccomp makes the filter.
 *
 * Where arguments decide:
 *   clone        the compiler makes threads only; a worker processes too, but none in namespaces of its own
 *   kill         a worker stops its compilers (Landlock keeps the signal within its own processes)
 *   tgkill       itself: abort and raise
 *   socketpair   Unix sockets: the way to a compiler
 *   prlimit64    its own limits
 *   mmap, mprotect   the compiler, whose libraries are loaded, gets no new memory to execute
 *
 * The filter knows numbers, not paths: which files may be opened is Landlock's (landlock.c). Another architecture's
 * calls (32-bit ones) end the process too.
 */
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "confine/confine.h"

enum { C = 1, W = 2, D = 4, S = 8 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

#define NAMESPACES                                                                                                     \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

static const struct call {
    const char *name;
    unsigned who;
    int refusal; /* the error it is answered with; 0: allowed */
    bool path;   /* of the compiler's, hide.c answers it */
} calls[] = {
#define CALL(name, who) {#name, who, 0, false},
#define PATH(name) {#name, C | W, 0, true},
#define REFUSE(name, who, err) {#name, who, err, false},
#include "confine/calls.def"
#undef CALL
#undef PATH
#undef REFUSE
};

bool confine_seccomp(void)
{
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0 && seccomp_api_get() >= 2; /* 2: seccomp(2) with its flags */
}

/* Whose rows: a driver's worker may do what a worker may. */
static unsigned filter_who(enum confine_who who)
{
    static const unsigned of[] = {
        [CONFINE_COMPILER] = C, [CONFINE_COMPILER_PATHS] = C, [CONFINE_WORKER] = W, [CONFINE_DRIVER] = W | D};
    return SANITIZED ? of[who] | S : of[who];
}

static bool is_allowed(const char *name, unsigned rows)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!calls[i].refusal && calls[i].who & rows && !strcmp(calls[i].name, name))
            return true;
    return false;
}

static int filter_rows(scmp_filter_ctx f, unsigned rows, bool hidden)
{
    int r = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls && !r; i++) {
        int nr = seccomp_syscall_resolve_name(calls[i].name);
        if (nr < 0 || !(calls[i].who & rows)) /* negative: another processor's */
            continue;
        if (calls[i].refusal && is_allowed(calls[i].name, rows)) /* a driver may do what others are refused */
            continue;
        uint32_t act = calls[i].refusal          ? SCMP_ACT_ERRNO((uint32_t)calls[i].refusal)
                       : calls[i].path && hidden ? SCMP_ACT_TRAP
                                                 : SCMP_ACT_ALLOW;
        r = seccomp_rule_add(f, act, nr, 0);
    }
    return r;
}

/* prot without PROT_EXEC for the compiler; anything for a worker, whose compilers load libraries */
static int filter_memory(scmp_filter_ctx f, unsigned rows)
{
    int r = 0;
    for (int i = 0; i < 2 && !r; i++) {
        int nr = i ? SCMP_SYS(mprotect) : SCMP_SYS(mmap);
        if (rows & W) {
            r = seccomp_rule_add(f, SCMP_ACT_ALLOW, nr, 0);
            continue;
        }
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, nr, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
        if (!r)
            r = seccomp_rule_add(f, SCMP_ACT_ERRNO(EACCES), nr, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC));
    }
    return r;
}

static int filter_arguments(scmp_filter_ctx f, unsigned rows)
{
    const scmp_datum_t self = (scmp_datum_t)getpid(), threads = CLONE_VM | CLONE_THREAD;
    int r = filter_memory(f, rows);
    if (!r)
        r = rows & (W | S)
                ? seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES, 0))
                : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                   SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES | threads, threads));
    if (!r)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1, SCMP_A0(SCMP_CMP_EQ, 0));
    if (!r && rows & W)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 0); /* its compilers' own, too */
    else if (!r)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, self));
    if (!r && rows & W)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(kill), 0);
    if (!r && rows & W)
        r = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
    return r;
}

int confine_calls(enum confine_who who, bool log_only, struct dt_err *e)
{
    unsigned rows = filter_who(who);
    if (!confine_seccomp())
        return dt_err_set(e, DT_E_UNSUPPORTED, "this kernel cannot filter system calls");
    scmp_filter_ctx f = seccomp_init(log_only ? SCMP_ACT_LOG : SCMP_ACT_KILL_PROCESS);
    if (!f)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for the filter of system calls");
    int r = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, log_only ? SCMP_ACT_LOG : SCMP_ACT_KILL_PROCESS);
    if (!r)
        r = seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree: a compiler makes many calls */
    if (!r)
        r = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1); /* threads that a driver has already started, too */
    if (!r)
        r = filter_rows(f, rows, who == CONFINE_COMPILER);
    if (!r)
        r = filter_arguments(f, rows);
    if (!r)
        r = seccomp_load(f);
    seccomp_release(f);
    if (r == -ENOMEM || r == -EFAULT) /* EFAULT: libseccomp's own trouble, which is want of memory */
        return dt_err_set(e, DT_E_NOMEM, "out of memory for the filter of system calls");
    return r ? dt_err_set(e, DT_E_IO, "the filter of system calls: %s", strerror(-r)) : 0;
}
