"""Enumerations of the nest's grammar; each member is its own text."""

from __future__ import annotations

from enum import StrEnum


class LoopKind(StrEnum):
    """Kind of a loop: its iterations run in order, on threads, in vector lanes, in lanes that are
    joined, or unrolled."""

    FOR = "for"
    PARALLEL = "parallel"
    VECTORIZE = "vectorize"
    REDUCE = "reduce"
    UNROLL = "unroll"


class Scope(StrEnum):
    """Memory of a buffer that is not an operand; see the grammar of nests."""

    REGISTERS = "registers"
    STACK = "stack"
    TILES = "tiles"


class Instruction(StrEnum):
    """Instructions that run a whole loop; ``intrinsics`` defines their meaning."""

    VNNI = "vnni"
    BF16 = "bf16"
    MADD = "madd"
    AMX_ZERO = "amx.zero"
    AMX_DOT = "amx.dot"
    AMX_STORE = "amx.store"
    TRANSPOSE = "transpose"
    TRANSPOSE_ROWS = "transpose.rows"
    INTERLEAVE = "interleave"


class Role(StrEnum):
    """Role of an operand of a kernel: only read, a constant, a packed constant, or a result; an
    ``INOUT`` one holds a parameter's value when the kernel is called, and the result afterwards."""

    IN = "in"
    CONST = "const"
    PACKED = "packed"
    OUT = "out"
    INOUT = "inout"

    @property
    def writes(self) -> bool:
        return self in (Role.OUT, Role.INOUT)
