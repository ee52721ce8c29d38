"""dovetail: GPU kernels that exist already, rewritten bit for bit.

    import dovetail
    graph = dovetail.Graph.load("graph.json")
    plan = dovetail.Client().optimize(graph)
    print(plan.gain)
    plan.bind({"x": x, "y": y}).launch(stream)

Sizes are bytes, times are microseconds unless a name says otherwise. Whatever goes wrong raises `dovetail.Error`, whose
`problem` is the problem document with its stable `code`.
"""
from .aio import AsyncClient
from .client import Client
from .errors import DeviceError, Error, GraphError, ServiceError, UsageError
from .graph import (Buffer, Graph, Scalar, bf16, f16, f32, f64, i8, i16, i32, i64, raw, tensor_map, u8, u16, u32, u64)
from .plan import Bound, Plan
from .results import Analysis, Progress, Result, Run
from .tensors import Pointer

__version__ = "0.1.0"
__all__ = ["Analysis", "AsyncClient", "Bound", "Buffer", "Client", "DeviceError", "Error", "Graph", "GraphError",
           "Plan", "Pointer", "Progress", "Result", "Run", "Scalar", "ServiceError", "UsageError", "bf16", "f16", "f32",
           "f64", "i8", "i16", "i32", "i64", "raw", "tensor_map", "u8", "u16", "u32", "u64"]
