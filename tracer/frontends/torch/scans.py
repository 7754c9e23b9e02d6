"""Rows of scans that are the same in all steps, before a joint graph is split.

The gradient of ``torch.scan`` keeps what its backward steps read as rows of the forward scan: the
weights, too, once for each step. Such rows are expanded from one value instead, which is the same
in reverse order; and the steps of a scan over them read the value.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

_EXPAND, _FLIP = torch.ops.aten.expand.default, torch.ops.aten.flip.default


def share_equal_rows(graph: fx.GraphModule) -> None:
    """Takes rows that depend neither on carried values nor on other rows out of all scans."""
    for scan in graph.graph.find_nodes(op="call_function", target=torch.ops.higher_order.scan):
        combine, init, xs, others = map(_listed, scan.args)
        body = getattr(graph, str(combine.target)).graph
        inputs = body.find_nodes(op="placeholder")
        for row, placeholder in zip(list(xs), inputs[len(init) :]):
            if row.target is _EXPAND and row.args[0].meta["val"].ndim < row.meta["val"].ndim:
                with body.inserting_after(body.find_nodes(op="placeholder")[-1]):
                    same = body.placeholder(f"{placeholder.name}_of_all")
                same.meta = placeholder.meta
                placeholder.replace_all_uses_with(same)
                body.erase_node(placeholder)
                xs.remove(row)
                others.append(row.args[0])
        scan.args = (combine, init, xs, others)
        _expand(graph.graph, scan, body)
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _listed(arg: Any) -> Any:
    return list(arg) if isinstance(arg, list | tuple) else arg


def _expand(graph: fx.Graph, scan: fx.Node, body: fx.Graph) -> None:
    """Expands the rows of a scan's results that are the same in all steps."""
    _, init, xs, others = scan.args
    carried: int = len(init)  # type: ignore[arg-type]
    inputs = body.find_nodes(op="placeholder")[carried + len(xs) :]  # type: ignore[arg-type]
    fixed: dict[fx.Node, Any] = dict(zip(inputs, others))  # type: ignore[arg-type]
    rows: Any = body.output_node().args[0]
    with graph.inserting_before(scan):
        for node in body.nodes:
            pure = node.op == "call_function" and not node.is_impure()
            if pure and node.all_input_nodes and all(n in fixed for n in node.all_input_nodes):
                fixed[node] = graph.node_copy(node, fixed.__getitem__)
        for use in list(scan.users):
            number: Any = use.args[1]
            if use.target is not operator.getitem or number < carried or rows[number] not in fixed:
                continue
            expanded = graph.call_function(
                _EXPAND, (fixed[rows[number]], list(use.meta["val"].shape))
            )
            expanded.meta = use.meta
            use.replace_all_uses_with(expanded)
            for reader in list(expanded.users):
                if reader.target is _FLIP and reader.args[1] == [0]:
                    reader.replace_all_uses_with(expanded)
