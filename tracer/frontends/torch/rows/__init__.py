"""The rows of the table of ATen operators, by family."""

from . import (  # noqa: F401  (each enters its rows)
    attention,
    complex,
    convolution,
    creation,
    indexing,
    kernels,
    linear,
    normalisation,
    ordering,
    pointwise,
    pooling,
    prims,
    quantised,
    random,
    recurrent,
    reductions,
    resizing,
    shapes,
)
