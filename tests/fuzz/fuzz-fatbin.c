/* Fuzz target: fat binaries. Any bytes give PTX text or an error, for every device, and nothing is read outside
 * them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/sg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1); /* exactly as long, so that a sanitizer sees a read behind it */
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    static const unsigned cc[] = {75, 90, 100, 121};
    for (unsigned i = 0; i < sizeof cc / sizeof *cc; i++) {
        char *text;
        size_t len;
        if (sg_fatbin_ptx(copy, size, cc[i], &text, &len) == 0) {
            if (text[len] || strlen(text) != len)
                abort();
            free(text);
        }
    }
    free(copy);
    return 0;
}
