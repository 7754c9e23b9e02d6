"""NumPy's own BLAS, as symbols that native code may call.

NumPy's extension module is linked with a BLAS library, and a symbol looked up in the module is also
searched in the libraries it is linked with. So a kernel calls the same routine as ``a @ b`` of
NumPy, without Python in between. Only libraries whose number of threads can be set are used
(OpenBLAS, in any of its spellings of symbols). Others, such as MKL or a reference BLAS, count as no
library.

The library runs on the thread that calls it. Kernels divide their work among the threads of our
pool, since two pools would compete for the cores: while any kernel is in the library
(``lw_blas_enter`` to ``lw_blas_leave``), the library's own number of threads is 1.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numpy._core import _multiarray_umath  # pyright: ignore

from ...ir.dataclass import dataclass
from ..llvm.link import LoadedObject, load_object
from ..llvm.store import stored_object
from ..target import Target

__all__ = ["Blas", "numpy_blas", "own_thread"]

_DECORATIONS = (
    ("scipy_cblas_{}64_", "scipy_openblas_{}64_", 64),
    ("cblas_{}64_", "openblas_{}64_", 64),
    ("cblas_{}", "openblas_{}", 32),
)
"""Spelling of the names of routines and of settings, and the bits of a size."""

_ROUTINES = ("sgemm", "dgemm", "sgemv", "dgemv")

_GATE = """
@lock = internal global i32 0
@inside = internal global i64 0
@before = internal global i32 1

declare i32 @"lw.blas.get_num_threads"()
declare void @"lw.blas.set_num_threads"(i32)
declare i32 @sched_yield()

define internal void @acquire() {
entry:
  br label %try
try:
  %seen = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %seen, 1
  br i1 %got, label %done, label %wait
wait:
  %r = call i32 @sched_yield()
  br label %try
done:
  ret void
}

define void @lw_blas_enter() {
  call void @acquire()
  %n = load i64, ptr @inside
  %more = add i64 %n, 1
  store i64 %more, ptr @inside
  %first = icmp eq i64 %n, 0
  br i1 %first, label %begin, label %done
begin:
  %threads = call i32 @"lw.blas.get_num_threads"()
  store i32 %threads, ptr @before
  %alone = icmp eq i32 %threads, 1
  br i1 %alone, label %done, label %set
set:
  call void @"lw.blas.set_num_threads"(i32 1)
  br label %done
done:
  store atomic i32 0, ptr @lock release, align 4
  ret void
}

define void @lw_blas_leave() {
  call void @acquire()
  %n = load i64, ptr @inside
  %fewer = sub i64 %n, 1
  store i64 %fewer, ptr @inside
  %last = icmp eq i64 %fewer, 0
  %threads = load i32, ptr @before
  %changed = icmp ne i32 %threads, 1
  %restore = and i1 %last, %changed
  br i1 %restore, label %set, label %done
set:
  call void @"lw.blas.set_num_threads"(i32 %threads)
  br label %done
done:
  store atomic i32 0, ptr @lock release, align 4
  ret void
}
"""


@dataclass(frozen=True, slots=True)
class Blas:
    """``name`` holds the library, its version and the kind of core its kernels are made for;
    ``size_bits`` is the width of a size. ``symbols`` are addresses: ``lw.blas.sgemm`` and its like
    with CBLAS's interface, ``lw_blas_enter`` and ``lw_blas_leave``."""

    name: str
    size_bits: int
    symbols: Mapping[str, int]
    owner: object


@functools.cache
def numpy_blas() -> Blas | None:
    """Returns NumPy's library in this process; None if it is not one of the supported ones."""
    try:
        module = ctypes.CDLL(_multiarray_umath.__file__)
    except OSError:
        return None
    for routine, setting, bits in _DECORATIONS:
        routines = _symbols(module, routine, setting)
        if routines is not None:
            gate = _gate(routines)
            symbols = {name: gate.address(name) for name in ("lw_blas_enter", "lw_blas_leave")}
            return Blas(_name(module, setting), bits, {**routines, **symbols}, gate)
    return None


@contextmanager
def own_thread() -> Iterator[None]:
    """Keeps NumPy's library on the threads that call it, inside of a ``with`` block."""
    blas = numpy_blas()
    enter, leave = (
        ctypes.CFUNCTYPE(None)(blas.symbols[name]) if blas is not None else _nothing
        for name in ("lw_blas_enter", "lw_blas_leave")
    )
    enter()
    try:
        yield
    finally:
        leave()


def _nothing() -> None:
    """Does nothing: a library that is not supported is left alone."""


def _symbols(module: Any, routine: str, setting: str) -> dict[str, int] | None:
    names = {f"lw.blas.{name}": routine.format(name) for name in _ROUTINES}
    for name in ("get_num_threads", "set_num_threads"):
        names[f"lw.blas.{name}"] = setting.format(name)
    addresses: dict[str, int] = {}
    for ours, theirs in names.items():
        try:
            function = getattr(module, theirs)
        except AttributeError:
            return None
        addresses[ours] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return addresses


def _gate(symbols: Mapping[str, int]) -> LoadedObject:
    gate = load_object(stored_object(_GATE, Target(isa="x86-64"), "gate of NumPy's BLAS"), symbols)
    # Threads may be inside until the process ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(gate))
    return gate


def _name(module: Any, setting: str) -> str:
    """Returns library, version and kind of core, ``OpenBLAS 0.3.31 SkylakeX``: speed depends on
    all."""
    texts: list[str] = []
    for name in ("get_config", "get_corename"):
        function = getattr(module, setting.format(name), None)
        if function is not None:
            function.restype = ctypes.c_char_p
            texts.append((function() or b"").decode("ascii", "replace"))
    config = texts[0].split() if texts else []
    version = config[1] if len(config) > 1 else ""
    return " ".join(filter(None, ["OpenBLAS", version, *texts[1:]]))
