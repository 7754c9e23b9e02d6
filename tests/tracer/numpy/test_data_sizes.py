"""Sizes that data decides: slices with traced bounds, masks, ``nonzero``, ``unique``; compiled, and
by the interpreters of all levels, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir.errors import LoopwrightError
from loopwright.ir.graph.evaluate import evaluate
from loopwright.ir.graph.parser import parse_module
from loopwright.ir.graph.verify import verify

from tools.numpy_table.uses import assert_same, interpreted

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 5)).astype(np.float32)
V = RNG.integers(0, 4, 12)

SLICES: dict[str, Callable[..., Any]] = {
    "prefix": lambda x, a, b: x[:b],
    "suffix": lambda x, a, b: x[a:] * 2,
    "window": lambda x, a, b: x[a:b].sum(0),
    "steps": lambda x, a, b: np.exp(x[a:b:2]),
    "columns": lambda x, a, b: x[:, :b],
    "product": lambda x, a, b: x[:b].T @ x[:b],
    "size": lambda x, a, b: x[:b].sum() / (x[:b].shape[0] + 1),
    "several": lambda x, a, b: (x[:b], x[:b].mean() if b else 0 * x.sum(), x[:, a:]),
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mask": lambda x, v: x[x > 0],
    "no element": lambda x, v: x[x > 100],
    "rows": lambda x, v: x[x[:, 0] > 0] + 1,
    "columns": lambda x, v: x[:, x[0] > 0],
    "sum": lambda x, v: x[x > 0].sum(),
    "mean": lambda x, v: x[x > 0].mean(),
    "where": lambda x, v: np.where(x > 0),
    "nonzero": lambda x, v: np.nonzero(v > 1),
    "method": lambda x, v: (v > 1).nonzero(),
    "flatnonzero": lambda x, v: v[np.flatnonzero(v > 1)],
    "argwhere": lambda x, v: np.argwhere(x > 0),
    "unique": lambda x, v: np.unique(v),
    "unique with all": lambda x, v: np.unique(
        v, return_index=True, return_inverse=True, return_counts=True
    ),
    "compress": lambda x, v: np.compress(x[:, 0] > 0, x, axis=0),
    "extract": lambda x, v: np.extract(x > 0, x),
    "mask of a mask": lambda x, v: (lambda w: w[w < 3])(v[v > 0]),
}


@pytest.mark.parametrize("name", SLICES)
def test_slices_with_traced_bounds(name: str) -> None:
    function = SLICES[name]
    compiled = lw.compile(function)
    for a, b in [(0, 8), (2, 7), (3, 3), (5, 2), (-3, 99), (-99, -2), (0, 0)]:
        if name == "several" and b == 0:
            continue
        with np.errstate(all="ignore"):
            assert_same(compiled(X, a, b), function(X, a, b))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_whose_results_have_sizes_that_data_decides(name: str) -> None:
    function = FUNCTIONS[name]
    compiled = lw.compile(function)
    for _ in range(2):
        x = RNG.standard_normal(X.shape).astype(np.float32)
        v = RNG.integers(0, 4, V.shape)
        assert_same(compiled(x, v), function(x, v))
    assert_same(interpreted(function, [X, V]), function(X, V))


def test_the_programs_interpreter_agrees() -> None:
    lowered = lw.compile(lambda x, t: (x[:t] * 2, x[:t].sum())).lower(X, 3)
    doubled, total = lowered(X, 3)
    assert_same(doubled, X[:3] * 2)
    assert_same(total, X[:3].sum())
    text = lowered.as_text("program")
    assert "size s0.data = %" in text and " at most 8" in text


def test_a_cache_in_a_loop() -> None:
    """Each iteration reads what the ones before have written, in one native call."""

    def decode(cache, query, steps):
        def body(carry):
            t, cache, total = carry
            keys = cache[: t + 1]
            weights = np.exp((keys * query).sum(-1))
            out = (weights[:, None] * keys).sum(0) / weights.sum()
            cache = cache + 0
            cache[t] = out
            return t + 1, cache, total + out

        begin = (0, cache, np.zeros_like(query))
        return lw.while_loop(lambda carry: carry[0] < steps, body, begin)

    cache = RNG.standard_normal((32, 8)).astype(np.float32)
    query = RNG.standard_normal(8).astype(np.float32)
    assert_same(lw.compile(decode)(cache, query, 20), decode(cache, query, 20))


def test_attention_over_a_prefix_of_a_cache_copies_nothing() -> None:
    def attention(cache, query, t):
        keys = cache[:, : t + 1]
        scores = np.einsum("hd,htd->ht", query, keys)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return np.einsum("ht,htd->hd", weights, keys)

    cache = RNG.standard_normal((3, 40, 8)).astype(np.float32)
    query = RNG.standard_normal((3, 8)).astype(np.float32)
    compiled = lw.compile(attention)
    for t in (0, 1, 17, 39, 99):
        assert_same(compiled(cache, query, t), attention(cache, query, t))
    assert "copy" not in compiled.lower(cache, query, 0).as_text("program")


@pytest.mark.parametrize("size", [4, 5])
def test_batches_of_a_loop_of_which_the_last_is_short(size: int) -> None:
    def f(x):
        def body(i, total):
            return total + x[2 * i : np.minimum(2 * i + 2, len(x))].sum()

        return lw.fori_loop(0, (len(x) + 1) // 2, body, 0.0)

    x = np.arange(float(size))
    assert lw.compile(f)(x) == lw.compile(f, dynamic={"x": {0: "n"}})(x) == f(x)


def test_elements_of_a_selection_by_the_index_of_a_loop() -> None:
    def f(x, n):
        return lw.fori_loop(0, n, lambda i, total: total + x[x > 1][i], 0.0)

    x, compiled = np.arange(5.0), lw.compile(f)
    assert compiled(x, 3) == f(x, 3) == 9
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        compiled(x, 4)


def test_a_branch_has_a_size_of_its_own() -> None:
    def f(x, t):
        return lw.cond(t > 3, lambda: x[:t].sum(0), lambda: x[t:].sum(0))

    compiled = lw.compile(f)
    for t in (0, 3, 4, 8):
        assert_same(compiled(X, t), f(X, t))


def test_with_a_symbolic_axis() -> None:
    compiled = lw.compile(lambda x: x[x > 0], dynamic={"x": {0: lw.Dim("n", max=64)}})
    for n in (0, 1, 7, 64):
        x = RNG.standard_normal(n).astype(np.float32)
        assert_same(compiled(x), x[x > 0])


def test_nonzero_of_symbolic_axes() -> None:
    def f(x):
        return x[x > 0].sum(), np.nonzero(x), np.argwhere(x > 0)

    compiled = lw.compile(f, dynamic={"x": {0: "n", 1: "m"}})
    for shape in ((3, 4), (1, 5), (6, 2)):
        x = RNG.integers(-2, 3, shape).astype(np.float32)
        assert_same(compiled(x), f(x))


def test_sizes_that_may_differ_are_refused() -> None:
    with pytest.raises(LoopwrightError, match="is not known before the function runs"):
        lw.compile(lambda x, v: x[:, 0][x[:, 0] > 0] + v[:8][v[:8] > 1])(X, V)


def _shifted(n: int, x: Any) -> Any:
    return x[1 : n - 1] + x[0 : n - 2]


def _written(n: int, x: Any) -> Any:
    for _ in range(n):
        x[1 : n - 1] = x[0 : n - 2] + x[2:n]
    return x


@pytest.mark.parametrize("function", [_shifted, _written])
def test_ints_are_known_where_it_depends_on_them_whether_shapes_fit(function: Any) -> None:
    x, compiled = np.arange(100.0), lw.compile(function)
    for n in (2, 3, 61, 100):
        assert_same(compiled(n, x.copy()), function(n, x.copy()))
    for n in (1, 102):  # shapes that do not fit in NumPy either
        with pytest.raises((ValueError, LoopwrightError), match="broadcast"):
            compiled(n, x.copy())


def test_a_size_that_data_decides_has_no_value_while_tracing() -> None:
    with pytest.raises(LoopwrightError, match="Python needs an int here"):
        lw.compile(lambda x: sum(x[x > 0][i] for i in range(x[x > 0].shape[0])))(X)
    with pytest.raises(LoopwrightError, match="known only when the code runs"):
        lw.compile(lambda x: x if x[x > 0].shape[0] > 3 else -x)(X)
    for text in (lambda x: f"{x[x > 0].shape}", lambda x: str(len(x[x > 0]))):
        with pytest.raises(LoopwrightError, match="Python needs an int here"):
            lw.compile(lambda x, text=text: (x, text(x)))(X)


def test_the_text_of_an_error_names_symbolic_sizes() -> None:
    def f(x):
        if len(x) != 3:
            raise KeyError(f"{x.shape}")

    with pytest.raises(KeyError, match=r"\(n, 5\)"):
        lw.compile(f, dynamic={"x": {0: "n"}})(X)


def test_len_of_a_size_that_data_decides() -> None:
    def f(x):
        chosen, kinds = x[x > 0], np.unique(x)
        return chosen.sum() / len(chosen), kinds * len(kinds), len(x)

    for options in ({}, {"dynamic": {"x": {0: "n"}}}):
        for given, wanted in zip(lw.compile(f, **options)(X), f(X)):
            np.testing.assert_allclose(given, wanted, rtol=1e-5)
    assert len.__module__ == "builtins"


def test_graph_text() -> None:
    text = """def @main[s in 0..8](
  %x: Tensor[(8), float32],
  %t: Tensor[(), int64]
) -> Tensor[(s), float32] {
  %n = set_size(%t, size=s, most=8);
  %y = strided_slice(%x, begin=[0], end=[s], strides=[1]);
  exp(%y)
}"""
    module = verify(parse_module(text))
    assert str(parse_module(str(module))) == str(module)
    assert_same(evaluate(module, X[:, 0], np.array(3)), np.exp(X[:3, 0]))


def test_numpys_own_arrays_of_a_size_that_data_decides():
    @lw.compile
    def counted(x, t):
        y = x[: t + 1]
        return y + np.arange(y.shape[0], dtype=np.float32)

    for t in (3, 0, 6):
        x = np.ones(8, np.float32)
        np.testing.assert_array_equal(
            counted(x, np.int64(t)), np.arange(1, t + 2, dtype=np.float32)
        )
    assert counted.cache_info().misses == 1


def test_a_kernel_of_a_size_stays_behind_what_sets_it():
    def f(x, k):
        m = x > 0
        return np.where(m, x, 1), lw.xp.ones(x.shape)[::-1], x[:k].sum(0)

    for got, want in zip(lw.compile(f)(X, 2), f(X, 2), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("write", ["v.fill(2)", "v[:] = 2", "v[...] = 2", "v += 2", "v[1:] = 3"])
def test_a_slice_with_traced_bounds_is_a_view(write: str) -> None:
    def program(m, d):
        v = d[m:]
        exec(write, {"v": v})
        return d.sum() + v.sum()

    found, expected = np.arange(6.0), np.arange(6.0)
    assert lw.compile(program)(3, found) == program(3, expected)
    np.testing.assert_array_equal(found, expected)


def test_a_slice_with_traced_bounds_shows_later_writes_and_is_assigned() -> None:
    def program(m, d):
        v = d[m:]
        d[4] = 9.0
        d[m:] += v.sum()
        d[m:] = 2 * d[m:]
        return v.sum()

    found, expected = np.arange(6.0), np.arange(6.0)
    assert lw.compile(program)(3, found) == program(3, expected)
    np.testing.assert_array_equal(found, expected)


def _last_read(y: Any) -> Any:
    return y[-3:], y[-3:-1], y[-6::2].sum(), y[-30:]


def _last_set(y: Any) -> Any:
    y[-3:] = 7
    return y


def _last_changed(y: Any) -> Any:
    y[-3:] *= 2
    y[-30:-1] += 1
    return y


def _view_of_last(y: Any) -> Any:
    z = y[-3:]
    z[:2] += 1
    z[::2] = 4
    return y, z


@pytest.mark.parametrize("function", [_last_read, _last_set, _last_changed, _view_of_last])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 9])
def test_slices_that_begin_at_the_end_of_what_data_chose(function: Any, count: int) -> None:
    x = np.where(np.arange(12) < count, np.arange(12.0) + 1, -1.0)
    chosen = lw.compile(lambda x: function(x[x > 0]))(x)
    for one, other in zip(
        *(v if isinstance(v, tuple) else (v,) for v in (chosen, function(x[x > 0])))
    ):
        np.testing.assert_allclose(one, other)
