"""The names of the standard (2024.12), with the parameters it gives them."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright import xp

CONSTANTS = "e inf nan newaxis pi"
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64"
COMPLEX = "complex64 complex128"

ONE = """
    abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
    isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round
    sign signbit sin sinh square sqrt tan tanh trunc matrix_transpose nonzero unique_all
    unique_counts unique_inverse unique_values
"""
TWO = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
    divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and
    logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract
    matmul
"""
REDUCTIONS = "all any argmax argmin count_nonzero max mean min"
LIKE = "(x, /, *, dtype=None, device=None)"
SHAPE = "(shape, *, dtype=None, device=None)"
OVER = "(x, /, *, axis=None, keepdims=False)"
TOTAL = "(x, /, *, axis=None, dtype=None, keepdims=False)"
SPREAD = "(x, /, *, axis=None, correction=0.0, keepdims=False)"
SCAN = "(x, /, *, axis=None, dtype=None, include_initial=False)"
ORDER = "(x, /, *, axis=-1, descending=False, stable=True)"
SIGNATURES: dict[str, str] = {
    **dict.fromkeys(ONE.split(), "(x, /)"),
    **dict.fromkeys(TWO.split(), "(x1, x2, /)"),
    **dict.fromkeys(["empty_like", "ones_like", "zeros_like"], LIKE),
    **dict.fromkeys(["empty", "ones", "zeros"], SHAPE),
    **dict.fromkeys(
        ["all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min"], OVER
    ),
    **dict.fromkeys(["prod", "sum"], TOTAL),
    **dict.fromkeys(["std", "var"], SPREAD),
    **dict.fromkeys(["cumulative_prod", "cumulative_sum"], SCAN),
    **dict.fromkeys(["argsort", "sort"], ORDER),
    "__array_namespace_info__": "()",
    "arange": "(start, /, stop=None, step=1, *, dtype=None, device=None)",
    "asarray": "(obj, /, *, dtype=None, device=None, copy=None)",
    "astype": "(x, dtype, /, *, copy=True, device=None)",
    "broadcast_arrays": "(*arrays)",
    "broadcast_to": "(x, /, shape)",
    "can_cast": "(from_, to, /)",
    "clip": "(x, /, min=None, max=None)",
    "concat": "(arrays, /, *, axis=0)",
    "diff": "(x, /, *, axis=-1, n=1, prepend=None, append=None)",
    "expand_dims": "(x, /, axis=0)",
    "eye": "(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)",
    "finfo": "(type, /)",
    "flip": "(x, /, *, axis=None)",
    "from_dlpack": "(x, /, *, device=None, copy=None)",
    "full": "(shape, fill_value, *, dtype=None, device=None)",
    "full_like": "(x, /, fill_value, *, dtype=None, device=None)",
    "iinfo": "(type, /)",
    "isdtype": "(dtype, kind)",
    "linspace": "(start, stop, /, num, *, dtype=None, device=None, endpoint=True)",
    "meshgrid": "(*arrays, indexing='xy')",
    "moveaxis": "(x, source, destination, /)",
    "permute_dims": "(x, /, axes)",
    "repeat": "(x, repeats, /, *, axis=None)",
    "reshape": "(x, /, shape, *, copy=None)",
    "result_type": "(*arrays_and_dtypes)",
    "roll": "(x, /, shift, *, axis=None)",
    "searchsorted": "(x1, x2, /, *, side='left', sorter=None)",
    "squeeze": "(x, /, axis)",
    "stack": "(arrays, /, *, axis=0)",
    "take": "(x, indices, /, *, axis=None)",
    "take_along_axis": "(x, indices, /, *, axis=-1)",
    "tensordot": "(x1, x2, /, *, axes=2)",
    "tile": "(x, repetitions, /)",
    "tril": "(x, /, *, k=0)",
    "triu": "(x, /, *, k=0)",
    "unstack": "(x, /, *, axis=0)",
    "vecdot": "(x1, x2, /, *, axis=-1)",
    "where": "(condition, x1, x2, /)",
}
MATRIX = "det eigh eigvalsh inv matrix_transpose slogdet svdvals"
LINALG: dict[str, str] = {
    **dict.fromkeys(MATRIX.split(), "(x, /)"),
    **dict.fromkeys(["matmul", "outer", "solve"], "(x1, x2, /)"),
    **dict.fromkeys(["matrix_rank", "pinv"], "(x, /, *, rtol=None)"),
    "cholesky": "(x, /, *, upper=False)",
    "cross": "(x1, x2, /, *, axis=-1)",
    "diagonal": "(x, /, *, offset=0)",
    "matrix_norm": "(x, /, *, keepdims=False, ord='fro')",
    "matrix_power": "(x, n, /)",
    "qr": "(x, /, *, mode='reduced')",
    "svd": "(x, /, *, full_matrices=True)",
    "tensordot": "(x1, x2, /, *, axes=2)",
    "trace": "(x, /, *, offset=0, dtype=None)",
    "vecdot": "(x1, x2, /, *, axis=-1)",
    "vector_norm": "(x, /, *, axis=None, keepdims=False, ord=2)",
}
ALONG_ONE = "(x, /, *, n=None, axis=-1, norm='backward')"
ALONG_MANY = "(x, /, *, s=None, axes=None, norm='backward')"
FREQUENCIES = "(n, /, *, d=1.0, dtype=None, device=None)"
FFT: dict[str, str] = {
    **dict.fromkeys(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"], ALONG_ONE),
    **dict.fromkeys(["fftn", "ifftn", "rfftn", "irfftn"], ALONG_MANY),
    **dict.fromkeys(["fftfreq", "rfftfreq"], FREQUENCIES),
    **dict.fromkeys(["fftshift", "ifftshift"], "(x, /, *, axes=None)"),
}


@pytest.mark.parametrize(
    "module, signatures", [(xp, SIGNATURES), (xp.linalg, LINALG), (xp.fft, FFT)]
)
def test_signatures(module: Any, signatures: dict[str, str]) -> None:
    assert {name: _signature(getattr(module, name)) for name in signatures} == signatures


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare))


