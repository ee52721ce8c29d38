/* LLVM by dlopen: the functions of its C API that compile a module, and their use. See llvm.h.
 *
 * Types of the C API are pointers to what only LLVM knows, so they are void * here; signatures are those of llvm-c of
 * LLVM 15 to 20 (Core.h, IRReader.h, Orc.h, LLJIT.h, Transforms/PassBuilder.h).
 */
#include "softgpu/jit/llvm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* return type, name, parameters */
#define FUNCTIONS(F)                                                                                                   \
    F(void, InitializeX86TargetInfo, (void))                                                                           \
    F(void, InitializeX86Target, (void))                                                                               \
    F(void, InitializeX86TargetMC, (void))                                                                             \
    F(void, InitializeX86AsmPrinter, (void))                                                                           \
    F(void *, CreateMemoryBufferWithMemoryRangeCopy, (const char *, size_t, const char *))                             \
    F(int, ParseIRInContext, (void *, void *, void **, char **))                                                       \
    F(void *, GetNamedFunction, (void *, const char *))                                                                \
    F(void, SetValueName2, (void *, const char *, size_t))                                                             \
    F(void, DisposeMessage, (char *))                                                                                  \
    F(void, DisposeModule, (void *))                                                                                   \
    F(void *, CreatePassBuilderOptions, (void))                                                                        \
    F(void, DisposePassBuilderOptions, (void *))                                                                       \
    F(void *, RunPasses, (void *, const char *, void *, void *))                                                       \
    F(char *, GetErrorMessage, (void *))                                                                               \
    F(void, DisposeErrorMessage, (char *))                                                                             \
    F(char *, GetHostCPUName, (void))                                                                                  \
    F(char *, GetHostCPUFeatures, (void))                                                                              \
    F(char *, GetDefaultTargetTriple, (void))                                                                          \
    F(int, GetTargetFromTriple, (const char *, void **, char **))                                                      \
    F(void *, CreateTargetMachine, (void *, const char *, const char *, const char *, int, int, int))                  \
    F(void *, OrcJITTargetMachineBuilderCreateFromTargetMachine, (void *))                                             \
    F(void *, OrcCreateLLJITBuilder, (void))                                                                           \
    F(void, OrcLLJITBuilderSetJITTargetMachineBuilder, (void *, void *))                                               \
    F(void *, OrcCreateLLJIT, (void **, void *))                                                                       \
    F(void *, OrcLLJITGetMainJITDylib, (void *))                                                                       \
    F(char, OrcLLJITGetGlobalPrefix, (void *))                                                                         \
    F(void *, OrcCreateDynamicLibrarySearchGeneratorForProcess, (void **, char, void *, void *))                       \
    F(void, OrcJITDylibAddGenerator, (void *, void *))                                                                 \
    F(void *, OrcJITDylibCreateResourceTracker, (void *))                                                              \
    F(void *, OrcResourceTrackerRemove, (void *))                                                                      \
    F(void, OrcReleaseResourceTracker, (void *))                                                                       \
    F(void *, OrcCreateNewThreadSafeContext, (void))                                                                   \
    F(void *, OrcThreadSafeContextGetContext, (void *))                                                                \
    F(void, OrcDisposeThreadSafeContext, (void *))                                                                     \
    F(void *, OrcCreateNewThreadSafeModule, (void *, void *))                                                          \
    F(void *, OrcLLJITAddLLVMIRModuleWithRT, (void *, void *, void *))                                                 \
    F(void *, OrcLLJITLookup, (void *, unsigned long *, const char *))

#define DECLARE(RET, NAME, PARAMS) static RET(*NAME) PARAMS;
FUNCTIONS(DECLARE)

static const char *const libraries[] = {"libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM.so.20.1", "libLLVM.so.18.1",
                                        "libLLVM-17.so.1", "libLLVM-16.so.1", "libLLVM-15.so.1"};
/* After SSA: what pays on straight code of vectors. The loop passes are few: loops were unrolled by who made the PTX. */
static const char passes[] = "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,"
                             "loop-mssa(licm),gvn,sccp,instcombine<no-verify-fixpoint>,simplifycfg,dse,adce)";
static const char passes_old[] = "function(sroa,early-cse,instcombine,simplifycfg,loop-mssa(licm),gvn,sccp,instcombine,"
                                 "simplifycfg,dse,adce)";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char trouble[256];
static void *machine, *jit, *dylib;
static unsigned serial; /* of functions: all of them are in one library of the JIT */

struct sg_llvm_code {
    void *tracker;
};

static void explain(const char *what, void *error)
{
    char *m = error ? GetErrorMessage(error) : NULL;
    snprintf(trouble, sizeof trouble, "%s: %s", what, m ? m : "no reason given");
    if (m)
        DisposeErrorMessage(m);
}

static void start(void)
{
#ifndef __x86_64__
    snprintf(trouble, sizeof trouble, "kernels are compiled for x86-64 only");
    return;
#endif
    void *lib = NULL;
    for (size_t i = 0; !lib && i < sizeof libraries / sizeof *libraries; i++)
        lib = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(trouble, sizeof trouble, "libLLVM (15 to 20) is not installed");
        return;
    }
