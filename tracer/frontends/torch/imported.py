"""Arguments and results of an imported graph: computed, passed on unchanged, or fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch

from ....ir.dataclass import dataclass
from ....ir.dims import IntExpr
from ....ir.graph.nodes import Module
from . import rows as rows  # fills the table


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor that is an argument of ``main``: the array has the axes of the tensor in the order
    ``order``, so that it is contiguous."""

    position: int  # of the placeholder
    shape: tuple[IntExpr, ...]
    dtype: np.dtype[Any]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Computed:
    """A result of ``main``, whose axes are those of the tensor in another order if there are
    ``axes``: where each axis of the tensor is."""

    number: int
    axes: tuple[int, ...] | None

    def in_axes(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the result of ``main`` with the axes of the graph's result."""
        return tensor if self.axes is None else tensor.permute(self.axes)


@dataclass(frozen=True, slots=True)
class Passed:
    """A placeholder that is handed out as it is, or a ``view`` of it: sizes, strides and offset."""

    position: int
    view: tuple[tuple[int, ...], tuple[int, ...], int] | None = None

    def of(self, tensor: Any) -> Any:
        """Returns the result, given the placeholder."""
        if self.view is None:
            return tensor
        sizes, strides, offset = self.view
        return torch.as_strided(tensor, sizes, strides, tensor.storage_offset() + offset)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A result that does not depend on the arguments: a number, None, or a tensor."""

    value: Any


Result: TypeAlias = Computed | Passed | Fixed


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """A graph as a module. ``main`` takes the arrays of ``arguments`` in order; ``results`` are
    those of the graph. Constants are the memory of their tensors. Further arguments are random
    numbers, which ``draws`` draw from PyTorch's generator for each call."""

    module: Module
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    draws: tuple[Callable[[], torch.Tensor], ...] = ()
