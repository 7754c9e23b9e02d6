"""The trial of one kernel: its operands and calls as operations of a ``sandbox.Job``, and its
verdict.

Small results are compared as a whole, of large ones the elements that every store in the code
writes (``store_points.py``). Inputs are views of few random values (``repeated``), whose pages
the job holds once, however many operands are made of them.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ...codegen.kernel import Kernel
from ...ir.dataclass import dataclass
from ...ir.dims import as_int
from ...ir.loop.nest import Operand
from ...ir.loop.pack import SHIFTED, Pack
from ...ir.loop.prim import Buffer, PrimFunc
from ...ir.loop.work import prim_bytes, prim_flops
from ..settings import DEFAULT_SETTINGS
from .guarded import GARBAGE
from .inputs import InputKind, input_kinds, make_probes
from .reference import Reference, affordable_points, is_evaluated_whole, sample_points
from .sandbox import Job, Report, Room
from .store_points import StorePoints

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The elements of ``values`` from ``begin`` on, repeated, as an array of a shape.

    It returns elements at arrays of indices without ever existing as a whole.

    >>> Repeated(np.array([5, 6, 7]), 1, (2, 4)).array()
    array([[6, 7, 5, 6],
           [7, 5, 6, 7]])
    """

    values: Array
    begin: int
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    def __getitem__(self, indices: tuple[Array, ...]) -> Array:
        period = len(self.values)
        flat: Any = self.begin
        step = 1
        for i, size in zip(reversed(indices), reversed(self.shape), strict=True):
            # Reduce each index alone, which is fast where they form an open grid.
            part = i * step
            if step * size > period:
                part = part - part // period * period  # NumPy's % takes four times as long
            flat = flat + part
            step *= size
        return np.take(self.values, flat, mode="wrap")  # subtracts the period at most a few times

    def array(self) -> Array:
        """Returns the whole array."""
        end = self.begin + self.size
        if end <= len(self.values):
            return self.values[self.begin : end].reshape(self.shape)
        return self.values[np.arange(self.begin, end) % len(self.values)].reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Returns elements of the source of ``packed``, at arrays of indices.

    >>> from loopwright.ir.dtype import FLOAT32
    >>> from loopwright.ir.loop.prim import Buffer
    >>> w = np.arange(20, dtype=np.float32).reshape(4, 5)
    >>> pack = Pack.of(Buffer("w", (4, 5), FLOAT32), 1, 2)
    >>> np.array_equal(Unpacked(pack.array(w), pack)[tuple(np.indices((4, 5)))], w)
    True
    """

    packed: Array | Repeated
    pack: Pack

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(as_int, self.pack.shape))

    @property
    def ndim(self) -> int:
        return len(self.pack.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype = self.pack.packed_dtype
        return (SHIFTED[dtype] if self.pack.shifted else dtype).numpy

    def __getitem__(self, indices: tuple[Array, ...]) -> Array:
        pack = self.pack
        along, size = pack.group or (-1, 1)
        others = [i // size if d == along else i for d, i in enumerate(indices) if d != pack.dim]
        place = [indices[pack.dim] // pack.tile, *others, indices[pack.dim] % pack.tile]
        if pack.group:
            place.append(indices[along] % size)
        values = self.packed[tuple(place)]
        return pack.shift_array(values) if pack.shifted else values


def padding(pack: Pack) -> Iterator[tuple[int, int, int, int]]:
    """Yields the elements of a packed array that are not in its source, on which no result depends:
    begin, count, stride and width of pieces."""
    shape = pack.packed_shape
    size = pack.group[1] if pack.group else 1
    in_last = as_int(pack.rest)
    if in_last:
        panel = prod(shape[1:])
        row = pack.tile * size
        begin = (shape[0] - 1) * panel + in_last * size
        yield begin, panel // row, row, (pack.tile - in_last) * size
    if pack.group:
        along, _ = pack.group
        rest = as_int(pack.shape[along]) % size
        dimension = 1 + along - (along > pack.dim)
        last = prod(shape[dimension + 1 :])  # elements with one index along the dimension
        for n in range(prod(shape[:dimension]) if rest else 0):
            begin = ((n + 1) * shape[dimension] - 1) * last
            yield begin + rest, last // size, size, size - rest


Array = npt.NDArray[Any]

SEED = 0
SETTINGS = replace(DEFAULT_SETTINGS, reference_work=1 << 15, reference_points=128)
"""Scalar evaluations of the reference: a millisecond or two, a few percent of a compile."""
PAGES = 61
"""Pages after which inputs repeat: a prime number, so that few strides are multiples of it."""
APART = 17
"""Pages between the starts of two operands in the random values."""
PROBES = 2
CANARY, CANARY_OF_RESULTS = 0xFF, 0xA5
"""Bytes beside operands; a copy of one beside a result would not be seen if they were the same."""

SLOW = 30
SLOW_FLOPS, SLOW_BYTES = 5e10, 5e9
LEAST_SECONDS = 0.2
"""A call may take ``SLOW`` times as long as a machine of these rates, plus ``LEAST_SECONDS``."""


class Values:
    """Random values in the file of a job, some pages of each kind."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._pages: dict[InputKind, int] = {}

    def pages(self, kind: InputKind) -> int:
        """Returns the offset of the pages of ``random_values(kind)``."""
        if kind not in self._pages:
            self._pages[kind] = self._job.pages(random_values(kind))
        return self._pages[kind]


