"""The intrinsics ``amx.*``: sums in registers of 16 rows of 64 bytes, and one instruction for the
product of two of them.

The loops that add to a buffer in the scope ``tiles`` use up to four registers for its sums, and two
for each operand. The rows of the left operand are loaded as they lie; the right one is packed in
groups of four.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.dataclass import dataclass
from ...ir.loop.intrinsics import GROUP_BYTES, ROWS, SIDE, TileDot
from ...ir.loop.kinds import Instruction
from ...ir.loop.stride import stride_along
from ..llvm.writer import Value
from .memory import Env
from .values import ValueEmitter

LEFT, RIGHT = SIDE * SIDE, SIDE * SIDE + SIDE  # the first registers of the operands


@dataclass(frozen=True)
class TileSums:
    """A buffer whose sums are in tile registers, and the loops that add to it."""

    dot: TileDot

    def pieces(self) -> Iterator[tuple[int, int]]:
        """(row, column) of every tile register of sums."""
        for i in range(-(-self.dot.rows // ROWS)):
            for j in range(-(-self.dot.columns // ROWS)):
                yield i, j

    def configuration(self) -> bytes:
        """Returns LDTILECFG's operand: the palette, row bytes and row count of each register."""
        data = bytearray(64)
        data[0] = 1
        for i, j in self.pieces():
            rows = min(ROWS, self.dot.rows - ROWS * i)
            row_bytes = GROUP_BYTES * min(ROWS, self.dot.columns - ROWS * j)
            shapes = {
                SIDE * i + j: (rows, row_bytes),
                LEFT + i: (rows, self.dot.depth),
                RIGHT + j: (self.dot.depth // GROUP_BYTES, row_bytes),
            }
            for register, (count, size) in shapes.items():
                data[16 + 2 * register], data[48 + register] = size, count
        return bytes(data)

    def write(self, e: ValueEmitter, instruction: Instruction, env: Env) -> None:
        """Write one of the intrinsics on the buffer."""
        if instruction == Instruction.AMX_ZERO:
            self._clear(e)
        elif instruction == Instruction.AMX_DOT:
            self._multiply(e, env)
        else:
            self._store(e, env)

    def _clear(self, e: ValueEmitter) -> None:
        """Configures the registers' shapes and sets those of the sums to zero."""
        e.w.configure_tiles(self.configuration())
        for i, j in self.pieces():
            e.w.effect("llvm.x86.tilezero", _register(SIDE * i + j))

    def _multiply(self, e: ValueEmitter, env: Env) -> None:
        left, right = self.dot.left, self.dot.right
        signs = "".join("s" if factor.signed else "u" for factor in (left, right))
        loaded: set[int] = set()
        for i, j in self.pieces():
            wanted = ((RIGHT + j, right, (0, j)), (LEFT + i, left, (i, 0)))
            for register, factor, at in wanted:
                if register not in loaded:
                    loaded.add(register)
                    place = e.places[factor.buffer]
                    here = e.memory.address(place, factor.flat, self._at(env, *at))
                    pitch = e.w.int(factor.pitch)
                    e.w.effect("llvm.x86.tileloadd64", _register(register), here, pitch)
            registers = [_register(r) for r in (SIDE * i + j, LEFT + i, RIGHT + j)]
            e.w.effect(f"llvm.x86.tdpb{signs}d", *registers)

    def _store(self, e: ValueEmitter, env: Env) -> None:
        dot = self.dot
        place = e.places[dot.sums.buffer]
        flat = e.memory.flat_index(place, dot.sums.indices)
        pitch = (stride_along(flat, dot.row) or 0) if dot.row else ROWS
        for i, j in self.pieces():
            here = e.memory.address(place, flat, self._at(env, i, j))
            row_bytes = e.w.int(pitch * place.buffer.dtype.bytes)
            e.w.effect("llvm.x86.tilestored64", _register(SIDE * i + j), here, row_bytes)
        place.version += 1

    def _at(self, env: Env, i: int, j: int) -> Env:
        for name in self.dot.inner:
            env = env.bind(name, 0)
        if self.dot.row is not None:
            env = env.bind(self.dot.row, ROWS * i)
        return env.bind(self.dot.column, ROWS * j)


def _register(number: int) -> Value:
    return Value(str(number), "i8")
