"""Computes the cost of a call from its loops: arithmetic, bytes and memory of each line."""

from __future__ import annotations

from ..driver.built import Built
from ..ir.dataclass import dataclass
from ..ir.dims import typical
from ..ir.errors import UnsupportedError
from ..ir.graph.printer import span_text
from ..ir.span import Span
from ..text import bytes_text, shortened, table
from .kernel_calls import SPAN_WIDTH, works_of


@dataclass(frozen=True, slots=True)
class LineCost:
    """The cost of the kernel calls of one line of the user's, each counted once: loops of the
    program repeat theirs. ``flops`` are operations of arithmetic; ``nbytes`` the sizes of all
    operands; ``moved`` the bytes that go to memory and back with the caches of the target; ``live``
    the most bytes of the arena that hold values meanwhile."""

    span: Span | None
    kernels: tuple[str, ...]
    flops: float
    nbytes: int
    moved: float
    live: int


@dataclass(frozen=True, slots=True)
class Cost:
    """The costs of a call, ``lines`` in the order in which they run first. ``arena`` is the size of
    the memory for values in between, of typical sizes where they are symbolic. ``str`` is a
    table."""

    name: str
    lines: tuple[LineCost, ...]
    arena: int

    @property
    def flops(self) -> float:
        """Operations of arithmetic of all lines."""
        return sum(line.flops for line in self.lines)

    @property
    def nbytes(self) -> int:
        """Bytes of the operands of all lines."""
        return sum(line.nbytes for line in self.lines)

    def __str__(self) -> str:
        rows = [
            (
                shortened(span_text(line.span) if line.span else line.kernels[0], SPAN_WIDTH),
                _count(line.flops),
                bytes_text(line.nbytes),
                bytes_text(round(line.moved)),
                bytes_text(line.live),
            )
            for line in self.lines
        ]
        total = f"{self.name}   {_count(self.flops)} operations, {bytes_text(self.nbytes)} in "
        total += f"operands, {bytes_text(self.arena)} of arena"
        head = ("line", "operations", "operands", "to memory", "live")
        return "\n\n".join([total, table(head, rows)] if rows else [total])


def cost_of(built: Built, name: str = "") -> Cost:
    """Returns the cost of a call of a build; nothing is run or measured.

    Raises UnsupportedError for a build that does not say what it is made of.
    """
    parts = built.parts
    if parts is None:
        raise UnsupportedError("this build does not say what it is made of")
    lines: dict[tuple[str, int] | str, LineCost] = {}
    for call, place, _, work in works_of(parts, parts.target):
        key = call.kernel if call.span is None else (call.span.file, call.span.line)
        line = lines.get(key) or LineCost(call.span, (), 0, 0, 0, 0)
        lines[key] = LineCost(
            line.span,
            (*line.kernels, call.kernel),
            line.flops + work.flops,
            line.nbytes + typical(place.nbytes),
            line.moved + work.traffic["dram"].total,
            max(line.live, typical(place.live)),
        )
    return Cost(name, tuple(lines.values()), typical(parts.program.scratch))


def _count(number: float) -> str:
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= factor:
            return f"{number / factor:.4g} {unit}"
    return f"{number:g}"
