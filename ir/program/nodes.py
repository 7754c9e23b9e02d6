"""Nodes of the program IR: structured code on memory regions.

::

    Program  ::= "program @" name "(" Param, ... ")" ["for" Size, ...] ["arena" Int "bytes"] "{"
                     ["const" Region, ...] Require* Instr* Update* "}" ("function" Program)*
    Param    ::= ("@in" | "@inout" | "@out") Region
    Size     ::= name "in" INT ".." INT                       both inclusive
    Require  ::= "requires" Int ("==" | "!=" | "<" | "<=") Int
    Region   ::= "%" name ":" dtype "[" Int, ... "]"          dense, row-major
    Int      ::= an expression over sizes, as in ``ir/dims.py``
    Instr    ::= Alloc | Free | SetSize | Call | Library | Copy | Alias | Swap | Invoke
               | If | While | For
    Alloc    ::= "%" name "= alloc" dtype "[" Int, ... "]" ["at" Int | "in registers"]
    Free     ::= "free %" name
    SetSize  ::= "size" name "= %" name "at most" Int
    Call     ::= "call" ["inline"] "@" kernel "(" Operand, ... ")" ["sizes (" Int, ... ")"]
                     ["workspace %" name] ["where" Range, ...]
    Range    ::= "%" name "in" "[" INT "," INT "]"        both inclusive
    Library  ::= "library" STRING "(" Operand, ... ")" ["with" JSON]
    Operand  ::= ("@in" | "@out" | "@inout") "%" name
    Copy     ::= "copy @in %" name ", @out %" name
    Alias    ::= "%" name "= alias %" name "as" dtype "[" Int, ... "]" ["+" Int]
    Swap     ::= "swap %" name ", %" name
    Invoke   ::= "invoke @" function "(" Operand, ... ")" ["sizes (" Int, ... ")"]
                     ("frame %" name | "on stack")
    If       ::= "if %" name "{" Instr* "}" ["else {" Instr* "}"]
    While    ::= "while {" Instr* "} %" name "do {" Instr* "}"
    For      ::= "for" Region "<" (INT | "%" name ["at most" INT]) "{" Instr* "}"
    Update   ::= "update %" input ["[" Int ":" Int [":" INT], ... "]"] "with %" output ["in place"]

``alloc`` begins the life of scratch memory (``at`` is its byte offset in the arena, once planned)
and ``free`` ends it. ``alias`` gives a second name to bytes that already live, from byte ``+`` on;
it costs nothing. A kernel reads its ``@in`` operands, writes all elements of its ``@out`` operands,
and does both to ``@inout`` ones. Two operands of one call may share bytes only if they are the same
bytes, one to be read and one to be written, and both are marked ``@inout``: the kernel has been
found to read each element before it writes it. ``workspace`` is scratch memory that a kernel needs
beside its operands. An ``inline`` one is a part of the code around it, and may rely on the ranges
of scalars that are stated with it.

A program runs for all values of its sizes in their ranges. The shapes of its inputs determine them;
what is required of them holds before anything runs. Kernels and functions have sizes of their own,
whose values stand in their calls, in order.

``size`` gives a size that data decides the value of an int64 scalar, from there to the end of its
block; that a value is out of range is an error of the call. Memory of such sizes is allocated by
their upper bounds, that of outputs, too.

``library`` calls a function of ``ir/library`` by its name; JSON's array of pairs has names and
values of its options. It may raise, and then the program ends.

A condition is a bool scalar in memory, a ``for`` counts an int64 scalar of its own, which its body
may read. ``while`` runs its first block before each test and the other one after it. What is
declared in a block lives there at most. ``swap`` exchanges the memory of two allocations of equal
size, so that each has the content of the other: pointers change, no bytes move.

``invoke`` runs a function of the program, which has an arena of its own: the region ``frame``, or,
where functions are recursive, a piece of a stack; running out of it is an error of the call. The
constants of the program are those of its functions, too. An ``@inout`` parameter of a function is
one of its inputs and the memory of a result: the caller finds a new value there.

An ``update`` says that an output is the new value of an input, or of a slice of it. A program runs
in two ways: as a function, which leaves its inputs as they are; and with its updates, where the
output of an ``in place`` one is the memory of the input itself, and those of the others are copied
there at the end, in the order of the updates.

Nodes are values: two programs are equal if their texts are. Names are unique within a program.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from enum import StrEnum
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ..dataclass import dataclass
from ..dims import IntExpr, Symbol
from ..dtype import DType
from ..library.registry import Options
from ..size_table import SizeCheck
from ..span import Span
from ..window import Window

_OFFSET_COLUMN = 56  # where "at" stands in the text


@dataclass(frozen=True, slots=True)
class Region:
    """A name for typed memory; ``name`` has no ``%``."""

    name: str
    shape: tuple[IntExpr, ...]
    dtype: DType

    @property
    def nbytes(self) -> IntExpr:
        return prod(self.shape) * self.dtype.bytes

    @property
    def type_text(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        return f"%{self.name}: {self.type_text}"


@dataclass(frozen=True, slots=True)
class Constant:
    """A region whose content is constant. A parsed one has no ``value``."""

    region: Region
    value: np.ndarray[Any, Any] | None = field(default=None, compare=False, repr=False)


class Access(StrEnum):
    """Kind of access of a call to an operand."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"

    @property
    def reads(self) -> bool:
        return self is not Access.OUT

    @property
    def writes(self) -> bool:
        return self is not Access.IN


