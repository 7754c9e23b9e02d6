"""Loop nests as C functions: a line of the nest is about a line of C.

::

    for k in 256:                          for (int64_t k = 0; k < 256; k++) {
      unroll i in 8:                         LW_UNROLL for (int64_t i = 0; i < 8; i++) {
        vectorize j in 48:                     LW_VECTORIZE for (int64_t j = 0; j < 48; j++) {
          acc[i, j] += x[i, k] * w[k, j]         acc[i][j] += x[i][k] * w[k][j];

What an instruction of a machine runs as a whole is written as the loops that it means. Compilers
make vectors of the loops whose iterations are independent.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dims import Dim, IntExpr, bounds, ceildiv
from ...ir.loop.kinds import LoopKind
from ...ir.loop.nest import (
    Accumulate,
    Alloc,
    At,
    If,
    Let,
    Loop,
    Nest,
    Operand,
    Prefetch,
    Sort,
    Stmt,
    Store,
    Vectors,
)
from ...ir.loop.prim import Buffer
from ..bundle.interface import c_type
from ..kernel import ALIGN
from ..lower.lowering import lowered
from ..target import Target
from .scalars import LARGEST_INDEX, IndexText, Names, ScalarText, Scope
from .vectors import VectorText, assigned

LONG_LINE = 96
"""Characters from which on parameters stand on lines of their own."""

_MACROS = {
    LoopKind.PARALLEL: "LW_PARALLEL ",
    LoopKind.VECTORIZE: "LW_VECTORIZE ",
    LoopKind.REDUCE: "",
    LoopKind.UNROLL: "LW_UNROLL ",
    LoopKind.FOR: "",
}


def function_text(
    nest: Nest, symbol: str, target: Target | None = None
) -> tuple[str, dict[str, str]]:
    """Returns a nest as a function of its operands, its workspace, and the values of its sizes,
    and what must be defined before it, by name. With ``target`` it has vectors as long as those of
    that machine.

    Raises UnsupportedError for scalar operators and dtypes that are not written in C.
    """
    writer = _NestText(nest if target is None else lowered(nest, target))
    return writer.function(symbol), writer.vectors.definitions


def function_head(symbol: str, params: Sequence[str], result: str = "void") -> str:
    """Returns the declaration of a function, its parameters a line each if they are long."""
    line = f"static {result} {symbol}({', '.join(params)})"
    if len(line) <= LONG_LINE:
        return line
    return f"static {result} {symbol}(\n    " + ",\n    ".join(params) + ")"


class _NestText:
    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        names = Names(["workspace"])
        ranges = {s.name: s.range or (0, LARGEST_INDEX) for s in nest.sizes}
        self.index = IndexText(names, ranges)
        self.buffers = nest.buffers
        self.scalars = ScalarText(self.index)
        self.vectors = VectorText(self.scalars, self.buffers)
        self.scalars.registers = self.vectors.element
        self.lines: list[str] = []

    def function(self, symbol: str) -> str:
        """The definition."""
        sizes = [f"const int64_t {self.index.names.of(s.name)}" for s in self.nest.sizes]
        params = [*sizes, *(self._parameter(o) for o in self.nest.operands), "void *workspace"]
        begin: IntExpr = 0
        for buffer in self.nest.workspace:
            name, type = self.index.names.of(buffer.name), c_type(buffer.dtype)
            inner = "".join(f"[{self._extent(s)}]" for s in buffer.shape[1:])
            at = f"((char *)workspace + {self.index.factor(begin)})"
            self.lines.append(f"  {type} (*{name}){inner} = (void *){at};")
            begin = begin + ceildiv(buffer.size * buffer.dtype.bytes, ALIGN) * ALIGN
        self._body(self.nest.body, 1)
        return "\n".join([f"{function_head(symbol, params)} {{", *self.lines, "}"])

    def _parameter(self, operand: Operand) -> str:
        constant = "" if operand.role.writes else "const "
        return f"{constant}{self._declared(operand.buffer)}"

    def _declared(self, buffer: Buffer) -> str:
        """The declaration of a buffer as an array."""
        axes = "".join(f"[{self._extent(s)}]" for s in buffer.shape or (1,))
        return f"{c_type(buffer.dtype)} {self.index.names.of(buffer.name)}{axes}"

    def _extent(self, size: IntExpr) -> str:
        """The size of an axis: C has no arrays without elements."""
        if not isinstance(size, Dim):
            return str(max(1, size))
        range, text = bounds(size, self.index.ranges), self.index.text(size)
        return text if range is not None and range[0] > 0 else f"lw_greatest(1, {text})"

    def _body(self, body: Sequence[Stmt], depth: int) -> None:
        """Statements; what they declare lives to the end of the enclosing block."""
        declared: set[str] = set()
        opened = 0
        for stmt in body:
            name = stmt.var if isinstance(stmt, Let) else ""
            name = stmt.buffer.name if isinstance(stmt, Alloc) else name
            if name in declared:  # a second one of that name begins a block of its own
                self._line(depth, "{")
                depth, opened = depth + 1, opened + 1
                declared = set()
            if name:
                declared.add(name)
            self._statement(stmt, depth)
        for _ in range(opened):
            depth -= 1
            self._line(depth, "}")

    def _statement(self, stmt: Stmt, depth: int) -> None:
        if isinstance(stmt, At):
            self._at(stmt, depth)
        elif isinstance(stmt, Loop):
            if not isinstance(stmt, Vectors) or not self.vectors.loop(stmt, self._line, depth):
                self._loop(stmt, depth)
        elif isinstance(stmt, Let):
            name = self.index.names.of(stmt.var)
            self._line(depth, f"const int64_t {name} = {self.index.text(stmt.value)};")
            range = bounds(stmt.value, self.index.ranges)
            high = LARGEST_INDEX if not isinstance(stmt.extent, int) else stmt.extent - 1
            inside = (0, high) if stmt.extent is not None else range
            self.index.ranges[stmt.var] = inside or (-LARGEST_INDEX, LARGEST_INDEX)
        elif isinstance(stmt, Alloc):
            whole = f"_Alignas({ALIGN}) {self._declared(stmt.buffer)};"
            self._line(depth, self.vectors.declared(stmt) or whole)
        elif isinstance(stmt, If):
            self._branch(stmt, depth)
        elif isinstance(stmt, Sort):
            first = self._element(stmt.buffer, stmt.indices)
            sort = f"lw_sort_{self.buffers[stmt.buffer].dtype}"
            count = self.index.text(stmt.count)
            some = "" if isinstance(stmt.count, int) else f"if ({count} > 0) "
            self._line(depth, f"{some}{sort}(&{first}, {count});")
        elif not isinstance(stmt, Prefetch):
            self._store(stmt, depth)

    def _loop(self, loop: Loop, depth: int) -> None:
        name, extent = self.index.names.of(loop.var), self.index.text(loop.extent)
        before = self.index.ranges.get(loop.var)
        last = bounds(loop.extent, self.index.ranges)
        self.index.ranges[loop.var] = (0, max(0, last[1] - 1) if last else LARGEST_INDEX)
        head = f"for (int64_t {name} = 0; {name} < {extent}; {name}++) {{"
        self._line(depth, _MACROS[loop.kind] + head)
        self._body(loop.body, depth + 1)
        self._line(depth, "}")
        if before is not None:
            self.index.ranges[loop.var] = before

    def _at(self, at: At, depth: int) -> None:
        scope = Scope()
        value, name = self.scalars.value(at.value, scope), self.index.names.of(at.var)
        self._line(depth, "{")
        self._lines(scope, depth + 1)
        self._line(depth + 1, f"const int64_t {name} = {value};")
        self._line(depth + 1, f"if ({name} >= 0 && {name} < {self.index.factor(at.extent)}) {{")
        last = bounds(at.extent, self.index.ranges)
        self.index.ranges[at.var] = (0, max(0, last[1] - 1) if last else LARGEST_INDEX)
        self._body(at.body, depth + 2)
        self._line(depth + 1, "}")
        self._line(depth, "}")

    def _branch(self, branch: If, depth: int) -> None:
        scope = Scope()
        condition = self.scalars.value(branch.condition, scope)
        if scope.lines:
            self._line(depth, "{")
            self._lines(scope, depth + 1)
            depth += 1
        self._line(depth, f"if ({condition}) {{")
        self._body(branch.then, depth + 1)
        if branch.orelse:
            self._line(depth, "} else {")
            self._body(branch.orelse, depth + 1)
        self._line(depth, "}")
        if scope.lines:
            self._line(depth - 1, "}")

    def _store(self, stmt: Store | Accumulate, depth: int) -> None:
        scope = Scope()
        value = self.scalars.value(stmt.value, scope)
        target = self._element(stmt.buffer, stmt.indices)
        line = assigned(stmt, target, value, self.buffers[stmt.buffer].dtype)
        if scope.lines:
            self._line(depth, "{")
            self._lines(scope, depth + 1)
            self._line(depth + 1, line)
            self._line(depth, "}")
        else:
            self._line(depth, line)

    def _element(self, buffer: str, indices: Sequence[IntExpr]) -> str:
        return self.scalars.element(buffer, [self.index.text(i) for i in indices])

    def _lines(self, scope: Scope, depth: int) -> None:
        for line in scope.lines:
            self._line(depth, line)

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)
