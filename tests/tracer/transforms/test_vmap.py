"""``lw.vmap``: as the function row by row, in Python."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import loopwright as lw
import loopwright.tracer.transforms.vmap as transforms
import numpy as np
import pytest
from loopwright import (
    LoopwrightIndexError,
    LoopwrightTypeError,
    LoopwrightValueError,
    UnsupportedError,
)

ROWS = 5
rng = np.random.default_rng(7)
x = rng.standard_normal((ROWS, 4))
y = rng.standard_normal((ROWS, 4))
matrices = rng.standard_normal((ROWS, 4, 4)) + 4 * np.eye(4)
numbers = np.array([3, 0, 2, -1, 1])
image = rng.standard_normal((ROWS, 2, 3, 8, 8)).astype(np.float32)
kernels = rng.standard_normal((ROWS, 4, 3, 3, 3)).astype(np.float32)


def leaves(tree):
    if isinstance(tree, dict):
        tree = [*tree.values()]
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in leaves(part)]
    return [np.asarray(tree)]


def check(function, *args, in_axes=0, rtol=1e-6):
    """Compares all rows at once, eagerly and in a compiled function, with one after the other."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    rows = [
        leaves(
            function(
                *(
                    a if axis is None else np.take(a, n, axis=axis)
                    for a, axis in zip(args, axes, strict=True)
                )
            )
        )
        for n in range(ROWS)
    ]
    expected = [np.stack(column) for column in zip(*rows, strict=True)]
    mapped = lw.vmap(function, in_axes)
    for result in (mapped(*args), lw.compile(lambda *args: mapped(*args))(*args)):
        for value, wanted in zip(leaves(result), expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=rtol, atol=rtol)
            assert value.dtype == wanted.dtype


