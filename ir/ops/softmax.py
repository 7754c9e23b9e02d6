"""Softmax and its logarithm: the greatest element of a row is subtracted, so that no exponential
overflows.

A long row that is the only one is cut into pieces, each with a greatest element of its own, so that
a piece is read once and all threads have some; what they give is joined at the end ("Online
normalizer calculation for softmax", Milakov and Gimelshein, 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dims import as_int, product
from ..errors import LoopwrightValueError
from ..graph.builder import Builder
from ..graph.limits import GraphLimits
from ..graph.nodes import Atom
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import Type
from .compose import call, scalar, tensor_type
from .rules import Attrs, normalise_axis, same_type, tensors
from .sampling import floats

__all__: list[str] = []


def _infer_softmax(name: str) -> Callable[[tuple[Type, ...], Attrs], Type]:
    def infer(types: tuple[Type, ...], attrs: Attrs) -> Type:
        (x,) = tensors(name, types, 1)
        axis = normalise_axis(name, attrs["axis"], x.rank, x)
        if x.shape[axis] == 0 and x.size != 0:
            raise LoopwrightValueError(f"{name}: {x.short} has no element along axis {axis}")
        return same_type(name, "f")(types, attrs)

    return infer


def _shifted(b: Builder, x: Atom, axis: int) -> tuple[Atom, tuple[int, ...]]:
    """``x`` less its greatest element, so that no exponential overflows."""
    axes = (axis % tensor_type(x).rank,)
    return call(b, "subtract", x, call(b, "max", x, axis=axes, keepdims=True)), axes


def _empty(x: Atom) -> bool:
    return any(size == 0 for size in tensor_type(x).shape)


def _decompose_softmax(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    (x,) = args
    if _empty(x):
        return x
    piece = _piece(x, attrs["axis"], b.limits)
    if piece is not None:
        return _softmax_in_pieces(b, x, piece)
    shifted, axes = _shifted(b, x, attrs["axis"])
    powers = call(b, "exp", shifted)
    return call(b, "divide", powers, call(b, "sum", powers, axis=axes, keepdims=True))


def _piece(x: Atom, axis: int, limits: GraphLimits) -> int | None:
    """The length of the pieces of a long row that is the only one, None for other rows."""
    shape = tensor_type(x).shape
    if not all(isinstance(size, int) for size in shape):
        return None
    size = as_int(product(shape))
    if shape[axis] != size or size <= limits.longest_lone_row:
        return None
    lengths = range(limits.softmax_piece, limits.softmax_shortest_piece - 1, -1)
    return next((p for p in lengths if size % p == 0), None)


def _softmax_in_pieces(b: Builder, x: Atom, piece: int) -> Atom:
    powers, _, weights, total = _joined(b, x, piece)
    count = tensor_type(powers).shape[0]
    shares = call(b, "reshape", call(b, "divide", weights, total), newshape=(count, 1))
    scaled = call(b, "multiply", powers, shares)
    return call(b, "reshape", scaled, newshape=tensor_type(x).shape)


def _joined(b: Builder, x: Atom, piece: int) -> tuple[Atom, Atom, Atom, Atom]:
    """Of the row x: ``exp(x - m)`` [pieces, elements] with the greatest element m of each piece,
    the greatest of all [1, 1], how much the pieces count [1, pieces], and the sum [1, 1]."""
    kind = tensor_type(x)
    count = as_int(product(kind.shape)) // piece
    rows = call(b, "reshape", x, newshape=(count, piece))
    # Of a piece of minus infinities nothing is left, whatever finite number is subtracted.
    lowest = scalar(b, float(np.finfo(kind.dtype.numpy).min), kind.dtype)
    tops = call(b, "maximum", call(b, "max", rows, axis=(1,), keepdims=True), lowest)
    powers = call(b, "exp", call(b, "subtract", rows, tops))
    sums = call(b, "sum", powers, axis=(1,), keepdims=True)
    tops, sums = (call(b, "reshape", a, newshape=(1, count)) for a in (tops, sums))
    top = call(b, "max", tops, axis=(1,), keepdims=True)
    weights = call(b, "exp", call(b, "subtract", tops, top))
    total = call(b, "sum", call(b, "multiply", sums, weights), axis=(1,), keepdims=True)
    return powers, top, weights, total


def _decompose_log_softmax(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    (x,) = args
    if _empty(x):
        return x
    piece = _piece(x, attrs["axis"], b.limits)
    if piece is not None:
        ones = (1,) * tensor_type(x).rank
        _, top, _, total = _joined(b, x, piece)
        top, total = (call(b, "reshape", a, newshape=ones) for a in (top, total))
        return call(b, "subtract", call(b, "subtract", x, top), call(b, "log", total))
    shifted, axes = _shifted(b, x, attrs["axis"])
    total = call(b, "sum", call(b, "exp", shifted), axis=axes, keepdims=True)
    return call(b, "subtract", shifted, call(b, "log", total))


def _reference_softmax(logarithm: bool) -> Callable[[Sequence[Any], Attrs], Any]:
    def reference(arrays: Sequence[Any], attrs: Attrs) -> Any:
        x = arrays[0].astype(np.float64)
        if x.size == 0:
            return arrays[0]
        with np.errstate(all="ignore"):
            total = np.logaddexp.reduce(x, axis=attrs["axis"], keepdims=True)
            y = x - total if logarithm else np.exp(x - total)
        return np.asarray(y).astype(arrays[0].dtype)

    return reference


def _samples_softmax(rng: np.random.Generator) -> list[Sample]:
    masked = floats(rng, (4, 7))
    masked[:, 3:5] = -np.inf
    broken = floats(rng, (3, 4))
    broken[1, 2] = np.nan
    return [
        Sample((floats(rng, (8, 33)),), {}),
        Sample((floats(rng, (3, 5, 2), "float64"),), {"axis": 1}),
        Sample((floats(rng, (2, 3), "float32", 80, 120),), {"axis": 0}),
        Sample((masked,), {"axis": -1}),
        Sample((broken,), {"axis": -1}),
        Sample((floats(rng, (4, 1)),), {"axis": 1}),
        Sample((floats(rng, (0, 3)),), {}),
        Sample((floats(rng, (3, 0)),), {}),
    ]


for _name, _text, _decompose in (
    ("nn.softmax", "exp(x) divided by its sum along an axis", _decompose_softmax),
    ("nn.log_softmax", "The logarithm of softmax, without its overflow", _decompose_log_softmax),
):
    register(
        Operator(
            name=_name,
            doc=f"""{_text}.

``x`` of rank 1 or more, float32 or float64; the result has the same type. The greatest element is
subtracted first. LoopwrightTypeError for another dtype, LoopwrightValueError for an axis out of
range.

    fn (%x: Tensor[(64, 10), float32]) -> Tensor[(64, 10), float32] {{
      {_name}(%x, axis=0)
    }}
""",
            params=("x",),
            attrs=(Attr("axis", "the axis along which the probabilities sum to 1", -1),),
            pattern=Pattern.REDUCTION,
            infer=_infer_softmax(_name),
            decompose=_decompose,
            reference=_reference_softmax(_name == "nn.log_softmax"),
            samples=_samples_softmax,
        )
    )
