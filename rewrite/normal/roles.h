/* Roles: blocks of one launch that do different kernels' work (roles.c, roles-text.c). */
#ifndef DT_REWRITE_ROLES_H
#define DT_REWRITE_ROLES_H

#include "rewrite/emit/solo.h"

#define RW_ROLES 16 /* of one launch */

struct rw_role {
    uint32_t *block, n;        /* linear numbers, ascending */
    uint8_t *done;             /* by instruction of the entry: what some block of it may do (emit/uniform.h) */
    bool box;                  /* its blocks are all of a box in the grid */
    uint32_t lo[3], extent[3]; /* which one */
};
struct rw_roles {
    struct rw_role role[RW_ROLES];
    uint32_t n;      /* 0: all blocks are of one role */
    bool too_large;  /* that could not be found out */
    uint32_t *of;    /* by block: its role */
    uint32_t nblock; /* of the launch */
};
/* The roles of the launch's blocks, in the order of their first blocks. f: the launch's entry, or a copy of it. All of
 * it is in the arena. */
int rw_roles_find(struct dt_arena *a, const struct ana_result *r, uint32_t launch, const struct ptx_function *f,
                  struct rw_roles *ret, struct dt_err *e);
/* The row roles_apart: does no block touch a byte that one of another role writes? False: `why`. */
bool rw_roles_apart(const struct ana_result *r, uint32_t launch, const struct rw_roles *roles, struct dt_str *why);
/* The row same_footprints: launches first … of `next`, one for each role, touch what its blocks touched before. */
bool rw_roles_same(const struct ana_result *now, uint32_t launch, const struct rw_roles *roles,
                   const struct ana_result *next, uint32_t first, struct dt_str *why);
/* Make the copy (rw_solo_copy) the kernel of one role. *ret_dynamic: it has no use for dynamic shared memory. */
int rw_role_text(struct rw_solo *s, const struct rw_role *role, bool *ret_dynamic, struct dt_err *e);

#endif
