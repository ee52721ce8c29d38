/* main() for fuzz targets that are built without libFuzzer: runs every file named, and every file of every directory
 * named, through LLVMFuzzerTestOneInput, so that what fuzzing once found is tested in every run. A directory without
 * files is an error. An argument before them, a number N.
 *
 * A file up to 64 KiB also runs damaged: cut short at N / 3 places, then N times with one to four bytes changed by
 * splitmix64, the same on every machine. So every test run covers error paths, and the sanitizers see them, where there
 * is no clang.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* From a copy of exact size, without a NUL behind it, so that ASan sees a read past the end. */
static void feed(const char *text, size_t len, uint64_t damage)
{
    uint8_t *exact = malloc(len ? len : 1);
    memcpy(exact, text, len);
    for (uint64_t k = 0; damage && len && k <= damage % 4; k++)
        exact[dt_splitmix64(damage, 2 * k) % len] = (uint8_t)dt_splitmix64(damage, 2 * k + 1);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
}

static int one(const char *path, size_t damages)
{
    char *text;
    size_t len;
    struct dt_err e = {0};
    if (dt_read_file(path, 64u << 20, &text, &len, &e) < 0) {
        fprintf(stderr, "%s\n", e.detail);
        dt_err_done(&e);
        return -1;
    }
    feed(text, len, 0);
    for (size_t part = 0; part < damages / 3 && len <= 65536; part++)
        feed(text, len * part / (damages / 3), 0);
    for (uint64_t n = 1; n <= damages && len <= 65536; n++)
        feed(text, len, n);
    free(text);
    return 0;
}

int main(int argc, char **argv)
{
    int n = 0;
    size_t damages = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (!damages || damages > 1000000)
        return fprintf(stderr, "usage: %s N FILE|FOLDER…\n", argv[0]), 2;
    for (int i = 2; i < argc; i++) {
        DIR *d = opendir(argv[i]);
        if (!d) {
            if (one(argv[i], damages) < 0)
                return 1;
            n++;
            continue;
        }
        for (struct dirent *f; (f = readdir(d));) {
            char path[4096];
            if (f->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], f->d_name);
            if (one(path, damages) < 0)
                return 1;
            n++;
        }
        closedir(d);
    }
    printf("%d inputs\n", n);
    return n ? 0 : 1;
}
