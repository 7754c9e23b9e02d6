from __future__ import annotations

import ctypes

import numpy as np
import pytest
from loopwright.codegen.emit.transpose import transpose
from loopwright.codegen.llvm.engine import compile_object
from loopwright.codegen.llvm.link import load_object
from loopwright.codegen.llvm.writer import FunctionWriter, Value
from loopwright.codegen.target import ISA_LEVELS, Target

HOST = Target.host()
LEVELS = list(ISA_LEVELS)[: list(ISA_LEVELS).index(HOST.isa) + 1]
TYPES = {"float": "f4", "i32": "i4", "double": "f8", "i64": "i8", "i16": "i2"}


@pytest.mark.parametrize("type", list(TYPES))
@pytest.mark.parametrize("isa", LEVELS)
def test_rows_become_columns(isa: str, type: str) -> None:
    target = HOST.with_isa(isa)
    dtype = np.dtype(TYPES[type])
    lanes = target.lanes(dtype.itemsize)
    given = np.arange(lanes * lanes, dtype=dtype).reshape(lanes, lanes)
    for count in sorted({1, 2, 3, lanes // 2, lanes - 1, lanes} & set(range(1, lanes + 1))):
        made = np.full((lanes, lanes), -1, dtype)
        code = load_object(compile_object(_text(type, lanes, count), target))
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address("turn"))
        call(given.ctypes.data, made.ctypes.data)
        assert np.array_equal(made[:, :count], given[:count].T)


def _text(type: str, lanes: int, count: int) -> str:
    """A function that writes the first ``count`` rows of a square as columns."""
    w = FunctionWriter("turn", "ptr %from, ptr %to")
    rows: list[Value] = []
    for n in range(count):
        w.line(f"%p{n} = getelementptr {type}, ptr %from, i64 {n * lanes}")
        w.line(f"%r{n} = load <{lanes} x {type}>, ptr %p{n}, align 2")
        rows.append(Value(f"%r{n}", type, lanes))
    for n, column in enumerate(transpose(w, rows)):
        w.line(f"%q{n} = getelementptr {type}, ptr %to, i64 {n * lanes}")
        w.line(f"store {column}, ptr %q{n}, align 2")
    return "\n".join([*sorted(w.calls), w.text()])
