"""The sort of integers in vectors, as kernels call it, on every ISA."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from loopwright.codegen.emit.sorting import sort_text
from loopwright.codegen.emit.sorting_network import sort_symbol
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import load_object
from loopwright.codegen.target import ISA_LEVELS, Target
from loopwright.ir.dtype import DTYPES
from loopwright.ir.loop.interpret import interpret
from loopwright.ir.loop.parser import parse_nest
from loopwright.ir.loop.verify import verify_nest

HOST = Target.host()
LEVELS = list(ISA_LEVELS)
ENTRY = """define void @entry(ptr %p, i64 %n) {{
  call void @{}(ptr %p, i64 %n)
  ret void
}}
"""


@pytest.mark.parametrize("isa", LEVELS[: LEVELS.index(HOST.isa) + 1])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_every_length_and_distribution(isa: str, dtype: str) -> None:
    declarations, text = sort_text(DTYPES[dtype], HOST.with_isa(isa))
    entry = ENTRY.format(sort_symbol(DTYPES[dtype]))
    code = load_object(compile_object("\n".join([*declarations, text, entry]), HOST.with_isa(isa)))
    sort = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address("entry"))
    rng, info = np.random.default_rng(3), np.iinfo(dtype)
    for n in (*range(1, 140), 191, 192, 193, 255, 511, 1023, 1024, 5000):
        ends = np.full(n, info.max, dtype)
        ends[: n // 2] = np.arange(n // 2)
        for x in (
            rng.integers(info.min, info.max, n, dtype, endpoint=True),
            rng.integers(0, 4, n).astype(dtype),
            np.full(n, info.min, dtype),
            ends[::-1].copy(),
        ):
            guarded = np.pad(x, 1, constant_values=7)
            sort(guarded[1:].ctypes.data, n)
            np.testing.assert_array_equal(guarded[1:-1], np.sort(x))
            assert guarded[0] == guarded[-1] == 7


def test_bad_pivots_do_not_make_it_slow() -> None:
    """The sample is always of the least elements; it would take n * n steps by samples alone."""
    declarations, text = sort_text(DTYPES["uint32"], HOST)
    entry = ENTRY.format(sort_symbol(DTYPES["uint32"]))
    code = load_object(compile_object("\n".join([*declarations, text, entry]), HOST))
    sort = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address("entry"))
    x = np.arange(1 << 18, dtype=np.uint32)
    x[:: (1 << 18) // (4 * HOST.lanes(4))] = 0
    expected = np.sort(x)
    sort(x.ctypes.data, x.size)
    np.testing.assert_array_equal(x, expected)


def test_the_statement_is_part_of_the_language() -> None:
    text = """prim @ordered(x: int32[2, 9]) -> out: int32[2, 9] {
  for r in 2:
    for n in 9:
      out[r, n] = x[r, n]
    sort out[r, 1] in 7
}
"""
    nest = parse_nest(text)
    assert str(nest) == text
    verify_nest(nest)
    x = np.random.default_rng(0).integers(-9, 9, (2, 9)).astype(np.int32)
    out = np.zeros_like(x)
    interpret(nest, {"x": x, "out": out})
    np.testing.assert_array_equal(out[:, 1:8], np.sort(x[:, 1:8]))
    np.testing.assert_array_equal(out[:, ::8], x[:, ::8])
