"""``lw.grad`` and its kin on programs: values, structures, loops, branches, nesting, errors."""

import loopwright as lw
import numpy as np
import pytest

RNG = np.random.default_rng(0)
POINT = RNG.uniform(0.5, 1.5, 5)
MATRIX = RNG.uniform(-1, 1, (4, 4))


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def test_the_gradient_has_shape_and_dtype_of_the_argument():
    x = np.float32([1, 2, 3])
    slope = lw.grad(lambda x: (x * x * x).sum())(x)
    assert slope.dtype == np.float32
    np.testing.assert_allclose(slope, 3 * x * x, rtol=1e-6)


def test_it_is_a_part_of_what_calls_it():
    @lw.compile
    def step(x):
        return x - 0.001 * lw.grad(rosenbrock)(x)

    x = POINT
    expected = x - 0.001 * lw.grad(rosenbrock)(x)
    np.testing.assert_allclose(step(x), expected, rtol=1e-12)
    assert len(step.lower(x).built.kernels) <= 4


def test_arguments_are_trees_and_the_gradient_is_one():
    def loss(params, x):
        return (np.tanh(x @ params["w"] + params["b"]) ** 2).mean()

    params = {"w": MATRIX, "b": POINT[:4]}
    value, slopes = lw.value_and_grad(loss)(params, MATRIX)
    assert set(slopes) == {"w", "b"} and slopes["w"].shape == (4, 4)
    hidden = np.tanh(MATRIX @ MATRIX + POINT[:4])
    back = 2 * hidden * (1 - hidden**2) / 16
    np.testing.assert_allclose(value, (hidden**2).mean())
    np.testing.assert_allclose(slopes["b"], back.sum(0))
    np.testing.assert_allclose(slopes["w"], MATRIX.T @ back)


def test_several_arguments_and_what_is_returned_besides():
    def f(x, y, n):
        return (x * y**n).sum(), {"product": x * y}

    (dx, dy), aux = lw.grad(f, argnums=(0, 1), has_aux=True)(POINT, POINT + 1, 3)
    np.testing.assert_allclose(dx, (POINT + 1) ** 3)
    np.testing.assert_allclose(dy, 3 * POINT * (POINT + 1) ** 2)
    np.testing.assert_allclose(aux["product"], POINT * (POINT + 1))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_it_nests(order):
    f = lambda x: np.exp(2 * x)  # noqa: E731
    for _ in range(order):
        f = lw.grad(f)
    np.testing.assert_allclose(f(0.5), 2**order * np.exp(1.0), rtol=1e-12)


def test_what_is_around_the_function_is_a_constant():
    outer = lw.grad(lambda x: x * lw.grad(lambda y: x * y)(2.0))
    np.testing.assert_allclose(outer(3.0), 6.0)


def loop_of_python(x):
    y = x
    for _ in range(40):
        y = np.sin(y) * x + 0.1
    return y


def loop_over_elements(x):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] > 1:
            total += x[i] ** 3
        else:
            total += np.sin(x[i])
    return total


def loop_that_writes(x):
    y = np.zeros(x.shape[0] + 1)
    for i in range(x.shape[0]):
        y[i + 1] = y[i] * 0.5 + x[i] ** 2
    return y


def a_scan(x):
    last, rows = lw.scan(lambda h, v: (np.tanh(MATRIX @ h + v), h.sum()), x[:4], x)
    return last, rows


def nested_loops(x):
    def outer(i, y):
        return lw.fori_loop(0, 3, lambda j, z: np.sin(z * (i + 1)) + x * j, y)

    return lw.fori_loop(0, 4, outer, x)


def a_branch(x):
    return lw.cond(x.sum() > 4, lambda v: np.sin(v).sum(), lambda v: (v**3).sum(), x)


def a_branch_in_a_loop(x):
    step = lambda i, y: lw.cond(  # noqa: E731
        y[0] > 1.0, lambda v: v * 0.5 + x, lambda v: np.exp(v) * x, y
    )
    return lw.fori_loop(0, 6, step, x)


