"""Programs that derivatives are compared on: functions of one or two arrays in NumPy's terms.

Each is written once, over a namespace ``m``: NumPy or ``jax.numpy`` with ``scan``, ``fori``,
``loop`` (while), ``cond`` and ``put`` (``x[at] = v`` on a copy), as both libraries have them.
"""

from __future__ import annotations

from typing import Any

Programs = dict[str, Any]


def rosenbrock(m: Any, x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def two_layers(m: Any, x: Any) -> Any:
    w = m.reshape(m.concatenate([x, x * x, m.sin(x), m.cos(x)]), (8, 4))
    h = m.tanh(w @ x[:4])
    return (m.tanh(w.T @ h) ** 2).sum()


def log_sum(m: Any, x: Any) -> Any:
    return m.log(m.exp(x - x.max()).sum()) + x.max() * x.min()


def softmax_cross_entropy(m: Any, x: Any) -> Any:
    z = m.reshape(x, (2, 4))
    p = m.exp(z) / m.exp(z).sum(axis=1, keepdims=True)
    return -m.log(p[:, 1]).mean()


def pairwise(m: Any, x: Any) -> Any:
    d = x[:, None] - x[None, :]
    return m.exp(-(d * d)).sum() + m.sqrt(d * d + 1).mean()


def polynomial(m: Any, x: Any) -> Any:
    y = m.zeros_like(x)
    for c in (1.0, -0.5, 0.25, 2.0):
        y = y * x + c
    return y.prod()


def elementary(m: Any, x: Any) -> Any:
    parts = [m.sin(x), m.log1p(x * x), m.arctan(x), m.sinh(x / 2), m.exp(-x), m.cbrt(x), x**1.5]
    parts += [
        m.sqrt(x),
        m.arcsin(x / 3),
        m.arctanh(x / 3),
        m.arcsinh(x),
        m.expm1(x),
        m.hypot(x, 2.0),
    ]
    return sum(p.sum() * (n + 1) for n, p in enumerate(parts))


def choices(m: Any, x: Any) -> Any:
    y = m.where(x > 1, x**2, m.sin(x))
    return (m.maximum(y, 0.5) * m.minimum(x, 1.1) + m.abs(x - 1)).sum() + m.clip(x, 0.7, 1.2).prod()


def views(m: Any, x: Any) -> Any:
    y = m.concatenate([x[::2], x[::-1][:3]])
    z = m.reshape(m.stack([y, y * 2]), (7, 2)).T
    return (z[:, 1:] * z[:, :-1]).sum() + m.diagonal(m.outer(x, x)).sum()


def gathered(m: Any, x: Any) -> Any:
    at = m.asarray([3, 1, 1, 0])
    return (x[at] * m.take(x, at + 2) ** 2).sum() + x[-2] * x[at[0]]


def updated(m: Any, x: Any) -> Any:
    y = m.put(m.put(m.sin(x), 2, x[0] * x[1]), slice(4, 6), x[:2] ** 2)
    return (y * y[::-1]).sum()


def sums(m: Any, x: Any) -> Any:
    return (m.cumsum(x) * x).sum() + m.cumprod(x)[3] + x.std() + x.var() + m.prod(x[:4])


def ordered(m: Any, x: Any) -> Any:
    return (m.sort(x) * m.arange(8.0)).sum() + m.median(x) + x[m.argmax(x)] ** 2


def products(m: Any, x: Any) -> Any:
    a = m.reshape(x, (2, 4))
    b = a @ a.T @ a
    return m.einsum("ij,kj->", a, b) + m.tensordot(a, b) + (m.outer(x, x) @ x).sum()


def equations(m: Any, x: Any) -> Any:
    a = m.outer(x, x) + m.eye(8) * 3
    return m.linalg.solve(a, m.sin(x)).sum() + m.linalg.slogdet(a)[1] + m.linalg.inv(a).sum()


def factors(m: Any, x: Any) -> Any:
    a = m.outer(x, x) + m.eye(8) * (2 + x)
    return m.linalg.cholesky(a).sum() + m.linalg.eigvalsh(a)[-1]


def recurrence(m: Any, x: Any) -> Any:
    last, rows = m.scan(
        lambda h, v: (m.tanh(h * v + 0.1), h * h), x * 0.5, m.stack([x, x + 1, x * 2])
    )
    return last.sum() + (rows * rows).sum()


def euler(m: Any, x: Any) -> Any:
    return m.fori(0, 40, lambda i, y: y + 0.01 * (m.sin(y) * x - y * y), x).sum()


def pendulum(m: Any, x: Any) -> Any:
    def step(i: Any, state: Any) -> Any:
        angle, speed = state
        speed = speed - 0.05 * m.sin(angle)
        return angle + 0.05 * speed, speed

    angle, speed = m.fori(0, 25, step, (x[:4], x[4:]))
    return (angle**2 + speed**2).sum()


def nested(m: Any, x: Any) -> Any:
    inner = lambda i, y: m.fori(0, 3, lambda j, z: m.sin(z) + x * (j + i), y)  # noqa: E731
    return m.fori(0, 4, inner, x).sum()


def branch(m: Any, x: Any) -> Any:
    return m.cond(x.sum() > 5, lambda v: m.sin(v).sum(), lambda v: (v**3).sum(), x)


def branch_in_loop(m: Any, x: Any) -> Any:
    def step(i: Any, y: Any) -> Any:
        return m.cond(y[0] > 1, lambda v: v * 0.5 + x, lambda v: m.exp(v * 0.1) * x, y)

    return m.fori(0, 6, step, x).sum()


def writes_in_loop(m: Any, x: Any) -> Any:
    return m.fori(0, 7, lambda i, y: m.put(y, i + 1, y[i] * 0.5 + x[i] ** 2), x * 0.1).sum()


def complex_numbers(m: Any, x: Any) -> Any:
    z = x[:4] + 1j * x[4:]
    return (m.abs(z * z + 1) ** 2).sum() + (z * m.conj(z[::-1])).real.sum() + m.exp(z).imag.sum()


def transform(m: Any, x: Any) -> Any:
    return (m.abs(m.fft.rfft(x)) ** 2).sum() + m.fft.ifft(m.fft.fft(x * 1j) ** 2).real[1]


SCALAR: Programs = {
    f.__name__: f
    for f in (
        rosenbrock, two_layers, log_sum, softmax_cross_entropy, pairwise, polynomial, elementary,
        choices, views, gathered, updated, sums, ordered, products, equations, factors, recurrence,
        euler, pendulum, nested, branch, branch_in_loop, writes_in_loop, complex_numbers, transform,
    )
}  # fmt: skip
"""Functions of eight numbers that return one."""

TRANSFORMS = ("grad", "jvp", "hessian", "hvp", "vmap_grad", "grad_of_vmap", "jvp_of_vjp")


def transformed(t: Any, name: str, f: Any) -> Any:
    """A function of a point and a direction: ``t`` has grad, jvp, vjp, hessian, vmap."""
    rows = lambda x, v: t.stack([x, x + 0.1 * v, x - 0.05 * v])  # noqa: E731
    return {
        "grad": lambda x, _v: t.grad(f)(x),
        "jvp": lambda x, v: t.jvp(f, (x,), (v,))[1],
        "hessian": lambda x, _v: t.hessian(f)(x),
        "hvp": lambda x, v: t.jvp(t.grad(f), (x,), (v,))[1],
        "vmap_grad": lambda x, v: t.vmap(t.grad(f))(rows(x, v)),
        "grad_of_vmap": lambda x, v: t.grad(lambda r: (t.vmap(f)(r) ** 2).sum())(rows(x, v)),
        "jvp_of_vjp": lambda x, v: t.jvp(lambda y: t.vjp(f, y)[1](2.0)[0], (x,), (v,))[1],
    }[name]