@dataclass(frozen=True, slots=True)
class Operand:
    access: Access
    name: str

    def __str__(self) -> str:
        return f"@{self.access} %{self.name}"


@dataclass(frozen=True, slots=True)
class Alloc:
    """Scratch memory of undefined content at byte ``offset`` of the arena, None before planning; or
    ``in_registers``, for a few bytes."""

    region: Region
    offset: IntExpr | None = None
    in_registers: bool = False

    def __str__(self) -> str:
        text = f"%{self.region.name} = alloc {self.region.type_text}"
        if self.in_registers:
            return f"{text:<{_OFFSET_COLUMN}} in registers"
        return text if self.offset is None else f"{text:<{_OFFSET_COLUMN}} at {self.offset}"


@dataclass(frozen=True, slots=True)
class Free:
    name: str

    def __str__(self) -> str:
        return f"free %{self.name}"


@dataclass(frozen=True, slots=True)
class SetSize:
    """Gives ``size`` the value of the int64 scalar ``count``, which is from 0 to ``most``."""

    size: Symbol
    count: str
    most: IntExpr
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"size {self.size} = %{self.count} at most {self.most}"


@dataclass(frozen=True, slots=True)
class ScalarRange:
    """The values that an integer scalar may have, ``low`` and ``high`` included."""

    name: str
    low: int
    high: int

    def __str__(self) -> str:
        return f"%{self.name} in [{self.low}, {self.high}]"


Sum: TypeAlias = "str | int | tuple[str, Sum, Sum]"
"""An int64: a scalar by name, a number, or ``+``, ``-`` or ``*`` of two."""


@dataclass(frozen=True, slots=True)
class InRange:
    """A place that may lie from 0 to ``length``, exclusive."""

    place: Sum
    length: IntExpr

    @property
    def scalars(self) -> frozenset[str]:
        """The names in it."""
        return frozenset(_scalars_in(self.place))

    def __str__(self) -> str:
        return f"{_sum_text(self.place)} < {self.length}"


def _scalars_in(value: Sum) -> Iterator[str]:
    if isinstance(value, tuple):
        yield from (*_scalars_in(value[1]), *_scalars_in(value[2]))
    elif isinstance(value, str):
        yield value


