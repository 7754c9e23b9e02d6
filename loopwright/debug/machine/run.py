"""Runs LLVM text: registers are names, memory is checked, and every function is one of ours.

>>> from .parser import parse_llvm
    >>> text = "define void @f(ptr %a) {\\n  %x = load i64, ptr %a, align 8\\n  ret void\\n}"
>>> machine, data = Machine(parse_llvm(text)), np.zeros(1, np.int64)
>>> machine.call("f", machine.memory.add(data, "a"))
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...ir.errors import InternalError
from .meanings import ARITHMETIC, FUNCTIONS, cast, comparison, select
from .memory import Fault, Memory
from .parser import Function, Instruction, Module, Operand, Type, any_value

ENDLESS = 20_000_000
"""Instructions after which a program counts as one without end."""

_SUFFIX = re.compile(r"(\.(v\d+)?[if]\d+|\.p0|\.(128|256|512))+$")

_Code = tuple[str, Callable[..., Any], tuple[str, ...]]
"""The register of a result, what computes it, and the registers of operands."""


class _Block:
    """``phis``: by the label that comes before, the registers that get other registers' values."""

    def __init__(self) -> None:
        self.phis: dict[str, list[tuple[str, str]]] = {}
        self.code: list[_Code] = []
        self.end: Instruction | None = None
        self.tests: tuple[str, ...] = ()


