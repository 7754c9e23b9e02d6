"""``lw.random``: published vectors, moments of the distributions, one stream everywhere."""

from __future__ import annotations

import math
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright import random
from loopwright.codegen.target import Target
from loopwright.ir.ops.random import NUMPY, philox
from loopwright.tracer.samplers import TRACED

KEY = random.key(42)
PI, MANY = "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0", 200_000

# From the file kat_vectors of Random123 1.14: counter, key, result.
PHILOX = (
    ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff " * 4, "ffffffff " * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (PI[:35], PI[36:], "d16cfe09 94fdcceb 5001e420 24126ea1"),
)


def words(text: str) -> list[Any]:
    return [np.uint32(int(word, 16)) for word in text.split()]


@pytest.mark.parametrize("compiled", [False, True])
def test_published_vectors(compiled: bool) -> None:
    def run(counter: Any, key: Any) -> Any:
        return philox(TRACED, list(counter), list(key))

    f = lw.compile(run) if compiled else lambda c, k: philox(NUMPY, c, k)
    for counter, key, expected in PHILOX:
        with np.errstate(over="ignore"):
            given = (np.array(words(t)) for t in (counter, key))
            made = f(*given)
        assert [int(w) & 0xFFFFFFFF for w in made] == words(expected)


def test_bits_are_the_words_of_counters() -> None:
    zero = np.zeros(4, np.uint32)
    drawn = random.bits(zero, 64).reshape(4, 16)
    assert [*drawn[:, 0]] == words(PHILOX[0][2])


@pytest.mark.parametrize("isa", ["x86-64-v3", "x86-64"])
def test_a_stream_does_not_depend_on_threads_targets_or_length(isa: str) -> None:
    key = random.key(3)

    def f(k: Any) -> Any:
        return random.uniform(k, 60_001), random.normal(k, 999)

    first = lw.compile(f, threads=1)(key)
    second = lw.compile(f, threads=2)(key)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(first[0][:999], random.uniform(key, 999))
    other = lw.compile(f, target=Target(isa=isa))(key)
    np.testing.assert_array_equal(first[0], other[0])
    np.testing.assert_allclose(first[1], other[1], rtol=1e-13, atol=1e-14)


