/* Inside inline/, of the kernel that inline.c makes: a site, which is a load or store of the host that the element
 * passes through, and what stands there instead.
 *
 *   inline.c     the host's text goes by; at a site it calls
 *   instance.c   for each element of the site: whose it is (digits), then the guest's text, which copy.c copies with
 *   guest.c      what becomes of the guest's instructions there, and
 *   cross.c      how the value crosses from one posted text into the other
 */
#ifndef DT_REWRITE_INLINE_SITE_H
#define DT_REWRITE_INLINE_SITE_H

#include "rewrite/inline/inline-priv.h"

struct rw_site { /* where the guest is put */
    struct rw_join *j;
    const struct rw_inline *n;
    struct rw_phase p;
    uint32_t rem, tmp, none;   /* scratch registers */
    uint32_t number, place;    /* the same, where there are places */
    uint32_t digit[RW_DIGITS]; /* of the slot */
    uint32_t slot, bit, one;   /* the slot; a 64-bit register, a predicate; where there are several texts */
    /* of the host's registers that point into the buffer: the same, counted from its begin */
    uint32_t *shadow;
    uint32_t out[16];            /* prologue: components */
    const struct ptx_inst *host; /* the host's text, its registers its own */
    /* of the instance that is emitted: */
    unsigned of;                  /* the slot whose slice is the text; 0: it is all of the guest */
    const struct rw_group *group; /* and the constants of the slot; NULL: it has none */
    uint32_t round;               /* register: of the loop that the elements are in */
    struct ptx_opnd value[16];    /* what is passed on, by component */
    uint8_t value_type;           /* as the host's instruction has it */
    uint32_t zero;                /* register of an element's size: 0, and only the launch knows it */
    uint32_t done;                /* prologue of some of the elements: label behind what loads the others */
    struct rw_later later;        /* epilogue: stores that wait */
};

/* ---- cross.c ----------------------------------------------------------------------------------------------------- */

int rw_site_nomem(struct rw_join *j);                                       /* DT_E_NOMEM */
uint32_t rw_site_reg(struct rw_join *j, enum ptx_type t, const char *hint); /* PTX_NO_REG: memory */
struct ptx_opnd rw_site_part(const struct ptx_opnd *o, unsigned k);         /* component k of an operand */
/* to = from, in registers of elem bytes; a constant has the type that it was written for. */
int rw_site_move(struct rw_join *j, unsigned elem, struct ptx_opnd to, struct ptx_opnd from, uint8_t type,
                 uint32_t pred, bool neg);
/* The same, hidden from ptxas. */
int rw_site_cross(const struct rw_site *s, struct ptx_opnd to, struct ptx_opnd from, uint8_t type, uint32_t pred,
                  bool neg);
int rw_site_zero_word(struct rw_join *j); /* the joint's parameter, behind all others */
int rw_site_zero(struct rw_site *s);      /* s->zero, at the kernel's begin */

/* ---- guest.c, instance.c ----------------------------------------------------------------------------------------- */

extern const struct rw_guest rw_site_guest; /* what copy.c asks; its `site` is a struct rw_site */
/* Emit what replaces a load or store of the host that the element passes through; i: a copy of it, its registers its
 * own. */
int rw_site_emit(struct rw_site *s, const struct ptx_inst *i);
/* The guest for elements first … first + unit of a store; where the host copies tensors, its address is a register of
 * 32 bits with the offset in the buffer (instance.c). */
int rw_site_unit(struct rw_site *s, const struct ptx_inst *i, unsigned first);
/* Emit what stands at the host's copy of a tensor, instruction `inst`; i: a copy of it (staged-text.c). */
int rw_staged_emit(struct rw_site *s, const struct ptx_inst *i, uint32_t inst);
/* The register that stands for the host's `reg`, counted from the buffer's begin; its definition may come later in the
 * text. PTX_NO_REG: memory. */
uint32_t rw_site_shadow(struct rw_site *s, uint32_t reg);

#endif
