/* The trace: what the injected library (inject/) writes and trace.c reads. One file a process, mode 0600.
 *
 * The file begins with CAP_MAGIC. Records follow: a struct cap_head, then `bytes` of payload, then zeros up to a
 * multiple of 8. The payload is the struct of its kind and, behind it, what the kind says. Numbers are in the order of
 * the host, addresses are the program's own. Records come in the order of the program's calls; of calls that several
 * threads make at a time, in the order in which they came back.
 *
 * Nothing in a trace is trusted by its reader: a program may write into its own.
 */
#ifndef DT_CAPTURE_TRACE_H
#define DT_CAPTURE_TRACE_H

#include <stdint.h>

#define CAP_MAGIC "dovetail trace 1"   /* 16 bytes, without a NUL */
#define CAP_DIR "DOVETAIL_CAPTURE_DIR" /* the folder in which the library makes PID.trace */
#define CAP_DATA "DOVETAIL_CAPTURE_DATA"
#define CAP_DATA_MAX (16u << 20) /* of a copy from the host, beyond which --data indices takes no bytes */
#define CAP_ALL_MAX (1u << 30)   /* and --data all */

enum cap_kind {
    CAP_DEVICE = 1, /* cap_device */
    CAP_IMAGE,      /* cap_image_head, then the image: PTX text; a fat binary's entries with PTX in them; a cubin */
    CAP_FUNCTION,   /* cap_function, then the entry's name */
    CAP_VARIABLE,   /* cap_variable, then its name */
    CAP_ALLOC,      /* cap_alloc */
    CAP_FREE,       /* cap_free */
    CAP_LAUNCH,     /* cap_launch, then nparam cap_param, then the parameter block */
    CAP_SET,        /* cap_set */
    CAP_COPY,       /* cap_copy, then the bytes that the host gave, if CAP_BYTES */
    CAP_SEEN,       /* cap_seen, then what a copy to the host left there */
    CAP_ORDER,      /* cap_order */
    CAP_UNTAKEN,    /* a sentence: what was called that no graph can say */
    CAP_END,        /* the process ended by itself */
    CAP_MAP,        /* cap_map */
    CAP_KINDS
};

/* by: the thread of the program that asked, by number; and of a record with a stream: that is one which does not wait
 * for the default stream (CU_STREAM_NON_BLOCKING). */
enum { CAP_THREAD = 0x7fffffff };
#define CAP_APART 0x80000000u
struct cap_head {
    uint32_t kind, by;
    uint64_t bytes;
};
/* Streams that have no handle of their own: 0 is the default stream too. */
enum { CAP_LEGACY = 1, CAP_PER_THREAD };
struct cap_device {
    uint32_t cc, driver; /* 90; as cuDriverGetVersion gives it */
};
enum { CAP_PTX, CAP_FATBIN, CAP_CUBIN };
struct cap_image_head {
    uint32_t image, form; /* its number, from 0 */
};
struct cap_function {
    uint32_t function, image; /* numbers from 0 */
};
enum { CAP_NO_IMAGE = 0xffffffffu };
struct cap_variable {
    uint64_t at, bytes;
    uint32_t image, pad;
};
enum { CAP_DEVICE_MEMORY, CAP_MANAGED, CAP_HOST };
struct cap_alloc {
    uint64_t at, bytes;
    uint32_t how, pad;
};
struct cap_free {
    uint64_t at;
};
enum { CAP_COOPERATIVE = 1, CAP_PROGRAMMATIC = 2, CAP_BLOCK = 4 /* the block as given: there are no cap_param */ };
struct cap_launch {
    uint64_t stream;
    uint32_t function, flags, grid[3], block[3], cluster[3], shared, nparam, total;
};
struct cap_param {
    uint32_t at, bytes;
};
struct cap_set { /* `height` rows of `width` elements */
    uint64_t stream, at, pitch, width, height;
    uint32_t value, element;
};
enum { CAP_FROM_HOST = 1, CAP_TO_HOST = 2, CAP_BYTES = 4 };
struct cap_copy { /* `height` rows of `width` bytes; of the host's side the bytes are packed */
    uint64_t stream, to, from, to_pitch, from_pitch, width, height;
    uint64_t number; /* of the copy, for CAP_SEEN */
    uint32_t flags, pad;
};
struct cap_seen {
    uint64_t number;
};
struct cap_map { /* what cuTensorMapEncodeTiled made of what; [i] is 0 from rank on */
    uint8_t map[128];
    uint64_t at, dim[5], stride[5]; /* stride: of dimensions 1 and up, as it is given */
    uint32_t box[5], step[5], type, rank, interleave, swizzle, l2, fill;
};
enum {
    CAP_RECORD,
    CAP_WAIT,
    CAP_SYNC_STREAM, /* also after a copy to the host that has ended when its call comes back */
    CAP_SYNC_EVENT,
    CAP_SYNC_ALL,
    CAP_GONE,       /* the stream, or else the event, was destroyed */
    CAP_GRAPH,      /* what follows is a CUDA graph's, until CAP_GRAPH_END */
    CAP_NODE_AFTER, /* its next node follows node number `event` */
    CAP_NODE,       /* what follows is node number `event`'s, from 0 up */
    CAP_GRAPH_END
};
struct cap_order {
    uint64_t stream, event;
    uint32_t what, pad;
};

#endif
