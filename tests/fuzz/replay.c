/* main() for fuzz targets that are built without libFuzzer: runs every file named, and every file of every directory named, through
 * LLVMFuzzerTestOneInput, so that what fuzzing once found is tested in every run. A directory without files is an error.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int one(const char *path)
{
    char *text;
    size_t len;
    struct dt_err e = {0};
    if (dt_read_file(path, 64u << 20, &text, &len, &e) < 0) {
        fprintf(stderr, "%s\n", e.detail);
        dt_err_done(&e);
        return -1;
    }
    uint8_t *exact = malloc(len ? len : 1); /* without the NUL, so that ASan sees a read past the end */
    memcpy(exact, text, len);
    free(text);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    return 0;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        if (!d) {
            if (one(argv[i]) < 0)
                return 1;
            n++;
            continue;
        }
        for (struct dirent *f; (f = readdir(d));) {
            char path[4096];
            if (f->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], f->d_name);
            if (one(path) < 0)
                return 1;
            n++;
        }
        closedir(d);
    }
    printf("%d inputs\n", n);
    return n ? 0 : 1;
}
