/* Graphs that travel: what was posted here, for hosts to which it was not. */
#ifndef DTD_TRAVEL_H
#define DTD_TRAVEL_H

#include "daemon/service/service.h"

/* A job of the cluster is done, whose graph has this digest. On the loop's thread. */
void dtd_travel_put(struct dtd_service *s, const char *digest);
/* Is the text a graph, and of this digest? What the cluster has under a digest may be anything. On any thread. */
bool dtd_travel_right(const char *text, const char *digest);

#endif
