"""Who runs the programs: one each per process, imported there only."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..libraries import onnxruntime_bound, onnxruntime_session, openvino_bound, openvino_compiled
from .programs import Program, weights_of

__all__ = ["DYNAMIC", "OURS", "PEERS", "Job", "Peer", "Runner"]

Array = np.ndarray[Any, Any]
Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Job:
    """A program for a peer, and the settings."""

    program: Program
    threads: int
    budget: float = 0.0
    log: str = ""


class Runner:
    """A program made ready by a peer: ``call(x)`` gives a call for one array. ``compiles`` counts
    what was compiled so far, ``tuning`` the seconds spent on tuning."""

    def __init__(self, bind: Callable[[Array], Call]) -> None:
        self.call = bind
        self.compiles = 1
        self.tuning = 0.0


@dataclass(frozen=True, slots=True)
class Peer:
    """``make(job)`` gives a Runner; ``environment`` is set before its process starts."""

    make: Callable[[Job], Runner]
    environment: Mapping[str, str] = field(default_factory=dict)


class _Ours(Runner):
    """Ours: one function for all sizes, or (``specialised``) one for each."""

    def __init__(self, job: Job, specialised: bool) -> None:
        self.job, self.specialised = job, specialised
        self.tuning = 0.0
        self.function = self._made()

    def _made(self) -> Any:
        import loopwright as lw

        program, job = self.job.program, self.job
        axes = {
            axis: lw.Dim(name, min=low, max=high)
            for axis, (name, low, high) in program.axes.items()
        }
        dynamic: Any = False if self.specialised else {"x": axes}
        options = {"threads": job.threads, "log": job.log or None, "dynamic": dynamic}
        if program.function is None:
            from .torch_side import exported

            if self.specialised:
                raise NotImplementedError("a model of ONNX is imported with its symbolic sizes")
            shape = list(program.input(program.timed[0]).shape)
            for axis, size in axes.items():
                shape[axis] = size
            del options["dynamic"]
            return lw.from_onnx(exported(program), shapes={"x": tuple(shape)}, **options)
        weights, compute = weights_of(program.name), program.function

        def function(x):
            return compute(x, weights)

        return lw.compile(function, **options)

    @property
    def compiles(self) -> int:  # type: ignore[override]
        """The number of different codes so far."""
        program = self.job.program
        return 1 if program.function is None else self.function.cache_info().misses

    def call(self, x: Array) -> Call:  # type: ignore[override]
        if self.job.budget and (self.specialised or not self.tuning):
            start = time.perf_counter()
            self.function.tune(x, budget=self.job.budget, log=self.job.log)
            self.tuning += time.perf_counter() - start
        function = self.function
        return lambda: function(x)


def _dynamic(job: Job) -> Runner:
    return _Ours(job, specialised=False)


def _specialised(job: Job) -> Runner:
    return _Ours(job, specialised=True)


def _eager(job: Job) -> Runner:
    return _torch(job, lambda module: module)


def _inductor(job: Job) -> Runner:
    import torch
    import torch._inductor.config

    torch._inductor.config.freezing = True  # weights become constants of the code
    torch._inductor.config.compile_threads = 1
    torch._dynamo.config.cache_size_limit = 64
    return _torch(job, lambda module: torch.compile(module, dynamic=True))


def _torch(job: Job, change: Callable[[Any], Any]) -> Runner:
    import torch

    from .torch_side import module_of

    torch.set_num_threads(job.threads)
    torch.set_grad_enabled(False)
    module = change(module_of(job.program))

    def bind(x: Array) -> Call:
        tensor = torch.from_numpy(x)
        return lambda: module(tensor)

    return Runner(bind)


def _onnxruntime(job: Job) -> Runner:
    from .torch_side import exported

    session = onnxruntime_session(str(exported(job.program)), job.threads)
    return Runner(lambda x: onnxruntime_bound(session, {"x": x}))


def _openvino(job: Job) -> Runner:
    from .torch_side import exported

    compiled = openvino_compiled(str(exported(job.program)), job.threads)
    return Runner(lambda x: openvino_bound(compiled, {"x": x}))


_UNTUNED = {"LOOPWRIGHT_LOG": os.devnull}

PEERS: dict[str, Peer] = {
    "dynamic": Peer(_dynamic, _UNTUNED),
    "specialised": Peer(_specialised, _UNTUNED),
    "dynamic-tuned": Peer(_dynamic),
    "specialised-tuned": Peer(_specialised),
    "onnxruntime": Peer(_onnxruntime),
    "openvino": Peer(_openvino),
    "eager": Peer(_eager),
    "inductor": Peer(_inductor),
}

OURS = ("dynamic", "specialised", "dynamic-tuned", "specialised-tuned")
DYNAMIC = ("dynamic", "dynamic-tuned")
"""The peers that are us, and those of them that serve all sizes with one compile."""
