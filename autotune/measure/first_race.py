"""A schedule from elsewhere beside the default one, on its first use here.

::

    code of all, checked --> called in turns for milliseconds, on the same operands --> speedups

Records of near shapes, other machines and other numbers of threads say what was faster there. Here
the program that is about to use the code times it: in this process, on its threads.
"""

from __future__ import annotations

import ctypes
import resource
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from ...codegen.kernel import prepare_operands
from ...codegen.objects import loaded_code
from ...codegen.runtime import pool
from ...ir.dims import as_int
from ...ir.loop.prim import PrimFunc
from ...ir.loop.work import prim_bytes
from ..comparison import COMPARISON, compare
from .first_use import Subject
from .guarded import GuardedBuffer, placed
from .harness import Harness
from .inputs import input_kinds
from .trial import random_values

RACE_SECONDS = 5e-3
RACED_ROUNDS, FEWEST_ROUNDS, MOST_ROUNDS = 12, 3, 16
"""Samples of each, as many as the time allows; those in which another thread was given the core are
taken again."""
LONGEST_CALL = 5e-3
"""Seconds; of a longer call, a round takes more time than a race is worth."""
MOST_BYTES = 1 << 26
"""Bytes of the operands: to draw and map more takes longer than the race."""


def race(subjects: Sequence[Subject], threads: int) -> list[float]:
    """Returns how many times as fast as the first kernel each is, 1 for those that tie with it, 0
    for those that are out of contention at once; nothing if calls take too long to find out.

    The first is the default schedule's; the code of the others was checked. Raises MemoryError or
    OSError.
    """
    if prim_bytes(subjects[0].prim) > MOST_BYTES:
        return []
    with ExitStack() as stack, pool.limited(threads), pool.awake():
        memory = _Memory(subjects[0].prim, stack)
        racers = [memory.arguments(subject) for subject in subjects]
        harness = Harness()
        once = [min(harness.seconds(*racer, 1) for _ in range(2)) for racer in racers]
        if min(once) > LONGEST_CALL:
            return []
        limit = COMPARISON.hopeless * min(once)
        left = [n for n, seconds in enumerate(once) if n == 0 or seconds <= limit]
        calls = [
            max(1, int(RACE_SECONDS / (RACED_ROUNDS * len(left) * seconds))) for seconds in once
        ]
        samples: dict[int, list[float]] = {n: [] for n in left}
        begun = time.perf_counter()
        for number in range(MOST_ROUNDS):
            fewest, spent = min(map(len, samples.values())), time.perf_counter() - begun
            if fewest >= RACED_ROUNDS or (fewest >= FEWEST_ROUNDS and spent > RACE_SECONDS):
                break
            for n in reversed(left) if number % 2 else left:  # drift hits all alike
                before = _interruptions()
                seconds = harness.seconds(*racers[n], calls[n]) / calls[n]
                if _interruptions() == before:
                    samples[n].append(seconds)
        if not all(samples.values()):
            return []
        verdicts = {n: compare([samples[0], samples[n]]) for n in left}
        gains = [verdicts[n].speedup if n in verdicts else 0.0 for n in range(len(racers))]
        return [g if g < 1 or verdicts[n].faster else 1.0 for n, g in enumerate(gains)]


def _interruptions() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


class _Memory:
    """Operands of kernels of one PrimFunc: in the same memory, unless they are packed."""

    def __init__(self, prim: PrimFunc, stack: ExitStack) -> None:
        self._stack = stack
        self._kept: list[object] = []  # the code, and the arguments
        self._shared: dict[str, GuardedBuffer] = {}
        self._inputs: dict[str, Any] = {}
        kinds = input_kinds(prim)
        for param in prim.params:
            shape = tuple(map(as_int, param.shape))
            values = np.resize(random_values(kinds[param.name]), shape)
            self._shared[param.name] = buffer = self._placed(values)
            self._inputs[param.name] = buffer.array(shape, values.dtype)

    def arguments(self, subject: Subject) -> tuple[int, int]:
        """Returns the addresses of a kernel's code and of its arguments."""
        kernel, words = subject.kernel, list[int]()
        for operand, array in zip(kernel.operands, prepare_operands(kernel, self._inputs)):
            buffer = None if operand.pack else self._shared.get(operand.buffer.name)
            if buffer is None:
                buffer = self._placed(array)
            if operand.pack is None:
                self._shared[operand.buffer.name] = buffer
            words.append(buffer.address)
        workspace = np.zeros(max(1, as_int(kernel.workspace_bytes)), np.uint8)
        words += [self._placed(workspace).address, *kernel.size_values]
        code = loaded_code(kernel.code, subject.target)
        handed = (ctypes.c_int64 * len(words))(*words)
        self._kept.append((code, handed))
        return code.address(f"{kernel.name}.packed"), ctypes.addressof(handed)

    def _placed(self, values: Any) -> GuardedBuffer:
        buffer = placed(values.nbytes)
        self._stack.callback(buffer.close)
        buffer.fill(values)
        return buffer
