"""Passes over graph modules: each is a function ``Module -> Module`` in a file of its own.

A pass that finds nothing to do gives back the same object. ``default_pipeline`` is the way from a
traced program to groups of operators that become kernels.
"""

from __future__ import annotations

from .eliminate_common_subexpressions import eliminate_common_subexpressions
from .eliminate_dead_code import eliminate_dead_code
from .fold_constants import fold_constants
from .fuse_operators import fuse_operators
from .lower_to_primitives import lower_to_primitives
from .rewrite import Pass

__all__ = [
    "default_pipeline",
    "eliminate_common_subexpressions",
    "eliminate_dead_code",
    "fold_constants",
    "fuse_operators",
    "lower_to_primitives",
]


def default_pipeline() -> list[Pass]:
    """The passes in their order, with the reason for each place."""
    return [
        fold_constants,
        eliminate_dead_code,
        # What came before sees whole operators (softmax, layer_norm); from here on only primitives.
        lower_to_primitives,
        # Lowering writes the same pieces again and again (a mean and a variance of one array), and
        # computes with constants, such as reshaped weights.
        fold_constants,
        eliminate_common_subexpressions,
        # Fusion counts users, so the dead ones have to be gone.
        eliminate_dead_code,
        fuse_operators,
    ]
