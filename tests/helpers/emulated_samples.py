"""Samples of operators, run on another architecture: the kernels of many in one program."""

from __future__ import annotations

import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import compiled
import numpy as np
from loopwright.autotune.space.space import ScheduleSpace
from loopwright.codegen.kernel import Kernel
from loopwright.codegen.target import Target
from loopwright.ir.loop.prim import PrimFunc
from loopwright.ir.schedule.steps import Schedule
from operators import Evaluated, assert_agree
from other_machine import Call, run_all

AT_ONCE = 128
"""Samples whose kernels run in one program."""


@dataclass
class Sample:
    """A sample that runs in a thread of its own, which waits for the outputs of each kernel."""

    name: str
    number: int
    sample: compiled.Prepared
    target: Target
    rng: np.random.Generator | None
    call: Call | None = None
    outputs: list[Any] = field(default_factory=list)
    error: str = ""
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ready: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def start(self) -> None:
        threading.Thread(target=self.work, daemon=True).start()
        self.turn.acquire()

    def resume(self, outputs: list[Any]) -> None:
        self.outputs, self.call = outputs, None
        self.ready.release()
        self.turn.acquire()

    def work(self) -> None:
        args, module, wanted, length = self.sample
        try:
            choose = self.chosen if self.rng else None
            found = compiled.run_module(module, args, self.target, self.run, choose)
            assert_agree(Evaluated(found, length), wanted, args)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.error = (
                f"{type(error).__name__}: {str(error)[:400]} ({last.filename}:{last.lineno})"
            )
        self.turn.release()

    def run(self, kernel: Kernel, _target: Target, inputs: Mapping[str, Any]) -> list[Any]:
        self.call = Call(kernel, inputs)
        self.turn.release()
        self.ready.acquire()
        if self.error:
            raise RuntimeError(self.error)
        return self.outputs

    def chosen(self, prim: PrimFunc) -> Schedule:
        assert self.rng is not None
        space = ScheduleSpace(prim, self.target)
        rows = space.sample(8, self.rng)
        return space.schedule(rows[self.rng.integers(len(rows))]) if len(rows) else Schedule()


def run_rounds(samples: Sequence[Sample], target: Target) -> None:
    """Runs samples to their ends, all that wait for a kernel in one program."""
    for sample in samples:
        sample.start()
    while waiting := [s for s in samples if s.call is not None]:
        _run_waiting(waiting, target)


def _run_waiting(samples: Sequence[Sample], target: Target) -> None:
    calls = [s.call for s in samples if s.call is not None]
    try:
        with tempfile.TemporaryDirectory() as folder:
            outputs = run_all(calls, target, Path(folder))
    except Exception as error:
        if len(samples) > 1:  # which of them is it?
            half = len(samples) // 2
            _run_waiting(samples[:half], target)
            _run_waiting(samples[half:], target)
            return
        samples[0].error = f"{type(error).__name__}: {_said(error)[:600]}"
        samples[0].resume([])
        return
    for sample, found in zip(samples, outputs, strict=True):
        sample.resume(found)


def _said(error: Exception) -> str:
    stderr = getattr(error, "stderr", None)
    return f"{error} {stderr.decode(errors='replace')}"[-600:] if stderr else str(error)
