"""Kernels whose product NumPy's library computes give what the reference gives."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from compiled import check_guard, guarded
from hypothesis import given, settings
from hypothesis import strategies as st
from loopwright.autotune.measure.reference import Reference, make_inputs
from loopwright.autotune.space.space import default_schedule
from loopwright.codegen import library
from loopwright.codegen.kernel import prepare_operands
from loopwright.codegen.library import library_kernel, library_of
from loopwright.codegen.objects import loaded_code
from loopwright.codegen.runtime import blas, pool
from loopwright.codegen.target import Target
from loopwright.ir.loop.prim import PrimFunc
from loopwright.pipeline import kernels_of, lower_module

pytestmark = pytest.mark.skipif(blas.numpy_blas() is None, reason="NumPy has no known BLAS here")

HOST = Target.host()
F32, F64 = np.float32, np.float64


def prims(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = F32):
    arrays = [np.zeros(shape, dtype) for shape in shapes]
    return [*kernels_of(lower_module(lw.compile(function).trace(*arrays).module)).values()]


def check(prim: PrimFunc, target: Target = HOST) -> None:
    """Compile, run on garbage between guards, compare with the reference."""
    kernel = library_kernel(prim, target, "k", lambda rest: default_schedule(rest, target)[0])
    assert kernel is not None and kernel.library == library_of(prim)
    inputs = make_inputs(prim, 0)
    operands = [guarded(a) for a in prepare_operands(kernel, inputs)]
    outputs = {}
    for operand, array in zip(kernel.operands, operands):
        if operand.role == "out":
            array.reshape(-1).view(np.uint8)[...] = 0xFF
            outputs[operand.buffer.name] = array
    raw = guarded(np.full(kernel.workspace_bytes + 64, 0xFF, np.uint8))
    pointers = [a.ctypes.data for a in operands] + [(raw.ctypes.data + 63) // 64 * 64]
    block = (ctypes.c_void_p * len(pointers))(*pointers)
    call: Any = loaded_code(kernel.text, target).function("k.packed", ctypes.c_void_p)
    call(ctypes.addressof(block))
    for array in (*operands, raw):
        check_guard(array)
    verdict = Reference(prim, inputs).check(outputs)
    assert verdict.right, verdict.reason


CASES: list[tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = [
    (lambda a, b: a @ b, (1, 70), (70, 90)),
    (lambda a, b: a @ b, (90, 70), (70,)),
    (lambda a, b: a @ b, (70,), (70, 90)),
    (lambda a, b: a @ b, (70,), (70,)),
    (lambda a, b: a @ b.T, (300, 20), (100, 20)),
    (lambda a, b: a.T @ b, (30, 200), (30, 100)),
    (lambda a, b: (a @ b).T, (30, 20), (20, 10)),
    (lambda a, b: a @ b, (4, 3, 5, 6), (6, 7)),
    (lambda a, b: a @ b, (4, 3, 5, 6), (4, 3, 6, 7)),
    (lambda a, b: np.einsum("ibj,bkj->bik", a, b), (6, 4, 5), (4, 7, 5)),
    (lambda a, b: np.tensordot(a, b, axes=([1, 2], [0, 1])), (8, 6, 4), (6, 4, 9)),
    (lambda a, b: a[:, 3:] @ b, (10, 12), (9, 11)),
    (lambda a, b: np.maximum(a @ b + 1, 0) * b[0], (100, 40), (40, 30)),
    (lambda a, b: lw.nn.softmax(a @ b), (20, 40), (40, 30)),
    (lambda a, b: a @ a.T + b, (30, 20), (30,)),
    (lambda a, b: lw.nn.conv2d(a, b, strides=2), (1, 16, 9, 9), (8, 16, 1, 1)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("dtype", [F32, F64])
def test_products_of_all_kinds(case: int, dtype: Any) -> None:
    function, *shapes = CASES[case]
    found = [p for p in prims(function, *shapes, dtype=dtype) if library_of(p)]
    assert found
    for prim in found:
        check(prim)


@pytest.mark.parametrize("isa", ["x86-64-v3", "x86-64"])
def test_the_rest_is_code_for_any_machine(isa: str) -> None:
    (prim,) = prims(lambda a, b: np.tanh(a @ b) + 1, (33, 20), (20, 17))
    check(prim, HOST.with_isa(isa))


@settings(max_examples=40, deadline=None)
@given(
    *(st.integers(1, 40) for _ in range(3)), st.booleans(), st.booleans(), st.sampled_from((1, 3))
)
def test_any_size_either_way_round(m: int, k: int, n: int, at: bool, bt: bool, batch: int) -> None:
    def function(a: Any, b: Any) -> Any:
        a, b = (np.swapaxes(a, 1, 2) if at else a), (np.swapaxes(b, 1, 2) if bt else b)
        return a @ b * 2

    shapes = (batch, *((k, m) if at else (m, k))), (batch, *((n, k) if bt else (k, n)))
    for prim in prims(function, *shapes):
        if library_of(prim):
            check(prim)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_large_products_are_shared_by_the_threads_of_the_pool(threads: int) -> None:
    for shapes in (((200, 90), (90, 60)), ((10, 90), (90, 400)), ((500, 400), (400,))):
        (prim,) = prims(lambda a, b: a @ b, *shapes)
        with pool.limited(threads):
            check(prim)


def test_the_librarys_own_threads_are_as_before() -> None:
    found = blas.numpy_blas()
    assert found is not None
    address = {n: found.symbols[f"lw.blas.{n}"] for n in ("get_num_threads", "set_num_threads")}
    get = ctypes.CFUNCTYPE(ctypes.c_int)(address["get_num_threads"])
    put = ctypes.CFUNCTYPE(None, ctypes.c_int)(address["set_num_threads"])
    before = get()
    (prim,) = prims(lambda a, b: a @ b, (40, 30), (30, 20))
    try:
        put(2)
        enter, leave = (
            ctypes.CFUNCTYPE(None)(found.symbols[n]) for n in ("lw_blas_enter", "lw_blas_leave")
        )
        enter(), enter(), leave()
        assert get() == 1  # somebody is still inside
        leave()
        assert get() == 2
        check(prim)
        assert get() == 2
    finally:
        put(before)


def test_kernels_that_no_library_computes() -> None:
    (integers,) = prims(lambda a, b: a @ b, (4, 3), (3, 5), dtype=np.int32)
    (sums,) = prims(lambda a: a.sum(axis=1), (4, 3))
    for prim in (integers, sums):
        assert library_of(prim) is None
        assert library_kernel(prim, HOST, "k", lambda rest: default_schedule(rest, HOST)[0]) is None


def test_without_a_known_library_nothing_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    (prim,) = prims(lambda a, b: a @ b, (4, 3), (3, 5))
    assert library_of(prim) is not None
    monkeypatch.setattr(library, "numpy_blas", lambda: None)
    assert library_of(prim) is None
    blas.numpy_blas.cache_clear()
    monkeypatch.setattr(blas, "_DECORATIONS", (("no_such_{}", "nor_{}", 64),))
    try:
        assert blas.numpy_blas() is None
    finally:
        monkeypatch.undo()
        blas.numpy_blas.cache_clear()
