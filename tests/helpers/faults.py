"""One fault in a compile, a load or a tune: ``tests/fuzz/fault_run.py`` injects many.

Every call of a process into the system (open, read, write, rename, map, fork, start a process),
into LLVM and for memory is counted; then the process runs again for each of them, and that one
fails, once. (In the workers that measure candidates, one call of a name fails in each.) The outcome
has to be the right result, or an error of Loopwright's; the log keeps its lines and has no torn
ones; and what is done next in the same process succeeds.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import random
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias

import loopwright as lw
import numpy as np
from hostile_compiles import records_of
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.codegen.llvm import engine
from loopwright.codegen.runtime import buffers
from loopwright.driver import kernels

__all__ = ["LOADS", "inject"]

SECONDS = 60
"""Seconds after which a process hangs."""
ERRORS = (errno.ENOSPC, errno.EMFILE, errno.EACCES, errno.EIO, errno.ENOMEM)
FILES = "open read write replace mkdir fstat ftruncate fdatasync fsync unlink scandir lstat utime"
PLACES: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in (*FILES.split(), "pread", "pwrite", "pipe", "fork", "memfd_create")),
    (mmap, "mmap"),
    (subprocess, "Popen"),
    (buffers, "aligned_bytes"),
    (engine, "_parsed"),
    (engine, "machine_of"),
)
"""The calls that can fail, as attributes of modules."""
OF_MEMORY = {"aligned_bytes", "_parsed", "machine_of"}
MOST_IN_WORKERS = 12
"""Calls of a name that fail in turn in workers."""
LINES = 4
"""Lines of Loopwright's that tell two calls apart."""


Place: TypeAlias = tuple[str, int]
"""A call by its name and the lines that it comes from, and how many of them come before it."""


