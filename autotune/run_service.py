"""What a runner process does: load object code, check it, time it."""

from __future__ import annotations

import ctypes
import math
import pickle
import resource
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..codegen.llvm.engine import LoadedObject, load_object
from ..codegen.runtime import pool
from ..ir.dims import as_int
from .build_service import BuiltKernel
from .guarded import GuardedBuffer
from .harness import Harness
from .probes import make_probes
from .reference import Reference, Verdict, make_inputs
from .settings import TuneSettings
from .toolchain import Toolchain
from .transport import Frame
from .turns import TurnWatch

__all__ = ["RaceRequest", "RunRequest", "RunService"]

Array = npt.NDArray[Any]
_LOOP = "lw_parallel_for"
_QUICK = 0.002
"""Seconds of a call below which a candidate is tried in all ways, even if it is hopeless."""
_ROUNDS = 3
"""Ways in which the turns of a quick kernel's parallel loops are halved."""
_FIRST_SPREAD = 0.1  # of samples, before anything is known of this machine
_SURE = 1.05  # what is slower by less may be the better choice elsewhere: it is measured with care


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Check and time one candidate, given the seconds per call of the best so far."""

    built: bytes
    best_seconds: float


@dataclass(frozen=True, slots=True)
class RaceRequest:
    """Time good candidates in turn, ``rounds`` times each.

    ``cold``: each call finds its operands in memory instead of the caches.
    """

    built: tuple[bytes, ...]
    rounds: int
    cold: bool = False


@dataclass
class RunService:
    """Answers RunRequest and RaceRequest. Frames it gives are read as untrusted data."""

    prim: Any
    threads: int
    toolchain: Toolchain
    settings: TuneSettings
    seed: int = 0
    cache: Path | None = None
    """Where the reference is kept for the runner that comes after this one."""
    _inputs: dict[str, Array] = field(default_factory=dict[str, Array], repr=False)

    @property
    def memory(self) -> int:
        operands = sum(_bytes(b) for b in (*self.prim.params, *self.prim.output_buffers))
        return self.settings.run_memory + 6 * operands

    def open(self) -> None:
        self._inputs = make_inputs(self.prim, self.seed)
        self._reference = self._known_reference()
        self._harness = Harness()
        self._harness.handle_faults()
        self._inside = {p.name: _Input(self._inputs[p.name]) for p in self.prim.params}
        self._outside = {b.name: GuardedBuffer(_bytes(b)) for b in self.prim.output_buffers}
        self._probes = [
            (probe, Reference(self.prim, probe, self.settings, self.seed))
            for probe in make_probes(self.prim, self._inputs, self.seed)
        ]
        self._noise = _Noise()
        self._pool_ready = False

    def close(self) -> None:
        for buffer in self._outside.values():
            buffer.close()
        for operand in self._inside.values():
            operand.exact.close()
            operand.aligned.close()

    def _known_reference(self) -> Reference:
        if self.cache is not None and self.cache.exists():
            return Reference.load(self.cache, self.prim, self._inputs, self.settings)
        made = Reference(self.prim, self._inputs, self.settings, self.seed)
        if self.cache is not None:
            with suppress(OSError):  # the next runner computes it again
                made.save(self.cache)
        return made

    def handle(self, request: Any) -> Frame:
        if isinstance(request, RaceRequest):
            return self._race(request)
        return self._run(request)

    # -- one candidate

    def _run(self, request: RunRequest) -> Frame:
        begun = time.perf_counter()
        with ExitStack() as stack:
            loaded = self._load(request.built, stack)
            first = self._call(loaded)
            foul = self._foul(loaded)
            if foul is not None:
                return foul
            verdict = self._reference.check(self._outputs())
            if not verdict.right:
                return _refusal(verdict)
            checked = [b.bytes.copy() for b in self._outside.values()]
            if first <= max(self.settings.hopeless_factor * request.best_seconds, _QUICK):
                doubt = self._by_turns(loaded, checked, first) or self._on_probes(loaded)
                if doubt is not None:
                    return doubt
            ready = time.perf_counter()
            seconds = self._sample(loaded, first, request.best_seconds)
            run = time.perf_counter() - ready
            now = [b.bytes for b in self._outside.values()]
            if not all(np.array_equal(a, b) for a, b in zip(checked, now)):
                verdict = self._reference.check(self._outputs())
                if not verdict.right:
                    return _refusal(verdict)
            return Frame(
                {
                    "seconds": seconds,
                    "max_error": verdict.max_error,
                    "bound": verdict.bound,
                    "took": {"run": run, "check": time.perf_counter() - begun - run},
                }
            )

    def _call(self, loaded: _Loaded) -> float:
        """One call, with garbage in all that the kernel is to write before it reads it."""
        for buffer in (*self._outside.values(), loaded.workspace):
            buffer.fill_with_garbage()
        return self._harness.first(loaded.function, loaded.exact)

    def _by_turns(self, loaded: _Loaded, checked: Sequence[Array], first: float) -> Frame | None:
        """A refusal if the turns of parallel loops depend on each other (see turns.py)."""
        if not loaded.parallel:
            return None
        shared = [*(b.bytes for b in self._outside.values()), loaded.workspace.bytes]
        watch = TurnWatch(self._harness, shared, self.seed)
        with self._harness.watched(watch.loop):
            for watch.number in range(_ROUNDS if first <= _QUICK else 1):
                self._call(loaded)
        foul = self._foul(loaded)
        if foul is not None:
            return foul
        if watch.race:
            return _error("wrong_result", "a race: turns of a parallel loop write the same memory")
        now = [b.bytes for b in self._outside.values()]
        if all(np.array_equal(a, b) for a, b in zip(checked, now)):
            return None
        verdict = self._reference.check(self._outputs())
        if verdict.right:
            return None
        return _refusal(verdict, "a race: in another order of a parallel loop's turns ")

    def _on_probes(self, loaded: _Loaded) -> Frame | None:
        """A refusal if a kernel that chooses is wrong on inputs made for it (see probes.py)."""
        for probe, reference in self._probes:
            for name, operand in self._inside.items():
                operand.exact.fill(probe[name])
            self._call(loaded)
            verdict = reference.check(self._outputs())
            if not verdict.right:
                break
        else:
            verdict = None
        if self._probes:
            for operand in self._inside.values():
                operand.restore()
        return None if verdict is None else _refusal(verdict)

    def _foul(self, loaded: _Loaded) -> Frame | None:
        """Memory written that is not the kernel's to write, or None."""
        for name, operand in self._inside.items():
            if not operand.exact.intact():
                operand.exact.mend()
                return _error("out_of_bounds", f"wrote beside {name}")
            if operand.changed():
                operand.restore()
                return _error("out_of_bounds", f"wrote into its input {name}")
        for name, buffer in [*self._outside.items(), *loaded.extra.items()]:
            if not buffer.intact():
                buffer.mend()
                return _error("out_of_bounds", f"wrote beside {name}")
        return None

    def _sample(self, loaded: _Loaded, first: float, best: float) -> list[float]:
        """Seconds per call: one sample of the hopeless, few until it is sure that a candidate
        cannot win, more for a contender.

        A candidate cannot win when its fastest sample is slower than the best by more than samples
        are seen to differ.
        """
        settings = self.settings
        hopeless = settings.hopeless_factor * best
        if first > max(hopeless, settings.obvious_seconds):
            return [first]
        once = self._undisturbed(loaded, 1)
        if once > max(hopeless, settings.telling_seconds):
            return [once]
        telling = once > settings.telling_seconds and settings.least_losing_samples <= 2
        if telling and once > self._noise.limit(1) * best:
            return [once]
        calls = max(1, round(settings.least_sample_seconds / max(once, 1e-9)))
        samples: list[float] = []
        begun = time.perf_counter()
        while len(samples) < settings.contender_samples:
            samples.append(max(self._undisturbed(loaded, calls) / calls, 1e-10))
            spent = time.perf_counter() - begun  # with what was repeated
            count = len(samples)
            told = count >= settings.least_losing_samples
            if told and min(samples) > self._noise.limit(count) * best:
                break
            contends = min(samples) <= settings.contender_factor * best
            limit = settings.measure_seconds if contends else settings.screening_seconds
            enough = count >= settings.least_samples and spent > limit
            if enough or spent > 10 * settings.measure_seconds:
                break
        self._noise.learn(samples)
        return samples

    def _undisturbed(self, loaded: _Loaded, calls: int) -> float:
        """Seconds that ``calls`` calls take without another process being given this core.

        A disturbed measurement is repeated as long as all of them together are short.
        """
        best, spent = math.inf, 0.0
        while spent < self.settings.patience:
            before = _interruptions()
            seconds = self._harness.seconds(loaded.function, loaded.aligned, calls)
            best = min(best, seconds)
            spent += seconds
            if _interruptions() == before:
                return seconds
        return best

    # -- several

    def _race(self, request: RaceRequest) -> Frame:
        with ExitStack() as stack:
            entrants = [self._load(built, stack) for built in request.built]
            samples: list[list[float]] = [[] for _ in entrants]
            calls: list[int] = []
            for entrant in entrants:
                once = self._harness.seconds(entrant.function, entrant.aligned, 1)
                lasting = 4 * self.settings.least_sample_seconds
                calls.append(max(1, round(lasting / max(once, 1e-9))))
            for _ in range(request.rounds):
                for entrant, count, found in zip(entrants, calls, samples):
                    taken = self._cold if request.cold else self._warm
                    found.append(max(taken(entrant, count), 1e-10))
            verdicts = [self._checked(entrant) for entrant in entrants]
            return Frame(
                {
                    "seconds": samples,
                    "right": [v.right for v in verdicts],
                    "max_error": [v.max_error for v in verdicts],
                    "bound": [v.bound for v in verdicts],
                }
            )

    def _warm(self, entrant: _Loaded, count: int) -> float:
        """Seconds per call. One call comes first: its operands are to be in the caches."""
        self._harness.seconds(entrant.function, entrant.aligned, 1)
        return self._harness.seconds(entrant.function, entrant.aligned, count) / count

    def _cold(self, entrant: _Loaded, count: int) -> float:
        """Seconds of the middle one of some calls, the caches flushed before each."""
        taken: list[float] = []
        for _ in range(min(count, self.settings.cold_calls)):
            self._harness.flush(entrant.ranges)
            taken.append(self._harness.seconds(entrant.function, entrant.aligned, 1))
        return sorted(taken)[len(taken) // 2]

    def _checked(self, loaded: _Loaded) -> Verdict:
        self._call(loaded)
        return self._reference.check(self._outputs())

    # -- memory

    def _load(self, data: bytes, stack: ExitStack) -> _Loaded:
        built: BuiltKernel = pickle.loads(data)
        symbols = self._symbols() if built.parallel else {}
        code = load_object(built.code, symbols)
        extra: dict[str, GuardedBuffer] = {}
        exact: list[int] = []
        aligned: list[int] = []
        sizes: list[int] = []

        def place(name: str, size: int) -> GuardedBuffer:
            buffer = GuardedBuffer(size)
            stack.callback(buffer.close)
            extra[name] = buffer
            return buffer

        arrays = self.toolchain.prepare(built, self._inputs)
        for operand, array in zip(built.operands, arrays):
            name = operand.buffer.name
            sizes.append(_bytes(operand.buffer) if operand.role == "out" else array.nbytes)
            if operand.role == "out":
                exact.append(self._outside[name].address)
                aligned.append(self._outside[name].address)
            elif operand.role in ("in", "const") and name in self._inside:
                exact.append(self._inside[name].exact.address)
                aligned.append(self._inside[name].aligned.address)
            else:
                buffer = place(name, array.nbytes)
                buffer.fill(array)
                exact.append(buffer.address)
                aligned.append(buffer.address)
        workspace = place("the workspace", built.workspace_bytes)
        guarded = [*self._outside.values(), *extra.values()]
        guarded += [b for i in self._inside.values() for b in (i.exact, i.aligned)]
        self._harness.set_guards(pair for buffer in guarded for pair in buffer.guards)
        return _Loaded(
            code,
            code.address(f"{built.name}.packed"),
            _pointers([*exact, workspace.address], stack),
            _pointers([*aligned, workspace.address], stack),
            workspace,
            extra,
            built.parallel,
            _ranges(aligned, sizes),
        )

    def _outputs(self) -> dict[str, Array]:
        return {
            b.name: self._outside[b.name].array(tuple(as_int(s) for s in b.shape), b.dtype.numpy)
            for b in self.prim.output_buffers
        }

    def _symbols(self) -> dict[str, int]:
        if not self._pool_ready:
            pool.set_threads(self.threads)
            self._pool_ready = True
        known = dict(pool.symbols())
        known[_LOOP] = self._harness.use_pool(known[_LOOP])
        return known


class _Noise:
    """How far samples of one candidate lie apart, learnt from those that had several."""

    def __init__(self) -> None:
        self._spreads: deque[float] = deque([_FIRST_SPREAD] * 8, maxlen=64)

    def learn(self, samples: Sequence[float]) -> None:
        """Take note of the samples of a candidate."""
        if len(samples) >= 3:
            low = min(samples)
            self._spreads.append(sorted(samples)[len(samples) // 2] / low - 1.0)

    def limit(self, count: int) -> float:
        """A fastest of ``count`` samples above this many times the best is no luck of the best.

        Samples lie above a floor; nine in ten of them within ``wide`` of it, the fastest of
        several closer. The best may have been lucky as well, so it is allowed as much again.
        """
        wide = sorted(self._spreads)[9 * len(self._spreads) // 10]
        return (1.0 + 2.0 * wide / math.sqrt(count)) * _SURE


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A kernel in memory. ``exact`` arguments end at guards, ``aligned`` ones are for timing."""

    code: LoadedObject
    function: int
    exact: int
    aligned: int
    workspace: GuardedBuffer
    extra: dict[str, GuardedBuffer]
    """All buffers of this kernel alone: the workspace, and operands packed for it."""
    parallel: bool
    ranges: ctypes.Array[ctypes.c_int64]
    """Where the operands lie: what a flush empties the caches of."""


class _Input:
    """An input twice: ending exactly at a guard, and aligned as arrays usually are."""

    def __init__(self, values: Array) -> None:
        self._values = values
        self.exact = GuardedBuffer(values.nbytes, values.itemsize)
        self.aligned = self.exact
        if self.exact.address % 64:
            self.aligned = GuardedBuffer(values.nbytes)
        self.restore()

    def changed(self) -> bool:
        now = self.exact.bytes
        return not np.array_equal(now, self._values.reshape(-1).view(np.uint8))

    def restore(self) -> None:
        self.exact.fill(self._values)
        self.aligned.fill(self._values)


def _ranges(starts: Sequence[int], sizes: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    flat = [value for start, size in zip(starts, sizes) for value in (start, start + size)]
    return (ctypes.c_int64 * len(flat))(*flat)


def _pointers(addresses: Sequence[int], stack: ExitStack) -> int:
    array = (ctypes.c_void_p * len(addresses))(*addresses)
    keep: Callable[[object], None] = lambda _: None  # noqa: E731
    stack.callback(keep, array)
    return ctypes.addressof(array)


def _interruptions() -> int:
    """How often the system took the core from a thread of this process that was not done."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _bytes(buffer: Any) -> int:
    return as_int(buffer.size) * buffer.dtype.bytes


def _refusal(verdict: Verdict, when: str = "") -> Frame:
    return Frame(
        {
            "error": "wrong_result",
            "detail": when + verdict.reason,
            "max_error": verdict.max_error,
            "bound": verdict.bound,
        }
    )


def _error(word: str, detail: str) -> Frame:
    return Frame({"error": word, "detail": detail})
