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

from collections.abc import Sequence
from math import sqrt

from ...dataclass import dataclass
from ...pass_context import optional
from ..builder import Builder
from ..choices import Choices, call_text
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import Atom, Call, Constant, Function, Module, Var, tensor_type
from ..operator import Algorithm, Operator
from ..types import TensorType
from ..walk import map_functions, rewrite_blocks
from ..work import elements

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
    With ``rounds_factors`` the factors of products are rounded to bfloat16 (``round_factors``).
    ``limits`` describe the machine, for all passes.
    """

    error_growth: float = 16.0
    within_tolerance: bool = True
    rounds_factors: bool = False
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
    def step(var: Var, value: Call, builder: Builder) -> Atom | None:
        if value.operator.algorithms is None or value.attrs["algorithm"] != "auto":
            return None
        name = _name_of_another(value, tensor_type(var), preferences, choices)
        if name is None:
            return None
        return builder.emit(value.op, value.args, {**value.attrs, "algorithm": name})

    return rewrite_blocks(function, lambda _calls: step)


def _name_of_another(
    call: Call, result: TensorType, preferences: Preferences, choices: Choices | None
) -> str | None:
    """Returns the algorithm to take instead of the plain one."""
    assert isinstance(call.op, Operator) and call.op.algorithms is not None
    if not all(isinstance(arg, Constant) for arg in call.args[1:]):
        return None
    types = [tensor_type(arg) for arg in call.args]
    ways = call.op.algorithms(types, result, call.attrs, preferences.limits)
    exact = [a for a in ways[1:] if _is_exact_enough(a, preferences)]
    if not exact:
        return None
    plain = ways[0]
    best = quickest(plain, exact)
    name = best.name
    if choices is not None:
        options = (name, *(a.name for a in (plain, *exact) if a is not best))
        text = call_text(call, without="algorithm")
        name = choices.take("algorithm", text, options, elements(result) * plain.terms)
    return None if name == plain.name else name


def _is_exact_enough(algorithm: Algorithm, preferences: Preferences) -> bool:
    growth = algorithm.error_growth
    if growth > preferences.error_growth:
        return False
    return not preferences.within_tolerance or growth <= _GROWTH_ALLOWED * sqrt(algorithm.terms)


def quickest(plain: Algorithm, others: Sequence[Algorithm]) -> Algorithm:
    """Returns the one of least time, the plain one unless another takes far less."""
    best = min(others, key=lambda algorithm: algorithm.time, default=plain)
    return best if best.time < MARGIN * plain.time else plain