class Fault:
    """Counts the calls from now on, and lets that ``at`` a place fail, in one of several ways."""

    def __init__(self, at: Place | None, way: int) -> None:
        self.at, self.way, self.met, self.count = at, way, False, Counter[str]()
        for module, name in PLACES:
            call = getattr(module, name)
            watched = self._class(name, call) if isinstance(call, type) else self._call(name, call)
            # Who asks for the module whose frame has raised an error finds the one it stands in.
            names = {**globals(), "__name__": module.__name__}
            code, cells = watched.__code__, watched.__closure__
            function = FunctionType(code, names, name, None, cells)
            if isinstance(call, type):  # it stays a class, since others ask isinstance of it
                function = type(name, (call,), {"__new__": function})
            setattr(module, name, function)

    def _call(self, name: str, call: Any) -> Any:
        def watched(*args: Any, **kwargs: Any) -> Any:
            error = self._counted(name)
            if error is None:
                return call(*args, **kwargs)
            if name == "write" and self.way % 2:  # the disk is full in the middle of a line
                call(args[0], bytes(args[1])[: len(args[1]) // 2])
            raise error

        return watched

    def _class(self, name: str, call: Any) -> Any:
        def new(kind: Any, *args: Any, **kwargs: Any) -> Any:
            error = self._counted(name)
            if error is not None:
                raise error
            plain = call.__new__ is object.__new__
            return object.__new__(kind) if plain else call.__new__(kind, *args, **kwargs)

        return new

    def _counted(self, name: str) -> Exception | None:
        """Counts a call; returns the error that it fails with if it is the one."""
        call = "<".join([name, *_lines(sys._getframe(2))])
        self.count[call] += 1
        if self.at != (call, self.count[call] - 1):
            return None
        self.met = True
        if name in OF_MEMORY:
            return MemoryError()
        number = ERRORS[self.way % len(ERRORS)]
        return OSError(number, os.strerror(number))


def _lines(frame: Any) -> list[str]:
    """Returns the innermost lines of Loopwright's that a call comes from."""
    lines = list[str]()
    while frame is not None and len(lines) < LINES:
        if frame.f_globals.get("__name__", "").startswith("loopwright"):
            lines.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        frame = frame.f_back
    return lines


# -- what is done while a call fails


def _layer(x: Any, w: Any) -> Any:
    return np.maximum(x @ w, 0).sum(axis=1)


def _doubled(x: Any, w: Any) -> Any:
    return (x @ w) * 2


RNG = np.random.default_rng(0)
X, W = (RNG.standard_normal(shape).astype(np.float32) for shape in ((24, 40), (40, 32)))


def _compile(folder: Path) -> Any:
    os.environ["LOOPWRIGHT_LOG"] = str(folder / "log.jsonl")
    kernels._kernels.clear()  # else the second one makes no code
    return lw.compile(_layer, threads=1)(X, W)


def _load(folder: Path) -> Any:
    return lw.load(folder / "layer.lw")(X, W)


def _tune(folder: Path) -> Any:
    """Adds to a log that has records of another function."""
    kernels._kernels.clear()
    function = lw.compile(_doubled, threads=1, log=folder / "log.jsonl")
    function.tune(X, W, trials=2, strategy="random")
    return function(X, W)


IN_WORKERS = """
import os

def watched(call, left):
    def failing(*args, **kwargs):
        nonlocal left
        left -= 1
        if left:
            return call(*args, **kwargs)
        os.makedirs({met!r}, exist_ok=True)
        raise OSError({number}, os.strerror({number}))
    return failing

os.{name} = watched(os.{name}, {before} + 1)
"""
"""A module that Python imports when it starts."""
OF_WORKERS = "fork open read write fstat close dup2 pipe setsid memfd_create pread pwrite ftruncate"


LOADS: dict[str, tuple[Callable[[Path], Any], Callable[..., Any]]] = {
    "compile": (_compile, _layer),
    "load": (_load, _layer),
    "tune": (_tune, _doubled),
    "workers": (_tune, _doubled),
}
"""What is done, and the function of X and W whose result it has."""


def _prepare(folder: Path) -> None:
    """Writes the log and the saved function that the loads begin with."""
    lines = [json.dumps(record) for record in records_of(_layer, [X, W], 2)]
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n")
    lw.compile(_layer, threads=1).lower(X, W).save(folder / "layer.lw")


# -- outcomes


def _outcome(load: str, folder: Path, at: Place | None, way: int) -> Iterator[str]:
    """Yields the calls that were counted as JSON, then what came of a fault: ``right``,
    ``refused``, or what is wrong."""
    log = folder / "log.jsonl"
    before, fault = log.read_bytes(), Fault(None if load == "workers" else at, way)
    if load == "workers" and at is not None:
        number = ERRORS[way % len(ERRORS)]
        words = {"met": str(folder / "met"), "number": number, "name": at[0], "before": at[1]}
        (folder / "sitecustomize.py").write_text(IN_WORKERS.format(**words))
        sys.path.insert(0, str(folder))
    first = _kind(load, folder)
    fault.at, met = None, fault.met or (folder / "met").exists()
    yield json.dumps(fault.count)
    damage = TuningLog(log).skipped.total
    if not log.read_bytes().startswith(before) or damage:
        yield f"the log has lost lines, or has {damage} damaged ones; {first}"
        return
    then = _kind("load" if load == "load" else "compile", folder) if at else "right"
    if first in ("right", "refused") and then != "right":
        yield f"{first}, and without a fault afterwards: {then}"
    else:
        yield first if met or at is None else "not met"


def _kind(load: str, folder: Path) -> str:
    do, function = LOADS[load]
    try:
        result = do(folder)
    except lw.LoopwrightError as error:
        return "refused" if str(error) and not isinstance(error, lw.InternalError) else repr(error)
    except Exception:
        return traceback.format_exc()
    expected = function(X.astype(np.float64), W.astype(np.float64))
    near = np.allclose(result, expected, rtol=1e-4, atol=1e-4)
    return "right" if near else f"wrong: {result}"


def _forked(
    load: str, prepared: Path, at: Place | None = None, way: int = 0
) -> tuple[dict[str, int], str]:
    """Returns what ``_outcome`` yields in a process of its own, with copies of the files."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # where tuning shows how far it is
        signal.alarm(SECONDS)
        warnings.simplefilter("ignore")
        with os.fdopen(write, "w") as out, tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.environ["LOOPWRIGHT_CACHE"] = str(folder / "cache")
            for file in ("log.jsonl", "layer.lw"):
                (folder / file).write_bytes((prepared / file).read_bytes())
            for text in _outcome(load, folder, at, way):
                print(text, file=out, flush=True)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        counts, _, text = stream.read().partition("\n")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status or not text:
        return {}, f"ended by {status}: it hangs, or has crashed"
    return json.loads(counts), text.strip()


def _places(rng: random.Random, counts: dict[str, int]) -> list[Place]:
    """Returns all places: the first call of each kind, in random order, then the second."""
    every = [(call, before) for call, count in counts.items() for before in range(count)]
    return sorted(every, key=lambda place: (place[1], rng.random()))


def inject(count: int, seed: int, loads: tuple[str, ...] = tuple(LOADS)) -> Counter[str]:
    """Injects ``count`` faults; returns how many came out how, and prints those that are bad.

    Raises RuntimeError if a load fails without one.
    """
    rng, kinds = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        child = os.fork()
        if not child:
            os.environ["LOOPWRIGHT_CACHE"] = str(folder / "cache")
            _prepare(folder)  # in another process, so that the forks below have no threads
            os._exit(0)
        os.waitpid(child, 0)
        places: dict[str, list[Place]] = {}
        for load in loads:
            counts, kind = _forked(load, folder)
            if kind != "right":
                raise RuntimeError(f"{load} without a fault: {kind}")
            if load == "workers":
                counts = dict.fromkeys(OF_WORKERS.split(), MOST_IN_WORKERS)
            places[load] = _places(rng, counts)
        for number in range(count):
            load = loads[number % len(loads)]
            at = places[load][number // len(loads) % len(places[load])]
            way = rng.randrange(2 * len(ERRORS))
            _, kind = _forked(load, folder, at, way)
            if kind not in ("right", "refused", "not met"):
                print(f"{load}, {at} in way {way}:\n{kind}\n", flush=True)
                kind = "bad"
            kinds[kind] += 1
    return kinds
