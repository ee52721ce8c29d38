/* Instructions on standard input, "ADDRESS LOW HIGH" in hexadecimal a line, as device/sass.c reads them, a line each:
 * the address that it leads to (0 if none), class, kind and number and width of the destination, predicates written,
 * and the text. For sass.py. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/machine.h"

int main(int argc, char **argv)
{
    unsigned sm = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    uint64_t at, word[2];
    while (sass_knows(sm) && scanf("%" SCNx64 " %" SCNx64 " %" SCNx64, &at, &word[0], &word[1]) == 3) {
        struct sass_inst i;
        struct dt_str s = {0};
        bool known = sass_decode(word, &i);
        bool leads = known && (i.op->cls == SASS_BRANCH || i.op->cls == SASS_CALL);
        sass_print(&i, &s);
        printf("%" PRIx64 "|%d|%c%u/%u|%s\n", leads ? sass_target(&i, at, sm) : 0, known ? i.op->cls : -1,
               known && i.dst_kind ? (i.dst_kind == SASS_UREG ? 'U' : 'R') : '-', i.dst,
               known && i.dst_kind ? i.dst_width : 0, s.s ? s.s : "");
        dt_str_done(&s);
    }
    return sass_knows(sm) ? 0 : 1;
}
