"""Derive the polynomial coefficients of the elementary functions.

``python -m loopwright.codegen.elementary.derive [name ...]`` prints each polynomial as the Python
tuple that stands in the sources, with its error. Needs mpmath (a development dependency).

Method: Lawson's reweighted least squares on a Chebyshev grid comes within a few per cent of the
weighted minimax polynomial (and unlike Remez' exchange needs no Haar system, which x^k .. x^n
around 0 is not). Then one coefficient after the other is rounded to the working precision, lowest
order first, and the rest is fitted again, so that later coefficients repair the rounding of earlier
ones (Brisebarre, Muller, Tisserand: "Computing machine-efficient polynomial approximations", 2006,
has the problem and lattices).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp

mp.mp.prec = 160

__all__ = ["POLYNOMIALS", "Fit", "fit"]

Exact = Any  # mpmath's numbers have no types
Real = Callable[[Exact], Exact]


@dataclass(frozen=True, slots=True)
class Fit:
    """Minimise max |weight(x) * (P(x) - f(x))| over [low, high], P of ``degree``.

    ``fixed`` are leading coefficients (constant term first) that are given, not fitted.
    """

    f: Real
    low: float
    high: float
    degree: int
    weight: Real
    precision: int = 24
    fixed: tuple[float, ...] = ()


def _round(c: Exact, precision: int) -> Exact:
    if precision == 24:
        return mp.mpf(struct.unpack("f", struct.pack("f", float(c)))[0])
    return mp.mpf(float(c))


def _minimax(
    points: Sequence[Exact],
    values: Sequence[Exact],
    weights: Sequence[Exact],
    first: int,
    last: int,
    rounds: int,
) -> list[Exact]:
    """Coefficients of x^first .. x^last, nearly minimax: least squares, reweighted by the
    errors."""
    powers = [[w * x**k for k in range(first, last + 1)] for x, w in zip(points, weights)]
    targets = [w * v for w, v in zip(weights, values)]
    density = [mp.mpf(1)] * len(points)
    n = last + 1 - first
    best, least = [mp.mpf(0)] * n, mp.inf
    for _ in range(rounds):
        normal, right = mp.matrix(n, n), mp.matrix(n, 1)
        for row, target, share in zip(powers, targets, density):
            for i in range(n):
                scaled = share * row[i]
                right[i] += scaled * target
                for j in range(i + 1):
                    normal[i, j] += scaled * row[j]
        for i in range(n):
            for j in range(i):
                normal[j, i] = normal[i, j]
        solution = mp.lu_solve(normal, right)
        errors = [abs(mp.fdot(row, solution) - t) for row, t in zip(powers, targets)]
        if max(errors) < least:
            best, least = [solution[i] for i in range(n)], max(errors)
        density = [share * err for share, err in zip(density, errors)]
        total = mp.fsum(density)
        density = [share / total for share in density]
    return best


def fit(problem: Fit) -> tuple[list[float], float]:
    """The rounded coefficients and log2 of the weighted error."""
    low, high = mp.mpf(problem.low), mp.mpf(problem.high)
    count = 10 * (problem.degree + 2)
    points = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + mp.mpf(0.5)) / count)
        for i in range(count)
    ]
    values = [problem.f(x) for x in points]
    weights = [problem.weight(x) for x in points]
    done = [mp.mpf(c) for c in problem.fixed]
    while len(done) <= problem.degree:
        rest = [v - mp.polyval(done[::-1], x) if done else v for x, v in zip(points, values)]
        solution = _minimax(points, rest, weights, len(done), problem.degree, 8 if done else 20)
        done.append(_round(solution[0], problem.precision))
    worst = max(
        abs(w * (mp.polyval(done[::-1], x) - v)) for x, v, w in zip(points, values, weights)
    )
    return [float(c) for c in done], float(mp.log(worst, 2))


_half_ln2 = float(mp.log(2) / 2)


def _even(f: Real) -> Real:
    """(f(x) / x - 1) as a function of y = x^2: what an odd function adds to x."""
    return lambda y: f(mp.sqrt(y)) / mp.sqrt(y) - 1


def _weight_even(f: Real) -> Real:
    return lambda y: mp.sqrt(y) / f(mp.sqrt(y))


_border, _root_squared = mp.mpf(0.871244490146637), mp.mpf(0.46679985523223877)


def _erfc_rest(t: Exact) -> Exact:
    """The fourth root of erfc, less its value at the border, per distance from the border."""
    return (mp.root(mp.erfc(_border + t), 4) - mp.sqrt(_root_squared)) / t


def _log_tail(f: Exact) -> Exact:
    return (mp.log1p(f) - f) / f**2


_quarter = float(mp.pi / 4) + 0.003


def _sin_tail(y: Exact) -> Exact:
    return (mp.sin(mp.sqrt(y)) / mp.sqrt(y) - 1) / y


def _sin_weight(y: Exact) -> Exact:
    return y * mp.sqrt(y) / mp.sin(mp.sqrt(y))


def _cos_tail(y: Exact) -> Exact:
    return (mp.cos(mp.sqrt(y)) - 1 + y / 2) / y**2


def _cos_weight(y: Exact) -> Exact:
    return y**2 / mp.cos(mp.sqrt(y))


def _log_series(z: Exact) -> Exact:
    """R(z) of log((1 + s) / (1 - s)) = 2 s + s z R(z), z = s^2."""
    s = mp.sqrt(z)
    return (mp.log1p(s) - mp.log1p(-s) - 2 * s) / (s * z)


POLYNOMIALS: dict[str, Fit] = {
    "exp64": Fit(
        lambda r: mp.expm1(r) / r,
        -_half_ln2 - 1e-3,
        _half_ln2 + 1e-3,
        10,
        lambda r: r / mp.exp(r),
        53,
        fixed=(1.0, 0.5),
    ),
    "exp2_32": Fit(lambda r: (mp.mpf(2) ** r - 1) / r, -0.501, 0.501, 5, lambda r: r),
    "exp2_64": Fit(lambda r: (mp.mpf(2) ** r - 1) / r, -0.501, 0.501, 10, lambda r: r, 53),
    "log64": Fit(
        _log_series,
        1e-12,
        float((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * 1.01,
        6,
        lambda z: z**1.5,
        53,
    ),
    "log2_32": Fit(
        lambda f: mp.log1p(f) / f / mp.log(2), -1 / 3, 1 / 3, 9, lambda f: f / mp.log1p(f)
    ),
    "log10_32": Fit(
        lambda f: mp.log1p(f) / f / mp.log(10), -1 / 3, 1 / 3, 9, lambda f: f / mp.log1p(f)
    ),
    "sinh32": Fit(
        lambda y: (mp.sinh(mp.sqrt(y)) / mp.sqrt(y) - 1) / y,
        1e-9,
        1.0,
        3,
        lambda y: y * _weight_even(mp.sinh)(y),
    ),
    "sinh64": Fit(
        lambda y: (mp.sinh(mp.sqrt(y)) / mp.sqrt(y) - 1) / y,
        1e-9,
        1.0,
        7,
        lambda y: y * _weight_even(mp.sinh)(y),
        53,
    ),
    "asin32": Fit(
        lambda y: (mp.asin(mp.sqrt(y)) / mp.sqrt(y) - 1) / y,
        1e-9,
        0.25,
        4,
        lambda y: y * _weight_even(mp.asin)(y),
    ),
    "asin64": Fit(
        lambda y: (mp.asin(mp.sqrt(y)) / mp.sqrt(y) - 1) / y,
        1e-9,
        0.25,
        11,
        lambda y: y * _weight_even(mp.asin)(y),
        53,
    ),
    "atan32": Fit(
        lambda y: (mp.atan(mp.sqrt(y)) / mp.sqrt(y) - 1) / y,
        1e-9,
        0.1717,
        4,
        lambda y: y * _weight_even(mp.atan)(y),
    ),
    "atan64": Fit(
        lambda y: (mp.atan(mp.sqrt(y)) / mp.sqrt(y) - 1) / y,
        1e-9,
        0.1717,
        10,
        lambda y: y * _weight_even(mp.atan)(y),
        53,
    ),
    "erf64": Fit(_even(mp.erf), 1e-12, 1.0, 12, _weight_even(mp.erf), 53),
    "log2_series32": Fit(
        lambda z: (mp.log1p(mp.sqrt(z)) - mp.log1p(-mp.sqrt(z))) / mp.sqrt(z) / mp.log(2),
        1e-12,
        0.0298,
        7,
        lambda z: mp.mpf(1),
        53,
    ),
    "log_fifth64": Fit(
        lambda z: (_log_series(z) / 2 - mp.mpf(1) / 3) / z,
        1e-9,
        0.0298,
        6,
        lambda z: z**2,
        53,
    ),
    "erfc64": Fit(
        lambda w: mp.erfc(1 / w - 2) * mp.exp((1 / w - 2) ** 2),
        1 / 8,
        1 / 3,
        11,
        lambda w: mp.exp(-((1 / w - 2) ** 2)),
        53,
    ),
    "inverse_root": Fit(
        lambda z: z ** (-mp.mpf(1) / 3), 0.5, 4.0, 5, lambda z: z ** (mp.mpf(1) / 3), 53
    ),
    "exp32": Fit(
        lambda r: (mp.expm1(r) - r) / r**2,
        -_half_ln2 - 1e-3,
        _half_ln2 + 1e-3,
        4,
        lambda r: r**2 / mp.exp(r),
    ),
    "log32": Fit(_log_tail, -1 / 3, 1 / 3, 8, lambda f: f**2 / abs(mp.log1p(f)), fixed=(-0.5,)),
    "tanh32": Fit(
        lambda y: (mp.tanh(mp.sqrt(y)) / mp.sqrt(y) - 1) / y,
        1e-9,
        1.0,
        6,
        lambda y: y * _weight_even(mp.tanh)(y),
    ),
    "expm1_twice32": Fit(
        lambda r: mp.expm1(2 * r) / r, -0.174, 0.174, 5, lambda r: r, fixed=(2.0,)
    ),
    "erf32": Fit(_even(mp.erf), 1e-9, 0.8713**2, 6, _weight_even(mp.erf)),
    "erfc32": Fit(
        _erfc_rest, 1e-9, 3.08, 8, lambda t: 4 * t * mp.root(mp.erfc(_border + t), 4) ** 3
    ),
    "sin32": Fit(_sin_tail, 1e-9, _quarter**2, 2, _sin_weight),
    "cos32": Fit(_cos_tail, 1e-9, _quarter**2, 2, _cos_weight),
    "sin64": Fit(_sin_tail, 1e-9, _quarter**2, 5, _sin_weight, 53),
    "cos64": Fit(_cos_tail, 1e-9, _quarter**2, 5, _cos_weight, 53),
    "tan32": Fit(
        lambda y: (mp.tan(mp.sqrt(y)) / mp.sqrt(y) - 1) / y,
        1e-9,
        _quarter**2,
        6,
        lambda y: y * _weight_even(mp.tan)(y),
    ),
}


def main(names: Sequence[str]) -> None:
    for name in names or POLYNOMIALS:
        coefficients, error = fit(POLYNOMIALS[name])
        sys.stdout.write(f"{name}: error 2^{error:.2f}\n(\n")
        for c in coefficients:
            sys.stdout.write(f"    {c!r},\n")
        sys.stdout.write(")\n")


if __name__ == "__main__":
    main(sys.argv[1:])
