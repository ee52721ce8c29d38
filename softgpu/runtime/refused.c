/* What the runtime does not offer, by entries.def: every name exists, so that programs load, and says on stderr, once,
 * that it is refused and why; then cudaErrorNotSupported.
 *
 * The functions are made without their parameters, which none of them looks at: cuda_runtime_api.h is not included
 * here.
 */
#include <stdatomic.h>
#include <stdio.h>

int dtrt_refuse(const char *name, const char *why);
int dtrt_refuse_entry(const char *name, const char *why, atomic_flag *said);
int dtrt_fail(int error);

enum { NOT_SUPPORTED = 801 };

int dtrt_refuse(const char *name, const char *why)
{
    fprintf(stderr, "dovetail's libcudart: %s is not offered by the software device: %s\n", name, why);
    return dtrt_fail(NOT_SUPPORTED);
}

int dtrt_refuse_entry(const char *name, const char *why, atomic_flag *said)
{
    return atomic_flag_test_and_set(said) ? dtrt_fail(NOT_SUPPORTED) : dtrt_refuse(name, why);
}

#define ENTRY(name, file)
#define REFUSED(name, why)                                                                                             \
    __attribute__((visibility("default"))) int name(void);                                                             \
    int name(void)                                                                                                     \
    {                                                                                                                  \
        static atomic_flag said = ATOMIC_FLAG_INIT;                                                                    \
        return dtrt_refuse_entry(#name, why, &said);                                                                   \
    }
#include "softgpu/runtime/entries.def"
