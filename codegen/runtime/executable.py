"""Compiled code as a Python callable: arrays in, arrays out, one native call.

The native entry is ``void entry(ptr args, ptr arena)``. ``args`` points to an array of pointers: of
the inputs, the outputs, the constants, in that order; ``arena`` to the program's scratch memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from . import pool
from .buffers import ALIGNMENT, ArraySpec, aligned_array, aligned_bytes, bin_address
from .native_call import Context, available, make_call

__all__ = ["ArraySpec", "Executable"]

Array = np.ndarray[Any, Any]

_POINTER = ctypes.sizeof(ctypes.c_void_p)


class _Frame:
    """What one running call needs for itself: its block of pointers and its arena.

    In memory: the next idle frame, the arena, and from there on what the entry gets as ``args``.
    """

    __slots__ = ("address", "arena", "pointers", "words")

    def __init__(self, operands: int, constants: Sequence[Array], arena_bytes: int) -> None:
        self.words = (ctypes.c_void_p * (2 + operands + len(constants)))()
        self.address = ctypes.addressof(self.words)
        self.pointers = self.address + 2 * _POINTER
        self.arena = aligned_bytes(arena_bytes)
        self.words[1] = self.arena.ctypes.data
        for i, constant in enumerate(constants):
            self.words[2 + operands + i] = constant.ctypes.data


class Executable:
    """A native entry with its constants, ready to be called from any number of threads.

    ``entry`` is the entry's address and ``owner`` whatever must live as long as the code does.
    Constants are made dense, start on a multiple of 64 bytes, and are kept. Calling takes one array
    per input and answers with one new array per output, which starts on a multiple of 64 bytes;
    while native code runs, other Python threads may run as well. A call costs about 0.2 us beside
    the entry. ``threads`` is how many its parallel loops use, the caller's number if it is None.

    ``call(*arrays)`` is the way in without detours: it answers None, having done nothing, if an
    array is not exactly what the code was made for (an ``ndarray`` of that shape and dtype, dense).

    An entry that writes some of its inputs, ``written``, is only called where these are writeable
    and share no memory with any other input. It fills in ``hidden`` pointers itself, which stand
    behind those of the outputs.
    """

    call: Callable[..., list[Array] | None]

    def __init__(
        self,
        entry: int,
        inputs: Sequence[ArraySpec],
        outputs: Sequence[ArraySpec],
        constants: Sequence[Array] = (),
        arena_bytes: int = 0,
        owner: object = None,
        threads: int | None = None,
        written: Sequence[int] = (),
        hidden: int = 0,
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.constants = tuple(_placed(c) for c in constants)
        self.arena_bytes = arena_bytes
        shared = (self.constants, arena_bytes, owner, threads, tuple(written), hidden)
        make = _native if available() else _portable
        self.call = make(entry, self.inputs, self.outputs, *shared)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Run on ``arrays``, one per input; the results, one per output.

        Inputs are read in place; one that is not dense is copied first. Raises TypeError if an
        array's shape or dtype is not the input's.
        """
        results = self.call(*arrays)
        if results is None:
            results = self.call(*self._dense(arrays))
            assert results is not None
        return results

    def _dense(self, arrays: Sequence[Array]) -> list[Array]:
        if len(arrays) != len(self.inputs):
            raise TypeError(f"{len(self.inputs)} arrays are needed, {len(arrays)} were given")
        return [_dense(a, spec, i) for i, (a, spec) in enumerate(zip(arrays, self.inputs))]


def _placed(constant: Array) -> Array:
    """A constant where vectors of it cross no cache lines: NumPy's own arrays start anywhere."""
    dense = np.ascontiguousarray(constant).reshape(constant.shape)
    if dense.ctypes.data % ALIGNMENT == 0:
        return dense
    placed = aligned_array(dense.shape, dense.dtype)
    placed[...] = dense
    return placed


