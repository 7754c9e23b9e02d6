"""The table of dtypes: a new element type is one row."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
from loopwright.ir.dtype import DTYPES, FLOAT32, FLOAT64, INT64, LLVM_TYPES, dtype_of

WITH_FLOAT128 = """
import importlib.machinery

read_source = importlib.machinery.SourceFileLoader.get_code

def get_code(self, name):
    if name != "loopwright.ir.dtype":
        return read_source(self, name)
    row = 'DType("float128", np.dtype("g"), "f128", "f128", _F, 128, None, "float128", 63),'
    head, mark, rest = self.get_source(name).partition('DType("float32"')
    assert mark
    return compile(head + row + mark + rest, self.path, "exec")

importlib.machinery.SourceFileLoader.get_code = get_code

import loopwright as lw
import numpy as np
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.parser import parse_module
from loopwright.ir.graph.printer import as_text
"""


def run_with_float128(code: str) -> str:
    made = subprocess.run(
        [sys.executable, "-c", WITH_FLOAT128 + code], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_a_new_type_is_traced_printed_parsed_and_interpreted() -> None:
    run_with_float128(
        """
x = np.linspace(0, 1, 5).astype(np.longdouble)
module = lw.compile(lambda x: np.exp(x) * 0.5 + x.sum()).trace(x).module
text = as_text(module)
assert "Tensor[(5), float128]" in text and "0.5f128" in text, text
assert as_text(parse_module(text)) == text
result = evaluate(module, x)
assert result.dtype == np.longdouble
np.testing.assert_allclose(result, np.exp(x) * 0.5 + x.sum(), rtol=1e-12)
"""
    )


def test_a_type_without_machine_code_is_refused_in_one_sentence() -> None:
    printed = run_with_float128(
        """
try:
    lw.compile(lambda x: x + x)(np.ones(3, np.longdouble))
except lw.UnsupportedError as error:
    print(error)
"""
    )
    assert "no machine code can be generated for float128 yet" in printed
    assert "try: .astype(np.float32)" in printed


def test_a_dtype_is_one_object() -> None:
    assert pickle.loads(pickle.dumps(FLOAT32)) is FLOAT32
    assert copy.deepcopy(FLOAT32) is FLOAT32
    assert dtype_of(np.float32) is DTYPES["float32"] is FLOAT32


def test_columns_agree_with_numpy() -> None:
    for row in DTYPES.values():
        assert row.numpy.name == row.name and row.bytes == row.numpy.itemsize
        if row.numpy.isbuiltin != 1:  # of another package, if a test has named it
            continue
        assert row.kind == row.numpy.kind
        assert row.accumulator.numpy == np.zeros(1, row.numpy).sum().dtype  # none is narrow
        if row.is_complex:
            assert (row.part.complex, 2 * row.part.bits) == (row, row.bits)
            continue
        assert LLVM_TYPES[row.llvm].bits == row.bits
        if row.is_float:
            info = np.finfo(row.numpy)
            assert (row.fraction_bits, row.exponent_bits) == (info.nmant, info.iexp)
    assert FLOAT32.wide is FLOAT64 and INT64.wide is INT64
