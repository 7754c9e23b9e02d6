"""What runs a network: one each per process, imported there only."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..libraries import Ready, onnxruntime_call, openvino_call, openvino_compiled

__all__ = ["OURS", "PEERS", "STREAMS", "Job", "Peer"]

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


@dataclass(frozen=True, slots=True)
class Peer:
    """``make(job)`` gives a call and the seconds that tuning took; ``environment`` is set before
    its process starts."""

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
    return onnxruntime_call(str(job.model), job.inputs, job.threads), 0.0


def _openvino(job: Job) -> Ready:
    return openvino_call(str(job.model), job.inputs, job.threads), 0.0


def _map(job: Job) -> Ready:
    """``CALLS`` calls by ``f.map``, a stream for each thread."""
    import loopwright as lw

    function = lw.from_onnx(job.model).with_threads(job.threads)
    calls = [tuple(job.inputs.values())] * CALLS
    return (lambda: [*function.map(calls, streams=job.threads)][-1]), 0.0


def _openvino_throughput(job: Job) -> Ready:
    """``CALLS`` asynchronous requests with OpenVINO's hint for throughput."""
    import openvino

    compiled = openvino_compiled(str(job.model), job.threads, "THROUGHPUT")
    queue = openvino.AsyncInferQueue(compiled)
    tensors = {n: openvino.Tensor(a, shared_memory=True) for n, a in job.inputs.items()}
    results: list[Array] = []

    def keep(request: Any, _data: Any) -> None:
        results[:] = [request.get_output_tensor().data]

    queue.set_callback(keep)

    def call() -> Array:
        for _ in range(CALLS):
            queue.start_async(tensors, share_inputs=True)
        queue.wait_all()
        return results[0]

    return call, 0.0


CALLS = 16
"""Calls that a round of the peers of ``STREAMS`` counts as one."""

_UNTUNED = {"LOOPWRIGHT_LOG": "/dev/null"}

PEERS: dict[str, Peer] = {
    "onnx": Peer(_from_onnx, _UNTUNED),
    "onnx-tuned": Peer(_from_onnx),
    "torch": Peer(_from_torch, _UNTUNED),
    "torch-tuned": Peer(_from_torch),
    "torch-compile": Peer(_backend, _UNTUNED),
    "onnxruntime": Peer(_onnxruntime),
    "openvino": Peer(_openvino),
    "onnx-map": Peer(_map, _UNTUNED),
    "openvino-throughput": Peer(_openvino_throughput),
    "eager": Peer(_eager),
    "inductor": Peer(_inductor),
}

STREAMS = ("onnx-map", "openvino-throughput")
"""The peers that answer many calls at a time; they are compared with each other only."""

OURS = ("onnx", "onnx-tuned", "onnx-map", "torch", "torch-tuned", "torch-compile")
"""The peers that are us: the network through ONNX, through ``lw.from_torch`` untuned and tuned, and
as a backend of ``torch.compile``."""