def _dense(array: Array, spec: ArraySpec, position: int) -> Array:
    array = np.asarray(array)
    given = ArraySpec(array.shape, array.dtype)
    if given.shape != spec.shape or given.dtype != spec.dtype:
        raise TypeError(f"argument {position} is {given}, but the code was made for {spec}")
    return np.require(array, spec.dtype, ["C", "A", "E"])


def _native(
    entry: int,
    inputs: Sequence[ArraySpec],
    outputs: Sequence[ArraySpec],
    constants: Sequence[Array],
    arena_bytes: int,
    owner: object,
    threads: int | None,
    written: Sequence[int],
    hidden: int,
) -> Callable[..., list[Array] | None]:
    """The call as a builtin function of native code; see ``call_text`` for the words it reads."""
    kept: list[object] = [owner, constants]
    words = np.zeros(12, np.int64)
    context = words.view(Context)
    idle = context.ctypes.data + 5 * _POINTER
    frames: list[_Frame] = []

    def add_frame() -> None:
        frame = _Frame(len(inputs) + len(outputs) + hidden, constants, arena_bytes)
        head = ctypes.c_void_p.from_address(idle)
        frame.words[0] = head.value
        head.value = frame.address
        frames.append(frame)

    in_specs, out_specs = _spec_words(inputs, kept), _spec_words(outputs, kept)
    for spec, row in zip(outputs, out_specs):
        row[3] = bin_address(spec.nbytes) if spec.nbytes else 0
    positions = np.array(written, np.int64)
    sizes = np.array([spec.nbytes for spec in inputs], np.int64)
    kept += [frames, add_frame, positions, sizes]
    context[:] = (
        entry,
        len(inputs),
        len(outputs),
        in_specs.ctypes.data,
        out_specs.ctypes.data,
        0,
        id(add_frame),
        0 if threads is None else pool.limit_address(),
        threads or 0,
        len(written),
        positions.ctypes.data,
        sizes.ctypes.data,
    )
    context.kept = tuple(kept)
    return make_call(context, bool(written))


def _spec_words(specs: Sequence[ArraySpec], kept: list[object]) -> Array:
    words = np.zeros((max(1, len(specs)), 4), np.int64)
    for row, spec in zip(words, specs):
        sizes = np.array(spec.shape, np.int64)
        dtype = np.dtype(spec.dtype.type)  # the one object arrays of that dtype refer to
        kept += [dtype, sizes]
        row[:3] = id(dtype), len(spec.shape), sizes.ctypes.data
    kept.append(words)
    return words


def _portable(
    entry: int,
    inputs: Sequence[ArraySpec],
    outputs: Sequence[ArraySpec],
    constants: Sequence[Array],
    arena_bytes: int,
    owner: object,
    threads: int | None,
    written: Sequence[int],
    hidden: int,
) -> Callable[..., list[Array] | None]:
    """The same by way of ctypes, for interpreters whose objects lie otherwise in memory."""
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(entry)
    frames: list[_Frame] = []

    def call(*arrays: Array, _owner: object = owner) -> list[Array] | None:
        if len(arrays) != len(inputs):
            return None
        for array, spec in zip(arrays, inputs):
            if type(array) is not np.ndarray or array.dtype != spec.dtype:
                return None
            flags = array.flags
            if array.shape != spec.shape or not flags.c_contiguous or not flags.aligned:
                return None
        for target in written:
            if not arrays[target].flags.writeable:
                return None
            others = (a for n, a in enumerate(arrays) if n != target)
            if any(np.may_share_memory(arrays[target], a) for a in others):
                return None
        results = [aligned_array(spec.shape, spec.dtype) for spec in outputs]
        try:
            frame = frames.pop()
        except IndexError:
            frame = _Frame(len(inputs) + len(outputs) + hidden, constants, arena_bytes)
        for i, array in enumerate((*arrays, *results)):
            frame.words[2 + i] = array.__array_interface__["data"][0]
        with nullcontext() if threads is None else pool.limited(threads):
            native(frame.pointers, frame.words[1])
        frames.append(frame)
        return results

    return call
