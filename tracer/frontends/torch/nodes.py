"""Nodes of FX graphs: their tensors, the views among them, and their places in the source."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from ....ir.dims import typical
from ....ir.span import Span
from .tensors import NUMPY_DTYPES, size_of, storage_order


def key_of(target: Any) -> str:
    """Returns the name of an overload as rows have it."""
    return str(target).removeprefix("aten.")


_VIEWS = frozenset(
    f"{name}.default"
    for name in ("alias", "detach", "expand", "permute", "squeeze", "t", "unsqueeze", "view")
) | {"select.int", "slice.Tensor", "squeeze.dim", "squeeze.dims", "transpose.int"}
"""Operators whose result is the memory of their operand."""


def is_view(node: fx.Node) -> bool:
    """True for nodes whose result is the memory of their first operand."""
    return node.op == "call_function" and key_of(node.target) in _VIEWS


def views_of(node: fx.Node) -> list[fx.Node]:
    """Returns a node and those that it is a view of, the innermost view first."""
    nodes = [node]
    while is_view(nodes[-1]):
        nodes.append(nodes[-1].args[0])  # type: ignore[arg-type]
    return nodes


def base_of(node: fx.Node, visible: int | None) -> fx.Node | None:
    """Returns the node whose memory the result ``node`` has a part of, if who gets both can tell:
    a placeholder, for symbolic sizes, or what several of the first ``visible`` results are of."""
    if not isinstance(node.meta.get("val"), torch.Tensor):
        return None
    (memory,), base, up = _memories(node), node, [node]
    while up:
        base = up[0] if isinstance(up[0].meta["val"], torch.Tensor) else base
        up = [of for of in up[0].all_input_nodes if memory in _memories(of)]
    if base is node or base.meta["val"].dtype != node.meta["val"].dtype:
        return None
    if base.op == "placeholder":
        return base if is_symbolic(node.meta["val"]) else None
    output = next(iter(reversed(node.graph.nodes)))
    results = {n for n in output.args[0][:visible] if isinstance(n, fx.Node)}  # type: ignore[index]
    shared = sum(memory in _memories(n) for n in results) > 1
    return base if shared and storage_order_of(base.meta["val"]) is not None else None


def _memories(node: fx.Node) -> list[int]:
    """Returns the identities of the storages in which a node's tensors were traced."""
    return [t.untyped_storage()._cdata for t in tensors_in(node.meta.get("val"))]


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors of a node's value."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)


def is_foreign(tensor: torch.Tensor) -> bool:
    """True for a tensor of a dtype or layout that the language does not have."""
    return tensor.dtype not in NUMPY_DTYPES or tensor.layout != torch.strided


def storage_order_of(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Returns ``storage_order``; that of symbolic sizes is the order at the values that they had
    when PyTorch traced them, else at their typical ones."""
    shape, strides = ([_example(s) for s in of] for of in (tensor.shape, tensor.stride()))
    return storage_order(shape, strides)


def _example(size: int | torch.SymInt) -> int:
    if isinstance(size, torch.SymInt) and size.node.has_hint():
        return size.node.hint
    return typical(size_of(size))


def laid_out(tensor: torch.Tensor, traced: torch.Tensor) -> torch.Tensor:
    """Returns ``tensor`` with its elements in memory in the order of those of ``traced``."""
    order = storage_order_of(traced)
    if order is None:
        if is_symbolic(traced) or tensor.stride() == traced.stride():
            return tensor
        shape, stride = traced.shape, traced.stride()
        return torch.empty_strided(shape, stride, dtype=tensor.dtype).copy_(tensor)
    stored = tensor.permute(order)
    if stored.is_contiguous():
        return tensor
    return stored.contiguous().permute([order.index(axis) for axis in range(len(order))])


def is_symbolic(tensor: torch.Tensor) -> bool:
    """True for a tensor with symbolic sizes or strides."""
    return any(isinstance(s, torch.SymInt) for s in (*tensor.shape, *tensor.stride()))


def place_of(node: fx.Node) -> str:
    """Returns the name of a node and the user's line, if that is known."""
    span = span_of(node)
    return f"node {node.name}" + ("" if span.line < 0 else f", {span}")


_TORCH = os.path.dirname(torch.__file__)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


def span_of(node: fx.Node) -> Span:
    """Returns the user's line that a node was traced from; its name alone if that is not known."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    if not frames:
        return Span(f"node {node.name}", -1)
    users = [frame for frame in frames if not frame["file"].startswith(_TORCH)]
    inner = (users or frames)[-1]
    return Span(inner["file"], int(inner["line"]), function=inner["function"])
