"""PrimFunc: the meaning of one fused group, as a short list of tensor expressions.

::

    PrimFunc ::= "prim @" name "(" Param, ... ")" "->" Buffer, ... "{" Stage* "}"
    Param    ::= Buffer ["const"]
    Buffer   ::= name ":" dtype "[" size, ... "]"
    Stage    ::= Target "=" Expr                                        a map
               | Target "=" combiner "(" axis ":" extent, ... ")" Expr  a reduction
    Target   ::= output "[" axis, ... "]"
               | name "[" axis, ... "]" ":" dtype "[" size, ... "]"     an intermediate value

An axis name means one loop of the whole PrimFunc: stages that walk an axis together use the same
name, and only then can a schedule compute one inside the loops of the other.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ..dataclass import dataclass
from ..dims import IntExpr, product
from ..dtype import DType
from .expr import Expr, statement_text

__all__ = ["Axis", "Buffer", "PrimFunc", "Stage"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A row-major array. ``constant`` says its values are known when the kernel is compiled."""

    name: str
    shape: tuple[IntExpr, ...]
    dtype: DType
    constant: bool = False

    @property
    def size(self) -> IntExpr:
        return product(self.shape)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Axis:
    """An iteration axis; its index is ``symbol(name)``, from 0 to ``extent - 1``."""

    name: str
    extent: IntExpr


@dataclass(frozen=True, slots=True)
class Stage:
    """``buffer[axes] = combiner over reduce_axes of expr``; ``expr`` alone without a combiner."""

    buffer: Buffer
    axes: tuple[Axis, ...]
    expr: Expr
    reduce_axes: tuple[Axis, ...] = ()
    combiner: str | None = None

    @property
    def name(self) -> str:
        return self.buffer.name

    def text(self, output: bool) -> str:
        """The stage as its PrimFunc prints it: the type of an ``output`` stands in the header."""
        left = f"{self.name}[{', '.join(a.name for a in self.axes)}]"
        if not output:
            left += f": {self.buffer.dtype}[{', '.join(map(str, self.buffer.shape))}]"
        if self.combiner is None:
            return f"{left} = {statement_text(self.expr)}"
        over = ", ".join(f"{a.name}: {a.extent}" for a in self.reduce_axes)
        return f"{left} = {self.combiner}({over}) {statement_text(self.expr)}"

    def __str__(self) -> str:
        return self.text(output=False)


@dataclass(frozen=True)
class PrimFunc:
    """Parameters are read, outputs are stages by name, other stages are intermediate.

    ``stages`` are in order: each reads only parameters and stages before it. ``derived`` caches
    values computed from a PrimFunc, such as its workload's text and its last loop nests, by name;
    it takes no part in equality and is not pickled.
    """

    name: str
    params: tuple[Buffer, ...]
    outputs: tuple[str, ...]
    stages: tuple[Stage, ...]
    derived: dict[str, Any] = field(init=False, repr=False, compare=False)
    _by_name: dict[str, Stage] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "derived", {})
        object.__setattr__(self, "_by_name", {s.name: s for s in self.stages})

    def __getstate__(self) -> tuple[Any, ...]:
        return self.name, self.params, self.outputs, self.stages

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for name, value in zip(("name", "params", "outputs", "stages"), state, strict=True):
            object.__setattr__(self, name, value)
        self.__post_init__()

    def stage(self, name: str) -> Stage:
        return self._by_name[name]

    @property
    def output_buffers(self) -> tuple[Buffer, ...]:
        return tuple(self.stage(name).buffer for name in self.outputs)

    @property
    def buffers(self) -> dict[str, Buffer]:
        return {b.name: b for b in (*self.params, *(s.buffer for s in self.stages))}

    def __str__(self) -> str:
        params = ", ".join(f"{p}" + (" const" if p.constant else "") for p in self.params)
        outs = ", ".join(map(str, self.output_buffers))
        body = "".join(f"  {s.text(s.name in self.outputs)}\n" for s in self.stages)
        return f"prim @{self.name}({params}) -> {outs} {{\n{body}}}"