#define FIND(RET, NAME, PARAMS)                                                                                        \
    *(void **)(void *)&NAME = dlsym(lib, "LLVM" #NAME);                                                                \
    if (!NAME)                                                                                                         \
        snprintf(trouble, sizeof trouble, "libLLVM has no LLVM" #NAME);
    FUNCTIONS(FIND)
    if (*trouble)
        return;
    InitializeX86TargetInfo();
    InitializeX86Target();
    InitializeX86TargetMC();
    InitializeX86AsmPrinter();
    char *triple = GetDefaultTargetTriple(), *cpu = GetHostCPUName(), *features = GetHostCPUFeatures(), *message = NULL;
    void *target = NULL;
    if (GetTargetFromTriple(triple, &target, &message)) {
        snprintf(trouble, sizeof trouble, "LLVM has no target %s", triple);
        return;
    }
    /* optimisation 2 (default), relocations default, code model JIT */
    machine = CreateTargetMachine(target, triple, cpu, features, 2, 0, 1);
    void *of_jit = CreateTargetMachine(target, triple, cpu, features, 2, 0, 1);
    DisposeMessage(triple);
    DisposeMessage(cpu);
    DisposeMessage(features);
    void *builder = OrcCreateLLJITBuilder(), *error, *generator = NULL;
    OrcLLJITBuilderSetJITTargetMachineBuilder(builder, OrcJITTargetMachineBuilderCreateFromTargetMachine(of_jit));
    if ((error = OrcCreateLLJIT(&jit, builder))) {
        explain("ORC does not start", error);
        return;
    }
    dylib = OrcLLJITGetMainJITDylib(jit);
    if ((error = OrcCreateDynamicLibrarySearchGeneratorForProcess(&generator, OrcLLJITGetGlobalPrefix(jit), NULL, NULL)))
        explain("ORC does not find the process's own functions", error);
    else
        OrcJITDylibAddGenerator(dylib, generator);
}

bool sg_llvm_ready(void)
{
    pthread_once(&once, start);
    return !*trouble;
}

const char *sg_llvm_why(void) { return sg_llvm_ready() ? NULL : trouble; }

/* The module is the caller's until it is in the JIT. */
static void *compile(void *context, const char *text, size_t bytes, const char *name, struct sg_llvm_code *code,
                     char *why, size_t why_bytes)
{
    char *message = NULL;
    void *module = NULL, *error = NULL;
    /* parsing takes the buffer */
    if (ParseIRInContext(OrcThreadSafeContextGetContext(context), CreateMemoryBufferWithMemoryRangeCopy(text, bytes, name),
                         &module, &message)) {
        snprintf(why, why_bytes, "%s", message ? message : "LLVM does not read it");
        DisposeMessage(message);
        return NULL;
    }
    char unique[32];
    snprintf(unique, sizeof unique, "r%u", ++serial);
    void *f = GetNamedFunction(module, name);
    if (f)
        SetValueName2(f, unique, strlen(unique));
    void *options = CreatePassBuilderOptions();
    if ((error = RunPasses(module, passes, machine, options))) {
        DisposeErrorMessage(GetErrorMessage(error));
        error = RunPasses(module, passes_old, machine, options);
    }
    DisposePassBuilderOptions(options);
    void *tracker = NULL;
    unsigned long at = 0;
    if (error) {
        DisposeModule(module);
    } else {
        tracker = OrcJITDylibCreateResourceTracker(dylib);
        error = OrcLLJITAddLLVMIRModuleWithRT(jit, tracker, OrcCreateNewThreadSafeModule(module, context));
        if (!error)
            error = OrcLLJITLookup(jit, &at, unique);
    }
    if (error) {
        char *m = GetErrorMessage(error);
        snprintf(why, why_bytes, "%s", m);
        DisposeErrorMessage(m);
        if (tracker) {
            if ((error = OrcResourceTrackerRemove(tracker)))
                DisposeErrorMessage(GetErrorMessage(error));
            OrcReleaseResourceTracker(tracker);
        }
        return NULL;
    }
    code->tracker = tracker;
    return (void *)at; // NOLINT
}

void *sg_llvm_compile(const char *text, size_t bytes, const char *name, struct sg_llvm_code **ret_code, char *why,
                      size_t why_bytes)
{
    *ret_code = NULL;
    if (!sg_llvm_ready()) {
        snprintf(why, why_bytes, "%s", trouble);
        return NULL;
    }
    struct sg_llvm_code *code = dt_calloc(1, sizeof *code);
    if (!code) {
        snprintf(why, why_bytes, "memory is out");
        return NULL;
    }
    pthread_mutex_lock(&lock);
    void *context = OrcCreateNewThreadSafeContext();
    void *f = compile(context, text, bytes, name, code, why, why_bytes);
    OrcDisposeThreadSafeContext(context);
    pthread_mutex_unlock(&lock);
    if (!f) {
        free(code);
        return NULL;
    }
    *ret_code = code;
    return f;
}

void sg_llvm_free(struct sg_llvm_code *code)
{
    if (!code)
        return;
    pthread_mutex_lock(&lock);
    void *error = OrcResourceTrackerRemove(code->tracker);
    if (error)
        DisposeErrorMessage(GetErrorMessage(error));
    OrcReleaseResourceTracker(code->tracker);
    pthread_mutex_unlock(&lock);
    free(code);
}
