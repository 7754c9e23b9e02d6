"""What runs a program, one each per process: ours with explicit and with plain loops, numba, JAX,
C, NumPy and Python."""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

if TYPE_CHECKING:
    from .program import Program

__all__ = ["ORACLE", "OURS", "PEERS", "PLAIN", "Job", "Peer", "ready_to_import"]

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Job:
    """A program of ``package`` for a peer, its arguments, and arrays like the results."""

    program: Program
    arguments: tuple[Any, ...]
    results: list[np.ndarray[Any, Any]]
    package: str = __package__ or ""


@dataclass(frozen=True, slots=True)
class Peer:
    """``make(job)`` gives a call; ``environment`` is set before its process starts, which
    ``interpreter`` runs; ``patience`` is how many seconds its first call may take. ``stand_in``
    names the function of ``stand_ins`` that makes what programs import as ``loopwright``."""

    make: Callable[[Job], Call]
    stand_in: str = "python_loops"
    environment: Mapping[str, str] = field(default_factory=dict)
    interpreter: str = sys.executable
    patience: float = 60.0


def ready_to_import(peer: str) -> None:
    """Puts what stands for us in this process in our place, before programs are imported."""
    stand_in = PEERS[peer].stand_in
    if stand_in:
        module = importlib.import_module(f"{__package__}.stand_ins")
        sys.modules["loopwright"] = getattr(module, stand_in)()


def _ours(job: Job) -> Call:
    import loopwright as lw

    compiled = lw.compile(job.program.function)
    return lambda: compiled(*job.arguments)


def _plain(job: Job) -> Call:
    """The plain loops, compiled by us as they are."""
    import loopwright as lw

    compiled = lw.compile(job.program.plain)
    return lambda: compiled(*job.arguments)


def _python(job: Job) -> Call:
    return lambda: job.program.plain(*job.arguments)


def _numpy(job: Job) -> Call:
    """The bodies of our program on NumPy's arrays, in loops of Python's."""
    if not job.program.arrays:
        raise NotImplementedError("it has no arrays that NumPy would be used for")
    return lambda: job.program.function(*job.arguments)


def _numba(job: Job) -> Call:
    """The plain loops, and what they call, compiled by ``njit``."""
    import numba

    plain = job.program.plain
    scope = dict(plain.__globals__)
    for name, value in plain.__globals__.items():
        if isinstance(value, types.FunctionType) and value.__module__ == plain.__module__:
            scope[name] = numba.njit(types.FunctionType(value.__code__, scope, name))
    compiled = scope[plain.__name__]
    return lambda: compiled(*job.arguments)


def _jax(job: Job) -> Call:
    # XLA's own settings do not hold it to fewer threads than there are cores; the kernel does.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    import jax

    jax.config.update("jax_enable_x64", True)
    in_jax = importlib.import_module(f"{job.package}.in_jax").IN_JAX
    function = in_jax.get(job.program.name, job.program.function)
    if function is None:
        raise NotImplementedError("JAX cannot express it")
    compiled = jax.jit(function)
    arguments = jax.tree.map(jax.numpy.asarray, job.arguments)
    module = importlib.import_module(job.program.function.__module__)
    with mock.patch.object(module, "np", jax.numpy):  # JAX's arrays in place of NumPy's
        compiled(*arguments)
    return lambda: jax.block_until_ready(compiled(*arguments))


def _c(job: Job) -> Call:
    from .in_c import IN_C

    if f"void {job.program.name}(" not in IN_C:
        raise NotImplementedError("not written in C")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "loops.c", Path(folder) / "loops.so"
        source.write_text(IN_C)
        command = ["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
        subprocess.run(command, check=True, capture_output=True)
        function = ctypes.CDLL(str(library))[job.program.name]
    results = [np.empty_like(result) for result in job.results]
    passed: list[Any] = []
    for argument in job.arguments:
        if isinstance(argument, np.ndarray):
            passed += [ctypes.c_void_p(argument.ctypes.data), ctypes.c_int64(argument.size)]
        else:
            as_float = isinstance(argument, float)
            passed.append(ctypes.c_double(argument) if as_float else ctypes.c_int64(argument))
    passed += [ctypes.c_void_p(result.ctypes.data) for result in results]
    function.restype = None

    def call() -> Any:
        assert job  # keeps the arrays alive
        function(*passed)
        return tuple(results) if len(results) > 1 else results[0]

    return call


PEERS: dict[str, Peer] = {
    "ours": Peer(_ours, "", {"LOOPWRIGHT_LOG": os.devnull}),
    "plain": Peer(_plain, "", {"LOOPWRIGHT_LOG": os.devnull}),
    "numba": Peer(
        _numba,
        environment={"NUMBA_NUM_THREADS": "1"},
        interpreter=os.environ.get("NUMBA_PYTHON", sys.executable),
    ),
    "jax": Peer(_jax, "jax_loops", {"JAX_PLATFORMS": "cpu"}, patience=20.0),
    "c": Peer(_c),
    "numpy": Peer(_numpy, patience=20.0),
    "python": Peer(_python),
}
"""By name; ``NUMBA_PYTHON`` is the interpreter of an environment with numba, if that is another."""

OURS = "ours"

PLAIN = "plain"
"""Ours on plain Python's loops; ``OURS`` are those with explicit functions."""

ORACLE = "python"
"""The peer whose results are right."""