def indexing(x):
    y = x.copy()
    y[1:3] = x[:2] * 2
    y[np.array([0, 0, 4])] += x[:3]
    y[-1] *= y[0]
    return y[::-1] @ x


def sorted_and_chosen(x):
    s = np.sort(x) * np.arange(5)
    return np.where(x > 1, s, -s).sum() + x.max() * x.min() + np.cumsum(x)[2] + np.prod(x)


def statistics(x):
    m = x[:, None] * x[None, :]
    return lw.nn.softmax(m, axis=1), lw.nn.layer_norm(m, x, x), m.std(), np.linalg.norm(x)


PROGRAMS = [
    rosenbrock,
    loop_of_python,
    loop_over_elements,
    loop_that_writes,
    a_scan,
    nested_loops,
    a_branch,
    a_branch_in_a_loop,
    indexing,
    sorted_and_chosen,
    statistics,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_agree_with_differences(program):
    lw.check_grads(program, (POINT,))


def test_a_while_loop_has_a_forward_mode():
    f = lambda x: lw.while_loop(lambda y: y < 100, lambda y: y * x, x)  # noqa: E731
    value, change = lw.jvp(f, (3.0,), (1.0,))
    assert (value, change) == (243.0, 5 * 3.0**4)


def newton(a):
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def test_a_while_loop_has_a_reverse_mode():
    np.testing.assert_allclose(lw.grad(newton)(2.0), 0.5 / np.sqrt(2))
    lw.check_grads(newton, (3.0,))


def test_a_loop_of_more_iterations_than_are_kept():
    def f(x, n):
        return lw.fori_loop(0, n, lambda i, y: np.sin(y) * x + i * 1e-6, x)

    count = 9_001
    _, expected = lw.jvp(lambda x: f(x, count), (1.1,), (1.0,))
    np.testing.assert_allclose(lw.grad(f)(1.1, np.int64(count)), expected, rtol=1e-9)


def sums_of_ends(x, n):
    total = 0.0
    for i in range(n):
        for j in range(i):
            total = total * x[1] + np.sin(x[j:i] * x[0]).sum()
    return total


def sums_of_an_end_in_a_branch(x, n):
    total = 0.0
    for i in range(3):
        if n > i:
            total += x[n - i :].sum() * x[i]
    return total


@pytest.mark.parametrize("program", [sums_of_ends, sums_of_an_end_in_a_branch])
def test_slices_change_their_sizes_inside_of_loops(program):
    lw.check_grads(lambda x: program(x, np.int64(4)), (POINT,))


def test_an_array_that_changes_its_size_in_a_loop_is_not_kept():
    def f(x, n):
        total = 0.0
        for i in range(n):
            total += (x[x > i] ** 2).sum()
        return total

    with pytest.raises(lw.UnsupportedError, match="whose size changes inside of a loop") as error:
        lw.grad(f)(POINT, np.int64(4))
    assert error.value.span is not None and error.value.span.function == "f"


def test_rules_of_the_user_hold_in_both_modes():
    @lw.custom_jvp
    def cube(x):
        return x * x * x

    cube.defjvp(lambda primals, tangents: (cube(*primals), 100.0 * tangents[0] * primals[0]))
    assert lw.jvp(cube, (2.0,), (1.0,)) == (8.0, 200.0)
    assert lw.grad(lambda x: cube(x) * x)(2.0) == 200.0 * 2 + 8
    assert lw.grad(lw.grad(cube))(2.0) == 100.0

    @lw.custom_vjp
    def product(x, y):
        return x @ y, x.sum()

    product.defvjp(
        lambda x, y: (product(x, y), (x, y)),
        lambda kept, ct: (kept[1] * ct[0] * 10, None),
    )
    dx, dy = lw.grad(lambda x, y: product(x, y)[0] ** 2, argnums=(0, 1))(POINT, POINT + 1)
    np.testing.assert_allclose(dx, 20 * (POINT @ (POINT + 1)) * (POINT + 1))
    np.testing.assert_allclose(dy, 0 * POINT)
    with pytest.raises(lw.LoopwrightTypeError, match="custom_vjp has no forward mode"):
        lw.jvp(product, (POINT, POINT), (POINT, POINT))
    np.testing.assert_allclose(product(POINT, POINT)[0], POINT @ POINT)


def test_a_checkpoint_keeps_less_and_changes_nothing():
    w = np.random.default_rng(0).standard_normal((8, 512))

    def layer(x):
        h = np.tanh(x @ w)
        return x + (np.sin(h) * h) @ w.T / 512

    def loss_of(each):
        return lambda x: (each(each(each(each(x)))) ** 2).mean()

    x = np.random.default_rng(1).standard_normal((512, 8))
    plain, kept = (lw.compile(lw.grad(loss_of(f))) for f in (layer, lw.checkpoint(layer)))
    np.testing.assert_allclose(kept(x), plain(x), rtol=1e-12)
    assert kept.memory(x).peak < plain.memory(x).peak / 2
    lw.check_grads(loss_of(lw.checkpoint(layer)), (x[:2],))


def test_jacobians_of_both_shapes():
    tall = lambda x: np.concatenate([np.sin(x), x * x[0]])  # noqa: E731
    expected = np.concatenate([np.diag(np.cos(POINT)), np.diag([POINT[0]] * 5)])
    expected[5:, 0] += POINT
    np.testing.assert_allclose(lw.jacobian(tall)(POINT), expected)
    wide = lambda x: tall(x)[:2]  # noqa: E731
    np.testing.assert_allclose(lw.jacobian(wide)(POINT), expected[:2])


def test_hessians_and_their_products():
    whole = lw.hessian(rosenbrock)(POINT)
    np.testing.assert_allclose(whole, whole.T)
    direction = RNG.standard_normal(5)
    product = lw.hvp(rosenbrock, (POINT,), (direction,))
    np.testing.assert_allclose(product, whole @ direction)


def test_vjp_and_linearize_give_functions():
    value, pull = lw.vjp(lambda x, y: (x @ y, x.sum()), MATRIX, POINT[:4])
    dx, dy = pull((np.ones(4), 2.0))
    np.testing.assert_allclose(dx, np.outer(np.ones(4), POINT[:4]) + 2)
    np.testing.assert_allclose(dy, MATRIX.sum(0))
    value, push = lw.linearize(np.sin, POINT)
    np.testing.assert_allclose(value, np.sin(POINT))
    np.testing.assert_allclose(push(POINT), np.cos(POINT) * POINT)


SQUARE = np.random.default_rng(5).standard_normal((7, 7)) + 4 * np.eye(7)
TALL = np.random.default_rng(6).standard_normal((6, 4))


def spd(x):
    return x @ np.conj(x).T + np.eye(len(x))


LINEAR_ALGEBRA = {
    "solve": (lambda a: np.linalg.solve(a, a @ a + 1), SQUARE),
    "solve_vector": (lambda a: np.linalg.solve(a, a[0]), SQUARE),
    "solve_small": (lambda a: np.linalg.solve(a[:3, :3], a[:3]), SQUARE),
    "solve_stack": (lambda a: np.linalg.solve(np.stack([a, a.T] * 9), a[:, :2]), SQUARE),
    "inv": (np.linalg.inv, SQUARE),
    "det": (np.linalg.det, SQUARE),
    "det_small": (lambda a: np.linalg.det(a[:3, :3]), SQUARE),
    "slogdet": (lambda a: np.linalg.slogdet(a)[1], SQUARE),
    "cholesky": (lambda a: np.linalg.cholesky(spd(np.concatenate([a, a]))), SQUARE / 3),
    "cholesky_upper": (lambda a: np.linalg.cholesky(spd(a), upper=True), SQUARE / 3),
    "cholesky_small": (lambda a: np.linalg.cholesky(spd(a[:4])), SQUARE / 3),
    "cholesky_complex": (
        lambda a: [f(np.linalg.cholesky(spd(a + 0.3j * a[::-1]))) for f in (np.real, np.imag)],
        np.concatenate([SQUARE, SQUARE.T])[:10, :] / 3,
    ),
    "eigh": (lambda a: [abs(v) for v in np.linalg.eigh(a + a.T)], SQUARE),
    "eigvalsh": (lambda a: np.linalg.eigvalsh(a + a.T), SQUARE),
    "svd": (lambda a: [abs(v) for v in np.linalg.svd(a, full_matrices=False)], TALL),
    "svd_wide": (lambda a: [abs(v) for v in np.linalg.svd(a.T, full_matrices=False)], TALL),
    "svdvals": (lambda a: np.linalg.svd(a, compute_uv=False), TALL),
    "qr": (lambda a: tuple(np.linalg.qr(a)), TALL),
    "lstsq": (lambda a: np.linalg.lstsq(a, a[:, :2] ** 2, rcond=None)[0], TALL),
    "fft": (lambda a: abs(np.fft.fft(a, n=9, axis=0)), TALL),
    "ifft": (lambda a: np.fft.ifft2(a + 1j * a**2).real, TALL),
    "rfft": (lambda a: abs(np.fft.rfftn(a, norm="ortho")), TALL),
    "irfft": (lambda a: np.fft.irfft(a + 1j * a**2, n=7), TALL),
    "lstm": (
        lambda x: lw.nn.lstm(
            x.reshape(3, 2, 4), np.ones((8, 4)) / 5, np.ones((8, 2)) / 7, np.ones(8)
        ),
        TALL,
    ),
}


@pytest.mark.parametrize("name", LINEAR_ALGEBRA)
def test_linear_algebra_agrees_with_differences(name):
    function, x = LINEAR_ALGEBRA[name]
    lw.check_grads(function, (x,))


def test_a_factor_is_inverted_once_for_all_second_derivatives():
    apart = np.subtract.outer(np.arange(12.0), np.arange(12.0))

    def logarithm(x):
        covariance = np.exp(-((apart * x[0]) ** 2)) + x[1] * np.eye(12)
        return np.log(np.diag(np.linalg.cholesky(covariance))).sum()

    program = lw.compile(lw.hessian(logarithm)).lower(lw.f64[2]).as_text("program")
    calls = [line.split('"')[1] for line in program.splitlines() if "numpy.linalg" in line]
    assert sorted(calls) == ["numpy.linalg.cholesky", "numpy.linalg.inv"]


@pytest.mark.parametrize("function", [np.mod, np.fmod, lambda x, y: x - x // y * y])
def test_a_remainder_changes_with_its_dividend_and_with_its_divisor(function):
    lw.check_grads(function, (POINT * [1, -1, 1, -3, 5], POINT[::-1] * 0.7))


@pytest.mark.parametrize(
    ("function", "slopes"), [(np.hypot, (0.0, 0.0)), (np.logaddexp, (0.5, 0.5))]
)
def test_slopes_of_functions_that_take_the_greater_out_are_symmetric_at_equal_operands(
    function, slopes
):
    assert lw.grad(function, argnums=(0, 1))(0.0, 0.0) == slopes


def test_complex_numbers_follow_jax():
    z = np.complex128([1 + 2j, -0.5 + 1j])
    slope = lw.grad(lambda z: (np.abs(z) ** 2 + (z * z).real).sum())(z)
    np.testing.assert_allclose(slope, 2 * np.conj(z) + 2 * z)


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (lambda: lw.grad(lambda x: x.sum())(3), "argument 0 is int, and only floats"),
        (lambda: lw.grad(np.sin)(POINT), "returns one float, and this returns float64"),
        (lambda: lw.grad(np.sin, argnums=1)(2.0), "argnums=1 of 1 positional"),
        (lambda: lw.grad(2.0), "takes a function, not float"),
        (lambda: lw.jvp(np.sin, (1.0,), (1.0, 2.0)), "1 primals and 2 tangents"),
        (lambda: lw.jvp(np.sin, (POINT,), (1.0,)), "a tangent is float for a value of"),
    ],
)
def test_misuse_is_named(run, text):
    with pytest.raises(lw.LoopwrightTypeError, match=text):
        run()


def test_a_write_to_an_argument_is_refused():
    def f(x):
        x[0] = 2.0
        return x.sum()

    with pytest.raises(lw.UnsupportedError, match="writes to an array which is not its own"):
        lw.grad(f)(POINT)
