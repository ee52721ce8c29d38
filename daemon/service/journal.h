/* The journal: rows of jobs in the store, so that ids survive a restart of the service. See journal.c. */
#ifndef DTD_JOURNAL_H
#define DTD_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

struct dtd_service;
struct dtd_job;
struct dtd_journal;

/* Called once when everything that the journal was told so far is on the disk, or could not be brought there. */
struct dtd_stored {
    void (*fn)(struct dtd_stored *w, bool ok);
    struct dtd_stored *next;
};

/* Opens a handle of its own on the cache and reads the rows of this socket. A store that cannot be opened is tried
 * again with every write. NULL, out of memory: jobs are not stored. */
struct dtd_journal *dtd_journal_open(struct dtd_service *s);
/* Once the socket is ours: jobs of the rows. What had not ended is queued again. */
void dtd_journal_resume(struct dtd_journal *l);
/* A new job, while it still has its request. Too much to store, or l NULL: the job is not durable. */
void dtd_journal_put(struct dtd_journal *l, struct dtd_job *j);
void dtd_journal_wait(struct dtd_journal *l, struct dtd_stored *w); /* perhaps at once */
uint64_t dtd_journal_failures(const struct dtd_journal *l);         /* writes that failed since start */
struct dtd_journal *dtd_journal_close(struct dtd_journal *l);       /* after the loop has run dry */

#endif
