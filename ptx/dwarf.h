/* What the functions of a PTX text take, in the words of its source: names and types of parameters, from the debug
 * information that nvcc and NVRTC write with -G (DWARF 2 to 4 in `.section .debug_info`).
 */
#ifndef DT_PTX_DWARF_H
#define DT_PTX_DWARF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum ptx_c_kind { PTX_C_OTHER, PTX_C_SIGNED, PTX_C_UNSIGNED, PTX_C_FLOAT, PTX_C_POINTER, PTX_C_STRUCT };

struct ptx_c_type {
    const char *text; /* "const float *"; a word that is no name there: "?" */
    enum ptx_c_kind kind;
    uint64_t bytes; /* 0: not said */
    bool is_const;
};
struct ptx_c_value {
    const char *name;           /* "x"; of a member "p.x" */
    struct ptx_c_type type, to; /* to: of a pointer */
    uint64_t at;                /* of a member: in bytes from the parameter's first */
};
struct ptx_c_param {
    struct ptx_c_value value;
    struct ptx_c_value *member; /* of a structure: pointers and numbers in it, those of structures in it as well */
    uint32_t nmember;
};
struct ptx_c_function {
    const char *symbol; /* as PTX calls it */
    const char *name;   /* as the source calls it */
    struct ptx_c_param *param;
    uint32_t nparam;
};
struct ptx_c_source {
    struct dt_arena arena; /* owns everything, texts too */
    struct ptx_c_function *function;
    uint32_t nfunction;
};

/* Read the text's debug information. A text without any, or with some that is not understood, has no functions: that is
 * no error. DT_E_NOMEM. ptx_c_done() frees it. */
int ptx_c_read(const char *text, size_t len, struct ptx_c_source *ret, struct dt_err *e);
void ptx_c_done(struct ptx_c_source *s);
const struct ptx_c_function *ptx_c_find(const struct ptx_c_source *s, const char *symbol); /* NULL: not there */

#endif
