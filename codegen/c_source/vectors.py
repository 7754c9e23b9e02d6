"""Statements of vector loops, with the vector types of GCC and Clang.

::

    registers acc: float32[4, 24] by 8 of 1          float32x8 acc[4][3];
    vectorize j in 24 by [8, 8, 8]:                  LW_UNROLL for (int64_t v = 0; v < 3; v++) {
      acc[i, j] += x[i, k] * w[k, j]                   acc[i][v] += x[i][k] * lw_load_float32x8(
                                                           &w[k][8 * v], 8);

Arithmetic on floats is C's own on vectors; other operators run a function on each lane, which
compilers make vector instructions of. A statement of which a lane does not read neighbours of what
the others read runs lane by lane, on copies of what it uses in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...ir.dims import IntExpr, as_int, floordiv, substitute, symbol
from ...ir.dtype import DType
from ...ir.loop.expr import Const, Expr, Index, Op, Read, substitute_indices, walk
from ...ir.loop.kinds import LoopKind
from ...ir.loop.nest import Accumulate, Alloc, Loop, Prefetch, Stmt, Store, Vectors, substituted
from ...ir.loop.prim import Buffer
from ...ir.loop.scalar import COMBINERS, SCALAR_OPS
from ...ir.loop.stride import mentions, row_major, stride_along
from ..bundle.interface import c_type
from .scalars import IndexText, ScalarText, Scope, converted, factor, literal, operation

_ARITHMETIC = {row.name: row.symbol for row in SCALAR_OPS.values() if row.symbol in set("+-*/")}
MOST_VECTOR_OPS = 60
"""Operators of a statement from which on it runs lane by lane: the text of vectors has no names for
what is used twice."""


class NotVector(Exception):
    """A statement of which lanes do not use neighbours."""


def vector_type(dtype: DType, lanes: int) -> str:
    """Returns the name of a type of vectors; a bool takes a byte.

    >>> from loopwright.ir.dtype import FLOAT32
    >>> vector_type(FLOAT32, 8)
    'float32x8'
    """
    return f"{dtype.name}x{lanes}"


class VectorText:
    """Writes the vector statements of a function. ``registers`` are the buffers in vectors: the
    dimension along which, lanes, and elements. ``definitions`` are the types and functions that
    statements need, by name."""

    def __init__(self, scalars: ScalarText, buffers: Mapping[str, Buffer]) -> None:
        self.scalars = scalars
        self.index: IndexText = scalars.index
        self.buffers = buffers
        self.registers: dict[str, tuple[int, int, int]] = {}
        self.definitions: dict[str, str] = {}

    def declared(self, alloc: Alloc) -> str | None:
        """The declaration of a buffer in registers, None for another one."""
        buffer, dim = alloc.buffer, alloc.dim
        if dim is None or alloc.lanes == 1 or not buffer.shape:
            self.registers.pop(buffer.name, None)
            return None
        counts = [as_int(size) for size in buffer.shape]
        self.registers[buffer.name] = dim, alloc.lanes, counts[dim]
        counts[dim] = -(-counts[dim] // alloc.lanes)
        kind = self._type(buffer.dtype, alloc.lanes)
        axes = "".join(f"[{count}]" for count in counts)
        return f"{kind} {self.index.names.of(buffer.name)}{axes};"

    def element(self, name: str, indices: Sequence[str]) -> str | None:
        """The text of one lane of registers, None for another buffer."""
        if name not in self.registers:
            return None
        dim, lanes, _ = self.registers[name]
        at = factor(indices[dim])
        rows = list(indices)
        rows[dim] = f"{at} / {lanes}"
        return f"{self.index.names.of(name)}{''.join(f'[{i}]' for i in rows)}[{at} % {lanes}]"

    def loop(self, loop: Vectors, line: Callable[[int, str], None], depth: int) -> bool:
        """Writes a loop in vectors; False, and nothing, if it joins its lanes or their number is
        not a constant."""
        if loop.kind == LoopKind.REDUCE or not isinstance(loop.extent, int):
            return False
        lanes = loop.widths[0]
        whole = loop.extent // lanes
        if whole > 1 and not loop.together:
            name = self.index.names.temporary()
            self.index.ranges[name] = (0, whole - 1)
            head = f"LW_UNROLL for (int64_t {name} = 0; {name} < {whole}; {name}++) {{"
            line(depth, head)
            vector = _Lanes(self, loop.var, lanes * symbol(name), lanes, lanes)
            for stmt in loop.body:
                self._statement(stmt, vector, line, depth + 1)
            line(depth, "}")
            begins = range(whole * lanes, loop.extent, lanes)
        else:
            begins = range(0, loop.extent, lanes)
        vectors = [
            _Lanes(self, loop.var, begin, min(lanes, loop.extent - begin), lanes)
            for begin in begins
        ]
        pairs = [(stmt, vector) for vector in vectors for stmt in loop.body]
        if loop.together:
            pairs = [(stmt, vector) for stmt in loop.body for vector in vectors]
        for stmt, vector in pairs:
            self._statement(stmt, vector, line, depth)
        return True

    def _statement(
        self, stmt: Stmt, vector: _Lanes, line: Callable[[int, str], None], depth: int
    ) -> None:
        """A statement in the lanes of a vector."""
        if isinstance(stmt, Prefetch):
            return
        if isinstance(stmt, Loop):
            name = self.index.names.of(stmt.var)
            self.index.ranges[stmt.var] = (0, max(0, stmt.trips - 1))
            line(depth, f"LW_UNROLL for (int64_t {name} = 0; {name} < {stmt.trips}; {name}++) {{")
            for inner in stmt.body:
                self._statement(inner, vector, line, depth + 1)
            line(depth, "}")
            return
        assert isinstance(stmt, Store | Accumulate)
        try:
            text = vector.assignment(stmt)
        except NotVector:
            self._lane_by_lane(stmt, vector, line, depth)
            return
        line(depth, text)

    def _lane_by_lane(
        self,
        stmt: Store | Accumulate,
        vector: _Lanes,
        line: Callable[[int, str], None],
        depth: int,
    ) -> None:
        """Runs a statement lane by lane, on copies of what it has in registers."""
        reads = [n for n in walk(stmt.value) if isinstance(n, Read) and n.buffer in self.registers]
        uses = [(n.buffer, n.plain_indices) for n in reads] + [(stmt.buffer, stmt.indices)]
        copies: dict[str, str] = {}
        stored: tuple[str, str] | None = None
        line(depth, "{")
        for name, indices in uses:
            if name not in self.registers or not vector.moves(indices):
                continue
            kind = self._type(self.buffers[name].dtype, vector.lanes)
            held = vector.register(name, indices)
            if held not in copies:
                copies[held] = self.index.names.temporary()
                line(depth + 1, f"{kind} {copies[held]} = {held};")
            if name == stmt.buffer and indices == stmt.indices:
                stored = held, copies[held]
        lane = self.index.names.temporary()
        line(depth + 1, f"for (int64_t {lane} = 0; {lane} < {vector.count}; {lane}++) {{")
        self.index.ranges[lane] = (0, vector.count - 1)
        here = symbol(lane) + vector.base
        scope = Scope()
        for node in reads:
            if vector.moves(node.plain_indices):
                held = copies[vector.register(node.buffer, node.plain_indices)]
                moved = substitute_indices(node, {vector.var: here})
                scope.note(moved, f"{held}[{lane}]")
        moved = substituted(stmt, {vector.var: here})
        value = self.scalars.value(moved.value, scope)
        target = self.scalars.element(stmt.buffer, [self.index.text(i) for i in moved.indices])
        if stored is not None:
            target = f"{stored[1]}[{lane}]"
        for text in scope.lines:
            line(depth + 2, text)
        line(depth + 2, assigned(stmt, target, value, self.buffers[stmt.buffer].dtype))
        line(depth + 1, "}")
        if stored is not None:
            line(depth + 1, f"{stored[0]} = {stored[1]};")
        line(depth, "}")

    def _type(self, dtype: DType, lanes: int) -> str:
        kind = vector_type(dtype, lanes)
        element = "uint8_t" if dtype.is_bool else c_type(dtype)
        self.definitions.setdefault(kind, f"LW_VECTOR({element}, {kind}, {lanes})")
        return kind

    def mapped(self, name: str, lanes: int, args: Sequence[DType], result: DType) -> str:
        """Returns a function that applies an operator to each lane."""
        symbol = "_".join(["lw", name, *(vector_type(a, lanes) for a in args[:1]), result.name])
        if symbol not in self.definitions:
            kinds = [self._type(a, lanes) for a in args]
            made = self._type(result, lanes)
            params = [f"{kind} {p}" for kind, p in zip(kinds, "abc", strict=False)]
            values = [f"{p}[n]" for p in "abc"[: len(args)]]
            if name == "cast":
                text = converted(values[0], args[0], result)
            elif name == "where":
                text = f"{values[0]} ? {values[1]} : {values[2]}"
            else:
                text = operation(name, args[0], result, values)
            self.definitions[symbol] = "\n".join(
                [
                    f"static inline {made} {symbol}({', '.join(params)}) {{",
                    f"  {made} result;",
                    f"  for (int n = 0; n < {lanes}; n++) result[n] = {text};",
                    "  return result;",
                    "}",
                ]
            )
        return symbol


class _Lanes:
    """One vector of a loop over ``var``: ``count`` iterations from ``base`` on."""

    def __init__(self, owner: VectorText, var: str, base: IntExpr, count: int, lanes: int) -> None:
        self.owner, self.var, self.base = owner, var, base
        self.count, self.lanes = count, lanes

    def moves(self, indices: Sequence[IntExpr]) -> bool:
        """True if lanes use different elements."""
        return any(mentions(i, self.var) for i in indices)

    def assignment(self, stmt: Store | Accumulate) -> str:
        """The statement on vectors. Raises NotVector."""
        if len(walk(stmt.value)) > MOST_VECTOR_OPS or not self.moves(stmt.indices):
            raise NotVector
        value = self._vector(stmt.value)
        dtype = self.owner.buffers[stmt.buffer].dtype
        is_register = stmt.buffer in self.owner.registers
        if is_register:
            target = old = self.register(stmt.buffer, stmt.indices)
            if not self._fills(stmt.buffer, stmt.indices):
                raise NotVector
        else:
            target = self._address(stmt.buffer, stmt.indices)
            kind = self.owner._type(dtype, self.lanes)
            old = f"lw_load_{kind}({target}, {self.count})"
        if isinstance(stmt, Accumulate):
            name = COMBINERS[stmt.combiner].op
            if is_register and name in ("add", "multiply") and _is_plain(dtype):
                return f"{target} {_ARITHMETIC[name]}= {value};"
            value = self._applied(name, [dtype, dtype], dtype, [old, value])
        if is_register:
            return f"{target} = {value};"
        kind = self.owner._type(dtype, self.lanes)
        return f"lw_store_{kind}({target}, {value}, {self.count});"

    def _vector(self, node: Expr) -> str:
        """The text of a value: of a vector."""
        if isinstance(node, Index) and mentions(node.value, self.var):
            raise NotVector
        if isinstance(node, Const | Index) or not self._varies(node):
            return self._splat(node)
        if isinstance(node, Read):
            if len(node.plain_indices) != len(node.indices):
                raise NotVector
            if node.buffer in self.owner.registers:
                return self.register(node.buffer, node.plain_indices)
            kind = self.owner._type(node.dtype, self.lanes)
            return f"lw_load_{kind}({self._address(node.buffer, node.plain_indices)}, {self.count})"
        assert isinstance(node, Op)
        if node.name == "where" and any(
            isinstance(n, Read) for a in node.args[1:] for n in walk(a)
        ):
            raise NotVector  # what is read is there only if it is chosen
        dtypes = [a.dtype for a in node.args]
        if node.name in _ARITHMETIC and _is_plain(node.dtype):
            texts = [self._scalar(a) if not self._varies(a) else self._vector(a) for a in node.args]
            return f"{factor(texts[0])} {_ARITHMETIC[node.name]} {factor(texts[1])}"
        return self._applied(node.name, dtypes, node.dtype, [self._vector(a) for a in node.args])

    def _applied(
        self, name: str, dtypes: Sequence[DType], result: DType, args: Sequence[str]
    ) -> str:
        if name in _ARITHMETIC and _is_plain(result):
            return f"{factor(args[0])} {_ARITHMETIC[name]} {factor(args[1])}"
        return f"{self.owner.mapped(name, self.lanes, dtypes, result)}({', '.join(args)})"

    def _varies(self, node: Expr) -> bool:
        for n in walk(node):
            if isinstance(n, Read) and self.moves(n.plain_indices):
                return True
            if isinstance(n, Index) and mentions(n.value, self.var):
                return True
        return False

    def _scalar(self, node: Expr) -> str:
        """The text of what is the same in all lanes."""
        if any(isinstance(n, Op) and n.name == "where" for n in walk(node)):
            raise NotVector
        if isinstance(node, Const):
            return literal(node.value, node.dtype)
        scope = Scope()
        text = self.owner.scalars.value(node, scope)
        if scope.lines:
            raise NotVector
        return text

    def _splat(self, node: Expr) -> str:
        kind = self.owner._type(node.dtype, self.lanes)
        return f"lw_splat_{kind}({self._scalar(node)})"

    def _here(self, value: IntExpr) -> IntExpr:
        return substitute(value, {self.var: self.base})

    def register(self, name: str, indices: Sequence[IntExpr]) -> str:
        """The register that has the lanes. Raises NotVector if they are in another order."""
        dim, lanes, _ = self.owner.registers[name]
        if lanes != self.lanes:
            raise NotVector
        texts: list[str] = []
        for n, index in enumerate(indices):
            step = stride_along(index, self.var)
            if step != (1 if n == dim else 0):
                raise NotVector
            here = self._here(index)
            if n == dim:
                here, exact = floordiv(here, lanes), here
                if here * lanes != exact:
                    raise NotVector
            texts.append(self.owner.index.text(here))
        return self.owner.index.names.of(name) + "".join(f"[{t}]" for t in texts)

    def _fills(self, name: str, indices: Sequence[IntExpr]) -> bool:
        """True if idle lanes of a register are no elements, which keep their values."""
        dim, _, size = self.owner.registers[name]
        behind = self._here(indices[dim]) + self.count
        return self.count == self.lanes or behind == size

    def _address(self, name: str, indices: Sequence[IntExpr]) -> str:
        """The address of the first lane of neighbours in memory. Raises NotVector for others."""
        total: IntExpr = 0
        for index, stride in zip(indices, row_major(self.owner.buffers[name]), strict=True):
            step = stride_along(index, self.var)
            if step is None:
                raise NotVector
            total = total + step * stride
        if total != 1:
            raise NotVector
        texts = [self.owner.index.text(self._here(i)) for i in indices]
        return f"&{self.owner.scalars.element(name, texts)}"


def _is_plain(dtype: DType) -> bool:
    """True if C computes with vectors of the dtype as NumPy does."""
    return dtype.is_float and not dtype.is_half


def assigned(stmt: Store | Accumulate, target: str, value: str, dtype: DType) -> str:
    """Returns the C statement that stores a value, or adds it up."""
    if not isinstance(stmt, Accumulate):
        return f"{target} = {value};"
    name = COMBINERS[stmt.combiner].op
    if name == "add" and _is_plain(dtype):
        return f"{target} += {value};"
    return f"{target} = {operation(name, dtype, dtype, [target, value])};"
