"""One library each: make a workload ready, and call it. Imported in the worker process only.

A library's own package is imported when its process makes the first workload ready, so that one
that is not installed is a dash and no more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .mkl import is_intel, preloaded
from .namespaces.of_numpy import Numpy
from .workload import Array, Workload

__all__ = [
    "LIBRARIES",
    "OURS",
    "Library",
    "Ready",
    "onnxruntime_bound",
    "onnxruntime_call",
    "onnxruntime_session",
    "openvino_bound",
    "openvino_call",
    "openvino_compiled",
    "result_of",
]

# A call without arguments that computes the workload once, and what tuning it has cost.
Ready = tuple[Callable[[], Any], float]

Model = bytes | str
"""An ONNX model: its bytes, or the path of its file."""


@dataclass(frozen=True, slots=True)
class Library:
    """``make(workload, threads, options)`` gives a Ready; ``environment`` is set before its process
    starts. ``patience`` is how many seconds making ready may take."""

    make: Callable[[Workload, int, dict[str, Any]], Ready]
    environment: dict[str, str] | Callable[[], dict[str, str]] = field(default_factory=dict)
    patience: float = 60.0

    def variables(self) -> dict[str, str]:
        """The environment variables."""
        return self.environment() if callable(self.environment) else self.environment


def _split(workload: Workload) -> tuple[dict[str, Array], dict[str, Array]]:
    """The arrays known when compiling, and those given with each call."""
    arrays, known = workload.arrays(), workload.constants
    constants = {n: a for n, a in arrays.items() if n in known}
    return constants, {n: a for n, a in arrays.items() if n not in known}


def _with_constants(workload: Workload, F: Any, constants: dict[str, Any]) -> Callable[..., Any]:
    """The workload as a function of the arrays given with each call."""

    def function(*args: Any) -> Any:
        rest = iter(args)
        return workload.body(
            F, *(constants[n] if n in constants else next(rest) for n in workload.inputs)
        )

    return function


def _numpy(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    arrays, body, F = tuple(workload.arrays().values()), workload.body, Numpy()
    return (lambda: body(F, *arrays)), 0.0


def _loopwright(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    import loopwright as lw

    from .namespaces.of_loopwright import Loopwright

    constants, given = _split(workload)
    arguments = tuple(given.values())
    function = _with_constants(workload, Loopwright(), constants)
    compiled = lw.compile(function, log=options.get("log"))
    spent = 0.0
    if options.get("budget"):
        start = time.perf_counter()
        compiled.tune(*arguments, budget=options["budget"])
        spent = time.perf_counter() - start
    return (lambda: compiled(*arguments)), spent


def _torch(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    import torch

    from .namespaces.of_torch import Torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    arrays = tuple(torch.from_numpy(a) for a in workload.arrays().values())
    body, F = workload.body, Torch()
    return (lambda: body(F, *arrays)), 0.0


def _torch_mkl512(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    if "LD_PRELOAD" not in os.environ:
        raise RuntimeError("no C compiler to build what makes MKL use AVX-512")
    return _torch(workload, threads, options)


def _inductor(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    import torch
    import torch._dynamo
    import torch._inductor.config

    from .namespaces.of_torch import Torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch._dynamo.reset()
    torch._inductor.config.freezing = True  # weights become constants of the code
    torch._inductor.config.compile_threads = 1
    constants, given = _split(workload)
    body, F, names = workload.body, Torch(), tuple(workload.inputs)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, array in constants.items():
                value = torch.nn.Parameter(torch.from_numpy(array), requires_grad=False)
                self.register_parameter(f"constant_{name}", value)

        def forward(self, *args: Any) -> Any:
            rest = iter(args)
            values = [
                getattr(self, f"constant_{n}") if n in constants else next(rest) for n in names
            ]
            return body(F, *values)

    compiled = torch.compile(Model().eval(), dynamic=False)
    arguments = tuple(torch.from_numpy(a) for a in given.values())
    return (lambda: compiled(*arguments)), 0.0


def _jax(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    # XLA's own settings do not hold it to fewer threads than there are cores; the kernel does.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax

    from .namespaces.of_jax import Jax

    jax.config.update("jax_enable_x64", workload.dtype == "float64")
    constants, given = _split(workload)
    known = {n: jax.numpy.asarray(a) for n, a in constants.items()}
    arguments = tuple(jax.numpy.asarray(a) for a in given.values())
    compiled = jax.jit(_with_constants(workload, Jax(), known))
    return (lambda: compiled(*arguments).block_until_ready()), 0.0


def _onnx_models(workload: Workload) -> tuple[list[bytes], dict[str, Array]]:
    """The workload in ONNX, in one spelling or in two (with and without the large operators)."""
    from .namespaces.of_onnx import Onnx, OnnxValue

    constants, given = _split(workload)
    models: list[bytes] = []
    for fused in (False, True):
        F = Onnx(fused=fused)
        values = [
            F.constant(constants[n], n) if n in constants else OnnxValue(F, n)
            for n in workload.inputs
        ]
        result = workload.body(F, *values)
        inputs = {n: (a.shape, a.dtype.name) for n, a in given.items()}
        models.append(F.model(inputs, result, workload.result_dtype))
        if not F.has_choice:
            break
    return models, given


def _faster(models: list[bytes], start: Callable[[bytes], Callable[[], Any]]) -> Callable[[], Any]:
    """The call of the model that runs faster; a model that does not run is left out."""
    calls: list[tuple[float, Callable[[], Any]]] = []
    errors: list[Exception] = []
    for model in models:
        try:
            call = start(model)
            call()
            begun = time.perf_counter()
            for _ in range(3):
                call()
            calls.append((time.perf_counter() - begun, call))
        except Exception as error:
            errors.append(error)
    if not calls:
        raise errors[0]
    return min(calls, key=lambda c: c[0])[1]


def _onnxruntime(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    models, given = _onnx_models(workload)
    return _faster(models, lambda model: onnxruntime_call(model, given, threads)), 0.0


def onnxruntime_call(model: Model, given: Mapping[str, Array], threads: int) -> Callable[[], Any]:
    """Returns a call of an ONNX model by ONNX Runtime, which gives its first result."""
    return onnxruntime_bound(onnxruntime_session(model, threads), given)


def onnxruntime_session(model: Model, threads: int) -> Any:
    """Returns a session of ONNX Runtime."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 4
    return onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def onnxruntime_bound(session: Any, given: Mapping[str, Array]) -> Callable[[], Any]:
    """Returns a call of a session with these arrays, which gives its first result."""
    import onnxruntime

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

    return call


