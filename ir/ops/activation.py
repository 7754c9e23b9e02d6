"""Activations: whole in the graph, then taken apart into scalar operators."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any

import numpy as np

from ..errors import LoopwrightValueError
from ..graph.builder import Builder
from ..graph.nodes import Atom
from ..graph.operator import Attr, Operator, Pattern, Sample, register
from ..graph.types import Type
from ..loop.scalar import SCALAR_OPS
from .compose import call, scalar, tensor_type
from .rules import Attrs, same_type
from .sampling import extremes, floats

__all__: list[str] = []


def _decompose_relu(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    (x,) = args
    return call(b, "maximum", x, scalar(b, 0, tensor_type(x).dtype))


def _reference_relu(arrays: Sequence[Any], attrs: Attrs) -> Any:
    (x,) = arrays
    return np.where(x < 0, np.zeros_like(x), x)


def _samples_relu(rng: np.random.Generator) -> list[Sample]:
    edge = np.array([np.nan, np.inf, -np.inf, 1.0, -1.0, 0.0, 1e-45, -1e-45], "float32")
    return [
        Sample((edge,)),
        Sample((floats(rng, (3, 5, 7)),)),
        Sample((floats(rng, (9,), "float64"),)),
        Sample((extremes("int8"),)),
        Sample((extremes("uint8"),)),
        Sample((floats(rng, (0, 3)),)),
        Sample((floats(rng, ()),)),
    ]


register(
    Operator(
        name="nn.relu",
        doc="""max(x, 0); nan stays nan.

``x`` of any shape, integers or floats; the result has the same type. LoopwrightTypeError for
bool.

    fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
      nn.relu(%x)
    }
""",
        params=("x",),
        pattern=Pattern.ELEMENTWISE,
        infer=same_type("nn.relu", "iuf"),
        decompose=_decompose_relu,
        reference=_reference_relu,
        samples=_samples_relu,
    )
)


def _infer_gelu(types: tuple[Type, ...], attrs: Attrs) -> Type:
    if attrs["approximate"] not in ("none", "tanh"):
        raise LoopwrightValueError(
            f"nn.gelu: approximate {attrs['approximate']!r} is none of none, tanh"
        )
    return same_type("nn.gelu", "f")(types, attrs)


def _decompose_gelu(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    """The tanh form uses ``(1 + tanh(z)) / 2 == sigmoid(2 * z)``, which does not cancel."""
    (x,) = args
    dtype = tensor_type(x).dtype

    def number(value: float) -> Atom:
        return scalar(b, value, dtype)

    if attrs["approximate"] == "none":
        error = call(b, "erf", call(b, "multiply", x, number(1 / sqrt(2))))
        half = call(b, "multiply", x, number(0.5))
        return call(b, "multiply", half, call(b, "add", error, number(1)))
    square = call(b, "multiply", x, x)
    bent = call(b, "add", call(b, "multiply", square, number(0.044715)), number(1))
    slope = call(b, "multiply", x, number(2 * sqrt(2 / pi)))
    return call(b, "multiply", x, call(b, "sigmoid", call(b, "multiply", slope, bent)))


def _reference_gelu(arrays: Sequence[Any], attrs: Attrs) -> Any:
    x = arrays[0].astype(np.float64)
    if attrs["approximate"] == "tanh":
        y = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    else:
        y = 0.5 * x * (1 + SCALAR_OPS["erf"].numpy(x / np.sqrt(2)))
    return np.asarray(y).astype(arrays[0].dtype)


def _samples_gelu(rng: np.random.Generator) -> list[Sample]:
    edge = np.array([np.nan, np.inf, 0.0, 1.0, -1.0, -3.0, 5.0, 30.0], "float32")
    return [
        Sample((x,), {"approximate": how})
        for how in ("none", "tanh")
        for x in (edge, floats(rng, (3, 37), "float32", -4, 4), floats(rng, (0, 2), "float64"))
    ] + [Sample((floats(rng, (5, 1), "float64"),))]


register(
    Operator(
        name="nn.gelu",
        doc="""x times the normal distribution function at x (D. Hendrycks and K. Gimpel, 2016).

``x`` of any shape, float32 or float64; the result has the same type. ``approximate="tanh"`` is
``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``. LoopwrightTypeError for another
dtype.

    fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
      nn.gelu(%x, approximate="tanh")
    }
""",
        params=("x",),
        attrs=(Attr("approximate", "none (by erf) or tanh", "none"),),
        pattern=Pattern.ELEMENTWISE,
        infer=_infer_gelu,
        decompose=_decompose_gelu,
        reference=_reference_gelu,
        samples=_samples_gelu,
    )
)


def _decompose_silu(b: Builder, args: Sequence[Atom], attrs: Attrs) -> Atom:
    (x,) = args
    return call(b, "multiply", x, call(b, "sigmoid", x))


def _reference_silu(arrays: Sequence[Any], attrs: Attrs) -> Any:
    x = arrays[0].astype(np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(x / (1 + np.exp(-x))).astype(arrays[0].dtype)


def _samples_silu(rng: np.random.Generator) -> list[Sample]:
    edge = np.array([np.nan, np.inf, 0.0, 1.0, -1.0, -20.0, 50.0], "float32")
    return [
        Sample((edge,)),
        Sample((floats(rng, (4, 1, 9), "float32", -8, 8),)),
        Sample((floats(rng, (5,), "float64"),)),
        Sample((floats(rng, (2, 0)),)),
    ]


register(
    Operator(
        name="nn.silu",
        doc="""x * sigmoid(x).

``x`` of any shape, float32 or float64; the result has the same type. LoopwrightTypeError for
another dtype.

    fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
      nn.silu(%x)
    }
""",
        params=("x",),
        pattern=Pattern.ELEMENTWISE,
        infer=same_type("nn.silu", "f"),
        decompose=_decompose_silu,
        reference=_reference_silu,
        samples=_samples_silu,
    )
)
