"""Compiled code as a Python callable: arrays in, arrays out, one native call.

The native entry is ``i32 entry(ptr args, ptr arena)``. ``args`` points to an array of pointers: of
the inputs, the outputs, the constants, in that order, and then the sizes; ``arena`` to the
program's scratch memory.
What it returns is 0, or says why the call raises (``call_text``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from ...ir.dims import as_int
from ...ir.size_table import Misfit, SizeTable
from . import pool
from .buffers import (
    ALIGNMENT,
    ArraySpec,
    aligned_array,
    aligned_bytes,
    bin_address,
    bins_address,
)
from .native_call import Context, available, make_call
from .status import raise_status

Array = np.ndarray[Any, Any]

_POINTER = ctypes.sizeof(ctypes.c_void_p)


class _Frame:
    """The memory of one running call: its block of pointers and its arena.

    The block holds the next idle frame, the arena, and then the pointers that the entry reads, and
    ``more`` words.
    """

    __slots__ = ("address", "arena", "pointers", "words")

    def __init__(
        self, operands: int, constants: Sequence[Array], arena_bytes: int, more: int = 0
    ) -> None:
        self.words = (ctypes.c_void_p * (2 + operands + len(constants) + more))()
        self.address = ctypes.addressof(self.words)
        self.pointers = self.address + 2 * _POINTER
        self.arena = aligned_bytes(arena_bytes)
        self.words[1] = self.arena.ctypes.data
        for i, constant in enumerate(constants):
            self.words[2 + operands + i] = constant.ctypes.data


class _Layout(NamedTuple):
    """Offsets in a frame of the words that a call with sizes has besides, the answer that is the
    size of the arena, and the number of these words."""

    sizes: int
    axes: int
    answers: int
    arena: int
    words: int


class Executable:
    """A native entry with its constants, callable from any number of threads at once.

    ``entry`` is the entry's address and ``owner`` an object that must live as long as the code.
    Constants are copied if they are not contiguous and aligned to 64 bytes. Calling takes one array
    per input and returns one new array per output, aligned to 64 bytes; the GIL is released while
    native code runs. A call costs about 0.2 us on top of the entry. Parallel loops use ``threads``
    threads, or the caller's number if it is None.

    ``call(*arrays)`` is the direct way in: it returns None, having done nothing, unless every
    array fits exactly (an ``ndarray`` of the input's shape and dtype, contiguous and aligned).

    ``written`` are the positions of inputs that the entry writes. They have to be writeable and
    must not share memory with any other input. ``hidden`` pointers, which follow those of the
    outputs, are filled in by the entry itself.

    Shapes may have symbolic sizes, those of ``sizes``. Then ``arena_bytes`` is not needed: a native
    function, at the address ``solver``, finds the sizes of the arguments (``size_text``), and with
    them the memory a call needs. Arguments that do not fit are refused as others are.
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
        sizes: SizeTable | None = None,
        solver: int = 0,
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.constants = tuple(_aligned(c) for c in constants)
        self.arena_bytes = arena_bytes
        self._owner = owner
        self._threads = threads
        self._written = tuple(written)
        self._operands = len(self.inputs) + len(self.outputs) + hidden
        self.sizes = sizes
        self._solver = solver
        self.call = self._native(entry) if available() else self._portable(entry)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs on ``arrays``, one per input, and returns the results, one per output.

        Inputs are read in place; one that is not contiguous is copied first. Raises TypeError if
        an array's shape or dtype is not the input's.
        """
        results = self.call(*arrays)
        if results is None:
            dense = self._contiguous(arrays)
            if self.sizes is not None:
                values = self.sizes.values([array.shape for array in dense])
                if isinstance(values, Misfit):
                    raise TypeError(str(values))
            results = self.call(*dense)
            assert results is not None
        return results

    def _contiguous(self, arrays: Sequence[Array]) -> list[Array]:
        if len(arrays) != len(self.inputs):
            raise TypeError(f"{len(self.inputs)} arrays are needed, {len(arrays)} were given")
        return [_contiguous(a, spec, i) for i, (a, spec) in enumerate(zip(arrays, self.inputs))]

    def _native(self, entry: int) -> Callable[..., list[Array] | None]:
        """Returns the call as a builtin function of native code (``call_text`` has the layout).

        The function must not refer to this object: it keeps alive what the code needs instead.
        """
        kept: list[object] = [self._owner, self.constants]
        layout = None if self.sizes is None else self._layout(self.sizes)
        context = np.zeros(12 if layout is None else 18, np.int64).view(Context)
        idle = context.ctypes.data + 5 * _POINTER
        frames: list[_Frame] = []
        operands, constants, arena_bytes = self._operands, self.constants, self.arena_bytes
        more = 0 if layout is None else layout.words

        def add_frame() -> None:
            frame = _Frame(operands, constants, arena_bytes, more)
            head = ctypes.c_void_p.from_address(idle)
            frame.words[0] = head.value
            head.value = frame.address
            frames.append(frame)

        in_specs, out_specs = _spec_words(self.inputs, kept), _spec_words(self.outputs, kept)
        positions = np.array(self._written, np.int64)
        sizes = np.zeros(len(self.inputs), np.int64)
        if layout is None:
            for spec, row in zip(self.outputs, out_specs):
                row[3] = bin_address(as_int(spec.nbytes)) if spec.nbytes else 0
            sizes[:] = [as_int(spec.nbytes) for spec in self.inputs]
        kept += [frames, add_frame, positions, sizes]
        context[:12] = (
            entry,
            len(self.inputs),
            len(self.outputs),
            in_specs.ctypes.data,
            out_specs.ctypes.data,
            0,
            id(add_frame),
            0 if self._threads is None else pool.limit_address(),
            self._threads or 0,
            len(self._written),
            positions.ctypes.data,
            sizes.ctypes.data,
        )
        context.kept = tuple(kept)
        if layout is None:
            return make_call(context)
        context[12:] = (
            self._solver,
            layout.sizes,
            layout.axes,
            layout.answers,
            layout.arena,
            bins_address(),
        )
        return make_call(context, "lw_call_sized")

    def _layout(self, sizes: SizeTable) -> _Layout:
        begin = 2 + self._operands + len(self.constants)
        axes = begin + len(sizes.sizes)
        answers = axes + sum(len(shape) for shape in sizes.inputs)
        count = 2 + len(sizes.inputs) + sum(1 + len(shape) for shape in sizes.outputs)
        # A program with updates has two sizes of its arena.
        return _Layout(begin, axes, answers, int(bool(self._written)), answers + count - begin)

    def _portable(self, entry: int) -> Callable[..., list[Array] | None]:
        """Returns the same call through ctypes, for interpreters with another object layout."""
        native = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(entry)
        frames: list[_Frame] = []
        if self.sizes is not None:
            return self._portable_sized(native, self.sizes)

        def call(*arrays: Array) -> list[Array] | None:
            if not self._fit(arrays):
                return None
            results = [spec.fresh() for spec in self.outputs]
            try:
                frame = frames.pop()
            except IndexError:
                frame = _Frame(self._operands, self.constants, self.arena_bytes)
            for i, array in enumerate((*arrays, *results)):
                frame.words[2 + i] = array.__array_interface__["data"][0]
            with nullcontext() if self._threads is None else pool.limited(self._threads):
                status = native(frame.pointers, frame.words[1])
            frames.append(frame)
            raise_status(status)
            return results

        return call

    def _portable_sized(
        self, native: Callable[[int, int], int], sizes: SizeTable
    ) -> Callable[..., list[Array] | None]:
        """Returns ``_portable`` for symbolic sizes."""
        parameters = [ctypes.c_void_p] * 3
        solver = ctypes.CFUNCTYPE(ctypes.c_int, *parameters)(self._solver)
        layout = self._layout(sizes)

        def call(*arrays: Array) -> list[Array] | None:
            if not self._fit(arrays):
                return None
            frame = _Frame(self._operands, self.constants, 0, layout.words)
            words = (ctypes.c_int64 * len(frame.words)).from_address(frame.address)
            axes = [size for array in arrays for size in array.shape]
            words[layout.axes : layout.axes + len(axes)] = axes
            begins = (layout.axes, layout.sizes, layout.answers)
            if not solver(*(frame.address + _POINTER * begin for begin in begins)):
                return None
            names = (size.name for size in sizes.sizes)
            values = dict(zip(names, words[layout.sizes : layout.axes]))
            results = [spec.fresh(values) for spec in self.outputs]
            for i, array in enumerate((*arrays, *results)):
                words[2 + i] = array.__array_interface__["data"][0]
            arena = aligned_bytes(words[layout.answers + layout.arena])
            with nullcontext() if self._threads is None else pool.limited(self._threads):
                status = native(frame.pointers, arena.ctypes.data)
            raise_status(status)
            return results

        return call

    def _fit(self, arrays: Sequence[Array]) -> bool:
        """True if the entry can run on ``arrays`` as they are."""
        if len(arrays) != len(self.inputs):
            return False
        for array, spec in zip(arrays, self.inputs):
            if type(array) is not np.ndarray or array.dtype != spec.dtype:
                return False
            flags = array.flags
            same = (
                array.shape == spec.shape if self.sizes is None else array.ndim == len(spec.shape)
            )
            if not same or not flags.c_contiguous or not flags.aligned:
                return False
        for target in self._written:
            others = (a for n, a in enumerate(arrays) if n != target)
            if not arrays[target].flags.writeable:
                return False
            if any(np.may_share_memory(arrays[target], a) for a in others):
                return False
        return True


def _aligned(constant: Array) -> Array:
    """Returns a contiguous constant aligned to cache lines: NumPy's own arrays begin anywhere."""
    dense = np.ascontiguousarray(constant).reshape(constant.shape)
    if dense.ctypes.data % ALIGNMENT == 0:
        return dense
    copy = aligned_array(dense.shape, dense.dtype)
    copy[...] = dense
    return copy


def _contiguous(array: Array, spec: ArraySpec, position: int) -> Array:
    array = np.asarray(array)
    given = ArraySpec(array.shape, array.dtype)
    is_static = all(isinstance(size, int) for size in spec.shape)
    same = given.shape == spec.shape if is_static else array.ndim == len(spec.shape)
    if not same or given.dtype != spec.dtype:
        raise TypeError(f"argument {position} is {given}, but the code was made for {spec}")
    return np.require(array, spec.dtype, ["C", "A", "E"])


def _spec_words(specs: Sequence[ArraySpec], kept: list[object]) -> Array:
    words = np.zeros((max(1, len(specs)), 4), np.int64)
    for row, spec in zip(words, specs):
        sizes = np.array([s if isinstance(s, int) else -1 for s in spec.shape], np.int64)
        dtype = np.dtype(spec.dtype.type)  # the one object that arrays of that dtype refer to
        kept += [dtype, sizes]
        row[:3] = id(dtype), len(spec.shape), sizes.ctypes.data
    kept.append(words)
    return words
