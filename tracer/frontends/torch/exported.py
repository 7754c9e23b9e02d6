"""``torch.export``: a module and its example arguments become a graph with weights as constants."""

from __future__ import annotations

import functools
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export._remove_effect_tokens_pass import _remove_effect_tokens
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from ....ir.dataclass import dataclass
from ....ir.errors import LoopwrightTypeError, UnsupportedError
from .decompositions import decompositions
from .imported import Computed, Imported, Passed, Result
from .importer import import_graph, refuse_unsupported
from .tensors import array_of, in_order, plain_array, tensor_of

_TORCH = str(Path(torch.__file__).parent)
"""The folder of PyTorch's own code."""


@dataclass(frozen=True, eq=False)
class Exported:
    """A program of ``torch.export``, and how the arguments and results of its calls are laid out.

    ``inputs`` are weights and examples of arguments by placeholder, and ``constants`` the names of
    weights. ``arguments`` is the structure of (args, kwargs), and ``places`` are the placeholders
    of its leaves.
    """

    program: ExportedProgram
    name: str
    inputs: tuple[Any, ...]
    constants: Mapping[int, str]
    arguments: pytree.TreeSpec
    result: pytree.TreeSpec
    places: tuple[int, ...]

    @functools.cached_property
    def imported(self) -> Imported:
        """The program as a module whose weights are constants in the memory of the tensors.

        Raises UnsupportedError that lists what the program needs and is not there.
        """
        return import_graph(self.program.graph_module, self.inputs, self.constants, self.name)

    def takes(self, keyword: str) -> bool:
        """True if calls have an argument of that name."""
        return keyword in self.arguments.child(1).context

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """Returns a call with these arguments; see ``leaves``."""
        return Call(self, self.leaves(args, kwargs))

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[int, Any]:
        """Returns the arguments of a call by placeholder.

        Raises LoopwrightTypeError for arguments of another structure.
        """
        names = self.arguments.child(1).context
        if set(names) == set(kwargs):
            kwargs = {name: kwargs[name] for name in names}
        leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
        if structure != self.arguments:
            raise LoopwrightTypeError(
                "the model was exported for arguments of another structure: "
                f"{self.arguments}, not {structure}"
            )
        return dict(zip(self.places, leaves, strict=True))


class Call:
    """One call: its leaves by placeholder, and the arrays that ``main`` takes.

    ``tensors`` says whether results are tensors, as the arguments are.
    """

    def __init__(self, exported: Exported, leaves: Mapping[int, Any]) -> None:
        self.exported = exported
        self.leaves = leaves
        wanted = [leaves[a.position] for a in exported.imported.arguments]
        self.tensors = not wanted or any(isinstance(leaf, torch.Tensor) for leaf in wanted)
        self.arrays = list[Any]()
        for leaf, argument in zip(wanted, exported.imported.arguments):
            if argument.memory is not None:
                argument.check(leaf if isinstance(leaf, torch.Tensor) else tensor_of(leaf))
            if isinstance(leaf, int):
                leaf = argument.rows(leaf)
            array = array_of(leaf) if isinstance(leaf, torch.Tensor) else leaf
            self.arrays.append(in_order(array, argument.order))
        self.arrays += [array_of(draw(self.arrays)) for draw in exported.imported.draws]

    def output(self, arrays: Sequence[Any]) -> Any:
        """Returns the result of the module, given those of ``main``."""
        leaves = [self._leaf(result, arrays) for result in self.exported.imported.results]
        return pytree.tree_unflatten(leaves, self.exported.result)

    def _leaf(self, result: Result, arrays: Sequence[Any]) -> Any:
        if isinstance(result, Passed):
            leaf = self.leaves[result.position]
            if not result.views or isinstance(leaf, torch.Tensor):
                return result.of(leaf)
            return plain_array(result.of(tensor_of(leaf)))
        if isinstance(result, Computed):
            value = result.of(tensor_of(arrays[result.number]))
            return value if self.tensors or result.is_size else plain_array(value)
        value = result.value
        if isinstance(value, torch.Tensor):
            return value.clone() if self.tensors else plain_array(value).copy()
        return value


def export(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, name: str
) -> Exported:
    """Returns a ``torch.nn.Module``, or a program exported before, as a graph of core ATen.

    Raises UnsupportedError for a module that writes its buffers when it is called.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch, about its own code
        program = _exported(model, args, kwargs)
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
            refuse_unsupported(program.graph_module, name)
            raise UnsupportedError(f"{name} holds {target}, which is not a tensor")
        constants[position] = target
        inputs.append(tensor)
    structure, result = program.call_spec.in_spec, program.call_spec.out_spec
    assert structure is not None and result is not None
    return Exported(program, name, tuple(inputs), constants, structure, result, tuple(user))


def _as_tensor(leaf: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(leaf)) if isinstance(leaf, np.ndarray) else leaf


_WRITES = (
    OutputKind.BUFFER_MUTATION,
    OutputKind.PARAMETER_MUTATION,
    OutputKind.USER_INPUT_MUTATION,
)


def _refuse_writes(signature: Any, name: str) -> None:
    written = [
        spec.target or spec.arg.name for spec in signature.output_specs if spec.kind in _WRITES
    ]
    if written:
        raise UnsupportedError(
            f"{name} writes {', '.join(written)} when it is called",
            hint='model.eval(), or torch.compile(model, backend="loopwright")',
        )


def _exported(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> ExportedProgram:
    """Returns the program of a module, or one that was exported before, in core ATen."""
    program = model
    if not isinstance(model, ExportedProgram):
        if not isinstance(model, torch.nn.Module):
            raise LoopwrightTypeError(
                f"lw.from_torch takes a torch.nn.Module or an ExportedProgram, not {model!r}"
            )
        tensors = pytree.tree_map(_as_tensor, (tuple(args), dict(kwargs or {})))
        try:
            with torch.no_grad():
                program = torch.export.export(model, tensors[0], tensors[1], strict=False)
        except GuardOnDataDependentSymNode as error:
            frames = traceback.extract_tb(error.__traceback__)
            line = next(f for f in reversed(frames) if not f.filename.startswith(_TORCH))
            raise UnsupportedError(
                f"{type(model).__name__} branches on the values of a tensor",
                notes=(f"{line.filename}:{line.lineno}, in {line.name}: {line.line}",),
                hint='torch.cond, torch.where, or torch.compile(model, backend="loopwright")',
            ) from None
    # Effects stay in the order of the nodes, without the tokens that tie them together.
    return _remove_effect_tokens(program.run_decompositions(decompositions()))