class Machine:
    """A module's code, and the memory that it works on.

    ``iterations`` says in what pieces a parallel loop of so many runs. ``effects`` are LLVM's
    functions on memory and on tile registers.
    """

    def __init__(
        self,
        module: Module,
        iterations: Callable[[int], Sequence[tuple[int, int]]] = lambda count: [(0, count)],
    ) -> None:
        self.module, self.memory, self.iterations = module, Memory(), iterations
        self.steps = 0
        self.tiles: list[Any] = [None] * 8
        self.shapes = b""
        self.globals: dict[str, Any] = {}
        for name, (data, align) in module.globals.items():
            array = np.frombuffer(bytearray(data), np.uint8)
            address = self.memory.add(array, f"@{name}", align % 64)
            self.globals[f"@{name}"] = np.int64(address)
        for name in module.functions:
            self.globals[f"@{name}"] = name
        self.effects: dict[str, Callable[..., None]] = {
            "masked.store": self._masked_store,
            "masked.compressstore": self._masked_compressstore,
            "x86.ldtilecfg": self._ldtilecfg,
            "x86.tilerelease": self._tilerelease,
            "x86.tilezero": self._tilezero,
            "x86.tileloadd64": self._tileloadd64,
            "x86.tilestored64": self._tilestored64,
        }
        self._code: dict[str, tuple[dict[str, _Block], dict[str, Any]]] = {}

    def call(self, name: str, *args: Any) -> Any:
        """Runs a function. Fault for what no right program does."""
        function = self.module.functions[name]
        if name not in self._code:
            self._code[name] = self._translated(function)
        blocks, constants = self._code[name]
        values = dict(constants)
        for param, arg in zip(function.params, args, strict=True):
            values[param] = np.int64(arg) if isinstance(arg, int) else arg
        with np.errstate(all="ignore"):
            return self._run(blocks, function.first, values)

    def _run(self, blocks: dict[str, _Block], label: str, values: dict[str, Any]) -> Any:
        before = ""
        while True:
            block = blocks[label]
            if block.phis:
                pairs = block.phis[before]
                for name, value in zip([n for n, _ in pairs], [values[v] for _, v in pairs]):
                    values[name] = value
            for result, compute, operands in block.code:
                values[result] = compute(*[values[name] for name in operands])
            self.steps += len(block.code) + 1
            if self.steps > ENDLESS:
                raise Fault("a loop does not end")
            end = block.end
            assert end is not None
            if end.opcode == "ret":
                return values[block.tests[0]] if block.tests else None
            if end.opcode != "br":
                raise Fault(f"runs into {end.text}")
            taken = 0 if not block.tests or values[block.tests[0]] else 1
            before, label = label, end.more[taken]

    def _translated(self, function: Function) -> tuple[dict[str, _Block], dict[str, Any]]:
        constants: dict[str, Any] = dict(self.globals)
        blocks: dict[str, _Block] = {}

        def register(operand: Operand) -> str:
            if operand.name:
                return operand.name
            name = f"#{len(constants)}"
            constants[name] = operand.constant
            return name

        for label, instructions in function.blocks.items():
            block = blocks[label] = _Block()
            for each in instructions:
                names = tuple(map(register, each.operands))
                if each.opcode == "phi":
                    for before, name in zip(each.more, names, strict=True):
                        block.phis.setdefault(before, []).append((each.result, name))
                elif each.opcode in ("br", "ret", "unreachable"):
                    block.end, block.tests = each, names
                else:
                    block.code.append((each.result, self._meaning(each), names))
        return blocks, constants

    # -- what an instruction computes ---------------------------------------------------------

    def _meaning(self, each: Instruction) -> Callable[..., Any]:
        opcode, type, more = each.opcode, each.type, each.more
        if opcode in ARITHMETIC:
            return ARITHMETIC[opcode]
        if opcode in ("icmp", "fcmp"):
            return comparison(opcode, more)
        if opcode == "select":
            return select
        if opcode == "shufflevector":
            assert type is not None
            return partial(_shuffled, more, any_value(type))
        if opcode == "extractelement":
            return _extracted
        if opcode == "insertelement":
            return _inserted
        if opcode == "getelementptr":
            return lambda base, index: base + index * more
        if opcode == "load":
            assert type is not None
            return partial(self._load, type, more)
        if opcode == "store":
            return partial(self._store, more)
        if opcode == "alloca":
            return lambda count: np.int64(
                self.memory.add(np.full(int(count) * more, 0xA5, np.uint8), "the stack")
            )
        if opcode == "call":
            return self._function(each)
        if opcode == "fence":
            return lambda: None
        source = each.operands[0].type
        assert source is not None and type is not None, each.text
        return cast(opcode, source, type)

    def _load(self, type: Type, align: int, address: Any) -> Any:
        size = max(1, type.lanes) * type.dtype.itemsize
        data = self.memory.part(address, size, align, "reads").view(type.dtype)
        return data.copy() if type.lanes else data[0]

    def _store(self, align: int, value: Any, address: Any) -> None:
        data = np.atleast_1d(value).view(np.uint8)
        self.memory.part(address, len(data), align, "writes")[:] = data

    def _function(self, each: Instruction) -> Callable[..., Any]:
        name, type = each.more, each.type
        if not name:
            return lambda function, *args: self.call(function, *args)
        if name in self.module.functions:
            return partial(self.call, name)
        if name == "lw_parallel_for":
            return self._parallel
        short = _SUFFIX.sub("", name).removeprefix("llvm.")
        if short in self.effects:
            return self.effects[short]
        if short == "masked.load" and type is not None:
            return partial(self._masked_load, type)
        if match := re.fullmatch(r"x86\.tdpb([su]{2})d", short):
            return partial(self._tile_product, match[1])
        if short not in FUNCTIONS:
            raise InternalError(f"{name} has no meaning in loopwright/debug/machine/meanings.py")
        return FUNCTIONS[short]

    def _parallel(self, function: str, context: Any, count: Any) -> None:
        for begin, end in self.iterations(int(count)):
            if begin < end:
                self.call(function, context, np.int64(begin), np.int64(end))

    # -- functions on memory ------------------------------------------------------------------

    def _masked_load(self, type: Type, address: Any, mask: Any, other: Any) -> Any:
        made = other.copy()
        for lane in np.flatnonzero(mask):
            at = address + type.dtype.itemsize * int(lane)
            made[lane] = self._load(Type(type.element), 1, at)
        return made

    def _masked_store(self, value: Any, address: Any, mask: Any) -> None:
        for lane in np.flatnonzero(mask):
            self._store(1, value[lane], address + value.dtype.itemsize * int(lane))

    def _masked_compressstore(self, value: Any, address: Any, mask: Any) -> None:
        for n, lane in enumerate(np.flatnonzero(mask)):
            self._store(1, value[lane], address + value.dtype.itemsize * n)

    # -- tile registers: rows of bytes, of shapes that a table in memory gives ------------------

    def _ldtilecfg(self, address: Any) -> None:
        self.shapes = self.memory.part(address, 64, 1, "reads").tobytes()
        self.tiles = [np.zeros(self._shape(n), np.uint8) for n in range(8)]

    def _shape(self, tile: int) -> tuple[int, int]:
        return self.shapes[48 + tile], self.shapes[16 + 2 * tile]

    def _tilerelease(self) -> None:
        self.tiles = [None] * 8

    def _tilezero(self, tile: Any) -> None:
        self.tiles[tile] = np.zeros(self._shape(tile), np.uint8)

    def _tileloadd64(self, tile: Any, address: Any, pitch: Any) -> None:
        rows, size = self._shape(tile)
        parts = [self.memory.part(address + n * pitch, size, 1, "reads") for n in range(rows)]
        self.tiles[tile] = np.array(parts)

    def _tilestored64(self, tile: Any, address: Any, pitch: Any) -> None:
        for n, row in enumerate(self.tiles[tile]):
            self.memory.part(address + n * pitch, len(row), 1, "writes")[:] = row

    def _tile_product(self, kinds: str, total: Any, left: Any, right: Any) -> None:
        a, b = (
            tile.view(np.int8 if kind == "s" else np.uint8).astype(np.int32)
            for kind, tile in zip(kinds, (self.tiles[left], self.tiles[right]), strict=True)
        )
        rows, columns = len(a), b.shape[1] // 4
        pairs = np.einsum("ikg,kjg->ij", a.reshape(rows, -1, 4), b.reshape(-1, columns, 4))
        self.tiles[total] = (self.tiles[total].view(np.int32) + pairs).view(np.uint8)


def _shuffled(picks: Any, poison: Any, a: Any, b: Any) -> Any:
    both = np.concatenate([a, b])
    inside = picks < len(both)
    return np.where(inside, both[np.where(inside, picks, 0)], poison)


def _extracted(vector: Any, lane: Any) -> Any:
    if not 0 <= lane < len(vector):
        raise Fault(f"takes lane {lane} out of a vector of {len(vector)}")
    return vector[lane]


def _inserted(vector: Any, element: Any, lane: Any) -> Any:
    if not 0 <= lane < len(vector):
        raise Fault(f"puts an element into lane {lane} of a vector of {len(vector)}")
    made = vector.copy()
    made[lane] = element
    return made