def test_names() -> None:
    names = {*SIGNATURES, *CONSTANTS.split(), *DTYPES.split(), *COMPLEX.split(), "linalg", "fft"}
    beside = {"einsum", "exp2", "split"}
    assert {*xp.__all__} == names - {"__array_namespace_info__"} | beside
    assert {*xp.linalg.__all__} == {*LINALG}
    assert {*xp.fft.__all__} == {*FFT}
    assert xp.__array_api_version__ == "2024.12"


def test_arrays_know_their_namespace() -> None:
    namespaces: list[Any] = []

    def f(x: Any) -> Any:
        namespaces.append(x.__array_namespace__(api_version="2024.12"))
        return namespaces[-1].sum(x)

    assert lw.compile(f)(np.ones(3)) == 3
    assert namespaces == [xp]


def test_a_call_is_compiled_once_for_each_kind_of_arguments() -> None:
    info: Any = vars(xp.hypot)["cache_info"]
    before = info()
    for numbers in ([3.0], [5.0], [8.0, 9.0]):
        xp.hypot(np.array(numbers), 4)
    assert info().misses == before.misses + 2
    assert info().hits == before.hits + 1


def test_only_the_cpu_is_there() -> None:
    assert xp.zeros(2, device="cpu").shape == (2,)
    with pytest.raises(ValueError, match="there is no device 'gpu'"):
        xp.zeros(2, device="gpu")


@pytest.mark.parametrize("function", [xp.sum, xp.zeros, xp.add, xp.linalg.svd, xp.fft.rfft])
def test_functions_are_pickled_by_their_name(function: Any) -> None:
    assert pickle.loads(pickle.dumps(function)) is function
