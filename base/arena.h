/* Arenas: many small allocations, one release. One per module, per request, per analysis.
 *
 * Memory is zeroed and aligned to 16 bytes. An arena that runs out of memory returns NULL and remembers it
 * (dt_arena_failed), so that a builder may check once at its end. Not thread-safe.
 */
#ifndef DT_BASE_ARENA_H
#define DT_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct dt_arena {
    struct dt_chunk *chunk;
    size_t used; /* bytes handed out, all chunks */
    bool failed;
};

void dt_arena_done(struct dt_arena *a); /* release everything; the arena may be used again */
/* All that `from` holds belongs to `a` then, and `from` is empty; a failure of `from` is one of `a`. */
void dt_arena_adopt(struct dt_arena *a, struct dt_arena *from);
void *dt_arena_alloc(struct dt_arena *a, size_t n);
void *dt_arena_array(struct dt_arena *a, size_t n, size_t size); /* overflow-checked */
char *dt_arena_strndup(struct dt_arena *a, const char *s, size_t n);
char *dt_arena_strdup(struct dt_arena *a, const char *s);
char *dt_arena_printf(struct dt_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline bool dt_arena_failed(const struct dt_arena *a) { return a->failed; }

#define dt_new(a, type) ((type *)dt_arena_alloc((a), sizeof(type)))
#define dt_new_array(a, type, n) ((type *)dt_arena_array((a), (n), sizeof(type)))

#endif
