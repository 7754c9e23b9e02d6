"""``torch.export``: a module and its example arguments become a graph with weights as constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from ....ir.errors import LoopwrightTypeError, UnsupportedError
from .decompositions import decompositions
from .importer import Computed, Imported, Passed, import_graph
from .tensors import tensor_of

__all__ = ["Exported", "export"]


@dataclass(frozen=True, slots=True, eq=False)
class Exported:
    """A program without its weights: how arguments and results are laid out."""

    imported: Imported
    arguments: pytree.TreeSpec
    result: pytree.TreeSpec
    places: tuple[int | None, ...]
    names: tuple[str, ...]

    def arrays(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[list[Any], bool]:
        """Returns the arrays of ``main`` for a call, and whether they came from tensors.

        Raises LoopwrightTypeError for arguments of another structure.
        """
        leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
        if structure != self.arguments:
            leaves = self._reordered(args, kwargs)
        given = {p: leaf for p, leaf in zip(self.places, leaves, strict=True) if p is not None}
        wanted = [given[a.position] for a in self.imported.arguments]
        tensors = any(isinstance(leaf, torch.Tensor) for leaf in leaves)
        arrays = []
        for leaf, argument in zip(wanted, self.imported.arguments):
            array = leaf.detach().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf)
            ordered = argument.order != tuple(range(len(argument.order)))
            arrays.append(array.transpose(argument.order) if ordered else array)
        return arrays, tensors

    def _reordered(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Returns the leaves of a call whose keywords stand in another order."""
        spec = self.arguments.child(1)
        names = list(spec.context)
        if set(names) != set(kwargs):
            raise LoopwrightTypeError(
                f"the model was exported for the keywords {names}, not {sorted(kwargs)}"
            )
        leaves, structure = pytree.tree_flatten((tuple(args), {n: kwargs[n] for n in names}))
        if structure != self.arguments:
            raise LoopwrightTypeError("the model was exported for other arguments")
        return leaves

    def output(self, arrays: Sequence[Any], leaves: Sequence[Any], tensors: bool) -> Any:
        """Returns the result of the module, given those of ``main``."""
        results: list[Any] = []
        for result in self.imported.results:
            if isinstance(result, Computed):
                array = arrays[result.number]
                if result.order != tuple(range(len(result.order))):
                    array = array.transpose(np.argsort(result.order))
                results.append(tensor_of(array) if tensors else array)
            elif isinstance(result, Passed):
                results.append(leaves[result.position])
            else:
                value = result.value
                fixed = isinstance(value, torch.Tensor) and not tensors
                results.append(value.numpy() if fixed else value)
        return pytree.tree_unflatten(results, self.result)


def export(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, name: str
) -> Exported:
    """Returns a ``torch.nn.Module``, or a program exported before, as a graph of core ATen.

    Its parameters and buffers become constants in the memory of the tensors. Raises
    UnsupportedError that lists what the graph needs and is not there, and for a module that writes
    its buffers when it is called.
    """
    program = model
    if not isinstance(model, ExportedProgram):
        if not isinstance(model, torch.nn.Module):
            raise LoopwrightTypeError(
                f"lw.from_torch takes a torch.nn.Module or an ExportedProgram, not {model!r}"
            )
        tensors = pytree.tree_map(_as_tensor, (tuple(args), dict(kwargs or {})))
        with torch.no_grad():
            program = torch.export.export(model, tensors[0], tensors[1], strict=False)
    program = program.run_decompositions(decompositions())
    signature = program.graph_signature
    _refuse_writes(signature, name)
    inputs: list[Any] = []
    constants: dict[int, str] = {}
    user: list[int] = []
    state = program.state_dict
    for position, (spec, node) in enumerate(
        zip(signature.input_specs, program.graph.find_nodes(op="placeholder"))
    ):
        if spec.kind is InputKind.USER_INPUT:
            user.append(position)
            inputs.append(node.meta.get("val"))
            continue
        target = spec.target or ""
        tensor = state.get(target, program.constants.get(target))
        if not isinstance(tensor, torch.Tensor):
            raise UnsupportedError(f"{name} holds {target}, which is not a tensor")
        constants[position] = target
        inputs.append(tensor)
    graph = program.graph_module
    imported = import_graph(graph, inputs, constants, name)
    structure, result = program.call_spec.in_spec, program.call_spec.out_spec
    assert structure is not None and result is not None
    return Exported(imported, structure, result, tuple(user), signature.user_outputs)


def _as_tensor(leaf: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(leaf)) if isinstance(leaf, np.ndarray) else leaf


def _refuse_writes(signature: Any, name: str) -> None:
    written = [
        spec.target or spec.arg.name
        for spec in signature.output_specs
        if spec.kind is not OutputKind.USER_OUTPUT
    ]
    if written:
        raise UnsupportedError(
            f"{name} writes {', '.join(written)} when it is called",
            hint='model.eval(), or torch.compile(model, backend="loopwright")',
        )
