"""Comparisons and orders: by the real parts first, then by the imaginary ones, as in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..compose import F, Value
from ..type_rules import normalise_axes
from .table import PAIR_RULES, Pair, on_pairs


@on_pairs("equal")
def _equal(x: Pair, y: Pair) -> Value:
    return F.logical_and(F.equal(x.re, y.re), F.equal(x.im, y.im))


@on_pairs("not_equal")
def _not_equal(x: Pair, y: Pair) -> Value:
    return F.logical_or(F.not_equal(x.re, y.re), F.not_equal(x.im, y.im))


@on_pairs("isnan")
def _isnan(x: Pair) -> Value:
    return F.logical_or(F.isnan(x.re), F.isnan(x.im))


@on_pairs("isinf")
def _isinf(x: Pair) -> Value:
    return F.logical_or(F.isinf(x.re), F.isinf(x.im))


@on_pairs("isfinite")
def _isfinite(x: Pair) -> Value:
    return F.logical_and(F.isfinite(x.re), F.isfinite(x.im))


def _ordered(strict: str, decide: str) -> Callable[[Pair, Pair], Value]:
    """Compares real parts unless an imaginary one is nan; where they are equal, ``decide`` does."""

    def rule(x: Pair, y: Pair) -> Value:
        comparable = F.logical_not(F.logical_or(F.isnan(x.im), F.isnan(y.im)))
        apart = F.logical_and(getattr(F, strict)(x.re, y.re), comparable)
        same = F.logical_and(F.equal(x.re, y.re), getattr(F, decide)(x.im, y.im))
        return F.logical_or(apart, same)

    return rule


for _name in ("less", "greater"):
    on_pairs(_name)(_ordered(_name, _name))
    on_pairs(f"{_name}_equal")(_ordered(_name, f"{_name}_equal"))


def _chosen(condition: Value, x: Pair, y: Pair) -> Pair:
    return Pair(F.where(condition, x.re, y.re), F.where(condition, x.im, y.im))


def _extremum(order: str, skips_nan: bool) -> Callable[[Pair, Pair], Pair]:
    """The first operand if it wins or is nan; where nan is skipped, if the other is."""

    def rule(x: Pair, y: Pair) -> Pair:
        return _chosen(F.logical_or(_isnan(y if skips_nan else x), PAIR_RULES[order](x, y)), x, y)

    return rule


on_pairs("maximum")(_extremum("greater_equal", False))
on_pairs("minimum")(_extremum("less_equal", False))
on_pairs("fmax")(_extremum("greater_equal", True))
on_pairs("fmin")(_extremum("less_equal", True))


# Along axes


def _first(x: Pair, axis: int, name: str) -> Value:
    """The position of the extremum along an axis, which is the first nan if there is one; the axis
    stays with size 1."""
    worst = -math.inf if name == "max" else math.inf
    extremum = getattr(F, name)
    unknown = _isnan(x)
    re = F.where(unknown, x.re.full((), worst), x.re)
    best = F.logical_and(
        F.equal(re, extremum(re, axis=axis, keepdims=True)), F.logical_not(unknown)
    )
    im = F.where(best, x.im, x.im.full((), worst))
    best = F.logical_and(best, F.equal(im, extremum(im, axis=axis, keepdims=True)))
    hit = F.where(F.any(unknown, axis=axis, keepdims=True), unknown, best)
    return F.argmax(F.cast(hit, dtype="uint8"), axis=axis, keepdims=True)


def _reduced(name: str) -> Callable[..., Pair]:
    def rule(x: Pair, *, axis: Any, keepdims: bool) -> Pair:
        axes = normalise_axes(axis, x.re.rank)
        for a in reversed(axes):
            count = x.re.iota(x.re.shape, a)
            here = F.equal(count, _first(x, a, name))
            nothing = x.re.full((), 0.0)
            x = Pair(*(F.sum(F.where(here, v, nothing), axis=a, keepdims=True) for v in x))
        if keepdims or not axes:
            return x
        return Pair(*(F.squeeze(v, axis=axes) for v in x))

    return rule


def _position(name: str) -> Callable[..., Value]:
    def rule(x: Pair, *, axis: Any, keepdims: bool) -> Value:
        if axis is None:
            rank = x.re.rank
            flat = Pair(*(F.reshape(v, newshape=(-1,)) for v in x))
            shape = (1,) * rank if keepdims else ()
            return F.reshape(_first(flat, 0, name), newshape=shape)
        position = _first(x, axis, name)
        return position if keepdims else F.squeeze(position, axis=(axis,))

    return rule


for _name in ("max", "min"):
    on_pairs(_name)(_reduced(_name))
    on_pairs(f"arg{_name}")(_position(_name))
