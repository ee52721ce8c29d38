/* Which options a graph may give to NVRTC.
 *
 * The list says what is allowed, and all else is refused. An option may change what is computed, never what is read or
 * written outside the program. So these are not in it: include paths, the target (the device decides it), files
 * (`--time=`, `--create-pch=` …), and what is passed through to ptxas or the linker. A row matches a whole option. A
 * row that ends in `=` matches the option up to there, and the row's kind says how the rest is checked. `-D` and `-U`
 * have their word in the same option or in the next one.
 */
#include <ctype.h>
#include <string.h>

#include "device/device-priv.h"

enum kind { FLAG, BOOL, NUMBER, DIALECT, LIST, WORD };

static const struct {
    const char *text;
    enum kind kind;
} allowed[] = {
    {"--std=", DIALECT},
    {"-std=", DIALECT},
    {"--define-macro=", WORD},
    {"--undefine-macro=", WORD},
    {"-D", WORD},
    {"-U", WORD},
    {"--use_fast_math", FLAG},
    {"-use_fast_math", FLAG},
    {"--fmad=", BOOL},
    {"-fmad=", BOOL},
    {"--ftz=", BOOL},
    {"-ftz=", BOOL},
    {"--prec-div=", BOOL},
    {"-prec-div=", BOOL},
    {"--prec-sqrt=", BOOL},
    {"-prec-sqrt=", BOOL},
    {"--generate-line-info", FLAG},
    {"-lineinfo", FLAG},
    {"--maxrregcount=", NUMBER},
    {"-maxrregcount=", NUMBER},
    {"--restrict", FLAG},
    {"-restrict", FLAG},
    {"--extra-device-vectorization", FLAG},
    {"-extra-device-vectorization", FLAG},
    {"--device-as-default-execution-space", FLAG},
    {"-default-device", FLAG},
    {"--device-int128", FLAG},
    {"-device-int128", FLAG},
    {"--disable-warnings", FLAG},
    {"-w", FLAG},
    {"--diag-suppress=", LIST},
    {"-diag-suppress=", LIST},
};

static bool options_plain(const char *s) /* printable, and not so long that it is an attack */
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 32 || s[i] == 127)
            return false;
    return n < 4096;
}

static bool value_ok(enum kind k, const char *v)
{
    switch (k) {
    case FLAG: return !*v;
    case BOOL: return !strcmp(v, "true") || !strcmp(v, "false");
    case NUMBER: return *v && strlen(v) < 5 && strspn(v, "0123456789") == strlen(v);
    case DIALECT:
        return !strcmp(v, "c++03") || !strcmp(v, "c++11") || !strcmp(v, "c++14") || !strcmp(v, "c++17") ||
               !strcmp(v, "c++20");
    case LIST: return *v && strlen(v) < 256 && strspn(v, "0123456789,") == strlen(v);
    case WORD: return (isalpha((unsigned char)*v) || *v == '_') && options_plain(v);
    }
    return false;
}

int dev_check_options(const char *const *option, unsigned n, struct dt_err *e)
{
    for (unsigned i = 0; i < n; i++) {
        const char *o = option[i];
        bool ok = false;
        if ((!strcmp(o, "-D") || !strcmp(o, "-U")) && i + 1 < n)
            ok = value_ok(WORD, option[++i]);
        for (size_t k = 0; k < sizeof allowed / sizeof *allowed && !ok; k++)
            if (!strncmp(o, allowed[k].text, strlen(allowed[k].text)))
                ok = value_ok(allowed[k].kind, o + strlen(allowed[k].text));
        if (!ok)
            return dt_err_set(e, DT_E_COMPILE, "the compiler option \"%.200s\" is not allowed%s", o,
                              strstr(o, "arch") ? ": the device says the target (--device)"
                              : *o == '-' && o[1] == 'I'
                                  ? ": nothing outside the document is read; CUDA's own headers are found without"
                              : *o == '-' && o[1] == 'O' ? ": device code is always optimised"
                                                         : "");
    }
    return 0;
}

bool dev_arch_ok(const char *arch)
{
    if (!arch || strncmp(arch, "sm_", 3))
        return false;
    size_t digits = strspn(arch + 3, "0123456789");
    const char *end = arch + 3 + digits;
    return digits >= 2 && digits <= 3 && (!*end || ((*end == 'a' || *end == 'f') && !end[1]));
}
