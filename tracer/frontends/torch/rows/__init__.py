"""The rows of the table of ATen operators, by family."""

from . import (  # noqa: F401  (each enters its rows)
    attention,
    convolution,
    creation,
    indexing,
    linear,
    normalisation,
    ordering,
    pointwise,
    pooling,
    prims,
    quantised,
    random,
    reductions,
    shapes,
)
