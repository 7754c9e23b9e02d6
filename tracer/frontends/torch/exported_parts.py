"""Exported programs that hold what is not supported, compiled in parts around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch._export.utils import _check_input_constraints_for_graph  # pyright: ignore
from torch.utils import _pytree as pytree

from ....ir.errors import LoopwrightTypeError, UnsupportedError
from .dynamo import GraphFunction, Make
from .exported import Exported
from .importer import unsupported
from .tensors import plain_array, tensor_of


class ExportedParts:
    """A program as a function of its arguments: PyTorch runs what ``error`` refuses."""

    def __init__(self, exported: Exported, make: Make, error: UnsupportedError) -> None:
        self.exported = exported
        graph, weights = exported.program.graph_module, frozenset(exported.constants)
        placeholders = graph.graph.find_nodes(op="placeholder")
        self.placeholders = [placeholders[place] for place in exported.places]
        example = pytree.tree_unflatten(list(exported.places), exported.arguments)
        self.paths = [path for path, _ in pytree.tree_flatten_with_path(example)[0]]
        examples = [node.meta.get("val") for node in placeholders]
        function = GraphFunction(graph, examples, exported.name, make, weights, True)
        self.run: Any = function
        if list(unsupported(graph)):
            self.run = function.in_parts(error)

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Returns tensors for tensors, and arrays for arrays.

        Raises LoopwrightTypeError for arguments unlike those that the program was exported for.
        """
        leaves = self.exported.leaves(args, kwargs)
        arrays = any(isinstance(leaf, np.ndarray | np.generic) for leaf in leaves.values())
        inputs = list(self.exported.inputs)
        for place, leaf in leaves.items():
            is_array = isinstance(leaf, np.ndarray | np.generic)
            inputs[place] = tensor_of(np.asarray(leaf)) if is_array else leaf
        self._check([inputs[place] for place in leaves])
        with torch.no_grad():
            results = self.run(inputs)
        if arrays:
            results = [plain_array(r) if isinstance(r, torch.Tensor) else r for r in results]
        return pytree.tree_unflatten(results, self.exported.result)

    def _check(self, given: Sequence[Any]) -> None:
        """Raises LoopwrightTypeError for arguments unlike those of the program."""
        ranges = self.exported.program.range_constraints
        named = list(zip(self.paths, given))
        try:
            _check_input_constraints_for_graph(self.placeholders, named, ranges)
        except RuntimeError as error:
            raise LoopwrightTypeError(str(error)) from None
        for node, value in zip(self.placeholders, given):
            traced = node.meta.get("val")
            if isinstance(traced, torch.Tensor) and traced.dtype != value.dtype:
                raise LoopwrightTypeError(
                    f"argument {node.name} was exported as {traced.dtype}, and is {value.dtype}"
                )
