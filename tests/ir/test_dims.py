"""Integer expressions: normal form, proofs of equality, bounds, text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from loopwright.ir.dims import (
    Dim,
    IntExpr,
    as_int,
    bounds,
    ceildiv,
    evaluate,
    floordiv,
    int_max,
    int_min,
    linear,
    mod,
    product,
    resolve,
    substitute,
    symbol,
    symbols,
)
from loopwright.ir.dims_parser import parse_dim
from loopwright.ir.errors import ParseError

N, M, K = symbol("n"), symbol("m"), symbol("k")
VALUES = {"n": 5, "m": 7, "k": 3}

Pair = tuple[IntExpr, int]


def _of(value: object) -> IntExpr:
    assert isinstance(value, int | Dim)
    return value


@st.composite
def expressions(draw, depth: int = 4) -> Pair:
    """An expression over n, m and k, and its value there by plain arithmetic."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        leaf = draw(st.sampled_from([N, M, K, None]))
        if leaf is None:
            number = draw(st.integers(-6, 6))
            return number, number
        return leaf, evaluate(leaf, VALUES)
    (a, x), (b, y) = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    kind = draw(st.sampled_from(["+", "-", "*", "//", "%", "min", "max"]))
    if kind in ("//", "%"):
        divisor = draw(st.integers(1, 5))
        return (
            (floordiv(a, divisor), x // divisor) if kind == "//" else (mod(a, divisor), x % divisor)
        )
    table: dict[str, Callable[[], Pair]] = {
        "+": lambda: (a + b, x + y),
        "-": lambda: (a - b, x - y),
        "*": lambda: (a * b, x * y),
        "min": lambda: (int_min(a, b), min(x, y)),
        "max": lambda: (int_max(a, b), max(x, y)),
    }
    return table[kind]()


@given(expressions())
def test_normal_form_has_the_value_of_the_expression(pair: Pair) -> None:
    expr, value = pair
    assert evaluate(expr, VALUES) == value


@given(expressions())
def test_what_prints_parses_back(pair: Pair) -> None:
    assert parse_dim(str(pair[0])) == pair[0]


@given(expressions(), expressions())
def test_difference_with_itself_is_zero(left: Pair, right: Pair) -> None:
    a, b = left[0], right[0]
    assert a - a == 0 and (a + b) - b == a
    assert a + b == b + a and a * b == b * a
    assert hash(a + b) == hash(b + a)
    if a == b:
        assert left[1] == right[1]


@given(expressions())
def test_substituting_all_symbols_gives_the_value(pair: Pair) -> None:
    expr, value = pair
    assert substitute(expr, dict(VALUES)) == value
    assert substitute(substitute(expr, {"n": M, "m": N}), {"n": M, "m": N}) == expr


@given(expressions(), st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_bounds_hold(pair: Pair, n: int, m: int, k: int) -> None:
    expr, _ = pair
    found = bounds(expr, {"n": (0, 4), "m": (0, 4), "k": (0, 4)})
    assume(found is not None)
    assert found is not None
    value = evaluate(expr, {"n": n, "m": m, "k": k})
    assert found[0] <= value <= found[1]


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (4 * N + 1, "4 * n + 1"),
        (1 + N - N, "1"),
        (N * M - 2, "m * n - 2"),
        (-N, "-n"),
        ((N + M) * (N - M), "-m * m + n * n"),
        (floordiv(4 * N + 6, 4), "n + 1"),
        (floordiv(N + 1, 2), "((n + 1) // 2)"),
        (mod(4 * N + M, 4), "(m % 4)"),
        (int_min(N, M), "min(m, n)"),
        (int_max(N, N + 2), "n + 2"),
        (2 * floordiv(N, 3), "2 * (n // 3)"),
        (product([N, 2, M]), "2 * m * n"),
    ],
)
def test_text(expr: IntExpr, text: str) -> None:
    assert parse_dim(text) == expr
    assert str(expr) == text


def test_equality_is_proved_by_normal_form() -> None:
    assert (N + 1) * (N + 1) == N * N + 2 * N + 1
    assert floordiv(8 * N + 8, 8) == N + 1
    assert mod(8 * N + 3, 8) == 3
    assert ceildiv(4 * N, 4) == N
    assert N != M
    assert floordiv(N, N) == 1 and mod(N, N) == 0


def test_constants_are_plain_ints() -> None:
    assert type(N - N) is int
    assert type(floordiv(7, 2)) is int and floordiv(-7, 2) == -4 and mod(-7, 2) == 1
    assert as_int(N - N + 3) == 3
    with pytest.raises(TypeError, match="the size n is symbolic; a constant is needed here"):
        as_int(N)


def test_truth_of_a_symbolic_size_is_not_known() -> None:
    with pytest.raises(TypeError, match="the size n is symbolic, so its truth is not known here"):
        bool(N)


def test_linear() -> None:
    assert linear(3 * N - M + 2) == ({"n": 3, "m": -1}, 2)
    assert linear(7) == ({}, 7)
    assert linear(N * M) is None
    assert linear(floordiv(N, 2)) is None


def test_symbols_and_missing_values() -> None:
    assert symbols(N * floordiv(M, 2) + int_min(K, N)) == {"n", "m", "k"}
    assert symbols(3) == frozenset()
    with pytest.raises(KeyError, match="m"):
        evaluate(N + M, {"n": 1})


def test_bounds_without_a_range_are_unknown() -> None:
    assert bounds(N + 1, {}) is None
    assert bounds(floordiv(N, 4), {"n": (0, 15)}) == (0, 3)
    assert bounds(mod(N, 4), {"n": (5, 6)}) == (1, 2)
    assert bounds(mod(N, 4), {"n": (3, 9)}) == (0, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "size '': ends too early"),
        ("4 +", "size '4 +': ends too early"),
        ("n $ 2", "size 'n $ 2': unexpected '$'"),
        ("n 2", "size 'n 2': unexpected '2'"),
        ("n // 0", "size 'n // 0': division by zero"),
        ("min(n)", r"size 'min(n)': expected ','"),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_dim(text)
    assert caught.value.message.startswith(message)


def test_zero_divisor() -> None:
    with pytest.raises(ZeroDivisionError):
        floordiv(3, 0)


@given(
    st.sampled_from([2, 4, 8, 16]),
    st.sampled_from([1, 2, 3, 4]),
    st.integers(0, 20),
    st.integers(-3, 40),
)
def test_a_division_forgets_a_rest_that_cannot_matter(step, times, wide, low):
    """``(step * i + j + low) // (step * times)`` for every value in the ranges."""
    i, j = symbol("i"), symbol("j")
    ranges = {"i": (0, 5), "j": (0, wide)}
    whole = floordiv(i * step + j + low, step * times)
    short = resolve(whole, ranges)
    for a in range(6):
        for b in range(wide + 1):
            values = {"i": a, "j": b}
            assert substitute(short, values) == substitute(whole, values)
