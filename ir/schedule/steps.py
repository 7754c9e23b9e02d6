"""Schedules as data: a tuple of steps, each one primitive with its arguments.

::

    Schedule ::= Step*
    Step     ::= split(axis, factors) | reorder(loop, ...) | fuse(loop, ...)
               | parallel(loop) | vectorize(loop) | unroll(loop)
               | compute_inline(stage) | compute_at(stage, loop)
               | cache_write(stage, scope, at) | rfactor(stage, loop)
               | split_reduction(stage, axis, parts) | pack(buffer, axis, tile)
               | stream(stage) | prefetch(stage, buffer, loop, distance)
               | prefetch_next(stage, buffer, loop)
               | peel(loop, first, last) | cut(axis, points)
               | blockwise(stage, parts) | layout(stage, axis, ...)
               | cache_read(buffer, axis, ...) | own_axis(stage, axis) | skip(stage, loop)
               | pack_grouped(buffer, axis, tile, along, group)
               | pack_at(buffer, axis, tile, loop) | shift_bytes(stage, buffer)
               | mirror(stage, loop) | tensorize(loop, instruction)

A schedule prints as the Python that builds it, and its JSON is what the log holds. The
meaning of a step is the function of its name (``PRIMITIVES`` in ``primitives.py``). The integers
of steps may be ``Column`` objects, one for each of many schedules (``columns.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..dataclass import dataclass
from ..errors import ScheduleError
from .columns import plain

# fmt: off
__all__ = [
    "Schedule", "Step", "blockwise", "cache_read", "cache_write", "compute_at", "compute_inline",
    "cut", "fuse", "layout", "mirror", "own_axis", "pack", "pack_at", "pack_grouped", "parallel",
    "peel", "prefetch", "prefetch_next", "reorder", "rfactor", "shift_bytes", "skip", "split",
    "split_reduction", "stream", "tensorize", "unroll", "vectorize",
]
# fmt: on

# The kind of each argument of a primitive: a name, an int, or a list of one of them.
SIGNATURES: dict[str, tuple[str, ...]] = {
    "split": ("name", "ints"),
    "reorder": ("names",),
    "fuse": ("names",),
    "parallel": ("name",),
    "vectorize": ("name",),
    "unroll": ("name",),
    "tensorize": ("name", "name"),
    "compute_inline": ("name",),
    "compute_at": ("name", "name"),
    "cache_write": ("name", "name", "name"),
    "rfactor": ("name", "name"),
    "split_reduction": ("name", "name", "int"),
    "pack": ("name", "name", "int"),
    "pack_grouped": ("name", "name", "int", "name", "int"),
    "pack_at": ("name", "name", "int", "name"),
    "stream": ("name",),
    "prefetch": ("name", "name", "name", "int"),
    "prefetch_next": ("name", "name", "name"),
    "peel": ("name", "int", "int"),
    "cut": ("name", "ints"),
    "blockwise": ("name", "int"),
    "layout": ("name", "names"),
    "cache_read": ("name", "names"),
    "own_axis": ("name", "name"),
    "skip": ("name", "name"),
    "shift_bytes": ("name", "name"),
    "mirror": ("name", "name"),
}


LONGEST_SCHEDULE = 1000
"""Steps of a schedule from outside; each costs a look at the whole nest."""


@dataclass(frozen=True, slots=True)
class Step:
    """One primitive applied: ``name`` is a key of ``SIGNATURES``."""

    name: str
    args: tuple[Any, ...]

    def __str__(self) -> str:
        parts: list[str] = []
        for kind, arg in zip(SIGNATURES[self.name], self.args, strict=True):
            if kind == "names":
                parts += [repr(a) for a in arg]
            else:
                parts.append(repr(arg))
        return f"{self.name}({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A tuple of steps, in order. ``Schedule()`` is the plain nest: separate loops per stage."""

    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        if not self.steps:
            return "Schedule()"
        lines = "".join(f"    {step},\n" for step in self.steps)
        return f"Schedule.of(\n{lines})"

    @property
    def split_axes(self) -> frozenset[str]:
        """The axes that are split."""
        return frozenset(s.args[0] for s in self.steps if s.name == "split")

    @property
    def vectorized(self) -> frozenset[str]:
        """The loops that run in vector lanes."""
        return frozenset(s.args[0] for s in self.steps if s.name == "vectorize")

    @staticmethod
    def of(*steps: Step) -> Schedule:
        """The schedule of these steps.

        >>> str(Schedule.of(vectorize("j.1")).steps[0])
        "vectorize('j.1')"
        """
        return Schedule(tuple(steps))

    def renamed(self, names: Mapping[str, str]) -> Schedule:
        """The same schedule of a PrimFunc whose axes and buffers have other names.

        >>> print(Schedule.of(fuse("row.0", "col")).renamed({"row": "i", "col": "j"}).steps[0])
        fuse('i.0', 'j')
        """

        def new(name: str) -> str:
            parts = (loop.partition(".") for loop in name.split("*"))
            return "*".join(f"{names.get(axis, axis)}{dot}{rest}" for axis, dot, rest in parts)

        def argument(kind: str, value: Any) -> Any:
            if kind == "name":
                return new(value)
            return tuple(map(new, value)) if kind == "names" else value

        return Schedule(
            tuple(
                Step(s.name, tuple(map(argument, SIGNATURES[s.name], s.args))) for s in self.steps
            )
        )

    def to_json(self) -> list[list[Any]]:
        """A list of ``[primitive, argument, ...]`` with lists for tuples."""
        return [
            [s.name, *(list(a) if isinstance(a, tuple) else a for a in s.args)] for s in self.steps
        ]

    @staticmethod
    def from_json(data: object) -> Schedule:
        """Read what ``to_json`` wrote; raises ScheduleError for anything else."""
        if not isinstance(data, list):
            raise ScheduleError(f"a schedule is a list of steps, not {type(data).__name__}")
        if len(data) > LONGEST_SCHEDULE:
            raise ScheduleError(f"{len(data)} steps are more than {LONGEST_SCHEDULE}")
        return Schedule(tuple(_step(item) for item in data))


