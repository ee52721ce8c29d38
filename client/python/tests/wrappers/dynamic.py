# Sizes that come as arguments; a kernel that changes what came from outside.
from inductor import async_compile, empty_strided_cuda, get_raw_stream, torch

triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''
y = 3.0 in_ptr0,out_ptr0 0.1
''', device_str='cuda')

triton_poi_fused_add_1 = async_compile.triton('triton_poi_fused_add_1', '''
y = 0.5 in_ptr0,in_ptr1,out_ptr0 0.25
''', device_str='cuda')

async_compile.wait(globals())
del async_compile


def call(args):
    arg0_1, arg1_1, arg2_1 = args
    args.clear()
    s77 = arg0_1
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        buf0 = empty_strided_cuda((s77, 32), (32, 1), torch.float32)
        triton_poi_fused_add_0_xnumel = 32*s77
        stream0 = get_raw_stream(0)
        triton_poi_fused_add_0.run(arg1_1, buf0, triton_poi_fused_add_0_xnumel, stream=stream0)
        triton_poi_fused_add_1_xnumel = 32*s77
        triton_poi_fused_add_1.run(arg2_1, buf0, arg2_1, triton_poi_fused_add_1_xnumel, stream=stream0)
        del arg1_1
        del arg2_1
    return (buf0, )
