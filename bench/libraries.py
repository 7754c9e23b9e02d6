"""One library each: make a workload ready, and call it. Imported in the worker process only."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from . import namespaces
from .workloads import Workload

__all__ = ["LIBRARIES", "Ready"]

# A call without arguments that computes the workload once, and what tuning it has cost.
Ready = tuple[Callable[[], Any], float]
Make = Callable[[Workload, int, dict[str, Any]], Ready]


def _numpy(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    arrays = tuple(workload.arrays().values())
    body, F = workload.body, namespaces.Numpy()
    return (lambda: body(F, *arrays)), 0.0


def _loopwright(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    import loopwright as lw

    arrays = workload.arrays()
    body, F = workload.body, namespaces.Loopwright()
    names = tuple(arrays)
    constants = {n: arrays[n] for n in names if n in workload.constants}
    given = tuple(arrays[n] for n in names if n not in workload.constants)

    def function(*args: Any) -> Any:
        rest = iter(args)
        return body(F, *(constants[n] if n in constants else next(rest) for n in names))

    compiled = lw.compile(function, log=options.get("log"), threads=threads)
    spent = 0.0
    if options.get("budget"):
        start = time.perf_counter()
        compiled.tune(*given, budget=options["budget"])
        spent = time.perf_counter() - start
    return (lambda: compiled(*given)), spent


def _torch(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    import torch

    torch.set_num_threads(threads)
    arrays = tuple(torch.from_numpy(a) for a in workload.arrays().values())
    body, F = workload.body, namespaces.Torch()

    def call() -> Any:
        with torch.inference_mode():
            return body(F, *arrays).numpy()

    return call, 0.0


def _jax(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    # XLA's own settings do not hold it to fewer threads than there are cores; the kernel does.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax

    arrays = {n: jax.numpy.asarray(a) for n, a in workload.arrays().items()}
    body, F = workload.body, namespaces.Jax()
    given = tuple(a for n, a in arrays.items() if n not in workload.constants)

    def function(*args: Any) -> Any:
        rest = iter(args)
        return body(F, *(arrays[n] if n in workload.constants else next(rest) for n in arrays))

    compiled = jax.jit(function)
    return (lambda: compiled(*given).block_until_ready()), 0.0


def _onnx_model(workload: Workload) -> tuple[bytes, dict[str, np.ndarray[Any, Any]]]:
    F = namespaces.Onnx()
    arrays = workload.arrays()
    values = [
        F.constant(a, n) if n in workload.constants else namespaces.OnnxValue(F, n)
        for n, a in arrays.items()
    ]
    result = workload.body(F, *values)
    given = {n: a for n, a in arrays.items() if n not in workload.constants}
    return F.model({n: a.shape for n, a in given.items()}, result), given


def _onnxruntime(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    import onnxruntime

    model, given = _onnx_model(workload)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in given.items():
        binding.bind_cpu_input(name, array)
    name = session.get_outputs()[0].name
    binding.bind_output(name, "cpu")
    session.run_with_iobinding(binding)
    # The result goes to the same memory every time, which is onnxruntime's best.
    out = onnxruntime.OrtValue.ortvalue_from_numpy(binding.copy_outputs_to_cpu()[0])
    binding.bind_ortvalue_output(name, out)

    def call() -> Any:
        session.run_with_iobinding(binding)
        return out

    return call, 0.0


def _openvino(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    import openvino

    model, given = _onnx_model(workload)
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(
        openvino.Core().read_model(model), "CPU", {**settings, "PERFORMANCE_HINT": "LATENCY"}
    )
    request = compiled.create_infer_request()
    tensors = {n: openvino.Tensor(array, shared_memory=True) for n, array in given.items()}
    for name, tensor in tensors.items():
        request.set_tensor(name, tensor)

    def call() -> Any:
        assert given  # shared memory does not keep the arrays alive, this does
        request.infer()
        return request.get_output_tensor().data

    return call, 0.0


def result_of(value: Any) -> np.ndarray[Any, Any]:
    """A library's result as a NumPy array."""
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


# The libraries by name, and the environment their process needs before it starts.
LIBRARIES: dict[str, tuple[Make, dict[str, str]]] = {
    "untuned": (_loopwright, {"LOOPWRIGHT_LOG": os.devnull}),
    "tuned": (_loopwright, {}),
    "numpy-haswell": (_numpy, {"OPENBLAS_CORETYPE": "Haswell"}),
    "numpy-skylakex": (_numpy, {"OPENBLAS_CORETYPE": "SkylakeX"}),
    "onnxruntime": (_onnxruntime, {}),
    "openvino": (_openvino, {}),
    "torch": (_torch, {}),
    "jax": (_jax, {"JAX_PLATFORMS": "cpu"}),
}
