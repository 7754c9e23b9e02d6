"""The meaning of a program, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ..dtype import Array
from ..errors import InternalError
from ..window import dense_offset
from .nodes import Alias, Alloc, Call, Copy, Free, Program, Region

__all__ = ["Kernel", "interpret"]

Kernel: TypeAlias = Callable[..., None]
"""Called with one array per operand, then the workspace (uint8) if there is one; writes its outputs
and workspace, as the native kernel does."""

_POISON = 0xA5


def interpret(
    program: Program,
    inputs: Sequence[Array],
    kernels: Mapping[str, Kernel],
    constants: Mapping[str, Array] | None = None,
    update: bool = False,
) -> list[Array]:
    """Run the program and return the arrays of its outputs.

    ``constants`` are values by name, which replace those in the program. With ``update`` the
    inputs, which have to be dense then, get their new values.

    Allocations are filled with a pattern before and after their lifetime, and a planned program
    runs in one arena, so that a wrong lifetime or plan changes the result.
    """
    memory: dict[str, Array] = {}
    for region, array in zip(program.inputs, inputs, strict=True):
        if array.shape != region.shape or array.dtype != region.dtype.numpy:
            raise TypeError(f"{region} was given {array.dtype}{list(array.shape)}")
        memory[region.name] = _viewed(array) if update else _bytes(array)
    for constant in program.constants:
        value = (constants or {}).get(constant.region.name, constant.value)
        if value is None:
            raise InternalError(f"the constant {constant.region} has no value")
        memory[constant.region.name] = _bytes(value)
    regions = {c.region.name: c.region for c in program.constants}
    for region in program.outputs:
        memory[region.name] = _poisoned(region.nbytes)
    updates = program.updates if update else ()
    shapes = {r.name: r for r in program.inputs}
    for one in updates:
        if one.in_place:
            begin = dense_offset(shapes[one.target].shape, one.window)
            assert begin is not None
            begin *= shapes[one.target].dtype.bytes
            size = memory[one.source].size
            memory[one.source] = memory[one.target][begin : begin + size]
    regions |= {r.name: r for r in (*program.inputs, *program.outputs)}
    arena = _poisoned(program.arena or 0)

    def array_of(name: str) -> Array:
        return _typed(memory[name], regions[name])

    for instr in program.body:
        match instr:
            case Alloc(region, offset):
                regions[region.name] = region
                if offset is None:
                    memory[region.name] = _poisoned(region.nbytes)
                else:
                    memory[region.name] = arena[offset : offset + region.nbytes]
                    memory[region.name][...] = _POISON
            case Free(name):
                memory.pop(name)[...] = _POISON
            case Alias(region, source, offset):
                regions[region.name] = region
                memory[region.name] = memory[source][offset : offset + region.nbytes]
            case Copy(source, target):
                memory[target][...] = memory[source]
            case Call(kernel, operands, workspace):
                arrays = [array_of(o.name) for o in operands]
                kernels[kernel](*arrays, *([] if workspace is None else [array_of(workspace)]))
    for one in updates:
        if not one.in_place:
            window = one.window or ()
            key = tuple(slice(b, b + (n - 1) * s + 1, s) for b, s, n in window)
            array_of(one.target)[key] = array_of(one.source)
    return [array_of(r.name) for r in program.outputs]


def _bytes(array: Array) -> Array:
    return np.array(array, order="C").reshape(-1).view(np.uint8)


def _viewed(array: Array) -> Array:
    if not array.flags.c_contiguous:
        raise TypeError("an array that is updated has to be dense")
    return array.reshape(-1).view(np.uint8)


def _poisoned(nbytes: int) -> Array:
    return np.full(nbytes, _POISON, np.uint8)


def _typed(memory: Array, region: Region) -> Array:
    return memory.view(region.dtype.numpy).reshape(region.shape)
