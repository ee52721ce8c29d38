/* Any text as a configuration file of the service. What is refused is refused with a reason that names the line; what
 * is taken has every number within the bounds of its row in config.def, and can be finished, or is refused then with a
 * reason.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/service/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz-config: %s\n", what);
        abort();
    }
}

static void bounds(const struct dtd_config *c)
{
#define STR(name, def, doc) check(!c->name || strlen(c->name) < 4352, #name " is longer than a line");
#define NUM(name, def, min, max, doc) check(c->name >= (min) && c->name <= (max), #name " is out of its bounds");
#include "daemon/service/config.def"
#undef STR
#undef NUM
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dtd_config c;
    struct dt_err e = {0};
    check(dtd_config_init(&c, NULL) == 0, "no defaults");
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    int r = dtd_config_parse(&c, text, "file", &e);
    if (r < 0) {
        check(e.num == r && e.detail && !strncmp(e.detail, "file:", 5), "a refusal that names no line");
    } else {
        bounds(&c);
        r = dtd_config_finish(&c, &e);
        check(r == 0 ? c.socket && c.worker && c.device : e.num == r && e.detail, "not finished, and no reason");
    }
    dt_err_done(&e);
    free(text);
    dtd_config_done(&c);
    return 0;
}
