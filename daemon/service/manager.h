/* The service manager (systemd) at the other side: the socket it passed, what it is told, its watchdog, its journal.
 * Without a manager every call is harmless. All on the loop's thread, the journal excepted.
 *
 * manager.c is for builds with libsystemd; manager-none.c stands in its place where there is none.
 */
#ifndef DTD_MANAGER_H
#define DTD_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The listening socket that was passed. 0: none was; 1: *ret_fd is it (close-on-exec; the caller's), `path` where it is
 * bound ("" where that cannot be told). DT_E_USAGE: more than one, or no listening Unix stream socket. To be called
 * once: what is passed is taken out of the environment. */
int dtd_manager_socket(int *ret_fd, char *path, size_t n, struct dt_err *e);

void dtd_manager_ready(const char *status);
void dtd_manager_status(const char *status);
void dtd_manager_reloading(void); /* dtd_manager_ready follows */
/* It will take at most this many seconds. */
void dtd_manager_stopping(unsigned seconds);
/* Microseconds between two dtd_manager_alive() after which the manager kills this process; 0: it does not watch. */
uint64_t dtd_manager_watchdog(void);
void dtd_manager_alive(void);
/* Log into the journal with fields of its own, if stderr is connected to it. */
void dtd_manager_journal(const char *program);

#endif
