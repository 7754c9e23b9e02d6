"""Imports an FX graph of ATen operators: walks its nodes on a trace and gives a module.

::

    placeholder      an argument of the module's ``main``; or a constant, if its tensor is given
    get_attr         a constant
    call_function    the converter of the overload's row, or a Python function of sizes
    output           the results of ``main``: see ``Result``

Sizes are those of the inputs at hand. Those of ``torch.export``, and of a graph that Dynamo has
made for all sizes, are symbolic: sizes that operators need equal become one, and what else the
graph needs of them is a requirement of ``main``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import fx
from torch._higher_order_ops.effects import with_effects
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from ....ir.dims import (
    Dim,
    IntExpr,
    evaluate,
    size_symbols,
    substitute,
    typical,
)
from ....ir.dtype import BOOL, INT64, dtype_of
from ....ir.errors import InternalError, LoopwrightError, UnsupportedError
from ....ir.graph.nodes import Atom, Constant, Module, tensor_type
from ....ir.graph.passes.eliminate_dead_code import eliminate_dead_code
from ....ir.graph.requirements import collecting, solved_for
from ....ir.graph.types import TensorType
from ...core.captured_values import Borrowed
from ...core.emitting import lift
from ...core.error_context import locate
from ...core.proxy import Proxy
from ...core.runtime_checks import raise_failed
from ...core.symbolic_sizes import check_data_sizes, data_sizes_of
from ...core.trace import Trace, tracing
from . import rows as rows  # fills the table
from .control import HIGHER_ORDER
from .imported import Aliased, Argument, Computed, Fixed, Imported, Passed, Result
from .nodes import (
    base_of,
    is_foreign,
    is_symbolic,
    key_of,
    place_of,
    span_of,
    storage_order_of,
    tensors_in,
    views_of,
)
from .size_functions import OF_SIZES, SIZE_FUNCTIONS, SYMBOLIC, has_sizes, lifted
from .table import ROWS, Fill, Stored, Value, arguments
from .tensors import NUMPY_DTYPES, array_of, size_of, tensor_of


def import_graph(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    constants: Mapping[int, str] | None = None,
    name: str = "graph",
    visible: int | None = None,
    refused: list[fx.Node] | None = None,
    sizes: Mapping[str, int] | None = None,
    aliases: bool = False,
) -> Imported:
    """Returns ``graph`` as a module for ``inputs``: tensors, numbers or None by placeholder.

    ``constants`` are the positions of tensors whose values of this moment become constants, with
    their names. Results after the first ``visible`` need not have PyTorch's strides. ``sizes`` are
    values of symbolic sizes, by which comparisons are decided that their ranges leave open. Raises
    UnsupportedError that lists everything that the table does not have; another error has its
    node appended to ``refused``. With ``aliases`` views of arguments and of other results share
    their memory.
    """
    refuse_unsupported(graph, name)
    equal: dict[str, IntExpr] = {}
    while True:
        importer = _Importer(graph, inputs, constants or {}, name)
        importer.visible, importer.equal, importer.aliases = visible, equal, aliases
        importer.trace.sizes.update(sizes or {})
        try:
            imported = importer.imported()
        except LoopwrightError:
            if refused is not None and importer.node is not None:
                refused.append(importer.node)
            raise
        solved = solved_for(imported.module.main.requirements)
        if not solved:
            return imported
        equal = {n: substitute(e, solved) for n, e in equal.items()} | solved


def refuse_unsupported(graph: fx.GraphModule, name: str) -> None:
    """Raises UnsupportedError with all operators and dtypes of ``graph`` that are not supported."""
    problems = list(unsupported(graph))
    if problems:
        listed = dict.fromkeys(f"{what} ({place_of(node)})" for node, what in problems)
        raise UnsupportedError(f"{name} needs what is not supported: {', '.join(listed)}")


def unsupported(graph: fx.GraphModule) -> Iterator[tuple[fx.Node, str]]:
    """Yields the nodes that cannot be imported, each with the reason."""
    for node in graph.graph.nodes:
        if node.op in ("call_module", "call_method"):
            yield node, f"{node.op} {node.target}"
        elif node.op == "get_attr":
            value = _attribute(graph, str(node.target))
            if isinstance(value, fx.GraphModule):
                yield from unsupported(value)
        elif node.op == "call_function" and _function_of(node) is None:
            yield node, str(node.target)
        for value in tensors_in(node.meta.get("val")):
            if is_foreign(value):
                yield node, str(value.dtype if value.layout == torch.strided else value.layout)


def _attribute(graph: fx.GraphModule, path: str) -> Any:
    value: Any = graph
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _target(node: fx.Node) -> Any:
    """Returns the operator of a node; that of one ``with_effects`` is its second argument, and the
    first a token, which orders effects and stands before the results."""
    return node.args[1] if node.target is with_effects else node.target


def _function_of(node: fx.Node) -> Callable[..., Any] | None:
    """Returns what computes a node, None if nothing does."""
    target = _target(node)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return HIGHER_ORDER.get(target.name())
    if isinstance(target, torch._ops.OpOverload):
        row = ROWS.get(key_of(target))
        return row.function if row is not None else SIZE_FUNCTIONS.get(key_of(target))
    home = getattr(target, "__module__", "") or ""
    plain = home in ("_operator", "operator", "math", "builtins")
    return (
        target
        if plain or home.startswith("torch.fx.experimental.sym_node")
        else (SYMBOLIC.get(target))
    )


_CHANNELS_LAST = (0, 2, 3, 1)
"""The order of axes in which images are computed: what only the backward graph reads keeps it."""


class _InPlace(Borrowed):
    """Reads the memory of tensors in place, however large they are: who hands them over says that
    nobody writes to them."""

    def borrow(self, array: np.ndarray[Any, Any], _name: str, /) -> np.ndarray[Any, Any] | None:
        dense = array.flags.c_contiguous or array.flags.f_contiguous
        if not dense or array.flags.owndata:
            return None
        view = array.view()
        view.flags.writeable = False
        return view


class _Importer:
    """The walk over one graph."""

    def __init__(
        self, graph: fx.GraphModule, inputs: Sequence[Any], constants: Mapping[int, str], name: str
    ) -> None:
        self.graph = graph
        self.inputs = inputs
        self.constants = constants
        self.trace = Trace(name, borrowed=_InPlace())
        self.trace.names = {}
        self.values: dict[fx.Node, Any] = {}
        self.arguments: list[Argument] = []
        self.positions: dict[fx.Node, int] = {}
        self.results: list[Result] = []
        self.visible: int | None = None
        self.aliases = False
        self.equal: Mapping[str, IntExpr] = {}
        self.draws: list[Callable[[Sequence[Any]], torch.Tensor]] = []
        self.atoms: list[Atom] = []
        self.read_by_memory = memory_reads(graph)
        self.node: fx.Node | None = None

    def imported(self) -> Imported:
        trace = self.trace
        with np.errstate(all="ignore"), tracing(trace), collecting() as required:
            for node in self.graph.graph.nodes:
                self.node, trace.span = node, span_of(node)
                try:
                    self._step(node)
                except LoopwrightError as error:
                    locate(error, trace)
                    error.notes = (*error.notes, f"node {node.name}: {node.target}")
                    raise
            trace.span = None
            if not isinstance(trace.memory.failure.atom, Constant):
                raise_failed(trace)
        check_data_sizes(trace, required)
        atoms = self.atoms
        sizes = data_sizes_of(trace, map(tensor_type, atoms))
        atoms += [trace.data_sizes[name] for name in sizes]
        result = atoms[0] if len(atoms) == 1 else trace.builder.make_tuple(atoms)
        attrs = {"sizes": tuple(sizes)} if sizes else {}
        main = trace.builder.function(result, attrs=attrs, requirements=required)
        module = eliminate_dead_code(Module({"main": main}))
        arguments, results = tuple(self.arguments), tuple(self.results)
        return Imported(module, arguments, results, tuple(self.draws), self.equal)

    def _step(self, node: fx.Node) -> None:
        if node.op == "placeholder":
            position = self.positions[node] = len(self.positions)
            self.values[node] = self._input(node, position)
        elif node.op == "get_attr":
            self.values[node] = self._value_of(self.graph, str(node.target))
        elif node.op == "output":
            for value in node.args[0]:  # pyright: ignore
                self.results.append(self._result(value))
        else:
            self.values[node] = self._call(node)

    def _input(self, node: fx.Node, position: int) -> Any:
        value = self.inputs[position]
        if isinstance(value, torch.SymInt):
            return self._size(substitute(size_of(value), self.equal), node, position)
        if not isinstance(value, torch.Tensor):
            return value
        if position in self.constants:
            return self._constant(value, self.constants[position])
        shape = tuple(substitute(size_of(s), self.equal) for s in value.shape)
        for size in size_symbols(*shape).values():
            self.trace.sizes.setdefault(size.name, typical(size.expr))
        order = storage_order_of(value) or tuple(range(len(shape)))
        dtype = NUMPY_DTYPES[value.dtype]
        stored = tuple(shape[a] for a in order)
        memory = None
        if node in self.read_by_memory:
            offset = value.storage_offset() if self.read_by_memory[node] else None
            memory = value.stride(), offset
        name = re.sub(r"\W", "_", node.name)
        var = self.trace.param(name, TensorType(stored, dtype_of(dtype)), name)
        self.arguments.append(Argument(position, shape, dtype, order, memory))
        return _in_axes(Proxy(var, self.trace), order)

    def _size(self, size: IntExpr, node: fx.Node, position: int) -> IntExpr:
        """Returns an integer among the inputs. If no tensor's shape says what it is, an array of
        that many rows without elements is an argument."""
        shapes = (i.shape for i in self.inputs if isinstance(i, torch.Tensor))
        stated = {substitute(size_of(s), self.equal) for shape in shapes for s in shape}
        if any(symbol.expr not in stated for symbol in size_symbols(size).values()):
            name = re.sub(r"\W", "_", node.name)
            self.trace.param(name, TensorType((size, 0), BOOL), name)
            self.arguments.append(Argument(position, (size, 0), BOOL.numpy, (0, 1)))
        return size

    def _draw(self, shape: Sequence[int], dtype: torch.dtype, fill: Fill) -> Value:
        """Returns an argument that ``fill`` fills with random numbers for each call."""
        name, sizes = f"random_{len(self.draws)}", tuple(shape)
        kind = TensorType(sizes, dtype_of(NUMPY_DTYPES[dtype]))
        places = self._places_of(sizes)

        def draw(arrays: Sequence[Any]) -> torch.Tensor:
            values = {symbol: arrays[a].shape[axis] for symbol, (a, axis) in places.items()}
            return fill(torch.empty([evaluate(size, values) for size in sizes], dtype=dtype))

        self.draws.append(draw)
        return Proxy(self.trace.param(name, kind, name), self.trace)

    def _places_of(self, sizes: Sequence[IntExpr]) -> dict[str, tuple[int, int]]:
        """Returns the argument and the axis of its array that have each of the symbolic sizes."""
        places: dict[str, tuple[int, int]] = {}
        for name, symbol in size_symbols(*sizes).items():
            for number, argument in enumerate(self.arguments):
                stored = [argument.shape[axis] for axis in argument.order]
                if symbol.expr in stored:
                    places[name] = number, stored.index(symbol.expr)
            if name not in places:
                raise UnsupportedError(f"random numbers of the size {name}, which no argument has")
        return places

    def _constant(self, tensor: torch.Tensor, name: str) -> Value:
        array = array_of(tensor)
        self.trace.name_array(array, re.sub(r"\W", "_", name))
        return array

    def _value_of(self, graph: fx.GraphModule, path: str) -> Any:
        """Returns an attribute of a graph: a constant, or a graph as a function."""
        value = _attribute(graph, path)
        if isinstance(value, fx.GraphModule):
            return functools.partial(self._body, value)
        return self._constant(value, path) if isinstance(value, torch.Tensor) else value

    def _body(self, graph: fx.GraphModule, *inputs: Any) -> list[Any]:
        """Walks through the graph of a branch or a loop's body; returns its results."""
        outer, rest = self.trace.span, iter(inputs)
        results: list[Any] = []
        for node in graph.graph.nodes:
            self.trace.span = span_of(node)
            if node.op == "placeholder":
                self.values[node] = next(rest)
            elif node.op == "get_attr":
                self.values[node] = self._value_of(graph, str(node.target))
            elif node.op == "output":
                (given,) = fx.map_arg(node.args, self._value)
                results = list(given) if isinstance(given, list | tuple) else [given]
            else:
                self.values[node] = self._call(node)
        self.trace.span = outer
        return results

    def _call(self, node: fx.Node) -> Any:
        function = _function_of(node)
        assert function is not None
        args = fx.map_arg(node.args, self._value)
        kwargs = fx.map_arg(node.kwargs, self._value)
        target, row = _target(node), None
        if isinstance(target, torch._ops.OpOverload):
            row = ROWS.get(key_of(target))
        if target is not node.target:
            assert row is not None
            given = arguments(row, target, args[2:], kwargs)  # pyright: ignore
            return args[0], row.function(*given[0], **given[1])  # pyright: ignore
        if row is not None and row.promote:
            dtype = _computing_dtype(row.promote, node)
            args = fx.node.map_aggregate(args, lambda v: _cast(v, dtype))  # type: ignore[arg-type]
        if row is None and any(isinstance(arg, Dim) for arg in args):
            function = OF_SIZES.get(target, function)
        elif row is not None and has_sizes(args):
            args = lifted(target, args)
        if row is None:
            return function(*args, **kwargs)  # pyright: ignore
        args, kwargs = arguments(row, target, args, kwargs)  # pyright: ignore
        if row.draws:
            args = (self._draw, *args)
        elif row.memory:
            args = (self._memory(node.args[0]), *args)  # pyright: ignore
        return _as_declared(row.function(*args, **kwargs), node.meta.get("val"), node)

    def _memory(self, node: fx.Node) -> list[Stored]:
        """Returns the tensor of a node and those that it is a view of."""
        nodes, moved = views_of(node), 0
        if (base := nodes[-1]).op == "placeholder":
            if base not in self.positions:
                raise UnsupportedError(
                    "the memory of an operand of a branch or a loop is not known"
                )
            at_hand = self.inputs[self.positions[base]]
            moved = at_hand.storage_offset() - base.meta["val"].storage_offset()
        tensors = [(self.values[n], n.meta["val"]) for n in nodes]
        return [
            Stored(v, tuple(t.shape), tuple(t.stride()), t.storage_offset() + moved)
            for v, t in tensors
        ]

    def _value(self, node: fx.Node) -> Any:
        return self.values[node]

    def _result(self, node: Any) -> Result:
        if not isinstance(node, fx.Node):
            return Fixed(node)
        passed = self._passed(node)
        if passed is not None:
            return passed
        seen = self.aliases and (self.visible is None or len(self.results) < self.visible)
        base = base_of(node, self.visible) if seen else None
        aliased = None if base is None else self._aliased(node, base)
        if aliased is not None:
            return aliased
        value = self.values[node]
        if not isinstance(value, Proxy) and isinstance(value, np.ndarray | np.generic):
            return Fixed(tensor_of(np.array(value)))
        is_size = isinstance(value, Dim)
        value = lift(value, INT64) if is_size else value
        if not isinstance(value, Proxy):
            return Fixed(value)
        order = tuple(range(value.ndim))
        made = node.meta.get("val")
        if self.visible is not None and len(self.results) >= self.visible and value.ndim == 4:
            made, order = None, _CHANNELS_LAST
        if isinstance(made, torch.Tensor):
            order = storage_order_of(made) or order
        axes = None
        if order != tuple(range(value.ndim)):
            value, axes = np.transpose(value, order), tuple(np.argsort(order).tolist())
        atom = lift(value).atom
        if atom not in self.atoms:
            self.atoms.append(atom)
        return Computed(self.atoms.index(atom), axes, is_size)

    def _aliased(self, node: fx.Node, base: fx.Node) -> Aliased | None:
        """Returns the result that is a view of ``base``; None if that is a constant."""
        view, whole = node.meta["val"], base.meta["val"]
        result = Passed(self.positions[base]) if base in self.positions else self._result(base)
        if not isinstance(result, Computed | Passed):
            return None
        shape, strides = (
            tuple(substitute(size_of(s), self.equal) for s in each)
            for each in (view.shape, view.stride())
        )
        offsets = (size_of(t.storage_offset()) for t in (view, whole))
        offset, start = (substitute(o, self.equal) for o in offsets)
        traced = [n.meta.get("val") for n in self.positions]
        stated = [size_of(t) for t in traced if isinstance(t, torch.SymInt)]
        stated += [size_of(s) for t in tensors_in(traced) for s in t.shape]
        read = size_symbols(*shape, *strides, offset, start)
        if not read.keys() <= size_symbols(*stated).keys():
            raise UnsupportedError("where a view lies in memory depends on more than sizes")
        return Aliased(result, shape, strides, offset - start)

    def _passed(self, node: fx.Node) -> Passed | None:
        """Returns the result that a node is if it is a placeholder, or only a view of one."""
        *views, base = views_of(node)
        if base.op != "placeholder":
            return None
        if any(len(view.all_input_nodes) > 1 for view in views):
            return None  # by sizes of other tensors
        if any(is_symbolic(each.meta["val"]) for each in (*views, *([base] if views else ()))):
            return None
        return Passed(self.positions[base], tuple(map(_replayed, reversed(views))))


