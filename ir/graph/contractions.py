"""The axes of products and convolutions, in one form for both."""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

from ..dataclass import dataclass
from ..traits import Trait
from .nodes import Call, tensor_type
from .types import TensorType


@dataclass(frozen=True, slots=True)
class Roles:
    """Axes of a contraction, counted from the front: ``channel`` of the result stands for ``out``
    of the weights, which are summed over ``summed``. Groups of channels have weights of their own,
    and an image is padded by ``sides``."""

    channel: int
    out: int
    summed: tuple[int, ...]
    groups: int = 1
    spatial: tuple[int, ...] = ()
    sides: tuple[Any, ...] = ()

    def terms(self, weights: TensorType) -> float:
        """Returns how many products a sum has; infinity if that is not known."""
        sizes = [weights.shape[axis] for axis in self.summed]
        return prod(size if isinstance(size, int) else inf for size in sizes)

    @property
    def is_padded(self) -> bool:
        return any(side != 0 for side in self.sides)


def roles_of(call: Call) -> Roles | None:
    """Returns the axes of a product or a convolution; None for other operators."""
    if Trait.MULTILINEAR not in call.operator.traits or len(call.args) != 2:
        return None
    x, w = map(tensor_type, call.args)
    if min(x.rank, w.rank) < 2:
        return None
    match call.operator.name:
        case "nn.matmul":
            return Roles(max(x.rank, w.rank) - 1, w.rank - 1, (w.rank - 2,))
        case "nn.dense":
            return Roles(x.rank - 1, 0, (1,))
        case "nn.conv1d" | "nn.conv2d" | "nn.conv3d":
            out, layout = call.attrs["kernel_layout"].index("O"), call.attrs["data_layout"]
            spatial = tuple(n for n, letter in enumerate(layout) if letter not in "NC")
            return Roles(
                layout.index("C"),
                out,
                tuple(axis for axis in range(w.rank) if axis != out),
                call.attrs["groups"],
                spatial,
                tuple(np.resize(np.atleast_1d(call.attrs["padding"]), 2 * len(spatial)).tolist()),
            )
        case _:
            return None
