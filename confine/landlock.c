/* Landlock: the files that a process may still use.
 *
 * Every right that this kernel's version knows is taken away; the paths that are given get theirs back, for all that
 * lies below them. Landlock goes by what a path leads to, so `..` and symbolic links lead nowhere else. Its version 4
 * also takes away TCP (bind, connect), version 6 signals and abstract Unix sockets to processes outside.
 *
 * What Landlock leaves: whether a path exists can still be asked (stat, and the error of an open that fails); hide.c
 * closes that for the compiler. Descriptors that are open stay open.
 *
 * The numbers of later versions are written out here: the headers of the build may be older than the kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine/confine.h"

#define TRUNCATE ((uint64_t)1 << 14)  /* LANDLOCK_ACCESS_FS_TRUNCATE, version 3 */
#define IOCTL_DEV ((uint64_t)1 << 15) /* LANDLOCK_ACCESS_FS_IOCTL_DEV, version 5 */
#define NET_BOTH 3                    /* bind and connect, version 4 */
#define SCOPE_BOTH 3                  /* abstract Unix sockets and signals, version 6 */

int confine_landlock(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi < 1 ? 0 : (int)abi;
}

/* All rights on files that a version knows: 13, one more with 2, 3 and 5. */
static uint64_t all_of(int abi) { return abi >= 5 ? 0xffff : abi >= 3 ? 0x7fff : abi == 2 ? 0x3fff : 0x1fff; }

static uint64_t rights_of(unsigned rights, bool folder, int abi)
{
    uint64_t a = 0, file = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                           TRUNCATE | IOCTL_DEV; /* the others make no sense for a file, and are refused */
    if (rights & (CONFINE_READ | CONFINE_CHANGE))
        a |= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    if (rights & CONFINE_DEVICE)
        a |= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_WRITE_FILE | IOCTL_DEV;
    if (rights & CONFINE_RUN)
        a |= LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE;
    if (rights & CONFINE_CHANGE)
        a |= LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
             LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | TRUNCATE;
    return a & all_of(abi) & (folder ? ~(uint64_t)0 : file);
}

static int landlock_allow(int rules, const struct confine_path *p, int abi, struct dt_err *e)
{
    struct stat st;
    struct landlock_path_beneath_attr a = {.parent_fd = open(p->path, O_PATH | O_CLOEXEC)};
    if (a.parent_fd < 0)
        return 0; /* nothing is there, so nothing is to be allowed */
    int r = fstat(a.parent_fd, &st);
    if (!r) {
        a.allowed_access = rights_of(p->rights, S_ISDIR(st.st_mode), abi);
        r = (int)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &a, 0);
    }
    int err = errno;
    close(a.parent_fd);
    return r ? dt_err_set(e, err == ENOMEM ? DT_E_NOMEM : DT_E_IO, "Landlock, %s: %s", p->path, strerror(err)) : 0;
}

int confine_files(const struct confine_path *p, size_t n, struct dt_err *e)
{
    int abi = confine_landlock();
    if (!abi)
        return dt_err_set(e, DT_E_UNSUPPORTED, "this kernel has no Landlock, or it is switched off");
    struct {
        uint64_t fs, net, scoped;
    } attr = {all_of(abi), abi >= 4 ? NET_BOTH : 0, abi >= 6 ? SCOPE_BOTH : 0};
    size_t size = abi >= 6 ? sizeof attr : abi >= 4 ? 2 * sizeof attr.fs : sizeof attr.fs;
    int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0), r = 0;
    if (rules < 0)
        return dt_err_set(e, errno == ENOMEM ? DT_E_NOMEM : DT_E_IO, "Landlock: %s", strerror(errno));
    for (size_t i = 0; i < n && !r; i++)
        r = landlock_allow(rules, &p[i], abi, e);
    if (!r && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, rules, 0)))
        r = dt_err_set(e, errno == ENOMEM ? DT_E_NOMEM : DT_E_IO, "Landlock: %s", strerror(errno));
    close(rules);
    return r;
}