def softmax_head(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


FUNCTIONS = {
    "elementwise": (lambda a, b: np.sin(a) * b + 2, x, y),
    "reductions": (lambda a: (a.sum(), a.mean(), a.max(), a.std(), a.argmax()), x),
    "of an axis": (lambda a: (a.sum(axis=0), a.cumsum(axis=-1), np.prod(a, axis=1)), matrices),
    "matrix times vector": (lambda m, v: m @ v, matrices, x),
    "vector times vector": (lambda a, b: a @ b, x, y),
    "einsum": (lambda m, v: np.einsum("ij,j,kj->ik", m, v, m), matrices, x),
    "sort": (lambda a: (np.sort(a), np.argsort(a), np.median(a)), x),
    "searchsorted": (lambda a, b: np.searchsorted(np.sort(a), b), x, y),
    "index by value": (lambda a, i: a[i], x, numbers),
    "indices by value": (lambda m, i: m[i, np.array([0, 2]) + abs(i) // 4], matrices, numbers),
    "slice by value": (lambda a, i: a[abs(i) : abs(i) + 1], x, numbers),
    "shapes": (lambda m: (m.T, m.reshape(2, 8), m[::-1, 1:3], np.diag(m), np.tril(m)), matrices),
    "joined": (lambda a, b: (np.concatenate([a, b]), np.stack([a, b], axis=1)), x, y),
    "pad and roll": (lambda a: (np.pad(a, (1, 2)), np.roll(a, 1), np.flip(a)), x),
    "where and clip": (lambda a, b: np.where(a > b, a, np.clip(b, -1, 1)), x, y),
    "linear systems": (lambda m, v: (np.linalg.solve(m, v), np.linalg.inv(m)), matrices, x),
    "determinants": (lambda m: (np.linalg.det(m), np.linalg.norm(m)), matrices),
    "decompositions": (lambda m: np.linalg.cholesky(m @ m.T + np.eye(4)), matrices),
    "eigenvalues": (lambda m: np.linalg.eigvalsh(m + m.T), matrices),
    "transforms": (lambda a: np.abs(np.fft.fft(a)), x),
    "complex": (lambda a, b: ((a + 1j * b).conj() * b).real, x, y),
    "attention": (softmax_head, matrices, matrices, matrices),
    "counts": (lambda i: np.bincount(np.array([1, 2, 2]) + abs(i), minlength=9), numbers),
    "integers": (lambda i: (i // 2, i % 3, i << 1, ~i), numbers),
    "constants": (lambda a: (1.5, a * 0 + 2, np.arange(3)), x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    function, *args = FUNCTIONS[name]
    check(function, *args)


def test_arguments_that_rows_share():
    check(lambda a, b: a @ b, x, y.T, in_axes=(0, None))
    check(lambda a, b: b @ a, x, y, in_axes=(0, None))
    check(lambda m, a: a[m % 4], numbers, x[0], in_axes=(0, None))
    check(softmax_head, matrices, matrices[0], matrices[1], in_axes=(0, None, None))


def test_rows_along_any_axis():
    check(lambda a, b: a * b, x.T, y, in_axes=(1, 0))
    check(lambda a, m: a @ m, x.T, matrices.transpose(1, 2, 0), in_axes=(-1, 2))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_results_along_any_axis(axis):
    result = lw.vmap(np.outer, out_axes=axis)(x, y)
    expected = np.stack([np.outer(a, b) for a, b in zip(x, y, strict=True)], axis=axis)
    np.testing.assert_allclose(result, expected)


def normalised(a):
    total = 0.0
    for value in a:
        total += abs(value)
    if total > 2:
        return a / total
    return a


def halvings(value):
    count = 0
    while value > 0.1:
        value = value / 2
        count += 1
    return count, value


def newton(m, v):
    guess = v * 0
    for _ in range(20):
        guess = guess + 0.1 * (v - m @ guess)
    return guess


def steps(i):
    total = 0
    for k in range(i):
        total += k * k
    return total


def test_python_control_flow():
    check(normalised, x)
    check(halvings, np.abs(x[:, 0]))
    check(newton, matrices, x)
    check(steps, numbers)


def inverted(m):
    if np.abs(m).sum() > 20:
        return np.linalg.inv(m)
    return m * 0


def refined(m, v):
    guess, steps = v, 0
    while np.abs(m @ guess - v).max() > 1e-9 and steps < 3:
        guess, steps = guess + np.linalg.solve(m, v - m @ guess), steps + 1
    return guess


def test_libraries_get_the_operands_of_rows_that_take_part():
    """They would raise an error for the singular matrices."""
    some = matrices.copy()
    some[[1, 3]] = 0
    check(inverted, some)
    check(refined, some * (numbers >= 9)[:, None, None] + matrices * 2, x)
    singular = np.where((numbers > 1)[:, None, None], matrices, 0)
    check(refined, singular, np.where((numbers > 1)[:, None], x, 0))
    with pytest.raises(np.linalg.LinAlgError):
        lw.vmap(np.linalg.inv)(some)


def test_loops_of_users():
    check(lambda a: lw.fori_loop(0, 3, lambda i, c: c * 2 + i, a), x)
    check(lambda a: lw.scan(lambda c, r: (c + r, c * r), a[0], a)[1], x)
    check(lambda a: lw.while_loop(lambda c: (c < 9).any(), lambda c: c * 2, np.abs(a)), x)
    check(lambda a: lw.cond(a[0] > 0, lambda: a * 2, lambda: -a), x)


def test_containers():
    @dataclass
    class Layer:
        w: object
        b: object

    def apply(layer, inputs):
        return {"out": inputs["x"] @ layer.w + layer.b, "raw": (inputs["x"], layer.b)}

    layer, inputs = Layer(matrices, y[0]), {"x": x.T, "unused": "text"}
    axes = (Layer(0, None), {"x": 1, "unused": None})
    result = lw.vmap(apply, axes, out_axes={"out": 1, "raw": (0, None)})(layer, inputs)
    expected = np.stack([a @ m + y[0] for a, m in zip(x, matrices, strict=True)], axis=1)
    np.testing.assert_allclose(result["out"], expected)
    np.testing.assert_array_equal(result["raw"][0], x)
    np.testing.assert_array_equal(result["raw"][1], y[0])


def test_keyword_arguments_have_rows():
    result = lw.vmap(lambda a, scale: a * scale)(x, scale=numbers)
    np.testing.assert_allclose(result, x * numbers[:, None])


def distance(a, b):
    return np.sqrt(((a - b) ** 2).sum())


def test_nested():
    pairs = lw.vmap(lw.vmap(distance, (None, 0)), (0, None))
    expected = np.sqrt(((x[:, None] - y) ** 2).sum(axis=-1))
    np.testing.assert_allclose(pairs(x, y), expected)
    np.testing.assert_allclose(lw.compile(pairs)(x, y), expected)
    deep = lw.vmap(lw.vmap(lw.vmap(lambda a, b: a * b, (0, None)), (None, 0)), (0, 0), 1)
    expected = np.stack([np.outer(b, a) for a, b in zip(x, y, strict=True)], axis=1)
    np.testing.assert_allclose(deep(x, y), expected)


def test_nested_around_branches_and_loops():
    by_both = lw.vmap(lw.vmap(lambda a, n: steps(n) * a if a > 0 else a, (0, None)), (None, 0))
    expected = [[steps(n) * a if a > 0 else a for a in x[0]] for n in numbers]
    np.testing.assert_allclose(by_both(x[0], numbers), expected)


def test_around_compiled_functions_and_functions_that_call_themselves():
    compiled = lw.compile(lambda a: np.tanh(a).sum())
    check(lambda a: compiled(a), x)

    @lw.function
    def power(a, n):
        return lw.cond(n == 0, lambda: 1.0, lambda: a * power(a, n - 1))

    rows = lw.compile(lw.vmap(lambda a: a * power(2.0, 3)))(x)
    np.testing.assert_allclose(rows, 8 * x)
    np.testing.assert_allclose(lw.vmap(lambda n: power(2.0, n))(np.array([1, 2])), [2, 4])


class Model:
    def __init__(self):
        self.w = matrices[0]

    def predict(self, a):
        return a @ self.w

    @functools.partial(lw.vmap, in_axes=(None, 0))
    def scores(self, a):
        return self.w @ a


def test_methods_closures_and_partials():
    model = Model()
    np.testing.assert_allclose(lw.vmap(model.predict)(x), x @ model.w)
    np.testing.assert_allclose(model.scores(x), x @ model.w.T)
    scaled = functools.partial(lambda scale, a: a * scale, 3.0)
    np.testing.assert_allclose(lw.vmap(scaled)(x), 3 * x)
    np.testing.assert_allclose(lw.vmap(np.tanh)(x), np.tanh(x))
    np.testing.assert_allclose(lw.vmap(lambda a: a + y[0])(x), x + y[0])


@pytest.mark.parametrize("shared", [(0, 0), (0, None), (None, 0)])
def test_convolutions(shared):
    args = [a[0] if axis is None else a for a, axis in zip((image, kernels), shared, strict=True)]
    check(lambda a, k: lw.nn.conv2d(a, k, padding=1), *args, in_axes=shared, rtol=1e-4)


def test_pooling_and_norms():
    check(lambda a: lw.nn.max_pool2d(a, 2), image)
    scale = np.linspace(0, 1, 8, dtype=np.float32)
    check(lambda a: lw.nn.layer_norm(a, scale, scale), image[:, 0, 0], rtol=1e-4)
    check(lambda a: lw.nn.softmax(a, axis=0), matrices)


def test_random_numbers_by_key():
    keys = np.stack([np.asarray(lw.random.key(n)) for n in range(ROWS)])
    check(lambda k: lw.random.normal(k, (3,)), keys)
    check(lambda k, a: lw.random.uniform(k, (4,)) + a, keys, x)


def test_symbolic_sizes():
    program = lw.compile(lw.vmap(lambda a: np.sort(a * 2)[::-1] + a.sum()))
    lowered = program.lower(lw.f64["n", 4])
    assert "Tensor[(n, 4), float64]" in lowered.as_text("graph")
    made = lowered.compile()
    for rows in (1, 3, 5):
        expected = np.sort(x[:rows] * 2)[:, ::-1] + x[:rows].sum(axis=1, keepdims=True)
        np.testing.assert_allclose(made(x[:rows]), expected)


def test_no_rows_at_all():
    none, indices = x[:0], numbers[:0]
    assert lw.vmap(lambda a, i: a[i])(none, indices).shape == (0,)
    assert lw.vmap(halvings)(none[:, 0])[0].dtype == np.int64
    assert lw.vmap(np.linalg.inv)(matrices[:0]).shape == (0, 4, 4)
    assert lw.vmap(lambda k: lw.random.normal(k, (3,)))(np.zeros((0, 4), np.uint32)).shape == (0, 3)
    by_size = lw.compile(lw.vmap(lambda a, i: a[i]))
    made = by_size.lower(lw.f64["n", 4], lw.i64["n"]).compile()
    assert made(none, indices).shape == (0,) and made(x, numbers).shape == (ROWS,)


def test_compiled_once(monkeypatch):
    traces = []
    trace = transforms.vmap
    monkeypatch.setattr(transforms, "vmap", lambda *args: traces.append(1) or trace(*args))
    doubled = lw.vmap(lambda a: a * 2)
    for rows in (x, y):
        np.testing.assert_allclose(doubled(rows), rows * 2)
    assert len(traces) == 1


def test_no_loops_where_operators_have_forms():
    text = lw.compile(lw.vmap(softmax_head)).lower(matrices, matrices, matrices).as_text("graph")
    assert "for (" not in text and text.count("nn.matmul(") == 2


def message(error, call):
    with pytest.raises(error) as raised:
        call()
    return str(raised.value)


def test_an_index_out_of_range_is_told_with_its_line():
    text = message(
        LoopwrightIndexError, lambda: lw.vmap(lambda a, i: a[i])(x, np.array([0, 1, 7, 2, -1]))
    )
    assert "index 7 is out of bounds for axis 0 with size 4" in text


def test_numbers_of_rows_that_differ():
    text = message(LoopwrightValueError, lambda: lw.vmap(distance)(x, y[:3]))
    assert (
        "vmap: the numbers of rows differ: argument 0 (float64[5, 4], axis 0) has 5, "
        "argument 1 (float64[3, 4], axis 0) has 3" in text
    )
    assert "try: another axis in in_axes, or None for what all rows share" in text


def test_an_axis_that_is_missing():
    text = message(LoopwrightValueError, lambda: lw.vmap(distance, (0, 2))(x, y))
    assert "vmap: argument 1 is float64[5, 4], which has no axis 2" in text
    text = message(LoopwrightValueError, lambda: lw.vmap(distance)(x, 2.0))
    assert "vmap: argument 1 is float, which has no axis 0" in text
    assert "try: None in its place in in_axes, if all rows share it" in text


def test_no_argument_with_rows():
    text = message(LoopwrightValueError, lambda: lw.vmap(distance, None)(x, y))
    assert "vmap: no argument has rows, as in_axes is None for all of them" in text


def test_axes_that_do_not_fit():
    text = message(LoopwrightTypeError, lambda: lw.vmap(distance, (0,))(x, y))
    assert "vmap: in_axes has (0,) for the arguments, a tuple of 2" in text
    text = message(LoopwrightTypeError, lambda: lw.vmap(distance, (0, {"a": 0}))(x, y))
    assert "vmap: in_axes has {'a': 0} for the arguments[1], a Proxy" in text or "ndarray" in text
    text = message(LoopwrightTypeError, lambda: lw.vmap(lambda a: a, out_axes=(0, 1))(x))
    assert "vmap: out_axes has (0, 1) for the result" in text


def test_results_without_their_axis():
    text = message(LoopwrightValueError, lambda: lw.vmap(lambda a: a, out_axes=None)(x))
    assert "vmap: the result differs from row to row, and its out_axes is None" in text
    text = message(LoopwrightValueError, lambda: lw.vmap(lambda a: (a, a.sum()), out_axes=1)(x))
    assert "vmap: the result[1] is float64[5] with its rows, which has no axis 1" in text


def test_sizes_that_differ_from_row_to_row():
    text = message(UnsupportedError, lambda: lw.vmap(lambda a: a[a > 0])(x))
    assert "vmap: a size that the values of a row decide differs from row to row" in text
    assert "lambda a: a[a > 0]" in text


def test_writes_to_arguments_are_refused():
    def write(a):
        a[0] = 0
        return a

    assert "writes to an array" in message(UnsupportedError, lambda: lw.vmap(write)(x))

    def write_copy(a):
        a = a.copy()
        a[a > 1] = 0
        a[1] += 3
        return a

    check(write_copy, x)


def test_takes_functions_alone():
    text = message(LoopwrightTypeError, lambda: lw.vmap(distance(x, x)))
    assert "lw.vmap takes a function" in text


def loss(w, a, target):
    hidden = np.tanh(a @ w)
    return ((hidden.sum() - target) ** 2) / 2


def branching(a):
    return a.sum() if a[0] > 0 else (a * a).sum()


GRADIENTS = {
    "gradient of one example": (lw.grad(loss), matrices, x, y[:, 0]),
    "in the inputs": (lw.grad(loss, argnums=1), matrices, x, y[:, 0]),
    "forward": (lambda a, v: lw.jvp(lambda a: np.sin(a).sum() * a, (a,), (v,))[1], x, y),
    "reverse": (lambda a, v: lw.vjp(lambda a: np.exp(a) * a[0], a)[1](v)[0], x, y),
    "hessian": (lw.hessian(lambda a: (a**3).sum() * a[0]), x),
    "jacobian": (lw.jacobian(lambda a: np.cumsum(a) * a[1]), x),
    "product with the hessian": (lambda a, v: lw.hvp(lambda a: (a**4).sum(), (a,), (v,)), x, y),
    "through an index": (lw.grad(lambda a, i: a[i] ** 2), x, numbers),
    "through a sort": (lw.grad(lambda a: (np.sort(a) * np.arange(4)).sum()), x),
    "through a branch": (lw.grad(branching), x),
    "through a loop": (lw.grad(lambda a: lw.fori_loop(0, 3, lambda i, c: c * c[0], a).sum()), x),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_rows(name):
    function, *args = GRADIENTS[name]
    check(function, *args)


def closeness(p, q):
    return np.exp(-((p - q) ** 2).sum())


SUMS = {
    "products": (lambda w: lw.vmap(lambda a: np.tanh(a @ w).sum())(x).sum(), matrices[0]),
    "rows of the argument": (lambda a: (lw.vmap(lambda r: r * r.sum())(a) ** 2).sum(), x),
    "an index for each row": (lambda a: lw.vmap(lambda r, i: r[i] ** 2)(a, numbers).sum(), x),
    "a slice for each row": (
        lambda a: lw.vmap(lambda r, i: (r[i : i + 2] ** 2).sum())(a, np.abs(numbers) % 3).sum(),
        x,
    ),
    "branches": (lambda a: lw.vmap(branching)(a).sum(), x),
    "pairs": (lambda a: lw.vmap(lw.vmap(closeness, (None, 0)), (0, None))(a, y).sum(), x),
    "sorted rows": (lambda a: (lw.vmap(np.sort)(a) * np.arange(4)).sum(), x),
}


@pytest.mark.parametrize("name", SUMS)
def test_gradients_of_functions_of_all_rows(name):
    """Against central differences."""
    function, at = SUMS[name]
    gradient, step = lw.grad(function)(at), 1e-6
    value = lw.compile(function)
    for place in np.ndindex(*at.shape):
        moved = np.zeros_like(at)
        moved[place] = step
        slope = (value(at + moved) - value(at - moved)) / (2 * step)
        np.testing.assert_allclose(gradient[place], slope, rtol=1e-5, atol=1e-6)


def test_a_transform_of_rows_is_one_call():
    x = np.random.default_rng(0).standard_normal((5, 4, 6))
    for f in (np.fft.rfft2, np.fft.ifft, lambda r: np.fft.irfft(r, axis=0)):
        text = lw.compile(lw.vmap(f)).lower(x).as_text("program")
        assert text.count("numpy.fft") == 1, text
        np.testing.assert_array_equal(lw.vmap(f)(x), np.stack([f(r) for r in x]))
