/* Instructions on standard input, "ADDRESS LOW HIGH" in hexadecimal a line, as device/sass.c reads them, a line each:
 * the address that it leads to (0 if none), class, kind and number and width of the destination, predicates written,
 * and the text. For sass.py. With `control` behind the architecture a line has the stall, barrier of the result and of
 * the operands, barriers waited for, pipe, way (enum sass_way), destination and predicates written. For stalls.py. With
 * `registers` the line is what it writes and reads, for sass.py: "R1 R2 U4 P0|R3" (P*: perhaps any predicate), and what
 * it reads of instructions that compute with floats alone (else ?). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/machine.h"

static void control(const struct sass_inst *i, unsigned sm)
{
    struct sass_control c = sass_control(i);
    struct sass_unit u = sass_unit(i, sm);
    printf("%u %u %u %u %s %u %c %u %u %u %u\n", c.stall, c.write, c.read, c.wait, i->op ? sass_pipe_name(u.pipe) : "?",
           u.way,
           !i->op || !i->dst_kind     ? '-'
           : i->dst_kind == SASS_UREG ? 'U'
                                      : 'R',
           i->dst, i->dst_width, i->pwrite[0], i->pwrite[1]);
}

static void some(char kind, unsigned first, unsigned n, unsigned zero)
{
    for (unsigned k = 0; k < n && first != zero; k++)
        printf("%c%u ", kind, first + k);
}

static void registers(const struct sass_inst *i)
{
    if (!i->op || i->op->cls == SASS_NAMED) {
        puts("?|?");
        return;
    }
    if (i->dst_kind)
        some(i->dst_kind == SASS_UREG ? 'U' : 'R', i->dst, i->dst_width, 256);
    some('R', i->more, i->more_width, 256);
    for (unsigned k = 0; k < 2; k++)
        some('P', i->pwrite[k], 1, SASS_PT);
    fputs(i->op->dst[1] == 'P' ? "P*|" : "|", stdout);
    for (unsigned k = 0; k < i->nsrc && i->op->cls == SASS_FLOAT; k++)
        if (i->src[k].kind == SASS_REG)
            some('R', i->src[k].reg, i->src[k].width, SASS_RZ);
        else if (i->src[k].kind == SASS_UREG)
            some('U', i->src[k].reg, i->src[k].width, SASS_URZ);
    puts(i->op->cls == SASS_FLOAT ? "" : "?");
}

int main(int argc, char **argv)
{
    unsigned sm = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    uint64_t at, word[2];
    while (sass_knows(sm) && scanf("%" SCNx64 " %" SCNx64 " %" SCNx64, &at, &word[0], &word[1]) == 3) {
        struct sass_inst i;
        struct dt_str s = {0};
        bool known = sass_decode(word, sm, &i);
        if (argc > 2 && !strcmp(argv[2], "control")) {
            control(&i, sm);
            continue;
        }
        if (argc > 2 && !strcmp(argv[2], "registers")) {
            registers(&i);
            continue;
        }
        bool leads = known && (i.op->cls == SASS_BRANCH || i.op->cls == SASS_CALL);
        sass_print(&i, &s);
        printf("%" PRIx64 "|%d|%c%u/%u|%s\n", leads ? sass_target(&i, at, sm) : 0, known ? i.op->cls : -1,
               known && i.dst_kind ? (i.dst_kind == SASS_UREG ? 'U' : 'R') : '-', i.dst,
               known && i.dst_kind ? i.dst_width : 0, s.s ? s.s : "");
        dt_str_done(&s);
    }
    return sass_knows(sm) ? 0 : 1;
}
