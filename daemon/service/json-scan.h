/* The limits of a JSON document while its bytes come in: see json-scan.c. */
#ifndef DTD_JSON_SCAN_H
#define DTD_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DTD_SCAN_DEPTH 64         /* arrays and objects within each other */
#define DTD_SCAN_VALUES 1000000u  /* values of all kinds together */
#define DTD_SCAN_NAME 65536u      /* bytes of one member's name */
#define DTD_SCAN_SCALAR 1024u     /* bytes of one number, as it is written */
#define DTD_SCAN_VALUE_BYTES 128u /* about what one value takes when it is parsed, besides its text */

struct dtd_scan { /* zero at the begin */
    bool in_string, escaped, is_name, in_scalar, want_name, lost;
    unsigned depth;
    uint64_t objects; /* bit d: what is open at depth d is an object, not an array */
    char name[16];    /* of the top level's member, as far as it fits */
    unsigned len;     /* bytes of the name or scalar so far */
    int section;      /* 1 + the row of the table of lists that is being read, 0: none */
    unsigned count;   /* its members */
    unsigned values;
};
/* The next n bytes of a document. 0, or DT_E_TOO_LARGE with a pointer, at the first value that is too much. */
int dtd_scan_feed(struct dtd_scan *s, const char *p, size_t n, struct dt_err *e);

#endif
