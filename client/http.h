/* One HTTP/1.1 exchange over a Unix socket; inside libdovetail. */
#ifndef DOVETAIL_CLIENT_HTTP_H
#define DOVETAIL_CLIENT_HTTP_H

#include "base/err.h"
#include "client/dovetail.h"

/* line (may be NULL): called for each line of a 2xx body as it comes, instead of keeping it. silence_s: give up after
 * so many seconds without a byte, 0: never. DT_E_NO_SERVICE, DT_E_IO, DT_E_NOMEM. */
int client_http(const char *socket, const char *method, const char *path, const void *body, size_t len, int silence_s,
                void (*line)(char *line, size_t len, void *user), void *user, struct dovetail_reply *ret,
                struct dt_err *e);

#endif
