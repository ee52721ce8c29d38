/* dovetail version: of this program and of the HTTP interface it speaks. It needs no service. */
#include "client/cli.h"

int cmd_version(struct cli *c)
{
    if (c->json)
        printf("{\"version\":\"%s\",\"api\":[\"v1\"]}\n", dovetail_version());
    else
        printf("dovetail %s (API v1)\n", dovetail_version());
    return 0;
}