def _replayed(view: fx.Node) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns what a view makes of any tensor of its operand's shape, however that lies in memory:
    strides at hand are none of those of the tensors that a program was exported for."""
    target: Any = view.target
    if key_of(target) == "view.default":
        target = torch.ops.aten.reshape.default
    return lambda tensor: target(tensor, *view.args[1:], **view.kwargs)


def memory_reads(graph: fx.GraphModule) -> dict[fx.Node, bool]:
    """Returns the placeholders whose elements nodes read by their places in memory; True for those
    of which a node counts from the start of their storage."""
    reads: dict[fx.Node, bool] = {}
    for node in graph.graph.nodes:
        row = ROWS.get(key_of(node.target)) if node.op == "call_function" else None
        if row is not None and row.memory:
            base = views_of(node.args[0])[-1]
            if base.op == "placeholder":
                names = (argument.name for argument in node.target._schema.arguments)
                given = dict(zip(names, node.args)) | node.kwargs
                absolute = given.get("storage_offset") is not None
                reads[base] = reads.get(base, False) or absolute
    return reads


def _in_axes(stored: Proxy, order: tuple[int, ...]) -> Value:
    """Returns the tensor whose axes in the order ``order`` are those of ``stored``."""
    if order == tuple(range(len(order))):
        return stored
    return np.transpose(stored, np.argsort(order))  # pyright: ignore


def _computing_dtype(promote: str, node: fx.Node) -> np.dtype[Any]:
    if promote == "result":
        return NUMPY_DTYPES[next(tensors_in(node.meta["val"])).dtype]
    operands = fx.map_arg(node.args, lambda n: n.meta["val"])
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.NO_OPMATH
    return NUMPY_DTYPES[elementwise_dtypes(*operands, type_promotion_kind=kind)[0]]  # pyright: ignore


def _cast(value: Any, dtype: np.dtype[Any]) -> Any:
    is_tensor = isinstance(value, np.ndarray | np.generic)
    return value.astype(dtype) if is_tensor and value.dtype != dtype else value


def _as_declared(result: Any, declared: Any, node: fx.Node) -> Any:
    """Returns the result of a converter with PyTorch's dtypes; numbers become arrays.

    Raises InternalError if a shape is not PyTorch's.
    """
    if isinstance(declared, list | tuple):
        if len(result) != len(declared):
            raise InternalError(f"{node.target} has {len(declared)} results, not {len(result)}")
        return [_as_declared(r, d, node) for r, d in zip(result, declared)]
    if not isinstance(declared, torch.Tensor):
        return result
    dtype = NUMPY_DTYPES[declared.dtype]
    if not isinstance(result, Proxy):
        result = np.asarray(result)
    if result.dtype != dtype:
        result = result.astype(dtype)
    expected = tuple(declared.shape)
    if not is_symbolic(declared) and tuple(result.shape) != expected:
        raise InternalError(f"{node.target} has the shape {expected}, not {tuple(result.shape)}")
    return result
