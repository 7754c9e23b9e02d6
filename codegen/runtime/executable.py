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
from typing import Any

import numpy as np

from ...ir.dims import IntExpr, as_int, evaluate
from ...ir.size_table import Misfit, SizeTable
from . import pool
from .buffers import ALIGNMENT, ArraySpec, aligned_array, aligned_bytes, bins_address
from .call_text import LARGEST_BLOCK
from .native_call import Context, available, make_call, native_code
from .status import raise_status

Array = np.ndarray[Any, Any]

_POINTER = ctypes.sizeof(ctypes.c_void_p)


class _Frame:
    """The memory of one running call: the next idle frame, and the words that the entry reads and
    the call fills in."""

    __slots__ = ("address", "words")

    def __init__(self, words: Sequence[int]) -> None:
        self.words = (ctypes.c_int64 * (1 + len(words)))(0, *words)
        self.address = ctypes.addressof(self.words)


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

    Shapes may have symbolic sizes, those of ``sizes``. Then a native function, at the address
    ``solver``, finds the sizes of the arguments (``size_text``), and with them the memory a call
    needs. Arguments that do not fit are refused as others are.
    """

    call: Callable[..., list[Array] | None]

    def __init__(
        self,
        entry: int,
        inputs: Sequence[ArraySpec],
        outputs: Sequence[ArraySpec],
        constants: Sequence[Array] = (),
        arena_bytes: IntExpr = 0,
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
        self._hidden = hidden
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
        operands = [0] * (len(self.inputs) + len(self.outputs) + self._hidden)
        pointers = [*operands, *(constant.ctypes.data for constant in self.constants)]
        axes = [0] * sum(len(spec.shape) for spec in self.inputs)
        if self.sizes is None:
            solver = native_code().address("lw_same_axes")
            sizes = [len(axes), *(as_int(size) for spec in self.inputs for size in spec.shape)]
            answers = [as_int(self.arena_bytes)] * 2
            answers += [as_int(spec.nbytes) for spec in self.inputs]
            for spec in self.outputs:
                answers += [min(as_int(spec.nbytes), LARGEST_BLOCK), *map(as_int, spec.shape)]
        else:
            solver, sizes = self._solver, [0] * len(self.sizes.sizes)
            shapes = self.sizes.outputs  # those that an entry with updates writes itself as well
            answers = [0] * (2 + len(self.inputs) + sum(1 + len(shape) for shape in shapes))
        words = [*pointers, *sizes, *axes, *answers]
        begin = 1 + len(pointers)

        context = np.zeros(17, np.int64).view(Context)
        idle = ctypes.c_void_p.from_address(context.ctypes.data + 5 * _POINTER)
        frames: list[_Frame] = []

        def add_frame() -> None:
            frame = _Frame(words)
            frame.words[0] = idle.value or 0
            idle.value = frame.address
            frames.append(frame)

        kept: list[object] = [self._owner, self.constants, frames, add_frame]
        in_specs, out_specs = _spec_words(self.inputs, kept), _spec_words(self.outputs, kept)
        positions = np.array(self._written, np.int64)
        kept.append(positions)
        context[:] = (
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
            solver,
            begin,
            begin + len(sizes),
            begin + len(sizes) + len(axes),
            int(bool(self._written)),  # a program with updates has two sizes of its arena
            bins_address(),
        )
        context.kept = tuple(kept)
        return make_call(context)

    def _portable(self, entry: int) -> Callable[..., list[Array] | None]:
        """Returns the same call through ctypes, for interpreters with another object layout."""
        native = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(entry)

        def call(*arrays: Array) -> list[Array] | None:
            if not self._fit(arrays):
                return None
            shapes = [array.shape for array in arrays]
            values = {} if self.sizes is None else self.sizes.values(shapes)
            if isinstance(values, Misfit):
                return None
            results = [spec.fresh(values) for spec in self.outputs]
            operands = [a.__array_interface__["data"][0] for a in (*arrays, *results)]
            constants = [constant.ctypes.data for constant in self.constants]
            words = [*operands, *[0] * self._hidden, *constants, *values.values()]
            pointers = (ctypes.c_int64 * len(words))(*words)
            arena = aligned_bytes(evaluate(self.arena_bytes, values))
            with nullcontext() if self._threads is None else pool.limited(self._threads):
                status = native(ctypes.addressof(pointers), arena.ctypes.data)
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
    words = np.zeros((max(1, len(specs)), 2), np.int64)
    for row, spec in zip(words, specs):
        dtype = np.dtype(spec.dtype.type)  # the one object that arrays of that dtype refer to
        kept.append(dtype)
        row[:] = id(dtype), len(spec.shape)
    kept.append(words)
    return words
