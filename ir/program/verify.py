"""Verifier of programs.

``verify`` walks the instructions once and tracks the live names, the bytes that have been written,
and their places in the arena. Any error it raises is a mistake of the compiler.
"""

from __future__ import annotations

from ..errors import InternalError
from ..window import dense_offset
from .analysis import Place, accesses, fixed_regions
from .nodes import Access, Alias, Alloc, Call, Copy, Free, Instr, Program, Region, Update

__all__ = ["ARENA_ALIGNMENT", "verify"]

ARENA_ALIGNMENT = 64
"""Bytes: every planned allocation starts on a multiple of this."""


def verify(program: Program) -> Program:
    """The program itself if it is right; else InternalError with the instruction at fault.

    Checked: names are declared once and before use; nothing is used after ``free``, freed twice or
    never; bytes are written before they are read, all outputs are written, inputs and constants
    never; aliases stay inside their memory and aligned; copies fit; operands of one call overlap
    only where both are ``@inout``; planned allocations lie aligned inside the arena, and no two
    that live at the same time share a byte; updates are of inputs, with outputs of their type.
    """
    _Verifier(program).run()
    return program


class _Verifier:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.instr: Instr | None = None
        self.index = -1
        self.places: dict[str, Place] = {}
        self.regions: dict[str, Region] = {}
        self.written: dict[str, _Bytes] = {}
        self.freed: set[str] = set()
        self.live: dict[str, Alloc] = {}

    def wrong(self, message: str) -> InternalError:
        if self.instr is None:
            return InternalError(f"program @{self.program.name}: {message}")
        at = f"instruction {self.index}: {self.instr}"
        return InternalError(f"program @{self.program.name}: {message}", notes=(at,))

    def run(self) -> None:
        program = self.program
        for region in fixed_regions(program):
            self.declare(region, Place(region.name, 0, region.nbytes))
            self.written[region.name] = _Bytes()
        for region in (*program.inputs, *(c.region for c in program.constants)):
            self.written[region.name].add(0, region.nbytes)
        self.read_only = {r.name for r in program.inputs}
        self.read_only |= {c.region.name for c in program.constants}
        for constant in program.constants:
            self.check_constant(constant.region, constant.value)
        for self.index, self.instr in enumerate(program.body):
            self.step(self.instr)
        self.instr = None
        for region in program.outputs:
            if not self.written[region.name].cover(0, region.nbytes):
                raise self.wrong(f"the output %{region.name} is not written")
        if self.live:
            raise self.wrong(f"%{min(self.live)} is never freed")
        sources = [u.source for u in program.updates]
        if sources and sources != [r.name for r in program.outputs[-len(sources) :]]:
            raise self.wrong("updates are not with the last outputs, in their order")
        for update in program.updates:
            self.check_update(update)

    def check_update(self, update: Update) -> None:
        program = self.program
        target = {r.name: r for r in program.inputs}.get(update.target)
        source = {r.name: r for r in program.outputs}.get(update.source)
        if target is None or source is None:
            raise self.wrong(
                f"{update}: %{update.target} is not an input, or %{update.source} is not an output"
            )
        window = update.window or tuple((0, 1, size) for size in target.shape)
        sizes = tuple(n for _, _, n in window)
        inside = len(window) == len(target.shape) and all(
            b >= 0 and s >= 1 and (n == 0 or b + (n - 1) * s < size)
            for (b, s, n), size in zip(window, target.shape, strict=True)
        )
        if not inside or (sizes, target.dtype) != (source.shape, source.dtype):
            raise self.wrong(f"{update}: {source.type_text} is not a window of {target.type_text}")
        if update.in_place and dense_offset(target.shape, update.window) is None:
            raise self.wrong(f"{update}: the elements are apart from one another")

    def check_constant(self, region: Region, value: object) -> None:
        shape = getattr(value, "shape", region.shape)
        dtype = getattr(value, "dtype", region.dtype.numpy)
        if shape != region.shape or dtype != region.dtype.numpy:
            raise self.wrong(f"the constant {region} has a value of {dtype}{list(shape)}")

    def declare(self, region: Region, place: Place) -> None:
        if region.name in self.places:
            raise self.wrong(f"%{region.name} is declared twice")
        if any(size < 0 for size in region.shape):
            raise self.wrong(f"{region} has a negative size")
        self.places[region.name] = place
        self.regions[region.name] = region

    def find(self, name: str) -> Place:
        place = self.places.get(name)
        if place is None:
            raise self.wrong(f"%{name} is not declared")
        if place.root in self.freed:
            raise self.wrong(f"%{name} is used after free")
        return place

    def step(self, instr: Instr) -> None:
        if isinstance(instr, Alloc):
            self.alloc(instr)
        elif isinstance(instr, Free):
            self.free(instr)
        elif isinstance(instr, Alias):
            self.alias(instr)
        else:
            if isinstance(instr, Copy):
                self.check_copy(instr)
            self.check_races(instr)
            self.access(instr)

    def alloc(self, instr: Alloc) -> None:
        region, offset, arena = instr.region, instr.offset, self.program.arena
        self.declare(region, Place(region.name, 0, region.nbytes))
        if (offset is None) != (arena is None):
            raise self.wrong(f"%{region.name} is {'not ' if offset is None else ''}planned")
        if offset is not None and arena is not None:
            if offset % ARENA_ALIGNMENT:
                raise self.wrong(f"%{region.name} is not aligned to {ARENA_ALIGNMENT} bytes")
            if not 0 <= offset <= offset + region.nbytes <= arena:
                raise self.wrong(f"%{region.name} lies outside the arena")
            for other in self.live.values():
                begin = other.offset or 0
                if offset < begin + other.region.nbytes and begin < offset + region.nbytes:
                    raise self.wrong(f"%{region.name} shares bytes with %{other.region.name}")
        self.live[region.name] = instr
        self.written[region.name] = _Bytes()

    def free(self, instr: Free) -> None:
        self.find(instr.name)
        if instr.name not in self.live:
            raise self.wrong(f"%{instr.name} is not an allocation")
        del self.live[instr.name]
        self.freed.add(instr.name)

    def alias(self, instr: Alias) -> None:
        source = self.find(instr.source)
        begin = source.begin + instr.offset
        place = Place(source.root, begin, begin + instr.region.nbytes)
        if not source.begin <= begin <= place.end <= source.end:
            raise self.wrong(f"%{instr.region.name} leaves the bytes of %{instr.source}")
        if begin % instr.region.dtype.bytes:
            raise self.wrong(f"%{instr.region.name} is not aligned to its elements")
        self.declare(instr.region, place)

    def check_copy(self, instr: Copy) -> None:
        source, target = self.find(instr.source), self.find(instr.target)
        if source.end - source.begin != target.end - target.begin:
            raise self.wrong("the sizes of a copy differ")

    def check_races(self, instr: Call | Copy) -> None:
        touched = [(self.find(name), name, access) for name, access in accesses(instr)]
        for i, (place, name, access) in enumerate(touched):
            for other, other_name, other_access in touched[:i]:
                if not place.overlaps(other) or not (access.writes or other_access.writes):
                    continue
                both = access is Access.INOUT and other_access is Access.INOUT
                if not both or place != other:
                    raise self.wrong(f"%{other_name} and %{name} share bytes that are written")

    def access(self, instr: Call | Copy) -> None:
        for name, access in accesses(instr):
            place = self.places[name]
            if access.reads and not self.written[place.root].cover(place.begin, place.end):
                raise self.wrong(f"%{name} is read before it is written")
        for name, access in accesses(instr):
            place = self.places[name]
            if access.writes and place.root in self.read_only:
                raise self.wrong(f"%{name} is read-only")
            if access.writes:
                self.written[place.root].add(place.begin, place.end)


class _Bytes:
    """A set of bytes as disjoint half-open ranges in order."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def add(self, begin: int, end: int) -> None:
        apart = [r for r in self.ranges if r[1] < begin or end < r[0]]
        joined = [r for r in self.ranges if not (r[1] < begin or end < r[0])]
        begin = min([begin, *(r[0] for r in joined)])
        end = max([end, *(r[1] for r in joined)])
        self.ranges = sorted([*apart, (begin, end)])

    def cover(self, begin: int, end: int) -> bool:
        return begin == end or any(b <= begin and end <= e for b, e in self.ranges)
