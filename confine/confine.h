/* What a process may still do once it handles hostile input: which files, which system calls.
 *
 * Both are the kernel's: Landlock (5.13 and later) and seccomp filters. Both are for ever: no call takes them back, and
 * processes that are started later have them too. Landlock confines the calling thread and what it starts: a process
 * that must not get around it confines itself while it has one thread. A filter holds for all threads.
 */
#ifndef CONFINE_CONFINE_H
#define CONFINE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* What may be done at a path, and at everything below it. */
enum confine_right {
    CONFINE_READ = 1,   /* read files, list folders */
    CONFINE_RUN = 2,    /* execute */
    CONFINE_CHANGE = 4, /* make, write, rename and remove files and folders */
    CONFINE_DEVICE = 8, /* read, write and control device files */
};

struct confine_path {
    const char *path; /* symbolic links are followed now; what is not there is passed over */
    unsigned rights;
};

/* Whose list of system calls (calls.def). */
enum confine_who {
    CONFINE_COMPILER,       /* after its libraries are loaded, and after confine_hide */
    CONFINE_COMPILER_PATHS, /* the same where confine_hide cannot be: it opens files itself */
    CONFINE_WORKER,         /* with the software device */
    CONFINE_DRIVER,         /* a worker with NVIDIA's driver in it */
};

/* The version of this kernel's Landlock, 0: it has none, or it is switched off. */
int confine_landlock(void);
/* Can this kernel filter system calls? */
bool confine_seccomp(void);

/* From now on no file but these, no TCP, no signal and no abstract socket to processes outside. Files that are open
 * stay open. Error: DT_E_UNSUPPORTED where the kernel has no Landlock. The process keeps its rights if it fails. */
int confine_files(const struct confine_path *p, size_t n, struct dt_err *e);

/* From now on no system call but those of `who`: another one ends the process with SIGSYS; with `log_only` it works,
 * and the kernel's log names it. Error: DT_E_UNSUPPORTED where the kernel has no filters.
 */
int confine_calls(enum confine_who who, bool log_only, struct dt_err *e);

/* From now on no network: a namespace of its own (network.c). To be called while there is one thread; it forks. Error:
 * DT_E_UNSUPPORTED where the system does not let it; nothing has changed then. */
int confine_network(struct dt_err *e);

/* From now on a path that this process may not read looks as if nothing were there, to every call that takes a path
 * (hide.c). It answers the calls that the compiler's list hands over. False: not on this processor. */
bool confine_hide(void);

#endif
