"""Passes over graph modules: each is a function ``Module -> Module`` in a file of its own.

A pass that finds nothing to do gives back the same object. ``default_pipeline`` is the way from a
traced program to groups of operators that become kernels.
"""

from __future__ import annotations

from .choices import Choices, Site, with_choices
from .choose_algorithms import DEFAULT_PREFERENCES, Preferences, choose_algorithms
from .context import PassContext
from .eliminate_common_subexpressions import eliminate_common_subexpressions
from .eliminate_dead_code import eliminate_dead_code
from .fold_constants import fold_constants
from .fuse_operators import fuse_operators
from .inline_calls import inline_calls
from .lower_to_primitives import lower_to_primitives
from .narrow_factors import narrow_factors
from .pull_picks import pull_picks
from .rewrite import Pass
from .simplify import simplify
from .sink_transposes import sink_transposes

__all__ = [
    "DEFAULT_PREFERENCES",
    "Choices",
    "Pass",
    "PassContext",
    "Preferences",
    "Site",
    "choose_algorithms",
    "default_pipeline",
    "eliminate_common_subexpressions",
    "eliminate_dead_code",
    "fold_constants",
    "fuse_operators",
    "inline_calls",
    "lower_to_primitives",
    "narrow_factors",
    "pull_picks",
    "simplify",
    "sink_transposes",
    "with_choices",
]


def default_pipeline(
    preferences: Preferences = DEFAULT_PREFERENCES, choices: Choices | None = None
) -> list[Pass]:
    """The passes in their order, with the reason for each place.

    ``preferences`` say which of several algorithms for one operator may be chosen, ``choices`` what
    was measured to be quicker where passes could do one thing or another.
    """
    return [
        # First, so that all the others see through calls.
        inline_calls,
        # Whole operators (softmax, layer_norm) are still visible to the rules.
        simplify,
        fold_constants,
        eliminate_dead_code,
        # The kernels of convolutions are constants now, if they ever are.
        choose_algorithms(preferences, choices),
        # From here on there are only primitives.
        lower_to_primitives,
        # Convolutions come out of it with transposes around them, which keep neighbours apart.
        with_choices(sink_transposes, choices),
        # Lowering writes the same pieces again and again (a mean and a variance of one array), and
        # computes with constants, such as reshaped weights. Rules find more among shared values.
        eliminate_common_subexpressions,
        # Values are shared, so that what is picked twice is pulled once.
        pull_picks,
        simplify,
        fold_constants,
        eliminate_common_subexpressions,
        # Weights are what they will be, and what multiplies them is in sight.
        narrow_factors,
        # Fusion counts users, so the dead ones have to be gone.
        eliminate_dead_code,
        with_choices(fuse_operators, choices),
        # What ended up in a kernel of its own, and does not depend on the program's arguments.
        fold_constants,
        eliminate_dead_code,
    ]
