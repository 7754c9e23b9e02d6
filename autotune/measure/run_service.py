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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...codegen.llvm.link import LoadedObject, load_object
from ...codegen.runtime import pool
from ...codegen.target import Target
from ...ir.dims import as_int
from ..log.record import robust_seconds
from ..settings import TuneSettings
from .build_service import BuiltKernel
from .canary import Canary
from .guarded import GuardedBuffer
from .guarded_input import GuardedInput
from .harness import Harness
from .places import Operand, Place, matters, placed
from .probes import make_probes
from .races import TurnWatch
from .reference import Reference, Verdict, make_inputs
from .toolchain import Toolchain
from .transport import Frame

__all__ = ["RaceRequest", "RunRequest", "RunService"]

Array = npt.NDArray[Any]
_LOOP = "lw_parallel_for"
_QUICK = 0.002
"""Seconds of a call below which a candidate is tried in all ways, even if it is hopeless."""
_ROUNDS = 3
"""Ways in which the turns of a quick kernel's parallel loops are halved."""
_SECOND_LOOKS = 3
"""Times a candidate is measured again because the machine was slow."""


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
        self._inside = {p.name: GuardedInput(self._inputs[p.name]) for p in self.prim.params}
        self._outside = {b.name: placed(_bytes(b)) for b in self.prim.output_buffers}
        self._probes = [
            (probe, Reference(self.prim, probe, self.settings, self.seed))
            for probe in make_probes(self.prim, self._inputs, self.seed)
        ]
        self._stands: deque[Place] = deque(maxlen=self.settings.race_places)
        self._canary = Canary(self.settings.comparison)
        self._pool_ready = False

    def close(self) -> None:
        self._stands.clear()
        self._canary.close()
        for buffer in self._outside.values():
            buffer.close()
        for operand in self._inside.values():
            operand.close()

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
            if first <= max(self.settings.comparison.hopeless * request.best_seconds, _QUICK):
                doubt = self._by_turns(loaded, checked, first) or self._on_probes(loaded)
                if doubt is not None:
                    return doubt
            ready = time.perf_counter()
            seconds: list[float] = []
            for _ in range(1 + _SECOND_LOOKS):
                again = self._sample(loaded, first, request.best_seconds)
                now = [b.bytes for b in self._outside.values()]
                if not all(np.array_equal(a, b) for a, b in zip(checked, now)):
                    verdict = self._reference.check(self._outputs())
                    if not verdict.right:
                        return _refusal(verdict)
                if not seconds or _robust(again) < _robust(seconds):
                    seconds = again
                if len(again) < 2 or not self._canary.slowed():
                    break  # the machine is as fast as it was
            run = time.perf_counter() - ready
            self._keep(loaded, _robust(seconds), stack)
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
                operand.show(probe[name])
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
            if not operand.intact():
                operand.restore()
                return _error("out_of_bounds", f"wrote beside {name}")
            if operand.changed():
                operand.restore()
                return _error("out_of_bounds", f"wrote into its input {name}")
        for name, buffer in [*self._outside.items(), *loaded.extra.items()]:
            if not buffer.intact():
                buffer.mend()
                return _error("out_of_bounds", f"wrote beside {name}")
        return None

    def _keep(self, loaded: _Loaded, cost: float, stack: ExitStack) -> None:
        """Keep the fastest candidate as the canary, unless it takes long."""
        least = self.settings.least_sample_seconds
        if cost >= self._canary.cost or cost > 10 * least:
            return
        calls = max(1, round(least / cost))

        def run() -> float:
            return self._harness.seconds(loaded.function, loaded.aligned, calls) / calls

        self._canary.adopt(cost, run, stack.pop_all().close)

    def _sample(self, loaded: _Loaded, first: float, best: float) -> list[float]:
        """Seconds per call: one sample of the hopeless, few of a candidate that is no contender,
        more of a contender."""
        settings = self.settings
        contender = settings.comparison.contender * best
        if first > max(settings.comparison.hopeless * best, settings.obvious_seconds):
            return [first]
        once = self._undisturbed(loaded, 1)
        if once > max(contender, settings.telling_seconds):
            return [once]
        calls = max(1, round(settings.least_sample_seconds / max(once, 1e-9)))
        samples: list[float] = []
        begun = time.perf_counter()
        while len(samples) < settings.contender_samples:
            samples.append(max(self._undisturbed(loaded, calls) / calls, 1e-10))
            spent = time.perf_counter() - begun  # with what was repeated
            count = len(samples)
            if min(samples) > contender and count >= settings.least_losing_samples:
                break
            enough = count >= settings.least_samples and spent > settings.measure_seconds
            if enough or spent > 10 * settings.measure_seconds:
                break
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
            taken = self._cold if request.cold else self._warm
            for turn in range(request.rounds):
                place = self._place(entrants)
                order = [(turn + i) % len(entrants) for i in range(len(entrants))]
                for number in order:
                    entrant = _standing(entrants[number], place, number)
                    if place is not None and not request.cold:
                        self._settle(entrant, calls[number])
                    samples[number].append(max(taken(entrant, calls[number]), 1e-10))
            verdicts = [self._checked(entrant) for entrant in entrants]
            return Frame(
                {
                    "seconds": samples,
                    "right": [v.right for v in verdicts],
                    "max_error": [v.max_error for v in verdicts],
                    "bound": [v.bound for v in verdicts],
                }
            )

    def _place(self, entrants: Sequence[_Loaded]) -> Place | None:
        """Where the next round of a race is run, None if each stands in its own memory.

        Some places of earlier rounds are kept: the system would hand the same ones out again.
        """
        operands = [entrant.operands for entrant in entrants]
        if not matters(operands, Target.host().l2):
            return None
        with suppress(OSError, MemoryError):
            self._stands.append(Place(operands))
            return self._stands[-1]
        return None

    def _settle(self, entrant: _Loaded, count: int) -> None:
        """Let an entrant run until the caches have settled; ``count`` calls are a sample."""
        share = self.settings.settling_seconds / (4 * self.settings.least_sample_seconds)
        self._harness.seconds(entrant.function, entrant.aligned, round(share * count))

    def _warm(self, entrant: _Loaded, count: int) -> float:
        """Seconds per call. Some calls come first: its operands are to be in the caches."""
        self._harness.seconds(entrant.function, entrant.aligned, 1 + count // 4)
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
        operands: list[Operand] = []

        def place(name: str, size: int) -> GuardedBuffer:
            buffer = placed(size)
            stack.callback(buffer.close)
            extra[name] = buffer
            return buffer

        arrays = self.toolchain.prepare(built, self._inputs)
        for number, (operand, array) in enumerate(zip(built.operands, arrays)):
            name = operand.buffer.name
            if operand.role == "out":
                exact.append(self._outside[name].address)
                operands.append(Operand(f"out {name}", self._outside[name], False, True))
            elif operand.role in ("in", "const") and name in self._inside:
                exact.append(self._inside[name].exact.address)
                operands.append(Operand(f"in {name}", self._inside[name].aligned, True, True))
            else:
                buffer = place(name, array.nbytes)
                buffer.fill(array)
                exact.append(buffer.address)
                operands.append(Operand(f"own {number}", buffer, True, False))
        workspace = place("the workspace", built.workspace_bytes)
        operands.append(Operand("the workspace", workspace, False, False))
        guarded = [*self._outside.values(), *extra.values()]
        guarded += [buffer for i in self._inside.values() for buffer in i.buffers]
        self._harness.set_guards(pair for buffer in guarded for pair in buffer.guards)
        return _Loaded(
            code,
            code.address(f"{built.name}.packed"),
            _pointers([*exact, workspace.address], stack),
            _pointers([o.home.address for o in operands], stack),
            workspace,
            extra,
            built.parallel,
            _ranges(operands),
            tuple(operands),
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
    operands: tuple[Operand, ...]
    """In the order of the arguments, each where it is for timing."""


def _interruptions() -> int:
    """How often the system took the core from a thread of this process that was not done."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _robust(samples: Sequence[float]) -> float:
    return robust_seconds(tuple(samples))


def _ranges(operands: Sequence[Operand]) -> ctypes.Array[ctypes.c_int64]:
    flat = [end for o in operands for end in (o.home.address, o.home.address + o.size)]
    return (ctypes.c_int64 * len(flat))(*flat)


def _standing(entrant: _Loaded, place: Place | None, number: int) -> _Loaded:
    """An entrant, the ``number``-th of its race, with its operands in a place."""
    if place is None:
        return entrant
    return replace(entrant, aligned=place.arguments(number), ranges=place.ranges(number))


def _pointers(addresses: Sequence[int], stack: ExitStack) -> int:
    array = (ctypes.c_void_p * len(addresses))(*addresses)
    keep: Callable[[object], None] = lambda _: None  # noqa: E731
    stack.callback(keep, array)
    return ctypes.addressof(array)


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