@functools.lru_cache(maxsize=16)
def random_values(kind: InputKind) -> Array:
    """Returns as many values as fill ``PAGES``, the same in every process."""
    count = PAGES * mmap.PAGESIZE // kind.dtype.bytes
    return kind.draw((count,), np.random.default_rng(SEED))


@dataclass(slots=True)
class _Run:
    """One call: its inputs, the elements that are compared (all if ``points`` is None), the reports
    of their values, and their reference."""

    inputs: Mapping[str, Any]
    points: Mapping[str, Array] | None
    reports: Mapping[str, Report]
    reference: Reference | None = None


class Trial:
    """The operations that try one kernel, from ``begin`` to ``end``."""

    def __init__(
        self, prim: PrimFunc, kernel: Kernel, code: bytes, job: Job, values: Values
    ) -> None:
        """Raises KeyError if the code calls a function that kernels must not call."""
        self.begin = job.length
        self.kernel, self.prim = kernel, prim
        self.meaning: dict[int, str] = {}  # the error that the answer "no" to an operation means
        self._beside: list[tuple[Report, str]] = []  # canaries after a call, and the room's name
        self._job, self._values = job, values
        self._kinds = input_kinds(prim)
        seconds = prim_flops(prim) / SLOW_FLOPS + prim_bytes(prim) / SLOW_BYTES
        job.limit(LEAST_SECONDS + SLOW * seconds)
        self._function = job.code(code)[f"{kernel.name}.packed"]
        self._rooms: list[Room] = []
        self._outputs = {b.name: self._zeros(b.name, _bytes(b)) for b in prim.output_buffers}
        self._workspace = self._zeros("the workspace", max(1, as_int(kernel.workspace_bytes)))
        self._whole = is_evaluated_whole(prim, SETTINGS)
        self._iterations: Array | None = None  # of the last parallel loop, where not all are run
        self._loops_before = 0
        self._runs = list(self._small_runs()) if self._whole else [self._large_run()]
        for room in self._rooms:
            job.unmap(room)
        self.end = job.length

    def evaluate(self) -> None:
        """Evaluates the reference, while the program runs."""
        for n, run in enumerate(self._runs):
            run.reference = Reference(self.prim, run.inputs, SETTINGS, SEED, run.points, n > 0)

    def verdict(self, false: Sequence[int]) -> str:
        """Returns the error in the results, "" if there is none; ``false`` are operations answered
        "no"."""
        for report, name in self._beside:
            if (self._job.read(report) != CANARY_OF_RESULTS).any():
                return f"it wrote beside {name}"
        for number in false:
            if number in self.meaning:
                return self.meaning[number]
        for run in self._runs:
            assert run.reference is not None
            check = run.reference.check if self._whole else run.reference.check_points
            verdict = check({b.name: self._result(run, b) for b in self.prim.output_buffers})
            if not verdict.right:
                return verdict.reason
        return ""

    def _result(self, run: _Run, buffer: Buffer) -> Array:
        values = self._job.read(run.reports[buffer.name]).view(buffer.dtype.numpy)
        return values.reshape(_shape(buffer)) if run.points is None else values

    # -- inputs

    def _small_runs(self) -> Iterator[_Run]:
        """Yields calls on random inputs, and on probes; their results are compared as a whole."""
        drawn: dict[str, Array] = {}
        arguments: list[int] = []
        for number, operand in enumerate(self.kernel.operands):
            pack = operand.pack
            if operand.role.writes:
                arguments.append(self._outputs[operand.buffer.name].address)
                if operand.begins_as is not None:
                    start = operand.begins_as[1]
                    values = random_values(self._kinds[start])
                    drawn[start] = Repeated(values, 0, _shape(operand.buffer)).array()
            elif pack is not None:
                values = random_values(self._kinds[pack.source])
                drawn[pack.source] = Repeated(values, 0, tuple(map(as_int, pack.shape))).array()
                arguments.append(self._copied(operand, pack.array(drawn[pack.source])))
            else:
                address, repeated = self._repeated(operand, number, operand.buffer.name)
                drawn[operand.buffer.name] = repeated.array()
                arguments.append(address)
        yield self._run(arguments, drawn, None)
        for probe in make_probes(self.prim, drawn, SEED, PROBES):
            changed = list(arguments)
            for number, operand in enumerate(self.kernel.operands):
                pack = operand.pack
                name = operand.buffer.name if pack is None else pack.source
                if name in probe and probe[name] is not drawn[name]:
                    array = probe[name] if pack is None else pack.array(probe[name])
                    changed[number] = self._copied(operand, array)
            yield self._run(changed, probe, None)

    def _large_run(self) -> _Run:
        """Returns a call on inputs that repeat a few pages; some elements are compared."""
        inputs: dict[str, Any] = {}
        arguments: list[int] = []
        for number, operand in enumerate(self.kernel.operands):
            if operand.role.writes:
                arguments.append(self._outputs[operand.buffer.name].address)
                continue
            pack = operand.pack
            name = pack.source if pack else operand.buffer.name
            address, repeated = self._repeated(operand, number, name)
            inputs[name] = Unpacked(repeated, pack) if pack else repeated
            arguments.append(address)
        return self._run(arguments, inputs, self._points())

    def _copied(self, operand: Operand, array: Array) -> int:
        """Returns the address of a read-only copy with canary bytes beside it."""
        room = self._room(operand.buffer.name, array.nbytes, _alignment(operand))
        content = np.full(room.last - room.first, CANARY, np.uint8)
        begin = room.address - room.first
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        content[begin : begin + array.nbytes] = flat
        self._job.repeat(room, self._job.pages(content), content.size)
        self._job.protect(room)
        return room.address

    def _repeated(self, operand: Operand, number: int, name: str) -> tuple[int, Repeated]:
        """Returns the address of a read-only operand of random values with canary bytes beside
        it."""
        kind = self._kinds[name]
        size = _bytes(operand.buffer)
        room = self._room(operand.buffer.name, size, _alignment(operand))
        begin = number * APART % PAGES * mmap.PAGESIZE
        self._job.repeat(room, self._values.pages(kind), PAGES * mmap.PAGESIZE, begin)
        for place, length in room.beside:
            self._job.fill(place, length, CANARY)
        width = kind.dtype.bytes
        for piece, count, stride, length in padding(operand.pack) if operand.pack else ():
            pieces = room.address + (piece + stride * np.arange(count)) * width
            self._job.clear(pieces, length * width)
        self._job.protect(room)
        first = (begin + room.address - room.first) // width
        values = random_values(kind).view(operand.buffer.dtype.numpy)  # packed bytes may be shifted
        return room.address, Repeated(values, first, _shape(operand.buffer))

    def _points(self) -> dict[str, Array]:
        """Returns the elements of large outputs that are compared."""
        count = affordable_points(self.prim, SETTINGS) // 2
        rng = np.random.default_rng(SEED)
        stores = StorePoints(self.kernel.nest, self.prim.outputs, rng)
        if stores.iterations is not None:
            self._iterations, self._loops_before = stores.iterations, stores.loops_before
        points: dict[str, Array] = {}
        for buffer in self.prim.output_buffers:
            shape = _shape(buffer)
            parts = [stores.of(buffer, count)]
            if stores.iterations is None:
                parts.append(_places(sample_points(shape, count, rng), shape))
            places = np.unique(np.concatenate(parts))
            points[buffer.name] = (
                np.stack(np.unravel_index(places, shape), axis=1)
                if shape
                else np.zeros((1, 0), np.int64)
            )
        return points

    # -- operations

    def _run(
        self,
        arguments: Sequence[int],
        inputs: Mapping[str, Any],
        points: Mapping[str, Array] | None,
    ) -> _Run:
        job = self._job
        handed = [*arguments, self._workspace.address, *self.kernel.size_values]
        pointers = job.put(np.array(handed, np.int64))
        rooms = [*self._outputs.values(), self._workspace]
        for room in rooms:
            for begin, size in room.beside:
                job.fill(begin, size, CANARY_OF_RESULTS)
            if room is self._workspace or self._iterations is None:  # else zero, and mostly unused
                job.fill(room.address, room.size, GARBAGE)
        for operand in self.kernel.operands:
            if operand.begins_as is not None:
                start = np.ascontiguousarray(inputs[operand.begins_as[1]])
                job.load(self._outputs[operand.buffer.name].address, start)
        chosen = np.zeros(0, np.int64) if self._iterations is None else self._iterations
        job.choose(chosen, self._loops_before)
        job.call(self._function, pointers)
        for room in rooms:
            for begin, size in room.beside:
                self._beside.append((job.report(size), room.name))
                job.copy(self._beside[-1][0], begin)
        reports = {
            b.name: self._report(b, None if points is None else points[b.name])
            for b in self.prim.output_buffers
        }
        return _Run(inputs, points, reports)

    def _report(self, buffer: Buffer, points: Array | None) -> Report:
        """Returns the report of the elements of an output that are compared."""
        job, room, width = self._job, self._outputs[buffer.name], buffer.dtype.bytes
        if points is None:
            report = job.report(room.size)
            job.copy(report, room.address)
            return report
        if width >= 4 and self._iterations is None:
            self.meaning[job.written(room, width)] = f"parts of {buffer.name} are never written"
        places = _places(points, _shape(buffer))
        report = job.report(len(places) * width)
        job.gather(report, room.address + places * width, width)
        return report

    def _zeros(self, name: str, size: int) -> Room:
        room = self._room(name, size, 64)
        self._job.zeros(room)
        return room

    def _room(self, name: str, size: int, alignment: int) -> Room:
        self._rooms.append(self._job.room(name, size, alignment))
        return self._rooms[-1]


def _places(points: Array, shape: tuple[int, ...]) -> Array:
    """Returns row-major indices of elements with these coordinates, int64[n, rank]."""
    places = np.zeros(len(points), np.int64)
    for index, size in zip(points.T, shape, strict=True):
        places = places * size + index
    return places


def _alignment(operand: Operand) -> int:
    """Returns the alignment that the code may rely on: arrays of callers begin anywhere."""
    return 64 if operand.role == "packed" else operand.buffer.dtype.bytes


def _shape(buffer: Buffer) -> tuple[int, ...]:
    return tuple(as_int(s) for s in buffer.shape)


def _bytes(buffer: Buffer) -> int:
    return as_int(buffer.size) * buffer.dtype.bytes
