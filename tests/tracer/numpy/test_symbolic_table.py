"""Every use in the table of NumPy's functions with a symbolic axis: traced once, lowered, and
compared with NumPy at several sizes. What stays static says so with an UnsupportedError."""

from __future__ import annotations

import zlib
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.driver.pipeline import kernels_of, lower_module
from loopwright.ir.dims import size
from loopwright.ir.dtype import dtype_of
from loopwright.ir.errors import (
    InternalError,
    LoopwrightError,
    LoopwrightTypeError,
    UnsupportedError,
)
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.nodes import Module
from loopwright.ir.graph.types import TensorType, TupleType, substitute_type
from loopwright.ir.graph.verify import signature_of
from loopwright.ir.loop.evaluate import evaluate_prim
from loopwright.ir.loop.verify import verify_prim
from loopwright.ir.pass_context import PassContext
from loopwright.tracer.core.argument_specs import Spec

from tools.numpy_table.page import is_there, rows
from tools.numpy_table.uses import OTHERS, Use, _values, assert_same, letter_of, parsed

N = size("n", 0, 4096)
SIZES = (0, 1, 5, 17)
MARK = 11
"""The size that stands for the symbolic one."""

SETTINGS = {"axis": 0, "axes": 0, "keep": True, "k": 1, "dt": np.dtype("float32")}

STATIC = frozenset(
    [
        "ndarray.put",
        "np.bartlett",
        "np.blackman",
        "np.convolve",
        "np.correlate",
        "np.delete",
        "np.diag_indices",
        "np.diag_indices_from",
        "np.ediff1d",
        "np.fill_diagonal",
        "np.geomspace",
        "np.hamming",
        "np.hanning",
        "np.histogram",
        "np.indices",
        "np.insert",
        "np.isin",
        "np.kaiser",
        "np.lcm",
        "np.lib.stride_tricks.as_strided",
        "np.linalg.lstsq",
        "np.linalg.matrix_power",
        "np.linalg.matrix_rank",
        "np.linalg.multi_dot",
        "np.linalg.qr",
        "np.logspace",
        "np.mask_indices",
        "np.negative",
        "np.packbits",
        "np.pad",
        "np.polyadd",
        "np.polyder",
        "np.polyfit",
        "np.polyint",
        "np.polysub",
        "np.polyval",
        "np.put",
        "np.repeat",
        "np.resize",
        "np.unpackbits",
        "np.unravel_index",
        "np.unstack",
        "np.unwrap",
        "np.vander",
        "ufunc.accumulate",
        "ufunc.reduce",
        "ufunc.reduceat",
    ]
)
"""Functions that need the size in some use: they unroll over it, or keep NumPy's own indices."""

OTHERWISE = frozenset(
    [
        "ndarray.compress",
        "np.compress",
        "np.extract",
        "np.flatnonzero",
        "np.unique",
        "np.union1d",
        "np.setxor1d",
        "np.intersect1d",
        "np.setdiff1d",
        "np.fft.irfft2",
        "np.fft.irfftn",
        "np.nonzero",
        "np.argwhere",
        "ndarray.nonzero",
        "np.iterable",
        "np.poly",
        "np.polymul",
        "np.tril_indices",
        "np.tril_indices_from",
        "np.triu_indices",
        "np.triu_indices_from",
    ]
)
"""Functions whose results have sizes that data decides (``test_data_sizes.py``), those that NumPy
leaves undefined for no rows, and those that iterate in Python."""

USES = [
    (name, row.uses_of(name))
    for row in rows()
    for name in row.names
    if is_there(name) and name not in OTHERWISE
]


def arrays_of(use: Use, n: int) -> dict[str, Any]:
    """The arguments of a use at a size; their dtypes do not depend on it."""
    ranks = [int(s[-1]) for s in use.arrays if s not in OTHERS and s[-1].isdigit()]
    shape = (n, 3, 2, 2)[: max([1, *ranks])]
    arrays: dict[str, Any] = {}
    for name in use.arrays:
        rng = np.random.default_rng(zlib.crc32((use.text + name).encode()))
        letter = "" if name in OTHERS else letter_of(name)
        if letter:
            made = _values(letter, shape, rng)
        elif name == "sv":
            made = np.cumsum(rng.uniform(0.3, 1, size=n))
        elif name == "iv":
            made = rng.integers(0, 6, size=n).astype("int32")
        elif name == "idx":
            made = rng.integers(0, max(shape[-1], 1), size=(*shape[:-1], 3))
        else:
            wanted = {"m": (n, 4), "mt": (4, 3), "s": (n, n)}.get(name, (n,))
            made = rng.normal(size=wanted) + (3 * np.eye(n) if name == "s" else 0)
        arrays[name] = made.astype("float32") if made.dtype == "float64" and not letter else made
    return arrays


def compiled(low: Module, prims: Any, n: int) -> Any:
    """What calls the kernels of a lowered module at a size."""

    def call(prim: Any, args: Any) -> Any:
        result = signature_of(low.functions[prim.name]).result
        kinds = result.fields if isinstance(result, TupleType) else (result,)
        at = prim.at({s.name: n for s in prim.sizes})
        given = {p.name: np.reshape(a, p.shape) for p, a in zip(at.params, args, strict=True)}
        shapes = [substitute_type(kind, {"n": n}).shape for kind in kinds]
        made = evaluate_prim(at, given).values()
        out = tuple(np.reshape(a, shape) for a, shape in zip(made, shapes, strict=True))
        return out[0] if len(out) == 1 else out

    return lambda *args: evaluate(Module({**low.functions, **prims}), *args, call_prim=call)


def check(text: str) -> None:
    """A use gives what it gives in NumPy at all sizes, or requires something of the size that does
    not hold where NumPy raises an error; what broadcasts at 1 alone is refused there."""
    use = parsed(text)
    function = use.function({name: SETTINGS[name] for name in use.settings})
    marked = arrays_of(use, MARK).values()
    specs = [
        Spec(TensorType(tuple(N if s == MARK else s for s in a.shape), dtype_of(a.dtype)))
        for a in marked
    ]
    traced = lw.compile(function).trace(*specs)
    low = lower_module(traced.module, passes=PassContext(verify=True))
    prims = kernels_of(low)
    for prim in prims.values():
        verify_prim(prim)
    for n in SIZES:
        arrays = list(arrays_of(use, n).values())
        operands = [np.array(arrays[p]) for p in traced.parameters]

        def result(values: Any, operands: Any = operands) -> Any:
            return traced.result(list(values) if isinstance(values, tuple) else [values], operands)

        with np.errstate(all="ignore"):
            try:
                want: Any = function(*(a.copy() for a in arrays))
            except (ValueError, TypeError, IndexError, ZeroDivisionError):
                continue
            try:
                got = result(evaluate(traced.module, *operands))
            except LoopwrightTypeError as error:
                assert n < 2 and "does not hold" in str(error), f"n = {n}: {error}"
                continue
            assert_same(got, want)
            assert_same(result(compiled(low, prims, n)(*operands)), want)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "uses"), USES, ids=[name for name, _ in USES])
def test_a_row(name: str, uses: tuple[str, ...]) -> None:
    refused = False
    for text in uses:
        if not parsed(text).arrays:
            continue
        if name not in STATIC:
            check(text)
            continue
        try:
            check(text)
        except UnsupportedError as error:
            assert error.span is not None and error.hint, text
            refused = True
        except LoopwrightError as error:
            assert error.span is not None and not isinstance(error, InternalError), text
            refused = True
    assert refused == (name in STATIC), "STATIC is out of date"