def _sum_text(value: Sum) -> str:
    if isinstance(value, tuple):
        return f"({_sum_text(value[1])} {value[0]} {_sum_text(value[2])})"
    return f"%{value}" if isinstance(value, str) else f"{value}"


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel applied to operands in the order of its native parameters, with values of its
    sizes."""

    kernel: str
    operands: tuple[Operand, ...]
    workspace: str | None = None
    span: Span | None = field(default=None, compare=False)
    inline: bool = False
    ranges: tuple[ScalarRange, ...] = ()
    sizes: tuple[IntExpr, ...] = ()

    def __str__(self) -> str:
        how = "call inline" if self.inline else "call"
        text = f"{how} @{self.kernel}({', '.join(map(str, self.operands))}){_sizes(self.sizes)}"
        if self.workspace is not None:
            text += f" workspace %{self.workspace}"
        return f"{text} where {', '.join(map(str, self.ranges))}" if self.ranges else text


@dataclass(frozen=True, slots=True)
class Library:
    """A library function applied to what it reads, then what it writes."""

    function: str
    operands: tuple[Operand, ...]
    options: Options = ()
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        operands = ", ".join(map(str, self.operands))
        options = f" with {json.dumps(self.options)}" if self.options else ""
        return f"library {json.dumps(self.function)}({operands}){options}"


@dataclass(frozen=True, slots=True)
class Copy:
    """All bytes of ``source`` to ``target``, which has as many."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"copy @in %{self.source}, @out %{self.target}"


@dataclass(frozen=True, slots=True)
class Alias:
    """``region`` names the bytes of ``source`` from byte ``offset`` on."""

    region: Region
    source: str
    offset: IntExpr = 0

    def __str__(self) -> str:
        text = f"%{self.region.name} = alias %{self.source} as {self.region.type_text}"
        return text if self.offset == 0 else f"{text} + {self.offset}"


@dataclass(frozen=True, slots=True)
class Swap:
    """Exchanges the memory of two allocations that live around the innermost loop."""

    one: str
    other: str

    def __str__(self) -> str:
        return f"swap %{self.one}, %{self.other}"


@dataclass(frozen=True, slots=True)
class Invoke:
    """A function of the program on operands: its inputs, then its outputs, with values of its
    sizes. ``frame`` is the region of its arena; None: it lies on the stack."""

    function: str
    operands: tuple[Operand, ...]
    frame: str | None = None
    span: Span | None = field(default=None, compare=False)
    sizes: tuple[IntExpr, ...] = ()

    def __str__(self) -> str:
        where = "on stack" if self.frame is None else f"frame %{self.frame}"
        operands = f"({', '.join(map(str, self.operands))}){_sizes(self.sizes)}"
        return f"invoke @{self.function}{operands} {where}"


@dataclass(frozen=True, slots=True)
class If:
    """One of two bodies, by a bool scalar."""

    condition: str
    then: tuple[Instr, ...]
    orelse: tuple[Instr, ...] = ()
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        orelse = f" else {{\n{_indented(self.orelse)}}}" if self.orelse else ""
        return f"if %{self.condition} {{\n{_indented(self.then)}}}{orelse}"


@dataclass(frozen=True, slots=True)
class While:
    """``head``, then, as long as ``condition`` holds, ``body`` and ``head`` again."""

    head: tuple[Instr, ...]
    condition: str
    body: tuple[Instr, ...]
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        head, body = _indented(self.head), _indented(self.body)
        return f"while {{\n{head}}} %{self.condition} do {{\n{body}}}"


@dataclass(frozen=True, slots=True)
class For:
    """``body`` with ``index``, an int64 scalar that the loop declares and writes, from 0 up to
    ``extent``: a number, or the name of an int64 scalar that is read before the loop, and is
    ``most`` at most.

    Where the first and the last iteration find all ``places`` in range, the others do, too: places
    move by the same step from one to the next."""

    index: Region
    extent: int | str
    body: tuple[Instr, ...]
    span: Span | None = field(default=None, compare=False)
    places: tuple[InRange, ...] = ()
    most: int | None = None

    def __str__(self) -> str:
        extent = self.extent if isinstance(self.extent, int) else f"%{self.extent}"
        extent = extent if self.most is None else f"{extent} at most {self.most}"
        places = f" places {', '.join(map(str, self.places))}" if self.places else ""
        return f"for {self.index} < {extent}{places} {{\n{_indented(self.body)}}}"


