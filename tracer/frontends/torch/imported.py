"""Arguments and results of an imported graph: computed, passed on unchanged, or fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
import torch

from ....ir.dataclass import dataclass
from ....ir.dims import IntExpr, evaluate
from ....ir.dtype import Array
from ....ir.errors import UnsupportedError
from ....ir.graph.nodes import Module
from . import rows as rows  # fills the table


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor that is an argument of ``main``: the array has the axes of the tensor in the order
    ``order``, so that it is contiguous. ``memory`` are the strides that it must have because the
    graph reads its elements by their places in memory, and the offset if it counts from the start
    of the storage. The argument for a number is an array of that many rows without elements."""

    position: int  # of the placeholder
    shape: tuple[IntExpr, ...]
    dtype: np.dtype[Any]
    order: tuple[int, ...]
    memory: tuple[tuple[int, ...], int | None] | None = None

    def rows(self, number: int) -> Array:
        """Returns the array for a number."""
        return np.empty((number, 0), self.dtype)

    def check(self, tensor: torch.Tensor) -> None:
        """Raises UnsupportedError for a tensor that lies in memory in another way."""
        if self.memory is None:
            return
        strides, offset = self.memory
        if strides != tensor.stride() or offset not in (None, tensor.storage_offset()):
            raise UnsupportedError(
                f"the graph reads the memory of an argument (as_strided) that had strides {strides}"
                f" and offset {offset or 0}, and is called with {tensor.stride()} and "
                f"{tensor.storage_offset()}",
                hint="import the model for an argument that lies in memory as this one does",
            )


@dataclass(frozen=True, slots=True)
class Computed:
    """A result of ``main``, whose axes are those of the tensor in another order if there are
    ``axes``: where each axis of the tensor is. A size is a Python int."""

    number: int
    axes: tuple[int, ...] | None
    is_size: bool = False

    def of(self, tensor: torch.Tensor) -> Any:
        """Returns the graph's result, given that of ``main``."""
        if self.is_size:
            return int(tensor)
        return tensor if self.axes is None else tensor.permute(self.axes)


@dataclass(frozen=True, slots=True)
class Passed:
    """A placeholder that is handed out as it is, or a view of it: what ``views`` make of it."""

    position: int
    views: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = ()

    def of(self, tensor: Any) -> Any:
        """Returns the result, given the placeholder."""
        for view in self.views:
            tensor = view(tensor)
        return tensor


@dataclass(frozen=True, slots=True)
class Aliased:
    """A view of ``base``, in its memory: who writes to one sees it in the other, and aot_autograd
    reads from a view of symbolic sizes where it lies. ``offset`` counts from where ``base`` begins.
    """

    base: Computed | Passed
    shape: tuple[IntExpr, ...]
    strides: tuple[IntExpr, ...]
    offset: IntExpr

    def of(self, base: torch.Tensor, sizes: Mapping[str, int]) -> torch.Tensor:
        """Returns the result, given the base and the values of all sizes."""
        shape, strides = ([evaluate(e, sizes) for e in of] for of in (self.shape, self.strides))
        start = base.storage_offset() + evaluate(self.offset, sizes)
        return base.as_strided(shape, strides, start)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A result that does not depend on the arguments: a number, None, or a tensor."""

    value: Any


Result: TypeAlias = Computed | Passed | Aliased | Fixed


@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """A graph as a module. ``main`` takes the arrays of ``arguments`` in order; ``results`` are
    those of the graph. Constants are the memory of their tensors. Further arguments are random
    numbers, which ``draws`` draw from PyTorch's generator for the arrays of each call. Symbolic
    sizes of the graph that have to be ``equal`` to others are these in the module."""

    module: Module
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    draws: tuple[Callable[[Sequence[Any]], torch.Tensor], ...] = ()
    equal: Mapping[str, IntExpr] = field(default_factory=dict[str, IntExpr])

    def holds(self, values: Mapping[str, int]) -> bool:
        """True if the module is for these values of the graph's symbolic sizes."""
        return all(evaluate(e, values) == values[n] for n, e in self.equal.items()) and all(
            required.holds(values)
            for required in self.module.main.requirements
            if values.keys() >= {*required.names}
        )
