/* In place of manager.c where there is no libsystemd: no manager is told anything, the journal gets plain lines, and a
 * socket that was passed is an error rather than overlooked.
 */
#include "daemon/service/manager.h"

#include <stdlib.h>

int dtd_manager_socket(int *ret_fd, char *path, size_t n, struct dt_err *e)
{
    const char *fds = getenv("LISTEN_FDS");
    if (!fds)
        return 0;
    return dt_err_set(e, DT_E_USAGE,
                      "a socket was passed (LISTEN_FDS), but this dovetaild was built without libsystemd");
}

void dtd_manager_ready(const char *status) {}
void dtd_manager_status(const char *status) {}
void dtd_manager_reloading(void) {}
void dtd_manager_stopping(unsigned seconds) {}
uint64_t dtd_manager_watchdog(void) { return 0; }
void dtd_manager_alive(void) {}
void dtd_manager_journal(const char *program) {}
