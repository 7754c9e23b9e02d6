"""The work of a runner process: it loads object code, checks it, and times it."""

from __future__ import annotations

import ctypes
import math
import pickle
import resource
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...codegen.llvm.link import load_object
from ...codegen.runtime import pool
from ...codegen.target import Target
from ...ir.dataclass import dataclass
from ...ir.dims import as_int
from ...ir.loop.procedure import Procedure
from ..record import robust_seconds
from ..settings import TuneSettings
from .build_service import BuiltKernel
from .canary import Canary
from .data_races import IterationWatch
from .guarded import ALIGNED, BEGINNING, ENDING, GARBAGE, OTHER_GARBAGE, GuardedOperand
from .harness import Harness
from .inputs import make_inputs, make_probes
from .placement import Operand, Placement, matters
from .reference import Reference, Verdict
from .rotation import Cycle, Rotation, copies_of
from .run_requests import Array, Loaded, RaceRequest, RunRequest
from .toolchain import Toolchain
from .transport import Frame

_LOOP = "lw_parallel_for"
_QUICK = 0.002
"""Seconds of a call below which a candidate gets all checks, even if it is hopeless."""
_ROUNDS = 3
"""Ways to halve the iterations of a quick kernel's parallel loops."""
_RACE = "a race: iterations of a loop write the same memory"
_SECOND_LOOKS = 3
"""Most repetitions of a candidate's samples because the machine was slow."""