def _openvino(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    models, given = _onnx_models(workload)
    return _faster(models, lambda model: openvino_call(model, given, threads)), 0.0


def openvino_call(model: Model, given: Mapping[str, Array], threads: int) -> Callable[[], Any]:
    """Returns a call of an ONNX model by OpenVINO in float32, which gives its first result."""
    return openvino_bound(openvino_compiled(model, threads), given)


def openvino_compiled(model: Model, threads: int, hint: str = "LATENCY") -> Any:
    """Returns an ONNX model compiled by OpenVINO, which computes in float32; ``hint`` says what is
    to be good, LATENCY or THROUGHPUT."""
    import openvino

    core = openvino.Core()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": hint,
    }
    return core.compile_model(core.read_model(model), "CPU", settings)


def openvino_bound(compiled: Any, given: Mapping[str, Array]) -> Callable[[], Any]:
    """Returns a call of a compiled model with these arrays, which gives its first result."""
    import openvino

    request = compiled.create_infer_request()
    tensors = {n: openvino.Tensor(array, shared_memory=True) for n, array in given.items()}
    for name, tensor in tensors.items():
        request.set_tensor(name, tensor)

    def call() -> Any:
        assert given  # shared memory does not keep the arrays alive, this does
        request.infer()
        return request.get_output_tensor().data

    return call


def _tvm(workload: Workload, threads: int, options: dict[str, Any]) -> Ready:
    """TVM as it comes: its own lowering. Searching schedules takes it minutes per workload."""
    import onnx
    import tvm
    from llvmlite.binding import get_host_cpu_name
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    models, given = _onnx_models(workload)
    module = from_onnx(onnx.load_from_string(models[0]), keep_params_in_input=False)
    host = {"kind": "llvm", "mcpu": get_host_cpu_name(), "num-cores": threads}
    target = tvm.target.Target(host)
    with target:
        code = tvm.compile(relax.get_pipeline("zero")(module), target)
    run = relax.VirtualMachine(code, tvm.cpu())["main"]
    arguments = tuple(tvm.runtime.tensor(a) for a in given.values())
    return (lambda: run(*arguments)), 0.0


def result_of(value: Any) -> Array:
    """A library's result as a NumPy array."""
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


# Those that are us.
OURS = ("tuned", "untuned", "untuned-avx2")

LIBRARIES: dict[str, Library] = {
    "untuned": Library(_loopwright, {"LOOPWRIGHT_LOG": os.devnull}),
    "untuned-avx2": Library(
        _loopwright, {"LOOPWRIGHT_LOG": os.devnull, "LOOPWRIGHT_ISA": "x86-64-v3"}
    ),
    "tuned": Library(_loopwright),
    "numpy-haswell": Library(_numpy, {"OPENBLAS_CORETYPE": "Haswell"}),
    "numpy-skylakex": Library(_numpy, {"OPENBLAS_CORETYPE": "SkylakeX"}),
    "onnxruntime": Library(_onnxruntime),
    "openvino": Library(_openvino),
    "torch": Library(_torch),
    **({} if is_intel() else {"torch-mkl512": Library(_torch_mkl512, preloaded)}),
    "inductor": Library(_inductor, patience=120.0),
    "jax": Library(_jax, {"JAX_PLATFORMS": "cpu"}),
    "tvm": Library(_tvm, patience=10.0),  # its code without a schedule is far off
}
