"""Derive the polynomial coefficients of the elementary functions.

``python -m tools.elementary.derive [name ...]`` prints each polynomial as the Python
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
from dataclasses import dataclass, replace
from typing import Any

import mpmath as mp

mp.mp.prec = 160  # pyright: ignore[reportAttributeAccessIssue]

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
        rest = [v - horner(done, x) for x, v in zip(points, values)]
        solution = _minimax(points, rest, weights, len(done), problem.degree, 8 if done else 20)
        done.append(_round(solution[0], problem.precision))
    worst = max(abs(w * (horner(done, x) - v)) for x, v, w in zip(points, values, weights))
    return [float(c) for c in done], float(mp.log(worst, 2))


def horner(coefficients: Sequence[Any], x: Any) -> Any:
    """The polynomial with these coefficients, lowest power first, at ``x``; 0 without any."""
    value = mp.mpf(0)
    for c in reversed(coefficients):
        value = value * x + c
    return value


def _odd(f: Real, limit: float, degree: int, precision: int = 24) -> Fit:
    """P of f(x) = x + x y P(y), y = x^2 <= limit^2, with the error relative to f."""

    def tail(y: Exact) -> Exact:
        x = mp.sqrt(y)
        return (f(x) - x) / (x * y)

    def weight(y: Exact) -> Exact:
        x = mp.sqrt(y)
        return x * y / f(x)

    return Fit(tail, 1e-9, limit**2, degree, weight, precision)


def _erf_ratio(y: Exact) -> Exact:
    return mp.erf(mp.sqrt(y)) / mp.sqrt(y) - 1


def _erf_weight(y: Exact) -> Exact:
    return mp.sqrt(y) / mp.erf(mp.sqrt(y))


_border, _root_squared = mp.mpf(0.871244490146637), mp.mpf(0.46679985523223877)


def _erfc_root(t: Exact) -> Exact:
    return mp.root(mp.erfc(_border + t), 4)


def _log_series(z: Exact) -> Exact:
    """R(z) of log((1 + s) / (1 - s)) = 2 s + s z R(z), z = s^2."""
    s = mp.sqrt(z)
    return (mp.log1p(s) - mp.log1p(-s) - 2 * s) / (s * z)


def _log_tail(low: float, high: float, degree: int) -> Fit:
    """P of log(1 + f) = f + f^2 P(f)."""
    return Fit(
        lambda f: (mp.log1p(f) - f) / f**2,
        low,
        high,
        degree,
        lambda f: f**2 / abs(mp.log1p(f)),
        fixed=(-0.5,),
    )


def _log_ratio(base: int) -> Fit:
    """P of log(1 + f) / log(base) = f P(f)."""
    unit = mp.log(base)
    return Fit(lambda f: mp.log1p(f) / f / unit, -1 / 3, 1 / 3, 9, lambda f: f / mp.log1p(f))


def _log_cubic(degree: int, precision: int) -> Fit:
    """P of log(1 + f) = f - f^2 / 2 + f^3 P(f)."""
    return Fit(
        lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3,
        -0.0342,
        0.0342,
        degree,
        lambda f: f**2,
        precision,
    )


_exp_range = float(mp.log(2) / 2) + 1e-3
_short_exp_range = float(mp.log(2) / 32) + 2e-5
_quarter_pi = float(mp.pi / 4) + 0.003
_tan_eighth_pi = 0.41437
_root_two_s = 0.1724  # (sqrt(2) - 1) / (sqrt(2) + 1), a little more


def _exp_ratio(
    degree: int, precision: int, fixed: tuple[float, ...], limit: float = _exp_range
) -> Fit:
    return Fit(
        lambda r: mp.expm1(r) / r,
        -limit,
        limit,
        degree,
        lambda r: r / mp.exp(r),
        precision,
        fixed,
    )


def _exp2_ratio(degree: int, precision: int) -> Fit:
    return Fit(lambda r: mp.expm1(r * mp.log(2)) / r, -0.501, 0.501, degree, lambda r: r, precision)


def _root_ratio(limit: float, degree: int, precision: int) -> Fit:
    """P of (1 + f)^(1/3) = 1 + f P(f)."""
    return Fit(
        lambda f: (mp.cbrt(1 + f) - 1) / f,
        -limit,
        limit,
        degree,
        lambda f: f,
        precision,
    )


def _cos_tail(degree: int, precision: int) -> Fit:
    return Fit(
        lambda y: (mp.cos(mp.sqrt(y)) - 1 + y / 2) / y**2,
        1e-9,
        _quarter_pi**2,
        degree,
        lambda y: y**2 / mp.cos(mp.sqrt(y)),
        precision,
    )


# The names are those of the constants in the sources.
POLYNOMIALS: dict[str, Fit] = {
    "EXP32": _exp_ratio(5, 24, (1.0,)),
    "EXP64": _exp_ratio(10, 53, (1.0, 0.5)),
    "EXP_SHORT32": _exp_ratio(2, 24, (1.0,), _short_exp_range),
    "EXP_SHORT64": _exp_ratio(5, 53, (1.0, 0.5), _short_exp_range),
    "EXP2_32": _exp2_ratio(5, 24),
    "EXP2_64": _exp2_ratio(10, 53),
    "EXP2_SHORT": _exp2_ratio(7, 53),
    "EXPM1_TWICE32": Fit(
        lambda r: mp.expm1(2 * r) / r, -0.174, 0.174, 5, lambda r: r, fixed=(2.0,)
    ),
    "LOG32": _log_tail(-1 / 3, 1 / 3, 8),
    "LOG1P32": _log_tail(-0.2929, 0.4143, 8),
    "LOG2_32": _log_ratio(2),
    "LOG10_32": _log_ratio(10),
    "LOG64": Fit(_log_series, 1e-12, _root_two_s**2, 6, lambda z: z**1.5, 53),
    "LOG2_SERIES32": Fit(
        lambda z: (2 + z * _log_series(z)) / mp.log(2),
        1e-12,
        _root_two_s**2,
        7,
        lambda z: mp.mpf(1),
        53,
    ),
    "TAIL32": _log_tail(-0.0342, 0.0342, 3),
    "TAIL64": replace(_log_tail(-0.0342, 0.0342, 8), precision=53),
    "CUBIC32": _log_cubic(3, 24),
    "CUBIC64": _log_cubic(8, 53),
    "LOG_FIFTH64": Fit(
        lambda z: (_log_series(z) / 2 - mp.mpf(1) / 3) / z,
        1e-9,
        _root_two_s**2,
        6,
        lambda z: z**2,
        53,
    ),
    "TANH32": _odd(mp.tanh, 1.0, 6),
    "ATANH32": _odd(mp.atanh, 0.3, 3),
    "SINH32": _odd(mp.sinh, 1.0, 3),
    "SINH64": _odd(mp.sinh, 1.0, 7, 53),
    "ERF32": Fit(_erf_ratio, 1e-9, 0.8713**2, 6, _erf_weight),
    "ERFC32": Fit(
        lambda t: (_erfc_root(t) - mp.sqrt(_root_squared)) / t,
        1e-9,
        3.08,
        8,
        lambda t: 4 * t * _erfc_root(t) ** 3,
    ),
    "ERF64": Fit(_erf_ratio, 1e-12, 1.0, 12, _erf_weight, 53),
    "ERFC64": Fit(
        lambda w: mp.erfc(1 / w - 2) * mp.exp((1 / w - 2) ** 2),
        1 / 8,
        1 / 3,
        11,
        lambda w: mp.exp(-((1 / w - 2) ** 2)),
        53,
    ),
    "SIN32": _odd(mp.sin, _quarter_pi, 2),
    "SIN64": _odd(mp.sin, _quarter_pi, 5, 53),
    "COS32": _cos_tail(2, 24),
    "COS64": _cos_tail(5, 53),
    "TAN32": _odd(mp.tan, _quarter_pi, 6),
    "TAN64": _odd(mp.tan, _quarter_pi, 13, 53),
    "ASIN32": _odd(mp.asin, 0.5, 4),
    "ASIN64": _odd(mp.asin, 0.5, 11, 53),
    "ATAN32": _odd(mp.atan, _tan_eighth_pi, 4),
    "ATAN64": _odd(mp.atan, _tan_eighth_pi, 10, 53),
    "CBRT32": _root_ratio(0.0645, 3, 24),
    "CBRT64": _root_ratio(0.1130, 10, 53),
    "INVERSE_ROOT": Fit(lambda z: 1 / mp.cbrt(z), 0.5, 4.0, 5, mp.cbrt, 53),
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