@dataclass
class RunService:
    """Answers RunRequest and RaceRequest. Its frames are read as untrusted data."""

    prim: Any
    threads: int
    toolchain: Toolchain
    settings: TuneSettings
    seed: int = 0
    cache: Path | None = None
    """File that keeps the reference for the next runner."""
    between: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes that the program touches between two uses of an operand; see ``rotation.py``. Without
    any, candidates run with their operands in the caches."""
    in_place: Mapping[str, str] = field(default_factory=dict[str, str])
    """Results that the program writes over a parameter: there, timed calls do so, too."""
    _inputs: dict[str, Array] = field(default_factory=dict[str, Array], repr=False)
    fault: ClassVar[str] = "out_of_bounds"
    _rotating: ClassVar[RunService | None] = None
    """The service whose copies of operands are in memory."""

    @property
    def memory(self) -> int:
        sizes = self._sizes()
        copies = self._copies()
        rotating = sum(2 * copies.get(name, 1) * size for name, size in sizes.items())
        return self.settings.run_memory + 10 * sum(sizes.values()) + rotating

    def _sizes(self) -> dict[str, int]:
        return {b.name: _bytes(b) for b in (*self.prim.params, *self.prim.output_buffers)}

    def _copies(self) -> dict[str, int]:
        sizes = self._sizes()
        return copies_of({n: sizes[n] for n in sizes if n not in self.in_place}, self.between)

    def open(self) -> None:
        self._inputs = make_inputs(self.prim, self.seed)
        self._reference = self._cached_reference()
        self._harness = Harness()
        self._inside = {p.name: _guarded(p, self._inputs[p.name]) for p in self.prim.params}
        self._outside = {b.name: _guarded(b) for b in self.prim.output_buffers}
        self._position = ENDING  # where operands of the last call lay
        self._probes = [
            (probe, Reference(self.prim, probe, self.settings, self.seed, plain=True))
            for probe in make_probes(self.prim, self._inputs, self.seed)
        ]
        self._placements: deque[Placement] = deque(maxlen=self.settings.race_places)
        constants = frozenset(p.name for p in self.prim.params if p.constant)
        self._rotation = Rotation(self._copies(), constants, self.in_place)
        self._canary = Canary(self.settings.comparison)
        self._pool_ready = False

    def close(self) -> None:
        if RunService._rotating is self:
            RunService._rotating = None
        self._placements.clear()
        self._canary.close()
        for operand in (*self._outside.values(), *self._inside.values()):
            operand.close()

    def _cached_reference(self) -> Reference:
        if self.cache is not None and self.cache.exists():
            return Reference.load(self.cache, self.prim, self._inputs)
        reference = Reference(self.prim, self._inputs, self.settings, self.seed)
        if self.cache is not None:
            with suppress(OSError):  # the next runner computes it again
                reference.save(self.cache)
        return reference

    def handle(self, request: Any) -> Frame:
        with pool.awake():  # until the answer: builders need the cores then
            if isinstance(request, RaceRequest):
                return self._race(request)
            return self._run(request)

    # -- one candidate

    def _run(self, request: RunRequest) -> Frame:
        begun = time.perf_counter()
        with ExitStack() as stack:
            loaded = self._load(request.built, stack)
            # Correctness first: operands at guards, registers and outputs full of garbage.
            first = self._call(loaded)
            violation = self._violation(loaded)
            if violation is not None:
                return violation
            verdict = self._reference.check(self._outputs())
            if not verdict.right:
                return _refusal(verdict)
            checked = [b.copy() for b in self._written()]
            if first <= max(self.settings.comparison.hopeless * request.best_seconds, _QUICK):
                # What lies before operands must not matter either, nor the kind of garbage.
                self._call(loaded, BEGINNING, OTHER_GARBAGE[0])
                refusal = self._violation(loaded) or self._differs(checked)
                refusal = refusal or self._data_race(loaded, checked, first)
                refusal = refusal or self._on_probes(loaded)
                if refusal is not None:
                    return refusal
            # Then speed; all samples again if the canary shows that the machine became slow.
            ready = time.perf_counter()
            seconds: list[float] = []
            for _ in range(1 + _SECOND_LOOKS):
                samples = self._sample(loaded, first, request.best_seconds)
                if self.between or getattr(self.prim, "begins", ()):
                    # Timed calls wrote to copies, or changed what the last one left.
                    self._call(loaded, ALIGNED)
                refusal = self._differs(checked)
                if refusal is not None:
                    return refusal
                if not seconds or robust_seconds(samples) < robust_seconds(seconds):
                    seconds = samples
                if len(samples) < 2 or not self._canary.slowed():
                    break  # the machine is as fast as before
            run = time.perf_counter() - ready
            self._keep(loaded, robust_seconds(seconds), stack)
            return Frame(
                {
                    "seconds": seconds,
                    "max_error": verdict.max_error,
                    "bound": verdict.bound,
                    "took": {"run": run, "check": time.perf_counter() - begun - run},
                }
            )

    def _call(self, loaded: Loaded, position: int = ENDING, garbage: int = GARBAGE) -> float:
        """Calls the kernel once, with garbage in all memory that it has to write before it reads
        it."""
        self._position = position
        for operand in (*self._outside.values(), loaded.handed[-1]):
            operand.at(position).fill_with_garbage(garbage)
        self._begin()
        buffers = [operand.at(position) for operand in loaded.handed]
        words = (*(buffer.address for buffer in buffers), *loaded.size_values)
        arguments = (ctypes.c_int64 * len(words))(*words)
        return self._harness.first(loaded.function, ctypes.addressof(arguments))

    def _begin(self) -> None:
        """Puts their first values into outputs that begin as a parameter."""
        for result, start in getattr(self.prim, "begins", ()):
            self._outside[result].at(self._position).fill(self._inside[start].values)

    def _written(self) -> list[Array]:
        """Returns the bytes of the outputs of the last call."""
        return [operand.at(self._position).bytes for operand in self._outside.values()]

    def _data_race(self, loaded: Loaded, checked: Sequence[Array], first: float) -> Frame | None:
        """Returns a refusal if iterations of parallel loops depend on each other
        (``data_races``)."""
        if not loaded.parallel:
            return None
        watch = self._watch(loaded)
        with self._harness.watched(watch.loop):
            for watch.number in range(_ROUNDS if first <= _QUICK else 1):
                self._call(loaded)
        violation = self._violation(loaded)
        if violation is not None:
            return violation
        if watch.race:
            return _error("wrong_result", _RACE)
        return self._differs(checked, "a race: in another order of a parallel loop's iterations ")

    def _watch(self, loaded: Loaded) -> IterationWatch:
        shared = [o.at(ENDING).bytes for o in (*self._outside.values(), loaded.handed[-1])]
        return IterationWatch(self._harness, shared, self.seed)

    def _differs(self, checked: Sequence[Array], when: str = "") -> Frame | None:
        """Returns a refusal if the outputs changed since they were ``checked``, and are wrong."""
        if all(map(np.array_equal, checked, self._written())):
            return None
        verdict = self._reference.check(self._outputs())
        return None if verdict.right else _refusal(verdict, when)

    def _on_probes(self, loaded: Loaded) -> Frame | None:
        """Returns a refusal if a kernel that selects elements is wrong on inputs made for it
        (``inputs``), or where data decides what is written iterations write the same memory."""
        watch, decides = self._watch(loaded), isinstance(self.prim, Procedure)
        refusal = None
        for number, (probe, reference) in enumerate(self._probes):
            self._show(loaded, probe)
            watch.number = number
            with self._harness.watched(watch.loop) if decides else nullcontext():
                self._call(loaded, garbage=(GARBAGE, *OTHER_GARBAGE)[number % 3])
            verdict = reference.check(self._outputs())
            if watch.race or not verdict.right:
                refusal = _error("wrong_result", _RACE) if watch.race else _refusal(verdict)
                break
        if self._probes:
            self._show(loaded, self._inputs)
        return refusal

    def _show(self, loaded: Loaded, inputs: Mapping[str, Array]) -> None:
        """Lets the next calls that are checked read other inputs, packed ones too."""
        for name, operand in self._inside.items():
            operand.show(inputs[name])
        for name, pack in loaded.packed.items():
            loaded.extra[name].show(pack.array(inputs[pack.source]))

    def _violation(self, loaded: Loaded) -> Frame | None:
        """Returns a refusal if the kernel wrote memory that it must not write."""
        for name, operand in [*self._inside.items(), *self._outside.items(), *loaded.extra.items()]:
            beside, inside = not operand.intact(), operand.changed(self._position)
            if beside or inside:
                operand.restore()
                where = f"beside {name}" if beside else f"into its input {name}"
                return _error("out_of_bounds", f"wrote {where}")
        return None

    def _keep(self, loaded: Loaded, cost: float, stack: ExitStack) -> None:
        """Keeps the fastest candidate as the canary, unless it takes long."""
        least = self.settings.least_sample_seconds
        if cost >= self._canary.cost or cost > 10 * least:
            return
        calls = max(1, round(least / cost))

        def run() -> float:
            return self._seconds(loaded, calls) / calls

        self._canary.adopt(cost, run, stack.pop_all().close)

    def _sample(self, loaded: Loaded, first: float, best: float) -> list[float]:
        """Returns seconds per call: one sample of a hopeless candidate, few of one that cannot win,
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
            spent = time.perf_counter() - begun  # with repetitions
            count = len(samples)
            if min(samples) > contender and count >= settings.least_losing_samples:
                break
            enough = count >= settings.least_samples and spent > settings.measure_seconds
            if enough or spent > 10 * settings.measure_seconds:
                break
        return samples

    def _undisturbed(self, loaded: Loaded, calls: int) -> float:
        """Seconds that ``calls`` calls take without another process being given this core.

        A disturbed measurement is repeated as long as all of them together are short.
        """
        self._position = ALIGNED
        best, spent = math.inf, 0.0
        while spent < self.settings.patience:
            self._begin()
            before = _interruptions()
            seconds = self._seconds(loaded, calls)
            best = min(best, seconds)
            spent += seconds
            if _interruptions() == before:
                return seconds
        return best

    def _seconds(self, loaded: Loaded, calls: int) -> float:
        """Returns the seconds of calls in the state of the caches that counts."""
        if not self.between:
            return self._harness.seconds(loaded.function, loaded.aligned, calls)
        cycle = self._cycle(loaded)
        self._rotation.renew(calls)
        return self._harness.rotating(loaded.function, cycle, calls)

    def _cycle(self, loaded: Loaded) -> Cycle:
        """Returns arguments of call after call, in which operands lie as the program leaves
        them. The copies take much memory: only the service that ran last has any."""
        latest = RunService._rotating
        if latest is not self:
            if latest is not None:
                latest._rotation = latest._rotation.emptied()
            RunService._rotating = self
        if loaded.cycle is None or loaded.cycle.rotation is not self._rotation:
            loaded.cycle = None  # releases what it had
            filled = self._rotation.filled
            loaded.cycle = self._rotation.cycle(loaded.operands, loaded.size_values)
            if self._rotation.filled != filled:
                # Lines that were just written would have to leave the caches while calls are timed.
                once = self._harness.rotating(loaded.function, loaded.cycle, 1)
                calls = min(loaded.cycle.count, round(self.settings.measure_seconds / once))
                self._harness.rotating(loaded.function, loaded.cycle, calls)
        return loaded.cycle

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
            seconds = self._warm if request.cache == "warm" else self._in_place
            for first in range(request.rounds):
                placement = None if request.cache == "place" else self._placement(entrants)
                for i in range(len(entrants)):
                    number = (first + i) % len(entrants)  # another one is first in every round
                    entrant = _moved(entrants[number], placement, number)
                    if placement is not None and request.cache == "warm":
                        self._settle(entrant, calls[number])
                    samples[number].append(max(seconds(entrant, calls[number]), 1e-10))
            verdicts = [self._checked(entrant) for entrant in entrants]
            return Frame(
                {
                    "seconds": samples,
                    "right": [v.right for v in verdicts],
                    "max_error": [v.max_error for v in verdicts],
                    "bound": [v.bound for v in verdicts],
                }
            )

    def _placement(self, entrants: Sequence[Loaded]) -> Placement | None:
        """Returns the placement of a race's next round, None if each entrant stays in its own
        memory.

        Placements of earlier rounds are kept: the system would return the same pages again.
        """
        operands = [entrant.operands for entrant in entrants]
        if not matters(operands, Target.host().l2):
            return None
        with suppress(OSError, MemoryError):
            self._placements.append(Placement(operands, entrants[0].size_values))
            return self._placements[-1]
        return None

    def _settle(self, entrant: Loaded, count: int) -> None:
        """Runs an entrant until the caches have settled; ``count`` calls are a sample."""
        share = self.settings.settling_seconds / (4 * self.settings.least_sample_seconds)
        self._harness.seconds(entrant.function, entrant.aligned, round(share * count))

    def _warm(self, entrant: Loaded, count: int) -> float:
        """Returns seconds per call, after some calls that bring the operands into the caches."""
        self._harness.seconds(entrant.function, entrant.aligned, 1 + count // 4)
        return self._harness.seconds(entrant.function, entrant.aligned, count) / count

    def _in_place(self, entrant: Loaded, count: int) -> float:
        """Returns seconds per call with operands where the program leaves them, after some calls
        that bring near ones there."""
        cycle = self._cycle(entrant)
        self._rotation.renew(2 * count)
        self._harness.rotating(entrant.function, cycle, 1 + count // 4)
        return self._harness.rotating(entrant.function, cycle, count) / count

    def _checked(self, loaded: Loaded) -> Verdict:
        self._call(loaded)
        return self._reference.check(self._outputs())

    # -- memory

    def _load(self, data: bytes, stack: ExitStack) -> Loaded:
        built: BuiltKernel = pickle.loads(data)
        symbols = self._symbols() if built.parallel else {}
        code = load_object(built.code, symbols)
        extra: dict[str, GuardedOperand] = {}
        handed: list[GuardedOperand] = []
        operands: list[Operand] = []
        packed: dict[str, Any] = {}

        def own(name: str, size: int, values: Array | None = None) -> GuardedOperand:
            extra[name] = GuardedOperand(size, values=values)
            stack.callback(extra[name].close)
            return extra[name]

        # All candidates share the buffers of outputs and inputs; other operands, such as packed
        # constants, live as long as the candidate is loaded.
        arrays = self.toolchain.prepare(built, self._inputs)
        for number, (operand, array) in enumerate(zip(built.operands, arrays)):
            name = source = operand.buffer.name
            writes, is_input = operand.role.writes, operand.role in ("in", "const")
            of_task = self._outside if writes else self._inside if is_input else {}
            shared = name in of_task
            handed.append(of_task[name] if shared else own(name, array.nbytes, array))
            if operand.pack is not None:
                source, packed[name] = operand.pack.source, operand.pack
            label = f"{operand.role} {name}" if shared else f"own {number}"
            operands.append(Operand(label, handed[-1].at(ALIGNED), not writes, shared, source))
        handed.append(own("the workspace", built.workspace_bytes))
        operands.append(Operand("the workspace", handed[-1].at(ALIGNED), False, False))
        words = (*(o.home.address for o in operands), *built.size_values)
        return Loaded(
            code,
            code.address(f"{built.name}.packed"),
            tuple(handed),
            ctypes.addressof(arguments := (ctypes.c_int64 * len(words))(*words)),
            extra,
            built.parallel,
            tuple(operands),
            built.size_values,
            packed,
            arguments,
        )

    def _outputs(self) -> dict[str, Array]:
        return {
            b.name: written.view(b.dtype.numpy).reshape([as_int(s) for s in b.shape])
            for b, written in zip(self.prim.output_buffers, self._written())
        }

    def _symbols(self) -> dict[str, int]:
        if not self._pool_ready:
            pool.set_threads(self.threads)
            self._pool_ready = True
        addresses = dict(pool.symbols())
        addresses[_LOOP] = self._harness.use_pool(addresses[_LOOP])
        return addresses


def _interruptions() -> int:
    """Returns how often the system preempted a thread of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _moved(entrant: Loaded, placement: Placement | None, number: int) -> Loaded:
    """Returns an entrant, the ``number``-th of its race, with its operands in a placement."""
    if placement is None:
        return entrant
    return replace(entrant, aligned=placement.arguments(number))


def _guarded(buffer: Any, values: Array | None = None) -> GuardedOperand:
    return GuardedOperand(_bytes(buffer), buffer.dtype.bytes, values)


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