def test_traced_and_eager_calls_agree() -> None:
    def f(key: Any) -> Any:
        first, second = random.split(key)
        third = random.fold_in(key, 7)
        return (
            random.uniform(first, (3, 5), -1.0, 2.0),
            random.integers(second, 0, 10, 4, np.int16),
            random.normal(third, 2, np.array([1.0, 2.0]), 0.5),
            random.exponential(third, (2, 2), 3.0, np.float32),
            random.bernoulli(third, np.array([0.0, 0.5, 1.0])),
        )

    for a, b in zip(f(KEY), lw.compile(f)(KEY), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_loops_carry_keys() -> None:
    def mean(key: Any) -> Any:
        def step(_: Any, carry: Any) -> Any:
            key, total = carry
            key, here = random.split(key)
            return key, total + random.uniform(here, 100).mean()

        return lw.fori_loop(0, 50, step, (key, 0.0))[1] / 50

    assert abs(lw.compile(mean)(KEY) - mean(KEY)) < 1e-12
    assert abs(mean(KEY) - 0.5) < 0.02


def _moments(x: Any, mean: float, variance: float, kurtosis: float) -> None:
    """Mean and variance within five standard errors of what they are."""
    x = x.astype(np.float64)
    assert abs(x.mean() - mean) < 5 * math.sqrt(variance / x.size)
    assert abs(x.var() - variance) < 5 * variance * math.sqrt((kurtosis - 1) / x.size)


def _uniformity(x: Any) -> None:
    """Chi-square of numbers in [0, 1) within five standard deviations, pairs of neighbours too."""
    cells = 256
    for cell in (x * cells, np.floor(x[::2] * 16) * 16 + np.floor(x[1::2] * 16)):
        counts = np.bincount(cell.astype(int), minlength=cells)
        expected = counts.sum() / cells
        chi = ((counts - expected) ** 2 / expected).sum()
        assert abs(chi - cells) < 5 * math.sqrt(2 * cells)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distributions(dtype: str) -> None:
    keys = random.split(random.key(8), 4)
    u = random.uniform(keys[0], MANY, dtype=dtype)
    assert u.dtype == dtype and u.min() >= 0 and u.max() < 1
    _moments(u, 1 / 2, 1 / 12, 9 / 5)
    _uniformity(u)
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 5 / math.sqrt(MANY)
    z = random.normal(keys[1], MANY, dtype=dtype)
    _moments(z, 0, 1, 3)
    _moments(z**2, 1, 2, 15)
    _uniformity(np.vectorize(math.erf)(z / math.sqrt(2)) / 2 + 0.5)
    assert abs(np.corrcoef(z[:-16], z[16:])[0, 1]) < 5 / math.sqrt(MANY)
    _moments(random.exponential(keys[2], MANY, 2.0, dtype), 2, 4, 9)
    _moments(random.bernoulli(keys[3], 0.3, MANY), 0.3, 0.21, 0.58 / 0.21 - 1)


def test_keys_of_a_split_are_independent() -> None:
    rows = np.stack([random.bits(k, 64) for k in random.split(KEY, 100)])
    assert len({*rows.ravel().tolist()}) == rows.size
    flipped = np.unpackbits((rows[:-1] ^ rows[1:]).view(np.uint8)).mean()
    assert abs(flipped - 0.5) < 0.005
    children = [random.fold_in(KEY, n).tobytes() for n in range(100)]
    assert len({*children, *(k.tobytes() for k in random.split(KEY, 100))}) == 200


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integers(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = random.integers(KEY, info.min, int(info.max) + 1, 100_000, dtype)
    assert x.dtype == dtype
    _uniformity((x.astype(np.float64) - info.min) / (float(info.max) - info.min + 1))
    small = random.integers(KEY, 3, 10, 7000, dtype)
    counts = np.bincount(small.astype(int), minlength=10)
    assert not counts[:3].any() and abs(counts[3:] - 1000).max() < 200


def test_integers_between_arrays() -> None:
    low, high = np.array([0, -5, 10**12]), np.array([1, 5, 10**12 + 3])
    x = random.integers(KEY, low, high, (1000, 3))
    assert ((x >= low) & (x < high)).all()
    assert [len({*column.tolist()}) for column in x.T] == [1, 10, 3]
    f = lw.compile(lambda key, n: random.integers(key, 0, n, 50, np.int32))
    assert f(KEY, 4).min() >= 0 and f(KEY, 4).max() == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random.key(-1), "the seed -1 is not in"),
        (lambda: random.key(0, "threefry"), "there is no generator 'threefry'"),
        (lambda: random.bits(np.zeros(2, np.uint32)), r"a key is uint32\[4\], not uint32\[2\]"),
        (lambda: random.uniform(np.zeros(3, np.uint32), 2), "a key is uint32.4. .* uint32.3."),
        (lambda: random.uniform(KEY, -2), "negative sizes"),
        (lambda: random.uniform(KEY, 2, dtype=np.int32), "random floats of dtype int32"),
        (lambda: random.integers(KEY, 3, 3), "there is no integer in .3, 3."),
        (lambda: random.integers(KEY, 0, 300, dtype=np.uint8), "uint8 does not hold"),
        (lambda: random.fold_in(KEY, 1.5), "an int is needed"),
        (lambda: random.normal(KEY, 2, np.zeros(3), 1.0), "do not broadcast"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises(lw.LoopwrightError, match=message):
        call()


def test_composed_distributions() -> None:
    keys = iter(random.split(KEY, 16))
    for a in (0.3, 2.5):
        _moments(random.gamma(next(keys), a, MANY // 4), a, a, 3 + 6 / a)
    _moments(random.beta(next(keys), 2.0, 3.0, MANY // 4), 0.4, 0.04, 2.4)
    for mean in (0.5, 9.5, 40.0):
        _moments(random.poisson(next(keys), mean, MANY // 4), mean, mean, 3 + 1 / mean)
    _moments(random.gumbel(next(keys), MANY // 4), 0.5772156649, math.pi**2 / 6, 5.4)
    _moments(random.laplace(next(keys), MANY // 4), 0, 2, 6)
    parts = random.dirichlet(next(keys), np.array([1.0, 2.0, 3.0]), 1000)
    np.testing.assert_allclose(parts.sum(axis=1), 1)
    np.testing.assert_allclose(parts.mean(axis=0), np.array([1, 2, 3]) / 6, atol=0.02)


def test_choices_and_orders() -> None:
    keys = iter(random.split(KEY, 16))
    p = np.array([0.2, 0.0, 0.5, 0.3])
    for drawn in (
        random.choice(next(keys), 4, MANY, p=p),
        random.categorical(next(keys), np.log(np.maximum(p, 1e-300)), shape=MANY),
    ):
        np.testing.assert_allclose(np.bincount(drawn, minlength=4) / MANY, p, atol=0.01)
    rows = np.arange(10.0).reshape(5, 2)
    assert random.choice(next(keys), rows, (2, 3)).shape == (2, 3, 2)
    few = random.choice(next(keys), 100, 40, replace=False)
    assert len({*few.tolist()}) == 40
    assert 1 not in random.choice(next(keys), 4, 3, replace=False, p=p).tolist()
    order = random.permutation(next(keys), 1000)
    assert sorted(order.tolist()) == list(range(1000)) and abs(order[:500].mean() - 499.5) < 60
    columns = random.permutation(next(keys), rows, axis=1)
    assert sorted(columns[0].tolist()) == [0.0, 1.0]
    with pytest.raises(lw.LoopwrightValueError, match="5 of 4 elements without replacement"):
        random.choice(next(keys), 4, 5, replace=False)
    f = lw.compile(lambda key, x: (random.permutation(key, x), random.choice(key, x)))
    shuffled, one = f(KEY, np.arange(9))
    np.testing.assert_array_equal(shuffled, random.permutation(KEY, np.arange(9)))
    assert one == random.choice(KEY, np.arange(9))


def test_many_shapes_are_no_storm() -> None:
    key = lw.random.key(1)
    for size in range(1, 20):  # warnings are errors in tests
        assert 0 <= lw.random.categorical(key, np.ones(size)) < size
