"""Nodes of the program IR: straight-line code on memory regions.

::

    Program  ::= "program @" name "(" Param, ... ")" ["arena" INT "bytes"] "{"
                     ["const" Region, ...] Instr* Update* "}"
    Param    ::= ("@in" | "@out") Region
    Region   ::= "%" name ":" dtype "[" INT, ... "]"          dense, row-major
    Instr    ::= Alloc | Free | Call | Copy | Alias
    Alloc    ::= "%" name "= alloc" dtype "[" INT, ... "]" ["at" INT]
    Free     ::= "free %" name
    Call     ::= "call @" kernel "(" Operand, ... ")" ["workspace %" name]
    Operand  ::= ("@in" | "@out" | "@inout") "%" name
    Copy     ::= "copy @in %" name ", @out %" name
    Alias    ::= "%" name "= alias %" name "as" dtype "[" INT, ... "]" ["+" INT]
    Update   ::= "update %" input ["[" INT ":" INT [":" INT], ... "]"] "with %" output ["in place"]

``alloc`` begins the life of scratch memory (``at`` is its byte offset in the arena, once planned)
and ``free`` ends it. ``alias`` gives a second name to bytes that already live, from byte ``+`` on;
it costs nothing. A kernel reads its ``@in`` operands, writes all elements of its ``@out`` operands,
and does both to ``@inout`` ones. Two operands of one call may share bytes only if they are the same
bytes, one to be read and one to be written, and both are marked ``@inout``: the kernel has been
found to read each element before it writes it. ``workspace`` is scratch memory that a kernel needs
beside its operands.

An ``update`` says that an output is the new value of an input, or of a slice of it. A program runs
in two ways: as a function, which leaves its inputs as they are; and with its updates, where the
output of an ``in place`` one is the memory of the input itself, and those of the others are copied
there at the end, in the order of the updates.

Nodes are values: two programs are equal if their texts are. Names are unique within a program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ..dtype import DType
from ..span import Span
from ..window import Window

_OFFSET_COLUMN = 56  # where "at" stands in the text

__all__ = [
    "Access",
    "Alias",
    "Alloc",
    "Call",
    "Constant",
    "Copy",
    "Free",
    "Instr",
    "Operand",
    "Program",
    "Region",
    "Update",
]


@dataclass(frozen=True, slots=True)
class Region:
    """A name for typed memory; ``name`` has no ``%``."""

    name: str
    shape: tuple[int, ...]
    dtype: DType

    @property
    def nbytes(self) -> int:
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
    """Scratch memory of undefined content at byte ``offset`` of the arena, None before planning."""

    region: Region
    offset: int | None = None

    def __str__(self) -> str:
        text = f"%{self.region.name} = alloc {self.region.type_text}"
        return text if self.offset is None else f"{text:<{_OFFSET_COLUMN}} at {self.offset}"


@dataclass(frozen=True, slots=True)
class Free:
    name: str

    def __str__(self) -> str:
        return f"free %{self.name}"


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel applied to operands in the order of its native parameters."""

    kernel: str
    operands: tuple[Operand, ...]
    workspace: str | None = None
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        text = f"call @{self.kernel}({', '.join(map(str, self.operands))})"
        return text if self.workspace is None else f"{text} workspace %{self.workspace}"


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
    offset: int = 0

    def __str__(self) -> str:
        text = f"%{self.region.name} = alias %{self.source} as {self.region.type_text}"
        return f"{text} + {self.offset}" if self.offset else text


Instr: TypeAlias = Alloc | Free | Call | Copy | Alias


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
    """``arena`` is the number of scratch bytes all allocations share; None before planning."""

    name: str
    inputs: tuple[Region, ...]
    outputs: tuple[Region, ...]
    constants: tuple[Constant, ...]
    body: tuple[Instr, ...]
    arena: int | None = None
    updates: tuple[Update, ...] = ()

    def __str__(self) -> str:
        params = [f"@in {r}" for r in self.inputs] + [f"@out {r}" for r in self.outputs]
        arena = "" if self.arena is None else f" arena {self.arena} bytes"
        lines = [f"program @{self.name}({', '.join(params)}){arena} {{"]
        if self.constants:
            lines.append(f"  const {', '.join(str(c.region) for c in self.constants)}")
        lines += [f"  {line}" for line in (*self.body, *self.updates)]
        return "\n".join([*lines, "}\n"])