def _step(item: object) -> Step:
    named = isinstance(item, list) and item and isinstance(item[0], str)
    if not isinstance(item, list) or not named or item[0] not in SIGNATURES:
        raise ScheduleError(f"{item!r:.80} is not a schedule step")
    name, *args = item
    signature = SIGNATURES[name]
    if len(args) != len(signature):
        raise ScheduleError(f"{name} takes {len(signature)} arguments, not {len(args)}")
    return Step(name, tuple(_argument(name, kind, a) for kind, a in zip(signature, args)))


def _argument(step: str, kind: str, value: object) -> Any:
    def is_int(v: object) -> bool:
        return isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**40

    if kind == "name" and isinstance(value, str) and len(value) < 200:
        return value
    if kind == "int" and is_int(value):
        return value
    if isinstance(value, list) and len(value) < 200:
        if kind == "names" and all(isinstance(v, str) for v in value):
            return tuple(value)
        if kind == "ints" and value and all(is_int(v) for v in value):
            return tuple(value)
    raise ScheduleError(f"{step}: {value!r:.80} is not of the kind {kind}")


def split(axis: str, factors: Sequence[int]) -> Step:
    """Split an axis into loops, outermost first: ``split("i", (16, 8))``."""
    return Step("split", (axis, tuple(plain(f) for f in factors)))


def reorder(*loops: str) -> Step:
    """Put loops in this order."""
    return Step("reorder", (tuple(loops),))


def fuse(*loops: str) -> Step:
    """Make one loop of loops directly inside one another."""
    return Step("fuse", (tuple(loops),))


def parallel(loop: str) -> Step:
    """Share the iterations of a loop among the threads."""
    return Step("parallel", (loop,))


def vectorize(loop: str) -> Step:
    """Run a loop in vector lanes."""
    return Step("vectorize", (loop,))


def unroll(loop: str) -> Step:
    """Write the body of a loop once per iteration."""
    return Step("unroll", (loop,))


