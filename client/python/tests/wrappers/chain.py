# Three kernels, of which the second's result nobody sees, a product, and one more kernel.
from inductor import (assert_size_stride, async_compile, empty_strided_cuda, extern_kernels, get_raw_stream,
                      reinterpret_tensor, torch)

triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''
y = 2.0 in_ptr0,out_ptr0 1.0
''', device_str='cuda')

triton_poi_fused_mul_1 = async_compile.triton('triton_poi_fused_mul_1', '''
y = -0.3 in_ptr0,in_ptr1,out_ptr0 0.7
''', device_str='cuda')

triton_poi_fused_gelu_2 = async_compile.triton('triton_poi_fused_gelu_2', '''
y = 1.5 in_out_ptr0 -2.0
''', device_str='cuda')

async_compile.wait(globals())
del async_compile


class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def recursively_apply_fns(self, fns):
        self.partitions = [fn(c) for fn, c in zip(fns, self.partitions)]

    def call(self, args):
        arg0_1, arg1_1 = args
        args.clear()
        assert_size_stride(arg0_1, (64, 64), (64, 1))
        with torch.cuda._DeviceGuard(0):
            torch.cuda.set_device(0)
            buf0 = empty_strided_cuda((64, 64), (64, 1), torch.float32)
            # Topologically Sorted Source Nodes: [add], Original ATen: [aten.add]
            raw_stream0 = get_raw_stream(0)
            triton_poi_fused_add_0.run(arg0_1, buf0, 4096, stream=raw_stream0)
            buf1 = empty_strided_cuda((64, 64), (64, 1), torch.float32)
            # Topologically Sorted Source Nodes: [mul], Original ATen: [aten.mul]
            raw_stream0 = get_raw_stream(0)
            triton_poi_fused_mul_1.run(buf0, arg1_1, buf1, 4096, stream=raw_stream0)
            del arg1_1
            del buf0
            buf2 = reinterpret_tensor(buf1, (4096, ), (1, ), 0); del buf1  # reuse
            raw_stream0 = get_raw_stream(0)
            triton_poi_fused_gelu_2.run(buf2, 4096, stream=raw_stream0)
            buf3 = empty_strided_cuda((64, 64), (64, 1), torch.float32)
            # Topologically Sorted Source Nodes: [mm], Original ATen: [aten.mm]
            extern_kernels.mm(reinterpret_tensor(buf2, (64, 64), (64, 1), 0), arg0_1, out=buf3)
            del arg0_1
            raw_stream0 = get_raw_stream(0)
            triton_poi_fused_gelu_2.run(buf3, 4096, stream=raw_stream0)
        return (buf2, buf3, )


runner = Runner(partitions=[])
call = runner.call
recursively_apply_fns = runner.recursively_apply_fns
