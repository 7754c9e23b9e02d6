"""PrimFunc: the meaning of one fused group, as a short list of tensor expressions.

::

    PrimFunc ::= "prim @" name "(" Param, ... ")" "->" Buffer, ... ["for" Size, ...] "{" Stage* "}"
    Param    ::= Buffer ["const"]
    Size     ::= name "in" low ".." high                     a symbolic size, both ends inclusive
    Buffer   ::= name ":" dtype "[" size, ... "]"
    Stage    ::= Target "=" Expr                                        a map
               | Target "=" combiner "(" axis ":" extent, ... ")" Expr  a reduction
    Target   ::= output "[" axis, ... "]"
               | name "[" axis, ... "]" ":" dtype "[" size, ... "]"     an intermediate value

An axis name means one loop of the whole PrimFunc: stages that walk an axis together use the same
name, and only then can a schedule compute one inside the loops of the other.

Sizes, and indices, may contain symbolic sizes, which a kernel takes as integers behind its buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, TypeVar

from ..dataclass import dataclass
from ..dims import IntExpr, Symbol, product, size_symbols, substitute
from ..dtype import DType
from .decide import worked_out
from .expr import Expr, Index, Read, statement_text, walk

P = TypeVar("P", bound="PrimFunc")


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

    def at(self, values: Mapping[str, IntExpr]) -> Buffer:
        """The buffer with values for symbolic sizes."""
        shape = tuple([substitute(s, values) for s in self.shape])
        return replace(self, shape=shape)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Axis:
    """An iteration axis; its index is ``symbol(name)``, from 0 to ``extent - 1``."""

    name: str
    extent: IntExpr

    def at(self, values: Mapping[str, IntExpr]) -> Axis:
        """The axis with values for symbolic sizes."""
        return Axis(self.name, substitute(self.extent, values))


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

    def at(self, values: Mapping[str, IntExpr]) -> Stage:
        """The stage with values for symbolic sizes; conditions that they decide are worked out."""
        return Stage(
            self.buffer.at(values),
            tuple([a.at(values) for a in self.axes]),
            worked_out(self.expr, values, {}, {}),
            tuple([a.at(values) for a in self.reduce_axes]),
            self.combiner,
        )

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
    it takes no part in equality and is not pickled. ``size_order`` are its symbolic sizes, if their
    order is not that in which they appear.
    """

    name: str
    params: tuple[Buffer, ...]
    outputs: tuple[str, ...]
    stages: tuple[Stage, ...]
    size_order: tuple[Symbol, ...] = field(default=(), repr=False, compare=False)
    derived: dict[str, Any] = field(init=False, repr=False, compare=False)
    _by_name: dict[str, Stage] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "derived", {})
        object.__setattr__(self, "_by_name", {s.name: s for s in self.stages})

    def __getstate__(self) -> tuple[Any, ...]:
        return self.name, self.params, self.outputs, self.stages, self.size_order

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        names = ("name", "params", "outputs", "stages", "size_order")
        for name, value in zip(names, state, strict=True):
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

    @property
    def sizes(self) -> tuple[Symbol, ...]:
        """The symbolic sizes, by default in order of appearance: in the shapes of the parameters,
        then in the stages. The order is that in which a kernel takes their values."""
        if self.size_order:
            return self.size_order
        sizes: tuple[Symbol, ...] | None = self.derived.get("sizes")
        if sizes is None:
            sizes = self.derived["sizes"] = tuple(size_symbols(*self._size_exprs()).values())
        return sizes

    def _size_exprs(self) -> Iterator[IntExpr]:
        """Yields all that may contain symbolic sizes, in order."""
        for param in self.params:
            yield from param.shape
        for stage in self.stages:
            yield from stage.buffer.shape
            for axis in stage.reduce_axes:
                yield axis.extent
            yield from sizes_in(stage.expr)

    def at(self: P, values: Mapping[str, IntExpr]) -> P:
        """The PrimFunc with numbers, or other expressions, for symbolic sizes, by name.

        Stages, axes and buffers keep their names, so that a schedule of it is one of ``self``.

        >>> from ..dims import size
        >>> from ..dtype import FLOAT32
        >>> from .expr import read
        >>> from ..dims import symbol
        >>> n, i = size("n"), symbol("i")
        >>> x, y = Buffer("x", (2 * n,), FLOAT32), Buffer("y", (2 * n,), FLOAT32)
        >>> stage = Stage(y, (Axis("i", 2 * n),), read("x", (i,), FLOAT32))
        >>> print(PrimFunc("copy", (x,), ("y",), (stage,)).at({"n": 4}))
        prim @copy(x: float32[8]) -> y: float32[8] {
          y[i] = x[i]
        }
        """
        if not self.sizes:
            return self
        params = tuple([p.at(values) for p in self.params])
        stages = tuple([s.at(values) for s in self.stages])
        return replace(self, params=params, stages=stages, size_order=sizes_left(self, values))

    def __str__(self) -> str:
        params = ", ".join(f"{p}" + (" const" if p.constant else "") for p in self.params)
        outs = ", ".join(map(str, self.output_buffers)) + sizes_text(self.sizes)
        body = "".join(f"  {s.text(s.name in self.outputs)}\n" for s in self.stages)
        return f"prim @{self.name}({params}) -> {outs} {{\n{body}}}"


def sizes_in(expr: Expr) -> Iterator[IntExpr]:
    """Yields the indices in an expression."""
    for node in walk(expr):
        if isinstance(node, Index):
            yield node.value
        elif isinstance(node, Read):
            yield from node.plain_indices


def sizes_left(prim: PrimFunc, values: Mapping[str, IntExpr]) -> tuple[Symbol, ...]:
    """The sizes of a PrimFunc without a value, in its order; () if some values are symbolic."""
    if not all(isinstance(v, int) for v in values.values()):
        return ()
    return tuple([s for s in prim.sizes if s.name not in values])


def sizes_text(sizes: Iterable[Symbol]) -> str:
    """The ranges of symbolic sizes, as a header ends: " for n in 0..4096"."""
    text = ", ".join(f"{s} in {s.low}..{s.high}" for s in sizes)
    return f" for {text}" if text else ""
