"""Places the tensors of samples in memory, and draws the optional arguments that they leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

Place = Callable[[torch.Tensor], torch.Tensor]


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the same tensor with its first axis the fastest."""
    axes = tuple(reversed(range(tensor.ndim)))
    return tensor.permute(axes).contiguous().permute(axes)


def sliced(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the same tensor as every second element of another, behind some that it skips."""
    if not tensor.ndim:
        return torch.stack([tensor, tensor])[1]
    wide = tensor.new_zeros((*tensor.shape[:-1], 2 * tensor.shape[-1] + 3))
    view = wide[..., 3::2]
    view.copy_(tensor)
    return view


def expanded(tensor: torch.Tensor) -> torch.Tensor:
    """Returns its first row in all places, which lies in memory once."""
    return tensor[:1].expand(tensor.shape) if tensor.ndim and tensor.shape[0] else tensor


def behind(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the same tensor, contiguous, behind some elements of its storage."""
    wide = tensor.new_zeros(tensor.numel() + 3)
    view = wide[3:].view(tensor.shape)
    view.copy_(tensor)
    return view


def first(tensor: torch.Tensor) -> torch.Tensor:
    """Returns one row of the tensor."""
    return tensor[:1] if tensor.ndim else tensor


def empty(tensor: torch.Tensor) -> torch.Tensor:
    """Returns no rows of the tensor."""
    return tensor[:0] if tensor.ndim else tensor


PLACEMENTS: dict[str, Place] = {
    "contiguous": torch.Tensor.contiguous,
    "transposed": transposed,
    "sliced": sliced,
    "behind": behind,
    "expanded": expanded,
    "first": first,
    "empty": empty,
}


def placed(sample: Any, place: Place) -> Any:
    """Returns a sample whose tensors are placed by ``place``."""

    def move(leaf: Any) -> Any:
        plain = isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided
        return place(leaf.detach()) if plain else leaf

    return pytree.tree_map(move, (sample.input, tuple(sample.args), dict(sample.kwargs)))


def with_options(op: Any, given: Any) -> Iterator[tuple[str, Any]]:
    """Yields arguments with one more of those that the schemas of ``op`` have, at another value
    than its default."""
    first, args, kwargs = given
    seen: set[str] = set()
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{op.name.split('.')[-1]}"):
        for place, each in enumerate(schema.arguments):
            decided = each.name in kwargs or each.name in seen or place <= len(args)
            if (
                decided
                or not each.has_default_value()
                or each.name in ("out", "device", "generator")
            ):
                continue
            values = list(_others(str(each.type), each.name, each.default_value))
            seen.update([each.name] if values else [])
            for value in values:
                yield f"{each.name}={value}", (first, args, {**kwargs, each.name: value})


DTYPES = (torch.float16, torch.float32, torch.float64, torch.int64, torch.int32, torch.bool)


def _others(kind: str, name: str, default: Any) -> Iterator[Any]:
    """Yields values of an argument besides its default."""
    if name == "dtype":
        yield from DTYPES
    elif kind == "bool":
        yield not default
    elif kind == "number" or (kind == "float" and default is not None):
        yield 2
    elif name in ("dim", "correction", "diagonal", "offset"):
        yield 0
    elif name == "approximate":
        yield "tanh"


def function_of(function: Callable[..., Any], given: Any, in_place: bool) -> tuple[Any, list[Any]]:
    """Returns a call as a function of its tensors that returns a list, and the tensors.

    A function that writes ``in_place`` is given a copy of the first of them.
    """
    leaves, structure = pytree.tree_flatten(given)
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def flat(*tensors: Any) -> list[Any]:
        tree = [dict(zip(places, tensors)).get(n, leaf) for n, leaf in enumerate(leaves)]
        first, args, kwargs = pytree.tree_unflatten(tree, structure)
        first = first.clone() if in_place else first
        result = function(first, *args, **kwargs)
        return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]

    return flat, [leaves[n] for n in places]


def with_writes(function: Any, tensors: list[Any]) -> Any:
    """Returns ``function``; if it writes to its tensors, one that writes to copies of them, which
    stand behind its results."""
    copies = [tensor.clone() for tensor in tensors]
    with suppress(Exception):  # the trial says so
        function(*copies)
    pairs = [pair for pair in zip(copies, tensors) if pair[0].layout == torch.strided]
    if not any(copy._version or not torch.equal(copy, tensor) for copy, tensor in pairs):
        return function

    def written(*tensors: Any) -> list[Any]:
        copies = [tensor.clone() for tensor in tensors]
        return [*function(*copies), *copies]

    return written


def written_after(op: Any, given: Any) -> tuple[Any, list[Any]]:
    """Returns a call whose results are written in place, as a function of its tensors that returns
    its results and those tensors: an element that they share in memory is written in both."""
    flat, tensors = function_of(op.op, given, False)

    def written(*copies: Any) -> list[Any]:
        copies = tuple(tensor.clone() for tensor in copies)
        results = flat(*copies)
        for result in results:
            result.logical_not_() if result.dtype is torch.bool else result.add_(1)
        return [*results, *copies]

    return written, tensors


def read_by_strides(op: Any, given: Any) -> tuple[Any, list[Any]]:
    """Returns a call that reads its results by their strides, and its tensors. While it is traced
    the strides are numbers: decompositions have to keep them."""
    flat, tensors = function_of(op.op, given, False)

    def read(*tensors: Any) -> list[Any]:
        return [r.as_strided(r.shape, r.stride()).clone() for r in flat(*tensors)]

    return read, tensors


@dataclass(frozen=True, slots=True)
class Trial:
    """A function of tensors and its arguments; ``example`` are those that it is imported for, which
    have the same values, if not these."""

    name: str
    function: Callable[..., Any]
    tensors: list[Any]
    example: list[Any] | None = None


def placed_trials(op: Any, dtype: torch.dtype, count: int) -> Iterator[Trial]:
    """Yields each sample in each placement, also imported for another one, with each optional
    argument, in place, and with its results written and read by their places in memory."""
    for n, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
        if n == count:
            return
        for name, place in PLACEMENTS.items():
            try:
                given = placed(sample, place)
            except Exception:
                continue  # a tensor that cannot lie so
            flat, tensors = function_of(op.op, given, False)
            yield Trial(f"sample {n} {name}", flat, tensors)
            if op.inplace_variant is not None:
                in_place = function_of(op.inplace_variant, given, True)
                yield Trial(f"sample {n} {name} in place", *in_place)
            if place in (transposed, sliced, behind):
                example = function_of(op.op, placed(sample, torch.Tensor.contiguous), False)[1]
                yield Trial(f"sample {n} {name} of another", flat, tensors, example)
        given = placed(sample, transposed)
        for name, more in with_options(op, given):
            yield Trial(f"sample {n} {name}", *function_of(op.op, more, False))
        for use in (written_after, read_by_strides):
            yield Trial(f"sample {n} {use.__name__}", *use(op, given))
