"""Choose how each convolution is computed, where there are several ways that are exact enough.

Before::

    def @main(%x: Tensor[(1, 64, 56, 56), float32]) -> Tensor[(1, 64, 56, 56), float32] {
      nn.conv2d(%x, meta[w], padding=1)
    }

After::

    def @main(%x: Tensor[(1, 64, 56, 56), float32]) -> Tensor[(1, 64, 56, 56), float32] {
      nn.conv2d(%x, meta[w], padding=1, algorithm="winograd2")
    }

Constants::

    w = np.ones((64, 64, 3, 3), np.float32)

An algorithm is taken if it is estimated to be quicker by ``MARGIN`` and its error grows by no more
than the preferences allow; where both ways were measured, what was quicker is taken. Only kernels
that are constants are considered: the others would have to be transformed in every call.
"""

from __future__ import annotations

from math import prod, sqrt

from ...dataclass import dataclass
from ...ops.conv import winograd_fits
from ...ops.winograd import ERROR_GROWTH, TILES
from ...pass_context import optional
from ..builder import Builder
from ..choices import Choices, call_text
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import Atom, Call, Constant, Expr, Function, GlobalVar, Module, Var, tensor_type
from ..walk import map_functions, rewrite_function

MARGIN = 0.85
"""Another algorithm must take less than this share of the direct one's estimated time."""

# The tolerance of a sum grows as its terms, its error as their root. Errors 16 times those of plain
# sums were 0.86 and 1.18 tolerances with 576 terms in images of 56 and 224 pixels, 0.58 with 1,152.
_GROWTH_ALLOWED = 0.48


@dataclass(frozen=True, slots=True)
class Preferences:
    """``error_growth``: how many times the error of sums taken term by term is still welcome.

    ``within_tolerance`` asks beside that for results as near the exact ones as ``ir.tolerance``
    lets sums taken term by term be, which short sums are not with an error that grows much.
    ``limits`` describe the machine, for all passes.
    """

    error_growth: float = 16.0
    within_tolerance: bool = True
    limits: GraphLimits = DEFAULT_LIMITS


DEFAULT_PREFERENCES = Preferences()


@optional(level=2)
def choose_algorithms(
    module: Module,
    preferences: Preferences = DEFAULT_PREFERENCES,
    choices: Choices | None = None,
) -> Module:
    """Gives every convolution its algorithm.

    ``choices`` go before the estimate, within what is exact enough.
    """
    return map_functions(module, lambda function: _choose(function, preferences, choices))


def _choose(function: Function, preferences: Preferences, choices: Choices | None) -> Function:
    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if not isinstance(value, Call) or isinstance(value.op, GlobalVar | Var):
            return None
        if value.op.name != "nn.conv2d" or value.attrs["algorithm"] != "auto":
            return None
        best = _best(value, var, preferences, choices)
        if best == "direct":
            return None
        return builder.emit(value.op, value.args, {**value.attrs, "algorithm": best})

    return rewrite_function(function, step)


def _best(call: Call, var: Var, preferences: Preferences, choices: Choices | None) -> str:
    result, w = tensor_type(var), call.args[1]
    if not isinstance(w, Constant) or not winograd_fits(w.type, call.attrs):
        return "direct"
    sizes = result.shape if call.attrs["data_layout"] == "NHWC" else _channels_last(result.shape)
    n, height, width, outputs = sizes
    groups = call.attrs["groups"]
    channels = w.value.size // (
        9 * w.value.shape[3 if call.attrs["kernel_layout"] == "HWIO" else 0]
    )
    numbers = [s for s in (n, height, width, outputs) if isinstance(s, int)]
    few = groups > 1 and channels < preferences.limits.lanes  # products of next to nothing
    if len(numbers) < 4 or 0 in numbers or not channels or few:
        return "direct"
    shape = (numbers[0], numbers[1], numbers[2], channels, numbers[3] // groups)
    algorithms = {
        name: estimate(name, shape, result.dtype.bytes, preferences.limits, groups)
        for name, growth in ERROR_GROWTH.items()
        if name == "direct" or _is_exact_enough(growth, 9 * channels, preferences)
    }
    best = min(algorithms, key=lambda name: algorithms[name])
    if algorithms[best] >= MARGIN * algorithms["direct"]:
        best = "direct"
    if choices is None or len(algorithms) < 2:
        return best
    options = (best, *(name for name in algorithms if name != best))
    text = call_text(call, without="algorithm")
    return choices.take("algorithm", text, options, prod(shape) * groups * 9)


def _is_exact_enough(growth: float, terms: int, preferences: Preferences) -> bool:
    if growth > preferences.error_growth:
        return False
    return not preferences.within_tolerance or growth <= _GROWTH_ALLOWED * sqrt(terms)


def _channels_last(shape: tuple[object, ...]) -> tuple[object, ...]:
    return (shape[0], shape[2], shape[3], shape[1])


def estimate(
    algorithm: str,
    shape: tuple[int, int, int, int, int],
    bytes: int,
    limits: GraphLimits,
    groups: int = 1,
) -> float:
    """Rough time of a 3x3 convolution of results (n, height, width) from channels to outputs, in
    each of so many groups.

    >>> same = (1, 56, 56, 64, 64)
    >>> direct, tiled = (estimate(a, same, 4, GraphLimits()) for a in ("direct", "winograd4"))
    >>> tiled < 0.6 * direct
    True
    """
    n, height, width, channels, outputs = shape
    n *= groups  # a group is as much work as an image, with weights of its own
    wide = -(-outputs // limits.lanes) * limits.lanes

    def fetched(elements: float) -> float:
        return limits.fetch * max(0.0, elements - limits.cache_bytes / bytes)

    if algorithm == "direct":
        weights = limits.fetch_weights * 9 * channels * outputs * groups
        work = limits.direct_product * n * height * width * 9 * channels * wide
        return max(work, weights)  # the next weights come while these are used
    tile = TILES[algorithm]
    tiles, points = n * -(-height // tile) * -(-width // tile), (tile + 2) ** 2
    deep = -(-channels // limits.lanes) * limits.lanes
    crowded = tiles * outputs * bytes % limits.set_bytes == 0
    back = limits.winograd_crowded if crowded else limits.winograd_result
    count = tiles * points
    products = count * limits.winograd_product * channels * wide
    transforms = count * (limits.winograd_image * deep + back * wide)
    between = 0.75 * fetched(count * (channels + outputs))  # in runs, some prefetched
    # The weights of the next product come while this one is computed.
    weights = limits.fetch_weights * points * channels * outputs * groups
    return max(products, weights) + transforms + between
