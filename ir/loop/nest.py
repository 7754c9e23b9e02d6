"""The loop nest: a PrimFunc with a schedule applied.

::

    Nest   ::= "prim @" name "(" Operand, ... ")" "{" Stmt* "}"
    Stmt   ::= kind var "in" extent ":" Stmt*
             | "let" var "=" int_expr                          until the end of the enclosing body
             | scope name "[" size, ... "]"                    scope: registers | stack
             | ["stream"] buffer "[" int_expr, ... "]" "=" Expr    Store
             | buffer "[" int_expr, ... "]" combiner"=" Expr   Accumulate
             | "if" Expr ":" Stmt* ["else:" Stmt*]
    kind   ::= "for" | "parallel" | "vectorize" | "unroll"

Every extent is a constant: where a split does not divide, the body stands once more for the rest.
A ``registers`` buffer is private to the innermost body; so is a ``stack`` buffer, which lives in
memory; a ``workspace`` buffer is shared by the threads of a parallel loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ..dims import IntExpr, as_int
from .expr import Expr, expr_text
from .prim import Buffer, Stage

__all__ = [
    "Accumulate",
    "Alloc",
    "If",
    "Let",
    "Loop",
    "Nest",
    "Operand",
    "Pack",
    "Stmt",
    "Store",
    "statements",
]


@dataclass(frozen=True, slots=True)
class Loop:
    """``kind`` is for, parallel, vectorize or unroll; ``var`` runs from 0 to ``extent - 1``."""

    kind: str
    var: str
    extent: int
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Let:
    var: str
    value: IntExpr


@dataclass(frozen=True, slots=True)
class Alloc:
    """A buffer that lives until the end of the enclosing body. ``scope``: registers or stack."""

    buffer: Buffer
    scope: str


@dataclass(frozen=True, slots=True)
class Store:
    """``stream``: past the caches, for what nobody reads soon."""

    buffer: str
    indices: tuple[IntExpr, ...]
    value: Expr
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Accumulate:
    """``buffer[indices] = combiner(buffer[indices], value)``."""

    buffer: str
    indices: tuple[IntExpr, ...]
    combiner: str
    value: Expr


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


Stmt: TypeAlias = Loop | Let | Alloc | Store | Accumulate | If


@dataclass(frozen=True, slots=True)
class Pack:
    """How a packed operand is made from the parameter ``source``, as ``stage`` says.

    Dimension ``dim`` is cut into panels of ``tile``; panels come first, the place in a panel last.
    """

    source: str
    dim: int
    tile: int
    stage: Stage

    def array(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The packed copy of an array: shape ``[panels, other dimensions..., tile]``.

        ``values`` may have any shape with the elements of the source in their order.
        """
        rest = [as_int(size) for size in self.stage.buffer.shape[1:-1]]
        size = values.size // max(1, prod(rest))
        values = values.reshape(*rest[: self.dim], size, *rest[self.dim :])
        panels = -(-size // self.tile)
        moved = np.moveaxis(values, self.dim, -1)
        padded = np.zeros((*moved.shape[:-1], panels * self.tile), values.dtype)
        padded[..., :size] = moved
        cut = padded.reshape(*moved.shape[:-1], panels, self.tile)
        return np.ascontiguousarray(np.moveaxis(cut, -2, 0))


@dataclass(frozen=True, slots=True)
class Operand:
    """What the kernel is handed: ``role`` is in, const, packed (then ``pack`` says how) or out."""

    buffer: Buffer
    role: str
    pack: Pack | None = None


@dataclass(frozen=True, slots=True)
class Nest:
    """``workspace`` buffers are handed to the kernel as one block of scratch memory."""

    name: str
    operands: tuple[Operand, ...]
    workspace: tuple[Buffer, ...]
    body: tuple[Stmt, ...]

    @property
    def buffers(self) -> dict[str, Buffer]:
        """All buffers by name, local ones included (their greatest extent where tails differ)."""
        found = {o.buffer.name: o.buffer for o in self.operands}
        found.update((b.name, b) for b in self.workspace)
        for stmt in statements(self.body):
            if isinstance(stmt, Alloc):
                found.setdefault(stmt.buffer.name, stmt.buffer)
        return found

    def __str__(self) -> str:
        operands = ", ".join(f"{o.buffer}" for o in self.operands)
        lines = [f"prim @{self.name}({operands}) {{"]
        lines += [f"  workspace {b}" for b in self.workspace]
        _print(self.body, 1, lines)
        return "\n".join([*lines, "}"]) + "\n"


_COMBINE = {"sum": "+=", "prod": "*=", "max": "max=", "min": "min=", "any": "or=", "all": "and="}


def _print(body: tuple[Stmt, ...], depth: int, lines: list[str]) -> None:
    pad = "  " * depth
    for stmt in body:
        if isinstance(stmt, Loop):
            lines.append(f"{pad}{stmt.kind} {stmt.var} in {stmt.extent}:")
            _print(stmt.body, depth + 1, lines)
        elif isinstance(stmt, Let):
            lines.append(f"{pad}let {stmt.var} = {stmt.value}")
        elif isinstance(stmt, Alloc):
            sizes = ", ".join(map(str, stmt.buffer.shape))
            lines.append(f"{pad}{stmt.scope} {stmt.buffer.name}: {stmt.buffer.dtype}[{sizes}]")
        elif isinstance(stmt, If):
            lines.append(f"{pad}if {stmt.condition}:")
            _print(stmt.then, depth + 1, lines)
            if stmt.orelse:
                lines.append(f"{pad}else:")
                _print(stmt.orelse, depth + 1, lines)
        else:
            sign = "=" if isinstance(stmt, Store) else _COMBINE[stmt.combiner]
            indices = ", ".join(map(str, stmt.indices))
            how = "stream " if isinstance(stmt, Store) and stmt.stream else ""
            lines.append(f"{pad}{how}{stmt.buffer}[{indices}] {sign} {expr_text(stmt.value)}")


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement below ``body``, outer before inner."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, Loop):
            yield from statements(stmt.body)
        elif isinstance(stmt, If):
            yield from statements(stmt.then)
            yield from statements(stmt.orelse)
