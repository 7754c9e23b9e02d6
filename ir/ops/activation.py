"""Activations: single operators in the graph, later lowered to scalar operators."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np

from ..errors import LoopwrightValueError
from ..graph.compose import F, Value
from ..graph.operator import Sample
from ..graph.types import TensorType
from ..loop.scalar import SCALAR_OPS
from ..traits import Trait
from .declare import attr, composite, in_float64
from .sampling import extremes, floats, sample


@composite(
    "nn.relu",
    dtypes="iuf",
    reference=lambda x: np.where(x < 0, np.zeros_like(x), x),
    samples=lambda rng: [
        sample(np.array([np.nan, np.inf, -np.inf, 1, -1, 0, 1e-45, -1e-45], "float32")),
        sample(floats(rng, (3, 5, 7))),
        sample(floats(rng, (9,), "float64")),
        sample(extremes("int8")),
        sample(extremes("uint8")),
        sample(floats(rng, (0, 3))),
        sample(floats(rng, ())),
    ],
    traits=Trait.IGNORES_ZERO_SIGN,
    tangent=lambda step: step.by_slopes(
        (lambda F, r: F.cast(F.greater(r, 0), dtype=r.dtype.name),)
    ),
)
def _relu(x: Value) -> Value:
    """max(x, 0); nan stays nan."""
    return F.maximum(x, 0)


def _gelu_rule(x: TensorType, approximate: str) -> TensorType:
    if approximate not in ("none", "tanh"):
        raise LoopwrightValueError(f"approximate {approximate!r} is none of none, tanh")
    return x


def _gelu_reference(x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + SCALAR_OPS["erf"].numpy(x / np.sqrt(2)))


def _gelu_samples(rng: np.random.Generator) -> list[Sample]:
    edge = np.array([np.nan, np.inf, 0.0, 1.0, -1.0, -3.0, 5.0, 30.0], "float32")
    return [
        sample(x, approximate=how)
        for how in ("none", "tanh")
        for x in (edge, floats(rng, (3, 37), "float32", -4, 4), floats(rng, (0, 2), "float64"))
    ] + [sample(floats(rng, (5, 1), "float64"))]


@composite("nn.gelu", rule=_gelu_rule, reference=in_float64(_gelu_reference), samples=_gelu_samples)
def _gelu(x: Value, *, approximate: str = attr("none (by erf) or tanh", "none")) -> Value:
    """x times the normal distribution function at x (D. Hendrycks and K. Gimpel, 2016).

    ``x`` of any shape, float32 or float64; the result has the same type. ``approximate="tanh"`` is
    ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``. LoopwrightTypeError for another
    dtype.

        fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
          nn.gelu(%x, approximate="tanh")
        }
    """
    if approximate == "none":
        error = F.erf(x * (1 / sqrt(2)))
        return x * 0.5 * (error + 1)
    # (1 + tanh(z)) / 2 == sigmoid(2 * z), which does not cancel.
    bent = x * x * 0.044715 + 1
    return x * F.sigmoid(x * (2 * sqrt(2 / pi)) * bent)


@composite("nn.silu", reference=in_float64(lambda x: x / (1 + np.exp(-x))))
def _silu(x: Value) -> Value:
    """x * sigmoid(x)."""
    return x * F.sigmoid(x)
