"""PyTorch's own samples of its operators: some of what ``tools/torch_operators.py`` tries."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from loopwright.doors.torch_model import backend  # noqa: E402
from loopwright.ir.library.registry import TABLE  # noqa: E402
from loopwright.tracer.frontends.torch.rows.kernels import declare  # noqa: E402

from tools import torch_operators  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of the samples
    pytest.mark.usefixtures("fresh_dynamo"),
]

REFUSED = frozenset(
    (
        *("allclose", "equal", "cov", "corrcoef", "narrow", "tensor_split", "index_fill"),
        *("nn.functional.gaussian_nll_loss", "nn.functional.ctc_loss", "linalg.lstsq"),
        "nn.functional.rrelu",
        *("sparse.sampled_addmm", "sparse.mm", "to_sparse", "chalf", "histogramdd", "as_strided"),
        *("nn.functional.linear_cross_entropy", "_native_batch_norm_legit"),
    )
)
"""Operators of which some samples are refused in float32: Python has to see values, sizes depend on
data, results are sparse or of dtypes that the language lacks."""

FAMILIES = (
    *("fft.fft", "fft.irfft2", "stft", "view_as_complex", "polar", "angle"),
    *("linalg.inv", "linalg.eigh", "linalg.svd", "linalg.det", "linalg.cholesky_ex", "lu_solve"),
    *("sigmoid", "nn.functional.silu"),
    *("lgamma", "special.zeta", "special.bessel_y0", "special.hermite_polynomial_h", "igamma"),
    *("cummax", "nanmedian", "index_reduce", "index_put", "scatter"),
    *("frexp", "nonzero", "masked_select", "unique", "unique_consecutive", "masked_scatter"),
    *("nn.functional.bilinear", "_upsample_bilinear2d_aa", "nn.functional.embedding_bag"),
    *("nn.functional.interpolate", "grid_sampler_3d", "cdist", "histc", "addbmm"),
)


def verdicts(names: Any, dtype: Any, count: int, compiled: bool = False) -> dict[str, str]:
    """Returns how the samples of operators went, by name, and why."""
    results: dict[str, str] = {}
    for op in names:
        if dtype in op.dtypes:
            ((verdict, reason),) = torch_operators.check(op, dtype, count, compiled)
            results[f"{op.name} {op.variant_test_name}"] = f"{verdict} {reason}".strip()
    return results


def named(*names: str) -> list[Any]:
    return [op for op in torch_operators.op_db if op.name in names]


@pytest.mark.parametrize("first", range(3))
def test_an_operator_is_right_or_on_the_list(first: int) -> None:
    some = torch_operators.op_db[first * 7 :: 29]
    for name, verdict in verdicts(some, torch.float32, 1).items():
        assert verdict in ("passes", "skipped no sample") or (
            verdict.startswith("refused") and name.split()[0] in REFUSED
        ), (name, verdict)


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    for dtype in (torch.float32, torch.complex64):
        for op, verdict in verdicts(named(name), dtype, 2).items():
            assert verdict == "passes", (op, dtype, verdict)


def test_kernels_are_called_by_compiled_code() -> None:
    names = ("lgamma", "linalg.eigh", "linalg.solve", "histc", "fft.rfft", "mode", "cholesky")
    given = verdicts(named(*names), torch.float32, 2, compiled=True)
    assert set(given.values()) == {"passes"} and len(given) == len(names)


def compiled(function: Any) -> Any:
    return torch.compile(function, backend=backend, options={"fallback": False})


FILLS = {
    "exponential": lambda x: x.clone().exponential_(2.0),
    "uniform": lambda x: x.clone().uniform_(-1, 3),
    "normal": lambda x: torch.normal(x, x.abs()),
    "randint": lambda x: torch.randint_like(x, 3, 9),
    "multinomial": lambda x: torch.multinomial(x.abs(), 3),
}


@pytest.mark.parametrize("name", FILLS)
def test_random_numbers_are_those_of_the_generator(name: str) -> None:
    x = torch.randn(4, 7)
    results = []
    for function in (FILLS[name], compiled(FILLS[name])):
        torch.manual_seed(3)
        results.append(function(x))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    ("index", "values"),
    [
        (lambda m: (m,), (5,)),
        (lambda m: (m,), (1,)),
        (lambda m: (m,), ()),
        (lambda m: (m[:, 0],), (2, 4)),
        (lambda m: (m[:, 0],), (4,)),
        (lambda m: (None, m[0]), (3, 1)),
    ],
)
def test_values_for_a_mask(index: Any, values: tuple[int, ...], accumulate: bool) -> None:
    mask = torch.zeros(3, 4, dtype=torch.bool)
    mask[0, 0] = mask[0, 2] = mask[1, 1] = mask[2, 0] = mask[2, 3] = True

    def put(x: Any, v: Any, m: Any) -> Any:
        return torch.ops.aten.index_put(x, index(m), v, accumulate)

    x, v = torch.randn(3, 4), torch.randn(values)
    torch.testing.assert_close(compiled(put)(x, v, mask), put(x, v, mask))


def test_as_many_values_as_places() -> None:
    put = compiled(lambda x, v, m: torch.ops.aten.index_put(x, (m,), v))
    x, mask = torch.zeros(4), torch.tensor([True, False, True, False])
    with pytest.raises(IndexError, match="3 values for 2 places where a mask is true"):
        put(x, torch.ones(3), mask)


class Inverse(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.linalg.inv(x)


@pytest.mark.parametrize("is_exported", [False, True])
def test_a_singular_matrix_is_an_error(is_exported: bool) -> None:
    """Exported, the check is an effect, of which a token tells the order."""
    x = torch.eye(3)
    inverse = lw.from_torch(Inverse(), (x,)) if is_exported else compiled(torch.linalg.inv)
    torch.testing.assert_close(inverse(2 * torch.eye(3)), torch.eye(3) / 2)
    with pytest.raises(RuntimeError, match=r"linalg\.inv: LAPACK fails .* code 1"):
        inverse(torch.zeros(3, 3))


def test_a_special_function_has_symbolic_sizes() -> None:
    class Gamma(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.lgamma(x + y) * 2

    size = torch.export.Dim("n", min=2, max=64)
    x, y = torch.rand(5, 3), torch.rand(5, 1)
    program = torch.export.export(Gamma(), (x, y), dynamic_shapes=({0: size}, {0: size}))
    f = lw.from_torch(program)
    for count in (5, 17):
        args = torch.rand(count, 3), torch.rand(count, 1)
        torch.testing.assert_close(f(*args), Gamma()(*args))


def test_complex_arguments_with_a_conjugate_pending() -> None:
    def turn(x: Any, y: Any) -> Any:
        return torch.fft.ifft(x * y.conj()).real, (x * y).imag

    x, y = torch.randn(2, 8, dtype=torch.complex64).unbind()
    torch.testing.assert_close(compiled(turn)(x.conj(), y), turn(x.conj(), y))


def test_a_kernel_refuses_sizes_that_vary(caplog: pytest.LogCaptureFixture) -> None:
    class Values(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.svdvals(x)

    size = torch.export.Dim("n", min=2, max=64)
    program = torch.export.export(Values(), (torch.rand(5, 3),), dynamic_shapes=({0: size},))
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(lw.UnsupportedError, match="of symbolic sizes is not supported"),
    ):
        lw.from_torch(program)


def test_sizes_that_data_decides() -> None:
    class Chosen(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
            return torch.nonzero(x > 1), x[x > 1] * 2, values, inverse, counts

    x = torch.arange(12).reshape(3, 4) % 5
    f = lw.from_torch(Chosen(), (x,))
    for given in (x, x * 0, x + 2):
        for result, wanted in zip(f(given), Chosen()(given), strict=True):
            torch.testing.assert_close(result, wanted)


def test_rows_take_bfloat16_for_floats() -> None:
    """NumPy has no kind of it: what is not a float was divided as integers are."""
    x, y = torch.randn(6, 7).bfloat16() * 3, torch.randn(6, 7).bfloat16()
    for use in (
        lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        lambda x, y: torch.round(x),
        lambda x, y: torch.ops.prims.div(x, y),
        lambda x, y: x.index_reduce(0, torch.tensor([1, 1]), y[:2], "mean"),
        lambda x, y: torch.where(y > 1, torch.nan, x).median(1)[0],
    ):
        torch._dynamo.reset()
        torch.testing.assert_close(compiled(use)(x, y), use(x, y), equal_nan=True)


def test_a_saved_program_calls_kernels_in_a_new_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gamma(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.lgamma(x) * 2

    x = torch.rand(5) + 1
    path = tmp_path / "gamma.lw"
    lw.from_torch(Gamma(), (x,)).lower(x).save(path)
    monkeypatch.delitem(TABLE, "aten.lgamma.default")  # which a new process does not have
    result = lw.load(path)(x.numpy())
    torch.testing.assert_close(torch.from_numpy(np.asarray(result)), Gamma()(x))


def test_only_operators_with_a_row_are_called() -> None:
    name = "aten.from_file.default"  # which a file that is not trusted may ask for
    with pytest.raises(lw.LoopwrightValueError, match=name):
        declare(name)
    declare("aten.lgamma.default")
    assert "aten.lgamma.default" in TABLE and name not in TABLE