Instr: TypeAlias = (
    Alloc | Free | SetSize | Call | Library | Copy | Alias | Swap | Invoke | If | While | For
)


def nested_bodies(instr: Instr) -> tuple[tuple[Instr, ...], ...]:
    """Returns the bodies inside of an instruction, in the order in which they run."""
    match instr:
        case If(_, then, orelse):
            return then, orelse
        case While(head, _, body):
            return head, body
        case For(_, _, body):
            return (body,)
        case _:
            return ()


def with_nested_bodies(instr: Instr, bodies: Sequence[tuple[Instr, ...]]) -> Instr:
    """``instr`` with other bodies inside."""
    match instr:
        case If():
            return replace(instr, then=bodies[0], orelse=bodies[1])
        case While():
            return replace(instr, head=bodies[0], body=bodies[1])
        case For():
            return replace(instr, body=bodies[0])
        case _:
            return instr


def _sizes(values: Sequence[IntExpr]) -> str:
    return f" sizes ({', '.join(map(str, values))})" if values else ""


def _indented(body: Sequence[Instr | Update]) -> str:
    """The lines of some instructions, indented."""
    return "".join(f"  {line}\n" for instr in body for line in str(instr).split("\n"))


@dataclass(frozen=True, slots=True)
class Update:
    """Output ``source`` is the new value of the input ``target``, or of its slice ``window``."""

    target: str
    source: str
    window: Window | None = None
    in_place: bool = False

    def __str__(self) -> str:
        axes = ", ".join(
            f"{b}:{b + (n - 1) * s + 1}" + (f":{s}" if s != 1 else "")
            for b, s, n in self.window or ()
        )
        place = f"%{self.target}[{axes}]" if self.window is not None else f"%{self.target}"
        return f"update {place} with %{self.source}" + (" in place" if self.in_place else "")


@dataclass(frozen=True, slots=True)
class Program:
    """``arena`` is the number of scratch bytes all allocations share; None before planning.
    ``functions`` have neither constants, nor updates, nor functions of their own; ``inout`` are the
    names of those inputs that a function writes. ``sizes`` are what the shapes are made of, and
    ``checks`` what has to hold of them."""

    name: str
    inputs: tuple[Region, ...]
    outputs: tuple[Region, ...]
    constants: tuple[Constant, ...]
    body: tuple[Instr, ...]
    arena: IntExpr | None = None
    updates: tuple[Update, ...] = ()
    functions: tuple[Program, ...] = ()
    sizes: tuple[Symbol, ...] = ()
    checks: tuple[SizeCheck, ...] = ()
    inout: tuple[str, ...] = ()

    @property
    def scratch(self) -> IntExpr:
        """The bytes of the arena, 0 before planning."""
        return 0 if self.arena is None else self.arena

    @property
    def params(self) -> tuple[tuple[Region, Access], ...]:
        """The inputs, then the outputs, with what is done to each."""
        inputs = ((r, Access.INOUT if r.name in self.inout else Access.IN) for r in self.inputs)
        return (*inputs, *((r, Access.OUT) for r in self.outputs))

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the outputs, and of the inputs that are written: what is read behind it."""
        return (*(r.name for r in self.outputs), *self.inout)

    def __str__(self) -> str:
        params = [f"@{access} {r}" for r, access in self.params]
        ranges = ", ".join(f"{s.name} in {s.low}..{s.high}" for s in self.sizes)
        sizes = f" for {ranges}" if ranges else ""
        arena = "" if self.arena is None else f" arena {self.arena} bytes"
        lines = [f"program @{self.name}({', '.join(params)}){sizes}{arena} {{"]
        if self.constants:
            lines.append(f"  const {', '.join(str(c.region) for c in self.constants)}")
        lines += [f"  requires {check}" for check in self.checks]
        body = _indented((*self.body, *self.updates))
        functions = "".join(f"function {f}" for f in self.functions)
        return "\n".join([*lines, ""]) + body + "}\n" + functions