def tensorize(loop: str, instruction: str) -> Step:
    """Run a loop by a machine instruction: "vnni" or "amx"."""
    return Step("tensorize", (loop, instruction))


def compute_inline(stage: str) -> Step:
    """Put a map into its readers."""
    return Step("compute_inline", (stage,))


def compute_at(stage: str, loop: str) -> Step:
    """Compute a stage inside a loop of the stages before it."""
    return Step("compute_at", (stage, loop))


def cache_write(stage: str, scope: str, at: str) -> Step:
    """Accumulate a reduction in a private tile inside the loop ``at``."""
    return Step("cache_write", (stage, scope, at))


def rfactor(stage: str, loop: str) -> Step:
    """Give every iteration of a reduced loop a separate accumulator."""
    return Step("rfactor", (stage, loop))


def split_reduction(stage: str, axis: str, parts: int) -> Step:
    """Reduce in ``parts`` pieces, then join them."""
    return Step("split_reduction", (stage, axis, plain(parts)))


def pack(buffer: str, axis: str, tile: int) -> Step:
    """Copy an operand into panels of ``tile`` along the dimension that ``axis`` walks.

    Steps on the loops ``x.packed.*`` of the copy say how it runs.
    """
    return Step("pack", (buffer, axis, plain(tile)))


def pack_grouped(buffer: str, axis: str, tile: int, along: str, group: int) -> Step:
    """Copy an operand into panels, with ``group`` neighbours along another axis contiguous."""
    return Step("pack_grouped", (buffer, axis, plain(tile), along, plain(group)))


def shift_bytes(stage: str, buffer: str) -> Step:
    """Shift packed bytes by 128 and subtract the excess from the sums of ``stage``."""
    return Step("shift_bytes", (stage, buffer))


def pack_at(buffer: str, axis: str, tile: int, loop: str) -> Step:
    """Copy what each iteration of a loop reads of an operand into panels along ``axis``."""
    return Step("pack_at", (buffer, axis, plain(tile), loop))


def stream(stage: str) -> Step:
    """Store the result of a stage with non-temporal stores."""
    return Step("stream", (stage,))


def prefetch(stage: str, buffer: str, loop: str, distance: int = 1) -> Step:
    """Prefetch what a stage reads of an operand ``distance`` iterations of a loop later."""
    return Step("prefetch", (stage, buffer, loop, plain(distance)))


def prefetch_next(stage: str, buffer: str, loop: str) -> Step:
    """Prefetch what a stage reads of panels in the next iteration of a loop, bit by bit."""
    return Step("prefetch_next", (stage, buffer, loop))


def peel(loop: str, first: int, last: int) -> Step:
    """Give the first and the last iterations of a loop separate bodies."""
    return Step("peel", (loop, plain(first), plain(last)))


def cut(axis: str, points: Sequence[int]) -> Step:
    """Run an axis in pieces, each with a separate body: ``cut("i", (8, 92))``."""
    return Step("cut", (axis, tuple(plain(p) for p in points)))


def blockwise(stage: str, parts: int) -> Step:
    """Cut rows into ``parts`` pieces, each with a maximum of its own (online softmax)."""
    return Step("blockwise", (stage, plain(parts)))


def layout(stage: str, *axes: str) -> Step:
    """Keep an intermediate value with its dimensions in this order."""
    return Step("layout", (stage, tuple(axes)))


def cache_read(buffer: str, *axes: str) -> Step:
    """Copy the part of a buffer that is read into a stage that walks these axes."""
    return Step("cache_read", (buffer, tuple(axes)))


def own_axis(stage: str, axis: str) -> Step:
    """Let a stage walk an axis in a separate loop."""
    return Step("own_axis", (stage, axis))


def skip(stage: str, loop: str) -> Step:
    """Skip the iterations of a loop in which a stage is masked throughout."""
    return Step("skip", (stage, loop))


def mirror(stage: str, loop: str) -> Step:
    """Compute one triangle of the blocks of a symmetric stage and store each twice."""
    return Step("mirror", (stage, loop))
