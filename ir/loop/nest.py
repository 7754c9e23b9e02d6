"""The loop nest: a PrimFunc with a schedule applied.

::

    Nest    ::= "prim @" name "(" Operand, ... ")" "->" Result, ... ["for" Size, ...] "{" Stmt* "}"
    Result  ::= Buffer ["begins as" param "at" position]
    Operand ::= Buffer ["const" | "packs" buffer "[" size, ... "]" dimension Group? ["shifted"]]
    Group   ::= "by" size "of" dimension
    Stmt    ::= kind var "in" extent ["by" How] ":" Stmt*
              | "let" var ["in" extent] "=" int_expr            until the end of the enclosing body
              | scope Buffer [Group]                            scope: registers | stack | tiles
              | ["stream"] buffer "[" int_expr, ... "]" "=" Expr    Store
              | buffer "[" int_expr, ... "]" combiner"=" Expr   Accumulate
              | "prefetch" buffer "[" int_expr, ... "]" ["in L2"]
              | "sort" buffer "[" int_expr, ... "]" "in" count  Sort
              | "if" Expr ":" Stmt* ["else:" Stmt*]
              | "at" var "in" extent "=" Expr ":" Stmt*         At
    kind    ::= "for" | "parallel" | "vectorize" | "reduce" | "unroll"
    How     ::= instruction | "[" lanes, ... "]" ["together"]    vectors of so many lanes

One statement a line, and what it holds indented by two spaces. An extent is a constant or an
expression over sizes: where a split does not divide, the body stands once more for the rest.
A ``registers`` buffer is private to the innermost body; so are a ``stack`` buffer, which lives in
memory, and a ``tiles`` buffer, in registers that hold tiles of a matrix. ``codegen.lower`` says in
what vectors loops run and registers are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from ..dataclass import dataclass
from ..dims import Dim, IntExpr, Symbol, as_int, size_symbols, substitute
from .expr import Expr, statement_text, substitute_indices
from .kinds import Instruction, LoopKind, Role, Scope
from .pack import Pack
from .prim import Buffer, sizes_in, sizes_text
from .scalar import COMBINERS


@dataclass(frozen=True, slots=True)
class Loop:
    """``var`` runs from 0 to ``extent - 1``."""

    kind: LoopKind
    var: str
    extent: IntExpr
    body: tuple[Stmt, ...]

    @property
    def trips(self) -> int:
        """The number of iterations of a loop for which it is a constant; TypeError for another."""
        return as_int(self.extent)


@dataclass(frozen=True, slots=True)
class Intrinsic(Loop):
    """A loop that one instruction runs as a whole: see ``intrinsics``."""

    instruction: Instruction


@dataclass(frozen=True, slots=True)
class Vectors(Loop):
    """A loop in vectors of ``widths`` lanes, one after the other; lanes from the extent on are
    idle. All lanes of a vector execute a statement before one executes the next; all vectors do if
    they run ``together``.

    In a ``reduce`` loop accumulations to an element first go to one total a lane, from vector to
    vector; the totals are joined in halves, and what they give with the element.
    """

    widths: tuple[int, ...]
    together: bool = False

    def lanes(self, extent: int) -> Iterator[range]:
        """Yields the iterations of each vector; a vector that is idle has none."""
        first = 0
        for width in self.widths:
            yield range(first, min(first + width, extent))
            first += width


@dataclass(frozen=True, slots=True)
class At(Loop):
    """The one iteration ``var`` of a loop that ``value``, int64, chooses; none if it is outside.

    Data decides in this way where something is written, and nothing is ever written outside of a
    buffer: ``var`` lies in the range of the loop, for everything that asks for ranges.
    """

    value: Expr

    @staticmethod
    def of(var: str, extent: IntExpr, value: Expr, *body: Stmt) -> At:
        return At(LoopKind.FOR, var, extent, body, value)


@dataclass(frozen=True, slots=True)
class Let:
    """``var`` stands for ``value``, which lies between 0 and ``extent - 1`` if there is one."""

    var: str
    value: IntExpr
    extent: IntExpr | None = None


@dataclass(frozen=True, slots=True)
class Alloc:
    """A buffer that lives until the end of the enclosing body, in ``scope``; in registers of
    ``lanes`` elements along a dimension, if that is decided."""

    buffer: Buffer
    scope: Scope
    lanes: int = 1
    dim: int | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """``stream`` asks for a non-temporal store, for results that are not read soon."""

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
class Prefetch:
    """Prefetches the cache line of an element, which need not exist, into L1, or only into L2 if
    it is used ``later``. Changes no result."""

    buffer: str
    indices: tuple[IntExpr, ...]
    later: bool = False


@dataclass(frozen=True, slots=True)
class Sort:
    """Sorts the ``count`` integers from an element of a row on, in ascending order."""

    buffer: str
    indices: tuple[IntExpr, ...]
    count: IntExpr

    @property
    def last(self) -> tuple[IntExpr, ...]:
        """The indices of the last integer."""
        return (*self.indices[:-1], self.indices[-1] + self.count - 1)


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


Stmt: TypeAlias = Loop | Let | Alloc | Store | Accumulate | Prefetch | Sort | If
S = TypeVar("S", bound=Stmt)


@dataclass(frozen=True, slots=True)
class Operand:
    """A buffer that is passed to the kernel; ``pack`` is the layout of a packed one. ``begins_as``
    is the position and the name of the parameter whose value an ``INOUT`` operand begins with."""

    buffer: Buffer
    role: Role
    pack: Pack | None = None
    begins_as: tuple[int, str] | None = None

    def at(self, values: Mapping[str, IntExpr]) -> Operand:
        """The operand with values for symbolic sizes."""
        pack = self.pack and self.pack.at(values)
        return replace(self, buffer=self.buffer.at(values), pack=pack)

    def __str__(self) -> str:
        if self.begins_as is not None:
            position, name = self.begins_as
            return f"{self.buffer} begins as {name} at {position}"
        if self.pack is not None:
            shape = ", ".join(map(str, self.pack.shape))
            group = self.pack.group
            grouped = f" by {group[1]} of {group[0]}" if group else ""
            grouped += " shifted" if self.pack.shifted else ""
            return f"{self.buffer} packs {self.pack.source}[{shape}] {self.pack.dim}{grouped}"
        return f"{self.buffer} const" if self.role == Role.CONST else str(self.buffer)


@dataclass(frozen=True, slots=True)
class Nest:
    """``workspace`` buffers are passed to the kernel as one block of scratch memory, the values of
    ``sizes`` as integers behind it."""

    name: str
    operands: tuple[Operand, ...]
    workspace: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    sizes: tuple[Symbol, ...] = ()

    def at(self, values: Mapping[str, IntExpr]) -> Nest:
        """The nest with numbers, or other expressions, for symbolic sizes, by name: the same loops,
        some of which may not run."""
        if not self.sizes:
            return self
        operands = tuple([o.at(values) for o in self.operands])
        workspace = tuple([b.at(values) for b in self.workspace])
        body = tuple([substituted(stmt, values) for stmt in self.body])
        shapes = [s for b in (*(o.buffer for o in operands), *workspace) for s in b.shape]
        inside = [e for stmt in statements(body) for e in int_exprs(stmt)]
        sizes = tuple(size_symbols(*shapes, *inside).values())
        return Nest(self.name, operands, workspace, body, sizes)

    @property
    def buffers(self) -> dict[str, Buffer]:
        """All buffers by name, local ones included (their greatest extent where tails differ)."""
        buffers = {o.buffer.name: o.buffer for o in self.operands}
        buffers.update((b.name, b) for b in self.workspace)
        for stmt in statements(self.body):
            if isinstance(stmt, Alloc):
                buffers.setdefault(stmt.buffer.name, stmt.buffer)
        return buffers

    def __str__(self) -> str:
        return "\n".join([line for line, _ in self.lines()]) + "\n"

    def lines(self) -> Iterator[tuple[str, Stmt | None]]:
        """The lines of the text, each with the statement that begins on it."""
        operands = ", ".join(str(o) for o in self.operands if not o.role.writes)
        outs = ", ".join(str(o) for o in self.operands if o.role.writes)
        yield f"prim @{self.name}({operands}) -> {outs}{sizes_text(self.sizes)} {{", None
        for buffer in self.workspace:
            yield f"  workspace {buffer}", None
        yield from statement_lines(self.body, 1)
        yield "}", None


def statement_lines(body: tuple[Stmt, ...], depth: int) -> Iterator[tuple[str, Stmt | None]]:
    """The lines of statements at a depth, each with the statement that begins on it."""
    pad = "  " * depth
    for stmt in body:
        if isinstance(stmt, Loop):
            if isinstance(stmt, At):
                yield f"{pad}at {stmt.var} in {stmt.extent} = {statement_text(stmt.value)}:", stmt
            else:
                yield f"{pad}{stmt.kind} {stmt.var} in {stmt.extent}{_how(stmt)}:", stmt
            yield from statement_lines(stmt.body, depth + 1)
        elif isinstance(stmt, Let):
            within = "" if stmt.extent is None else f" in {stmt.extent}"
            yield f"{pad}let {stmt.var}{within} = {stmt.value}", stmt
        elif isinstance(stmt, Alloc):
            held = "" if stmt.dim is None else f" by {stmt.lanes} of {stmt.dim}"
            yield f"{pad}{stmt.scope} {stmt.buffer}{held}", stmt
        elif isinstance(stmt, If):
            yield f"{pad}if {statement_text(stmt.condition)}:", stmt
            yield from statement_lines(stmt.then, depth + 1)
            if stmt.orelse:
                yield f"{pad}else:", None
                yield from statement_lines(stmt.orelse, depth + 1)
        elif isinstance(stmt, Prefetch):
            place = f"{stmt.buffer}[{', '.join(map(str, stmt.indices))}]"
            yield f"{pad}prefetch {place}{' in L2' if stmt.later else ''}", stmt
        elif isinstance(stmt, Sort):
            place = f"{stmt.buffer}[{', '.join(map(str, stmt.indices))}]"
            yield f"{pad}sort {place} in {stmt.count}", stmt
        else:
            sign = "=" if isinstance(stmt, Store) else COMBINERS[stmt.combiner].sign
            place = f"{stmt.buffer}[{', '.join(map(str, stmt.indices))}]"
            how = "stream " if isinstance(stmt, Store) and stmt.stream else ""
            yield f"{pad}{how}{place} {sign} {statement_text(stmt.value)}", stmt


def _how(loop: Loop) -> str:
    """Returns the text behind the extent of a loop."""
    if isinstance(loop, Intrinsic):
        return f" by {loop.instruction}"
    if not isinstance(loop, Vectors):
        return ""
    return f" by [{', '.join(map(str, loop.widths))}]{' together' if loop.together else ''}"


def statements(body: tuple[Stmt, ...]) -> list[Stmt]:
    """Returns every statement below ``body``, outer before inner."""
    inside: list[Stmt] = []
    for stmt in body:
        inside.append(stmt)
        for get in _holders(type(stmt), "body"):
            inside += statements(get(stmt))
    return inside


def expressions(stmt: Stmt) -> list[Expr]:
    """The scalar expressions that a statement itself evaluates."""
    return _held(stmt, "expr")


def int_exprs(stmt: Stmt) -> Iterator[IntExpr]:
    """Yields the integer expressions of a statement itself that may contain symbolic sizes."""
    yield from _held(stmt, "index")
    for several in (*_held(stmt, "indices"), *(b.shape for b in _held(stmt, "buffer"))):
        yield from several
    for expr in expressions(stmt):
        yield from sizes_in(expr)


def chain(stmt: Stmt) -> tuple[list[Loop], Stmt]:
    """The loops that hold nothing but one statement, outermost first, and that statement."""
    loops: list[Loop] = []
    while isinstance(stmt, Loop) and not isinstance(stmt, At) and len(stmt.body) == 1:
        loops.append(stmt)
        stmt = stmt.body[0]
    return loops, stmt


def rewritten(
    stmt: S,
    body: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]] | None = None,
    expr: Callable[[Expr], Expr] | None = None,
    index: Callable[[IntExpr], IntExpr] | None = None,
) -> S:
    """A statement with other bodies, and other expressions and indices that it evaluates itself:
    the same object if they are."""
    changed: dict[str, Any] = {}
    for name, holds in _fields(type(stmt)):
        value = new = getattr(stmt, name)
        if body and holds == "body":
            new = body(value)
        elif expr and holds == "expr":
            new = expr(value)
        elif index and holds == "index" and isinstance(value, Dim):
            new = index(value)
        elif index and holds == "indices":
            new = tuple([index(i) for i in value])
        elif index and holds == "buffer" and not all(isinstance(n, int) for n in value.shape):
            new = replace(value, shape=tuple([index(n) for n in value.shape]))
        if new is not value:
            changed[name] = new
    return replace(stmt, **changed) if changed else stmt


def with_bodies(nest: Nest, new: Callable[[tuple[Stmt, ...]], Sequence[Stmt]]) -> Nest:
    """Returns a nest with other bodies, those inside first: the same object if they are."""

    def inside(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        made = new(tuple([rewritten(stmt, inside) for stmt in body]))
        same = len(made) == len(body) and all(a is b for a, b in zip(made, body))
        return body if same else tuple(made)

    body = inside(nest.body)
    return nest if body is nest.body else replace(nest, body=body)


def map_bodies(stmt: S, new: Callable[[Stmt], Stmt]) -> S:
    """A statement with the statements directly inside of it replaced."""
    return rewritten(stmt, body=lambda body: tuple([new(s) for s in body]))


def substituted(stmt: S, values: Mapping[str, IntExpr]) -> S:
    """A statement with loop variables, or symbolic sizes, replaced by other indices."""
    return rewritten(
        stmt,
        lambda body: tuple([substituted(s, values) for s in body]),
        lambda expr: substitute_indices(expr, dict(values)),
        lambda index: substitute(index, values),
    )


_HOLDS = {
    "tuple[Stmt, ...]": "body",
    "Expr": "expr",
    "IntExpr": "index",
    "IntExpr | None": "index",
    "tuple[IntExpr, ...]": "indices",
    "Buffer": "buffer",
}


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    """The fields by which statements of a kind are walked and rewritten, with what they hold: their
    types say it, so that a new kind of statement has only to be declared."""
    return tuple([(f.name, _HOLDS[str(f.type)]) for f in fields(kind) if f.type in _HOLDS])


@cache
def _holders(kind: type[Any], what: str) -> tuple[Callable[[Any], Any], ...]:
    """Returns getters of the fields of a kind that hold something."""
    return tuple([attrgetter(name) for name, holds in _fields(kind) if holds == what])


def _held(stmt: Stmt, what: str) -> list[Any]:
    """The values of the fields that hold something."""
    values = [get(stmt) for get in _holders(type(stmt), what)]
    return [value for value in values if value is not None]
