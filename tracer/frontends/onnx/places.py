"""Places in a model: each node is a line of a listing, to which spans point.

::

    /layer1/conv1/Conv: h = Conv(x, w, b)

So errors, dumps and profiles show a node as they show a line of Python.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Iterable

from onnx import FunctionProto, GraphProto, NodeProto

from ....ir.span import Span

_LONGEST_NAME = 80
_numbers = itertools.count(2)


def label(node: NodeProto) -> str:
    """Returns what messages call a node: its name, or that of its first output.

    >>> label(NodeProto(op_type="Relu", output=["y"]))
    'y'
    """
    text = node.name or next((name for name in node.output if name), "") or node.op_type
    return plain(text)


def plain(text: str) -> str:
    """Returns ``text`` on one line and not too long."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 3] + "..."


def _line(node: NodeProto) -> str:
    inputs = ", ".join(plain(name) or "_" for name in node.input)
    outputs = ", ".join(plain(name) for name in node.output if name)
    return f"{label(node)}: {outputs} = {node.op_type}({inputs})"


class Places:
    """The listing of a model's nodes, those of inner graphs and functions included."""

    def __init__(self, file: str, graph: GraphProto, functions: Iterable[FunctionProto]) -> None:
        self.file = file
        self._lines: list[str] = []
        self._spans: dict[int, Span] = {}
        self._nodes: list[NodeProto] = []  # kept alive: spans are found by identity
        self._add(graph.node)
        for function in functions:
            self._add(function.node)
        text = [line + "\n" for line in self._lines]
        # An entry without a time is never compared with a file.
        entry = (sum(map(len, text)), None, text, file)
        if linecache.cache.get(file, entry) != entry:  # another model's, whose spans are in use
            self.file = f"{file}#{next(_numbers)}"
        linecache.cache[self.file] = entry

    def _add(self, nodes: Iterable[NodeProto], depth: int = 0) -> None:
        for node in nodes:
            self._lines.append("  " * depth + _line(node))
            self._nodes.append(node)
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs) if depth < 50 else ():
                    self._add(graph.node, depth + 1)

    def span(self, node: NodeProto) -> Span | None:
        """Returns the place of a node; None if it is not in the model's file."""
        if not self._spans:
            for number, each in enumerate(self._nodes, 1):
                text = self._lines[number - 1]
                start = len(text) - len(text.lstrip())
                size = len(text.encode())
                self._spans[id(each)] = Span(self.file, number, start, number, size)
        return self._spans.get(id(node))
