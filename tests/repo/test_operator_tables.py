"""What holds for an operator stands in its declaration: no table elsewhere lists operators."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import repo_sources as sources
from loopwright.ir.errors import InternalError
from loopwright.ir.loop.scalar import SCALAR_OPS, ScalarOp, require_reachable
from loopwright.ir.ops import all_operators
from repo_sources import ROOT

DECLARATIONS = ("ir/ops/", "ir/loop/scalar.py")
"""Declarations of operators."""

EXCEPTIONS = {
    "codegen/c_source/scalars.py _FLOATS": "declares the C of each scalar operator",
    "codegen/c_source/scalars.py _INTEGERS": "declares the C of each scalar operator",
    "codegen/emit/scalars.py _CODE": "declares the instructions of each scalar operator",
    "loopwright/debug/machine/meanings.py FUNCTIONS": "functions of LLVM",
    "tracer/core/error_context.py _SYMBOLS": "names of NumPy's ufuncs",
    "tracer/core/error_context.py _INTEGER_ONLY": "names of NumPy's ufuncs",
    "tracer/core/misuse.py METHOD_REWRITES": "methods that arrays do not have",
    "tracer/core/runtime_checks.py _OF_NOTHING": "messages of NumPy's functions",
    "tracer/memory/storage.py _STRIDES": "functions of NumPy that give views",
    "tracer/frontends/torch/rows/indexing.py": "PyTorch's names of reductions",
    "tracer/frontends/torch/rows/indexing.py _REDUCTIONS": "PyTorch's names of reductions",
    "tracer/frontends/torch/rows/pointwise.py": "rows of PyTorch's operators",
    "tracer/frontends/torch/rows/prims.py": "rows of PyTorch's operators",
    "tracer/numpy/padding.py": "names of NumPy's modes",
    "tracer/numpy/padding.py _OPTIONS": "names of NumPy's modes",
    "tracer/numpy/patched_functions.py _OF_LISTS": "names of NumPy's functions",
    "tracer/numpy/patched_functions.py _SIZED": "names of NumPy's functions",
    "tracer/numpy/reductions.py": "rows of NumPy's functions",
    "tracer/numpy/special.py _COMPOSED": "rows of SciPy's ufuncs",
    "tracer/numpy/ufunc_methods.py _ASSOCIATIVE": "names of NumPy's ufuncs",
    "tracer/prim.py _INDEX": "operators that indices have, too",
    "tracer/rewriting/expressions.py _OF_ROWS": "builtins of Python",
}
"""Tables by file and variable, and why each is none of operators, or is their declaration."""


def _tables(path: Path) -> set[str]:
    """Returns the variables of a file whose literal values name more than two operators; of a
    table in a function only the file."""
    names, text = all_operators().keys(), path.read_text()
    tables: set[str] = set()
    if len(names & {*re.findall(r'"([\w.]+)"', text)}) <= 2:
        return tables
    for statement in ast.parse(text).body:
        target = ""
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            target = ast.unparse(targets[0])
        if target == "__all__":
            continue
        for node in ast.walk(statement):
            values = getattr(node, "keys" if isinstance(node, ast.Dict) else "elts", ())
            texts = {v.value for v in values if isinstance(v, ast.Constant)}
            if len({t for t in texts if isinstance(t, str)} & names) > 2:
                tables.add(f"{path.relative_to(ROOT).as_posix()} {target}".strip())
    return tables


def test_no_table_lists_operators() -> None:
    files = [p for f in sources.PARTS for p in (ROOT / f).rglob("*.py")]
    files = [p for p in files if not p.relative_to(ROOT).as_posix().startswith(DECLARATIONS)]
    tables = set().union(*map(_tables, files))
    assert tables - EXCEPTIONS.keys() == set(), "a trait or a column of the declaration says it"
    assert EXCEPTIONS.keys() - tables == set(), "gone: take it off the list"


def test_a_scalar_row_that_no_function_applies_is_refused() -> None:
    row = ScalarOp("sinc", 1, np.sinc, "f")
    with pytest.raises(InternalError, match=r"scalar sinc: np\.sinc is not a ufunc"):
        require_reachable(row)
    assert require_reachable(SCALAR_OPS["erf"]) is SCALAR_OPS["erf"]
