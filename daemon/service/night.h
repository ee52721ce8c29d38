/* The night: planning stored graphs again, one after the other, below the jobs of users. On the loop's thread. */
#ifndef DTD_NIGHT_H
#define DTD_NIGHT_H

#include <jansson.h>
#include <stdbool.h>

#include "daemon/service/service.h"

struct dtd_night_work {
    unsigned uid;     /* who asked for it */
    char options[40]; /* of the jobs, JSON */
    char device[80];
    json_t *due; /* digests of stored graphs, the first first; borrowed by dtd_night_begin */
};
/* budget_s: no job begins later than that; 0: no bound. False: a night is under way (or there is no memory), and
 * nothing was begun. It ends by itself, also when the service drains. */
bool dtd_night_begin(struct dtd_service *s, const struct dtd_night_work *w, double budget_s);

#endif
