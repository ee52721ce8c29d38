/* What the files of capture/ use of each other. */
#ifndef DT_CAPTURE_CAPTURE_PRIV_H
#define DT_CAPTURE_CAPTURE_PRIV_H

#include "capture/capture.h"

/* The memory that an address lies in at operation `op`; CAP_NONE. */
uint32_t cap_memory_at(const struct cap_trace *t, uint64_t at, uint32_t op);
/* Do two launches do the same: kernel, geometry, parameters? An address that both have may be another memory's for
 * each, where one was given back in between: of the touches of one, those of memory that the other names are the
 * other's, too. */
bool cap_same_launch(const struct cap_op *a, const struct cap_op *b);
/* variables: always */
bool cap_names_memory(const struct cap_trace *t, const struct cap_op *o, uint32_t mem);
/* Are all its words whole numbers as places are, -2^24 to 2^24? */
bool cap_whole_numbers(const uint8_t *p, uint64_t n);
void cap_set_add(struct cap_set_of *s, uint64_t lo, uint64_t hi, bool *nomem);
void cap_set_tidy(struct cap_set_of *s); /* ascending, apart */
bool cap_set_meets(const struct cap_set_of *s, uint64_t lo, uint64_t hi);

#endif
