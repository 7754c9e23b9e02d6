"""What runs a network: one each per process, imported there only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["OURS", "PEERS", "Job", "Peer"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """A network for a peer: its name, its ONNX file, the arrays of a call, and the settings."""

    name: str
    model: Path
    inputs: Mapping[str, Array]
    threads: int
    budget: float = 0.0
    log: str = ""


Ready = tuple[Callable[[], Any], float]
"""A call of the network on its inputs, and the seconds that tuning took."""


@dataclass(frozen=True, slots=True)
class Peer:
    """``make(job)`` gives a Ready; ``environment`` is set before its process starts."""

    make: Callable[[Job], Ready]
    environment: Mapping[str, str] = field(default_factory=dict)


def _tuned(function: Any, job: Job, arguments: tuple[Any, ...]) -> float:
    if not job.budget:
        return 0.0
    start = time.perf_counter()
    function.tune(*arguments, budget=job.budget, log=job.log)
    return time.perf_counter() - start


def _from_onnx(job: Job) -> Ready:
    import loopwright as lw

    function = lw.from_onnx(job.model)
    arguments = tuple(job.inputs.values())
    spent = _tuned(function, job, arguments)
    return (lambda: function(*arguments)), spent


def _from_torch(job: Job) -> Ready:
    import loopwright as lw

    module, arguments = _module(job)
    function = lw.from_torch(module, arguments)
    spent = _tuned(function, job, arguments)
    return (lambda: function(*arguments)), spent


def _backend(job: Job) -> Ready:
    return _compiled(job, backend="loopwright")


def _inductor(job: Job) -> Ready:
    import torch._inductor.config

    torch._inductor.config.freezing = True  # weights become constants of the code
    torch._inductor.config.compile_threads = 1
    return _compiled(job, dynamic=False)


def _compiled(job: Job, **options: Any) -> Ready:
    import torch

    module, arguments = _module(job)
    compiled = torch.compile(module, **options)

    def call() -> Any:
        with torch.no_grad():
            return compiled(*arguments)

    return call, 0.0


def _eager(job: Job) -> Ready:
    import torch

    module, arguments = _module(job)

    def call() -> Any:
        with torch.inference_mode():
            return module(*arguments)

    return call, 0.0


def _module(job: Job) -> tuple[Any, tuple[Any, ...]]:
    import torch

    from .models import made

    torch.set_num_threads(job.threads)
    net = made(job.name)
    return net.module, tuple(net.inputs.values())


def _onnxruntime(job: Job) -> Ready:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = job.threads
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        str(job.model), settings, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for name, array in job.inputs.items():
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


def _openvino(job: Job) -> Ready:
    import openvino

    core = openvino.Core()
    settings = {
        "INFERENCE_NUM_THREADS": job.threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = core.compile_model(core.read_model(job.model), "CPU", settings).create_infer_request()
    tensors = {n: openvino.Tensor(a, shared_memory=True) for n, a in job.inputs.items()}
    for name, tensor in tensors.items():
        request.set_tensor(name, tensor)

    def call() -> Any:
        assert tensors  # shared memory does not keep the arrays alive, this does
        request.infer()
        return request.get_output_tensor().data

    return call, 0.0


_UNTUNED = {"LOOPWRIGHT_LOG": "/dev/null"}

PEERS: dict[str, Peer] = {
    "onnx": Peer(_from_onnx, _UNTUNED),
    "onnx-tuned": Peer(_from_onnx),
    "torch": Peer(_from_torch, _UNTUNED),
    "torch-tuned": Peer(_from_torch),
    "torch-compile": Peer(_backend, _UNTUNED),
    "onnxruntime": Peer(_onnxruntime),
    "openvino": Peer(_openvino),
    "eager": Peer(_eager),
    "inductor": Peer(_inductor),
}

OURS = ("onnx", "onnx-tuned", "torch", "torch-tuned", "torch-compile")
"""The peers that are us: the network through ONNX, through ``lw.from_torch`` untuned and tuned, and
as a backend of ``torch.compile``."""
