"""The programs with symbolic sizes: functions of one array, and the sizes that it may have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import loopwright as lw
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

__all__ = ["PROGRAMS", "Program", "weights_of"]

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """``function(x, weights)`` computes it, and ``reference`` does so with NumPy alone, in float64.

    ``axes`` are the symbolic axes of ``x`` with their name and range; ``shape`` gives the shape of
    ``x`` for their sizes. Results are compared at the sizes ``checked``, timed at ``timed``.
    ``weights`` are shapes of what is known when compiling. A program without a function is the
    network of ``bench.nets`` of that name, which comes as an ONNX model.
    """

    name: str
    axes: Mapping[int, tuple[str, int, int]]
    shape: Callable[..., Sizes]
    checked: Sequence[Sizes]
    timed: Sequence[Sizes]
    function: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None
    weights: Mapping[str, Sizes] | None = None
    tokens: int = 0
    tolerance: float = 1e-4

    def input(self, sizes: Sizes) -> Array:
        """Returns the array for some sizes, the same each time."""
        rng = np.random.default_rng(sum(sizes))
        if self.tokens:
            return rng.integers(0, self.tokens, self.shape(*sizes))
        return rng.standard_normal(self.shape(*sizes), np.float32)

    def expected(self, x: Array) -> Array:
        """Returns the result in float64."""
        compute = self.reference or self.function
        assert compute is not None
        weights = {n: w.astype(np.float64) for n, w in weights_of(self.name).items()}
        return compute(x.astype(np.float64), weights)


@cache
def weights_of(name: str) -> dict[str, Array]:
    """Returns the weights of a program, random ones that keep activations of a size near 1."""
    rng = np.random.default_rng(0)
    weights: dict[str, Array] = {}
    for key, shape in (PROGRAMS[name].weights or {}).items():
        terms = math.prod(shape[1:]) if len(shape) == 4 else shape[0] if len(shape) == 2 else 1
        weights[key] = rng.standard_normal(shape, np.float32) / np.float32(terms**0.5)
    return weights


def mlp(x: Any, w: Mapping[str, Any]) -> Any:
    h = np.maximum(x @ w["w1"] + w["b1"], 0)
    h = np.maximum(h @ w["w2"] + w["b2"], 0)
    return h @ w["w3"] + w["b3"]


def normed_softmax(x: Any, w: Mapping[str, Any]) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return layer_norm(e / e.sum(-1, keepdims=True), w, "")


def layer_norm(x: Any, w: Mapping[str, Any], name: str) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * w[f"gamma{name}"] + w[f"beta{name}"]


HEADS = 4


def encoder(x: Any, w: Mapping[str, Any]) -> Any:
    n, width = x.shape
    h = layer_norm(x, w, "1")
    q, k, v = (
        (h @ w[f"w{p}"] + w[f"b{p}"]).reshape(n, HEADS, width // HEADS).swapaxes(0, 1)
        for p in "qkv"
    )
    scores = q @ k.swapaxes(1, 2) / math.sqrt(width // HEADS)
    e = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    found = (e / e.sum(-1, keepdims=True)) @ v
    x = x + found.swapaxes(0, 1).reshape(n, width) @ w["wo"] + w["bo"]
    h = np.maximum(layer_norm(x, w, "2") @ w["w1"] + w["b1"], 0)
    return x + h @ w["w2"] + w["b2"]


LAYERS = 3


def convolutions(x: Any, w: Mapping[str, Any]) -> Any:
    for n in range(LAYERS):
        x = lw.nn.conv2d(x, w[f"k{n}"], padding=1) + w[f"b{n}"][:, None, None]
        x = np.maximum(x, 0)
    return x


def plain_convolutions(x: Array, w: Mapping[str, Array]) -> Array:
    for n in range(LAYERS):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
        x = np.einsum("bihwyx,oiyx->bohw", windows, w[f"k{n}"], optimize=True)
        x = np.maximum(x + w[f"b{n}"][:, None, None], 0)
    return x


def _dense(**layers: tuple[int, int]) -> dict[str, Sizes]:
    """Shapes of matrices ``w...`` and of the biases ``b...`` behind them."""
    shapes: dict[str, Sizes] = {}
    for name, shape in layers.items():
        shapes |= {f"w{name}": shape, f"b{name}": shape[1:]}
    return shapes


_TILES = (8, 16, 32, 48, 64, 96, 128)
_ROWS = sorted({*range(27), *(t + d for t in _TILES for d in (-1, 0, 1)), 100, 200, 300, 333, 400})
_CHECKED = [(n,) for n in [*_ROWS, 255, 256, 257, 511, 512, 777, 900, 1000, 1024, 1025, 2048, 3001]]
_TIMED = [(n,) for n in (1, 3, 7, 13, 27, 55, 111, 203, 401, 802, 1603, 3207)]
_IMAGES = [
    (b, h, w)
    for b, h, w in [
        *((0, 17, 17), (0, 64, 512), (1, 512, 512), (2, 300, 200), (1, 511, 65), (1, 65, 511)),
        *((1, n, n) for n in range(17, 49)),
        *((n % 4, 16 + 3 * n, 90 - 3 * n) for n in range(1, 23)),
    ]
]
_TIMED_IMAGES = [
    *((1, 17, 19), (1, 29, 31), (2, 45, 37), (1, 61, 77), (4, 33, 53), (1, 111, 99)),
    *((3, 90, 70), (1, 180, 211), (2, 150, 130), (1, 300, 222), (1, 401, 303), (1, 499, 507)),
]
_LENGTHS = [(n,) for n in (3, 8, 13, 21, 32, 47, 64, 85, 110, 128, 171, 200, 256, 317, 384, 509)]

LONGEST = 4096


def _rows(low: int = 0, width: int = 0) -> dict[str, Any]:
    return {
        "axes": {0: ("n", low, LONGEST)},
        "shape": lambda n: (n, width),
        "checked": [*_CHECKED, (LONGEST,)],
        "timed": _TIMED,
    }


_ALL = [
    Program(
        "mlp",
        **_rows(width=784),
        function=mlp,
        weights=_dense(**{"1": (784, 512), "2": (512, 256), "3": (256, 10)}),
    ),
    Program(
        "encoder",
        **_rows(width=256),
        function=encoder,
        weights=_dense(**dict.fromkeys("qkvo", (256, 256)), **{"1": (256, 1024), "2": (1024, 256)})
        | {f"{kind}{n}": (256,) for n in (1, 2) for kind in ("gamma", "beta")},
    ),
    Program(
        "softmax_norm",
        **_rows(width=768),
        function=normed_softmax,
        weights={"gamma": (768,), "beta": (768,)},
    ),
    Program(
        "convolutions",
        {0: ("b", 0, 64), 2: ("h", 17, 512), 3: ("w", 17, 512)},
        lambda b, h, w: (b, 3, h, w),
        _IMAGES,
        _TIMED_IMAGES,
        function=convolutions,
        reference=plain_convolutions,
        weights={
            f"{kind}{n}": (o, i, 3, 3) if kind == "k" else (o,)
            for n, (i, o) in enumerate([(3, 16), (16, 32), (32, 32)])
            for kind in "kb"
        },
    ),
    Program(
        "bert",
        {1: ("n", 1, 512)},
        lambda n: (1, n),
        [(1,), *_LENGTHS],
        _LENGTHS,
        tokens=30522,
    ),
]

PROGRAMS = {program.name: program for program in _ALL}
