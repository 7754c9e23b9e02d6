"""Compiled code as a Python callable: arrays in, arrays out, one native call.

The native entry is ``void entry(ptr args, ptr arena)``. ``args`` points to an array of pointers: of
the inputs, the outputs, the constants, in that order; ``arena`` to the program's scratch memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from .buffers import ArraySpec, aligned_bytes, empty

__all__ = ["ArraySpec", "Executable"]

Array = np.ndarray[Any, Any]


class _Frame:
    """What one running call needs for itself: its block of pointers and its arena."""

    __slots__ = ("address", "arena", "arena_address", "pointers")

    def __init__(self, operands: int, constants: Sequence[Array], arena_bytes: int) -> None:
        self.pointers = (ctypes.c_void_p * max(1, operands + len(constants)))()
        self.address = ctypes.addressof(self.pointers)
        for i, constant in enumerate(constants):
            self.pointers[operands + i] = constant.ctypes.data
        self.arena = aligned_bytes(arena_bytes)
        self.arena_address = self.arena.ctypes.data


class Executable:
    """A native entry with its constants, ready to be called from any number of threads.

    ``entry`` is the entry's address and ``owner`` whatever must live as long as the code does.
    Constants are made dense and kept. Calling takes one array per input and answers with one new
    array per output; while native code runs, other Python threads may run as well.
    """

    def __init__(
        self,
        entry: int,
        inputs: Sequence[ArraySpec],
        outputs: Sequence[ArraySpec],
        constants: Sequence[Array] = (),
        arena_bytes: int = 0,
        owner: object = None,
    ) -> None:
        self.entry = entry
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.constants = tuple(np.ascontiguousarray(c).reshape(c.shape) for c in constants)
        self.arena_bytes = arena_bytes
        self._owner = owner
        self._native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(entry)
        self._frames: list[_Frame] = []

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Run on ``arrays``, one per input; the results, one per output.

        Inputs are read in place; one that is not dense is copied first. Raises TypeError if an
        array's shape or dtype is not the input's.
        """
        arrays = self._dense(arrays)
        results = [empty(spec) for spec in self.outputs]
        try:
            frame = self._frames.pop()
        except IndexError:
            operands = len(self.inputs) + len(self.outputs)
            frame = _Frame(operands, self.constants, self.arena_bytes)
        pointers = frame.pointers
        for i, array in enumerate((*arrays, *results)):
            pointers[i] = array.__array_interface__["data"][0]
        self._native(frame.address, frame.arena_address)
        self._frames.append(frame)
        return results

    def _dense(self, arrays: Sequence[Array]) -> list[Array]:
        if len(arrays) != len(self.inputs):
            raise TypeError(f"{len(self.inputs)} arrays are needed, {len(arrays)} were given")
        return [_dense(a, spec, i) for i, (a, spec) in enumerate(zip(arrays, self.inputs))]


def _dense(array: Array, spec: ArraySpec, position: int) -> Array:
    if array.shape != spec.shape or array.dtype != spec.dtype:
        given = ArraySpec(array.shape, array.dtype)
        raise TypeError(f"argument {position} is {given}, but the code was made for {spec}")
    if array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative:
        return array
    return np.array(array, spec.dtype, order="C")
