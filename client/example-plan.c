/* A program that runs a plan on memory of its own: the example of docs/EMBED.md.
 *
 *     example-plan PLAN.json     after `dovetail optimize GRAPH -o DIR`: DIR/plan.json
 *
 * It binds zeroed memory to every buffer, launches the plan three times into a stream, then as a CUDA graph, and says
 * how long it took. A real program has data there, and binds what it has anyway. Needs -ldovetail -lcuda.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/dovetail.h"

enum { MAX_BUFFERS = 4096 };

static void example_plan_check(CUresult r, const char *what)
{
    const char *name = "?";
    if (r == CUDA_SUCCESS)
        return;
    cuGetErrorName(r, &name);
    fprintf(stderr, "%s: %s\n", what, name);
    exit(1);
}

static void check_plan(int r, char *problem)
{
    if (r == 0)
        return;
    fprintf(stderr, "%s\n", problem ? problem : "out of memory");
    exit(1);
}

static char *read_all(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long n = -1;
    if (f && fseek(f, 0, SEEK_END) == 0 && (n = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0)
        text = malloc((size_t)n + 1);
    if (!text || fread(text, 1, (size_t)n, f) != (size_t)n) {
        perror(path);
        exit(1);
    }
    fclose(f);
    *len = (size_t)n;
    return text;
}

int main(int argc, char **argv)
{
    static struct dovetail_pointer at[MAX_BUFFERS];
    struct dovetail_plan_buffer info;
    struct dovetail_plan *plan = NULL;
    struct dovetail_bound *bound = NULL;
    char *problem = NULL;
    size_t len, n = 0;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUevent begin, end;
    CUgraph graph;
    CUgraphExec exec;
    float ms;

    if (argc != 2) {
        fprintf(stderr, "usage: example-plan PLAN.json\n");
        return 2;
    }
    example_plan_check(cuInit(0), "cuInit");
    example_plan_check(cuDeviceGet(&device, 0), "cuDeviceGet");
    example_plan_check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    example_plan_check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    example_plan_check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    example_plan_check(cuEventCreate(&begin, CU_EVENT_DEFAULT), "cuEventCreate");
    example_plan_check(cuEventCreate(&end, CU_EVENT_DEFAULT), "cuEventCreate");

    char *text = read_all(argv[1], &len);
    check_plan(dovetail_plan_load(text, len, NULL, &plan, &problem), problem);
    free(text);

    for (unsigned i = 0; n < MAX_BUFFERS && dovetail_plan_buffer(plan, i, &info); i++) {
        CUdeviceptr memory;
        if (!info.needed || !info.bytes)
            continue;
        example_plan_check(cuMemAlloc(&memory, info.bytes), info.name);
        example_plan_check(cuMemsetD8(memory, 0, info.bytes), info.name);
        at[n++] = (struct dovetail_pointer){info.name, memory};
        printf("%-16s %-12s %llu bytes\n", info.name, info.role, info.bytes);
    }
    example_plan_check(cuCtxSynchronize(), "cuCtxSynchronize");
    check_plan(dovetail_plan_bind(plan, at, n, &bound, &problem), problem);
    if (dovetail_bound_fallback(bound))
        printf("the original launches run: %s\n", dovetail_bound_fallback(bound));

    for (int k = 0; k < 3; k++) {
        example_plan_check(cuEventRecord(begin, stream), "cuEventRecord");
        check_plan(dovetail_plan_launch(bound, stream, &problem), problem);
        example_plan_check(cuEventRecord(end, stream), "cuEventRecord");
        example_plan_check(cuEventSynchronize(end), "the plan");
        example_plan_check(cuEventElapsedTime(&ms, begin, end), "cuEventElapsedTime");
        printf("in a stream: %.2f us\n", ms * 1e3f);
    }

    check_plan(dovetail_plan_graph(bound, &graph, &problem), problem);
    example_plan_check(cuGraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
    example_plan_check(cuGraphDestroy(graph), "cuGraphDestroy");
    example_plan_check(cuEventRecord(begin, stream), "cuEventRecord");
    example_plan_check(cuGraphLaunch(exec, stream), "cuGraphLaunch");
    example_plan_check(cuEventRecord(end, stream), "cuEventRecord");
    example_plan_check(cuEventSynchronize(end), "the graph");
    example_plan_check(cuEventElapsedTime(&ms, begin, end), "cuEventElapsedTime");
    printf("as a graph:  %.2f us\n", ms * 1e3f);

    cuGraphExecDestroy(exec);
    dovetail_bound_free(bound);
    dovetail_plan_free(plan);
    for (size_t i = 0; i < n; i++)
        cuMemFree(at[i].address);
    cuEventDestroy(begin);
    cuEventDestroy(end);
    cuStreamDestroy(stream);
    return cuDevicePrimaryCtxRelease(device) == CUDA_SUCCESS ? 0 : 1;
}
