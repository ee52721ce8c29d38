"""ResNet-50's stages, bottlenecks of 64 to 512 and 256 to 2048 channels, 56 x 56 to 7 x 7. The first stage begins with
the bottleneck that has another number of channels at its input; of the others come those that follow it. reference.c
computes the first stage by the textbook."""
import emit
from model import Model, Tensor

RELU = """__device__ __noinline__ float relu(float x) {
  return max(x, 0.000000e+00f);
}
"""


class Resnet(Model):
    def __init__(self, name, small, stage):
        super().__init__(name)
        half = 2 ** (stage - 1)
        self.narrow, self.side = (32, 28) if small else (64 * half, 56 // half)
        self.wide, self.pixels, self.first = 4 * self.narrow, self.side ** 2, stage == 1
        channels = self.narrow if self.first else self.wide
        self.x = self.buffer("x", "input", channels * self.pixels, span=(0, 1), seed=1)
        self.out = self.buffer("out", "output", self.wide * self.pixels)

    def convolution(self, x, name, cin, cout, window, seed):
        """Two launches: the convolution, and its batch norm, a multiplication and an addition by channel."""
        reach = 0.1 if window > 1 else 0.2
        weight = self.buffer(name, "weight", cin * cout * window ** 2, span=(-reach, reach), seed=seed)
        kernel = emit.convolution(f"fused_nn_conv2d_{cin}_{cout}_{window}_kernel0", cin, cout, self.side, window)
        y = self.launch(kernel, [Tensor(cout * self.pixels)], [x, weight])
        scale = self.buffer(f"{name}_scale", "weight", cout, span=(0.5, 1.5), seed=seed + 1)
        shift = self.buffer(f"{name}_shift", "weight", cout, span=(-0.2, 0.2), seed=seed + 2)
        kernel = emit.elementwise(f"fused_multiply_add_{cout}_kernel0", cout * self.pixels,
                                  [("float", n) for n in ("T_out", "x", "scale", "shift")],
                                  lambda i: f"((x[{i}] * scale[({i} / {self.pixels})]) + shift[({i} / {self.pixels})])")
        return self.launch(kernel, [Tensor(cout * self.pixels)], [y, scale, shift])

    def relu(self, x, channels, out=None):
        self.function(RELU)
        kernel = emit.elementwise(f"fused_nn_relu_{channels}_kernel0", channels * self.pixels,
                                  [("float", "T_out"), ("float", "x")], lambda i: f"relu(x[{i}])")
        return self.launch(kernel, [out or Tensor(channels * self.pixels)], [x])

    def bottleneck(self, layer, x, out):
        """1 x 1 to few channels, 3 x 3, 1 x 1 to many, and past them the input: in the first layer, which has another
        number of channels, by a 1 x 1 of its own. 12 launches, then 10 each."""
        base, name, other = 100 * (layer + 1), f"l{layer}_w", self.first and not layer
        y = self.convolution(x, name + "1", self.narrow if other else self.wide, self.narrow, 1, base + 1)
        y = self.convolution(self.relu(y, self.narrow), name + "2", self.narrow, self.narrow, 3, base + 4)
        y = self.convolution(self.relu(y, self.narrow), name + "3", self.narrow, self.wide, 1, base + 7)
        if other:
            x = self.convolution(x, name + "0", self.narrow, self.wide, 1, base + 10)
        kernel = emit.elementwise("fused_add_kernel0", self.wide * self.pixels,
                                  [("float", n) for n in ("T_out", "x", "y")], lambda i: f"(x[{i}] + y[{i}])")
        return self.relu(self.launch(kernel, [Tensor(self.wide * self.pixels)], [y, x]), self.wide, out)


def resnet(o):
    model = Resnet(f"resnet-{o.layers}" + (f"-stage{o.stage}" if o.stage > 1 else ""), o.small, o.stage)
    x = model.x
    for layer in range(o.layers):
        x = model.bottleneck(layer, x, model.out if layer == o.layers - 1 else None)
    return model
