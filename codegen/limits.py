"""The size of a kernel's code and private buffers, found on the nest before any code is written.

::

    unroll i in 1024:                    1,024 copies of the store below, ...
      for k in 64:
        vectorize j in 48:               ... of 3 vectors each
          t[i, j] = x[i, k] * w[k, j]

The count of instructions is an estimate; ``FunctionWriter`` has a limit of its own, whatever was
estimated. What only the text shows is looked up there, by ``check_text``: the limits together bound
the time that LLVM takes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..ir.dims import Dim
from ..ir.errors import ScheduleError
from ..ir.loop.block_tiles import greatest
from ..ir.loop.expr import Expr, Read, walk
from ..ir.loop.kinds import LoopKind, Scope
from ..ir.loop.nest import Accumulate, Alloc, If, Loop, Nest, Stmt, Store, statements
from ..ir.loop.prim import PrimFunc
from ..ir.loop.stride import stride_along
from ..ir.schedule.limits import LIMITS, buffer_bytes
from .target import Target

LOOP = 12
"""Instructions that a loop counts as: each has basic blocks of its own, which cost LLVM time."""


def check_limits(prim: PrimFunc, nest: Nest, target: Target) -> None:
    """Raises ScheduleError if a nest of ``prim`` has too much code or workspace."""
    held = [s for s in statements(nest.body) if isinstance(s, Alloc) and s.scope == Scope.TILES]
    most = max(LIMITS.instructions, 8 * sum(_size(s.expr) for s in prim.stages))
    _Count(target.lanes(4), most, {s.buffer.name for s in held}).body(nest.body, 1, None)
    if target.sums is not None:
        target.sums.check(prim, nest)
    natural = prim.buffers.values()
    LIMITS.check_copies("the workspace", buffer_bytes(nest.workspace), buffer_bytes(natural))


def check_text(text: str) -> None:
    """Raises ScheduleError if LLVM would take too long for a module: too many instructions (inlined
    functions included), or too many loads and stores in a row.
    """
    if text.count("\n") < _SHORT_TEXT:
        return
    functions: dict[str, str] = {}
    for part in text.split("\ndefine ")[1:]:
        at = part.index("@")
        functions[part[at : part.index("(", at) + 1]] = part[: part.find("\n}")]
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        if name not in sizes:
            sizes[name] = functions[name].count("\n")
            sizes[name] += sum(
                count * size(other)
                for other in functions
                if other != name and (count := functions[name].count(other))
            )
        return sizes[name]

    longest = max(map(size, functions), default=0)
    if longest > LIMITS.inlined:
        raise ScheduleError(
            f"the kernel has {longest} instructions, more than {LIMITS.inlined} with its functions:"
            " LLVM would take too long for them"
        )
    for body in functions.values():
        if body.count("\n") <= LIMITS.byte_stores:
            continue
        blocks = _LABEL.split(body)
        most = max(sum(map(block.count, _ACCESSES)) for block in blocks)
        if most > LIMITS.accesses:
            raise ScheduleError(
                f"the kernel has {most} loads and stores in a row, more than {LIMITS.accesses}: "
                "LLVM would take too long for them"
            )
        most = max(block.count(_BYTE_STORE) for block in blocks)
        if most > LIMITS.byte_stores:
            raise ScheduleError(
                f"the kernel has {most} stores of single bytes in a row, more than "
                f"{LIMITS.byte_stores}: LLVM would take too long for them"
            )


_SHORT_TEXT = 300  # modules of fewer lines are not checked
_BYTE_STORE = "\n  store i8 "
_ACCESSES = ("= load ", "\n  store ", "@llvm.masked.")
_LABEL = re.compile(r"\n[\w.]+:")


def text_limit(nest: Nest) -> int:
    """Values that the text of a kernel may have: the backstop of ``check_limits``."""
    values = [s.value for s in statements(nest.body) if isinstance(s, Store | Accumulate)]
    return max(LIMITS.values, 8 * sum(map(_size, values)))


def _size(expr: Expr) -> int:
    return 1 + sum(1 + isinstance(node, Read) for node in walk(expr))


class _Count:
    """Adds up the instructions of statements until there are more than ``most``."""

    def __init__(self, lanes: int, most: int, tiles: set[str]) -> None:
        self.lanes, self.most = lanes, most
        self.tiles = tiles  # buffers in tile registers: an instruction adds to 1,024 bytes of one
        self.instructions = 0

    def body(self, body: Sequence[Stmt], copies: int, vector: Loop | None) -> None:
        """Count statements that are written ``copies`` times, inside of a ``vector`` loop."""
        for stmt in body:
            if isinstance(stmt, Loop):
                if stmt.kind == LoopKind.UNROLL:
                    self.body(stmt.body, copies * stmt.trips, vector)
                elif stmt.kind == LoopKind.VECTORIZE:
                    self.body(stmt.body, copies * -(-greatest(stmt.extent) // self.lanes), stmt)
                else:
                    self.add(LOOP * copies)
                    self.body(stmt.body, copies, vector)
            elif isinstance(stmt, If):
                self.add(3 * copies)
                self.body(stmt.then, copies, vector)
                self.body(stmt.orelse, copies, vector)
            elif not isinstance(stmt, Store | Accumulate):
                self.add(copies)
            elif stmt.buffer not in self.tiles:
                self.add(copies * (_size(stmt.value) + self.scattered(stmt, vector)))

    def scattered(self, stmt: Store | Accumulate, vector: Loop | None) -> int:
        """Instructions that move single lanes, for elements that are not contiguous."""
        if vector is None:
            return 0
        reads = [node.indices for node in walk(stmt.value) if isinstance(node, Read)]
        places = [
            indices
            for indices in (stmt.indices, *reads)
            if any(
                isinstance(i, Dim) and stride_along(i, vector.var) not in (0, 1) for i in indices
            )
        ]
        return 2 * self.lanes * len(places)

    def add(self, instructions: int) -> None:
        self.instructions += instructions
        if self.instructions > self.most:
            raise ScheduleError(f"the kernel has more than {self.most} instructions")


SPILLED = 4
"""Register files that accumulators may take: beyond, every step loads and stores them."""


def check_private_buffers(nest: Nest, target: Target) -> None:
    """ScheduleError if the private buffers of a nest take more than the stack, or if its
    accumulators are so many that they are memory."""
    stack: dict[str, int] = {}
    for stmt in statements(nest.body):
        if not isinstance(stmt, Alloc):
            continue
        size = buffer_bytes([stmt.buffer])
        stack[stmt.buffer.name] = max(size, stack.get(stmt.buffer.name, 0))
        if stmt.scope == Scope.REGISTERS and size > SPILLED * target.register_bytes:
            raise ScheduleError(f"{stmt.buffer.name} is larger than the registers")
    if sum(stack.values()) > LIMITS.stack_bytes:
        raise ScheduleError(f"private buffers take more than {LIMITS.stack_bytes} bytes of stack")
