/* Who is at the other end of a connection, and what that user may do.
 *
 * The kernel gives uid, gid and supplementary groups of the process at the time it connected (SO_PEERCRED,
 * SO_PEERGROUPS). Admins are root, the user that the service runs as, and the users that the configuration names
 * (admin_uids, admin_group). Admins see everything, and may import entries into the cache, remove and check entries,
 * and cancel jobs of others. Others see what is theirs: jobs that they posted, and entries of graphs that they posted
 * (table `owner` of the cache). The rest does not exist for them: 404, in the same words.
 *
 * Members of the group that owns the socket file may connect, and no more: they are not admins, even where admin_group
 * names that group. Nothing about a socket that the service manager passed is believed; the start refuses an
 * admin_group that is its group (main.c). A connection whose credentials cannot be read belongs to nobody.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "daemon/service/http-priv.h"
#include "daemon/service/service.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif

static bool credentials(const struct dtd_req *r, int *fd, struct ucred *ret)
{
    uv_os_fd_t f;
    socklen_t n = sizeof *ret;
    if (uv_fileno((uv_handle_t *)&r->conn->pipe, &f) < 0 || getsockopt(f, SOL_SOCKET, SO_PEERCRED, ret, &n) < 0 ||
        n != sizeof *ret)
        return false;
    *fd = f;
    return true;
}

uid_t dtd_peer_uid(const struct dtd_req *r)
{
    struct dtd_conn *c = r->conn;
    struct ucred u;
    int fd;
    if (!c->uid_known) { /* it is that of the time of connecting, so once will do */
        c->uid = credentials(r, &fd, &u) ? u.uid : (uid_t)-1;
        c->uid_known = c->uid != (uid_t)-1;
    }
    return c->uid;
}

bool dtd_peer_admin(const struct dtd_service *s, const struct dtd_req *r)
{
    const struct dtd_admins *a = &s->cfg.admins;
    struct ucred u;
    struct stat st;
    int fd;
    if (!credentials(r, &fd, &u) || u.uid == (uid_t)-1)
        return false;
    if (!u.uid || u.uid == geteuid())
        return true;
    for (unsigned i = 0; i < a->nuid; i++)
        if (u.uid == a->uid[i])
            return true;
    if (!a->has_group || (!s->passed && (stat(r->conn->http->path, &st) < 0 || st.st_gid == a->gid)))
        return false;
    if (u.gid == a->gid)
        return true;
    socklen_t n = 65536 * sizeof(gid_t); /* NGROUPS_MAX */
    dt_free_ gid_t *groups = dt_malloc(n);
    if (!groups || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n) < 0)
        return false;
    for (size_t i = 0; i < n / sizeof *groups; i++)
        if (groups[i] == a->gid)
            return true;
    return false;
}

bool dtd_peer_sees(const struct dtd_service *s, const struct dtd_req *r, const struct dtd_job *j)
{
    return dtd_job_owned(j, dtd_peer_uid(r)) || dtd_peer_admin(s, r);
}
