/* Device memory for the rooms above: the table of allocations, and what launches need of it. What libcuda uses is in
 * sg.h.
 *
 * A launch works on a snapshot: `sg_mem_pin` takes the execution lock, so that nothing that the launch can reach is
 * freed under it; sg_mem_free and sg_mem_unregister wait for that lock. New allocations may be made meanwhile; the
 * running launch does not see them.
 */
#ifndef DT_SOFTGPU_MEMORY_H
#define DT_SOFTGPU_MEMORY_H

#include <pthread.h>

#include "softgpu/sg.h"

enum { SG_SPARES = 8 };

struct sg_alloc {
    uint64_t base, end; /* [base, end) */
    void *raw;          /* what mmap gave, NULL for registered memory */
    uint64_t raw_bytes;
    bool read_only;
    char *name;     /* for reports, NULL: none */
    uint64_t *init; /* a bit a byte: written; NULL: all of it */
    /* a bit a sector of 32 bytes, from base >> 5 on: prefetched into the L2 and not used since; NULL: none */
    uint64_t *fetched;
    const void *owner; /* what sg_mem_alloc_for was told */
};

struct sg_device {
    const struct sg_model *model;
    pthread_mutex_t lock;      /* the table */
    pthread_mutex_t exec_lock; /* held while a launch runs; taken before `lock` */
    struct sg_alloc *alloc;    /* sorted by base, disjoint */
    size_t nalloc, cap;
    uint64_t used;
    struct sg_spare { /* memory of blocks that have run, for the next launch */
        void *p;
        size_t bytes;
    } spare[SG_SPARES];
    bool track; /* new allocations get `init` */
    struct sg_reference_slot {
        struct sg_texture *texture; /* NULL: free */
        uint32_t round;             /* how often the slot has been given out */
    } * texture;                    /* by the low bits of handles (texture.c) */
    size_t ntexture, texture_cap;
    struct sg_heap *heap; /* heap.c; NULL: not made yet */
};

/* As sg_mem_alloc, for module variables. */
int sg_mem_alloc_as(struct sg_device *d, uint64_t bytes, bool read_only, uint64_t *ret_addr);

/* Working memory for launches, aligned to 128 bytes, with anything in it: NULL when the host has none. Give it back
 * with its size. */
void *sg_spare_get(struct sg_device *d, size_t *bytes);
void sg_spare_put(struct sg_device *d, void *p, size_t bytes);

void sg_textures_free(struct sg_device *d); /* texture.c: the table goes with the device */

/* heap.c */
int sg_heap_make(struct sg_device *d, uint64_t bytes); /* once; later calls change nothing */
void sg_heap_free(struct sg_device *d);                /* what is known of it; its memory goes with the device */
/* The address of `bytes` bytes, and how many they are when rounded up; 0: no room, no heap, or no bytes. */
uint64_t sg_heap_take(struct sg_device *d, uint64_t bytes, uint64_t *ret_bytes);
/* Free what sg_heap_take gave. NULL: done; else what is wrong with the address, for a report. */
const char *sg_heap_give(struct sg_device *d, uint64_t at);

/* Copy the table for a launch (free() it) and hold the execution lock until sg_mem_unpin. `blind`: the launch will not
 * say what it writes, so everything counts as written from now on. */
int sg_mem_pin(struct sg_device *d, bool blind, bool hold, struct sg_alloc **ret, size_t *ret_n);
void sg_mem_unpin(struct sg_device *d);

/* Bits [lo, lo + n) of a map: all set? set or clear them. */
bool sg_bits_all(const uint64_t *map, uint64_t lo, uint64_t n);
void sg_bits_put(uint64_t *map, uint64_t lo, uint64_t n, bool on);

/* Maps of what is prefetched, for all allocations; before sg_mem_pin. */
int sg_mem_fetch_maps(struct sg_device *d);

/* The allocation that holds `addr`, or NULL. */
const struct sg_alloc *sg_mem_search(const struct sg_alloc *a, size_t n, uint64_t addr);
/* "12 bytes past the end of the 1024 bytes at 0x…": where `addr` is, for a person. */
void sg_mem_describe(const struct sg_alloc *a, size_t n, uint64_t addr, char *out, size_t size);

#endif
