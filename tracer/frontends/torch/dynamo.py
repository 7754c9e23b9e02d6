"""The backend of ``torch.compile``: graphs of aot_autograd, compiled at their first call.

::

    torch.compile -> dynamo -> aot_autograd -> forward graph  -> GraphFunction
                                            -> backward graph -> GraphFunction
                                               inference      -> GraphFunction, weights as constants

aot_autograd makes graphs functional, partitions them by the least memory between forward and
backward, and copies new values into buffers that a graph writes. Code of a graph with symbolic
sizes is for all of them; there is one more where a comparison of sizes turns out differently, and
code for each size where no other can be made. A graph that holds what is not supported is compiled
in parts (``partitions``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch.fx.graph import _BoxedCodeGen  # pyright: ignore

from ....ir.dataclass import dataclass
from ....ir.dims import IntExpr, size_symbols
from ....ir.dtype import Array
from ....ir.errors import InternalError, LoopwrightError, UnsupportedError
from ....ir.graph.nodes import Module
from .decompositions import decompositions
from .imported import Aliased, Argument, Computed, Imported, Passed
from .importer import import_graph, memory_reads, refuse_unsupported
from .nodes import laid_out, place_of
from .partitions import divide, same_refusals
from .scans import share_equal_rows
from .tensors import plain_array, size_of, tensor_of

Make: TypeAlias = Callable[[Module, str], Callable[..., Any]]
"""Compiles a module; the result takes arrays, and returns one array or a tuple of them."""

REUSE = 10
"""Code for certain weights has to serve this many times as long as it took to compile."""

MOST_CHANGES = 2
"""Times that weights may change before that; from then on they are arguments."""

MOST_DIVISIONS = 8
"""Times that a part may be divided, in which an argument is not supported that its row refuses."""

MOST_VARIANTS = 4
"""Codes for symbolic sizes, each for other results of comparisons of sizes; further calls have code
for their sizes alone."""

_log = logging.getLogger("loopwright")
_logged: set[str] = set()


def backend(graph: fx.GraphModule, inputs: Sequence[Any], make: Make, fallback: bool) -> Any:
    """Returns what runs a graph of dynamo; ``make`` compiles.

    With ``fallback`` PyTorch runs what is not supported, which is logged once; else
    UnsupportedError is raised.
    """

    def compiler(kind: str, freeze: bool) -> Callable[..., Any]:
        def compile(graph: fx.GraphModule, inputs: Sequence[Any]) -> Any:
            weights = _weights() if freeze else frozenset[int]()
            visible = _visible() if kind == "forward" else None
            function = GraphFunction(graph, inputs, kind, make, weights, fallback, visible)
            try:
                refuse_unsupported(graph, f"the {kind} graph")
            except UnsupportedError as error:
                return function.in_parts(error)
            return function

        return compile

    compiled = aot_autograd(
        fw_compiler=compiler("forward", False),
        bw_compiler=compiler("backward", False),
        inference_compiler=compiler("inference", True),
        partition_fn=_partition,
        decompositions=decompositions(),
    )
    return compiled(graph, inputs)


def _partition(joint: fx.GraphModule, inputs: Any, **options: Any) -> Any:
    share_equal_rows(joint)
    return min_cut_rematerialization_partition(joint, inputs, **options)


def _weights() -> frozenset[int]:
    """Returns the positions of parameters and buffers among the inputs of the graph that is being
    compiled, without those that it writes."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return frozenset()
    written = set(metadata.mutated_inp_runtime_indices)
    return frozenset(metadata.static_input_indices) - written


def _visible() -> int | None:
    """Returns the number of results of a forward graph that the user sees; those behind them are
    kept for the backward graph."""
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return None if metadata is None else metadata.num_forward


def _warn(text: str) -> None:
    """Logs a line, but only once."""
    if text not in _logged:
        _logged.add(text)
        _log.warning(text)


@dataclass(frozen=True, slots=True)
class _Weight:
    """A tensor that is a constant of some code, as it was: ``version`` counts writes in place."""

    position: int
    tensor: torch.Tensor
    address: int
    version: int

    def is_in(self, args: Sequence[Any]) -> bool:
        """True if the call with these arguments has the same tensor with the same values."""
        tensor = args[self.position]
        return (
            (tensor is self.tensor or tensor.data_ptr() == self.address)
            and tensor._version == self.version
            and tensor.data_ptr() == self.address
        )


class _Code:
    """A graph compiled for tensors of certain sizes, and for the values of its weights."""

    def __init__(
        self,
        imported: Imported,
        run: Callable[..., Any],
        weights: Sequence[_Weight],
        sizes: Mapping[str, _Size],
    ) -> None:
        self.imported = imported
        self.sizes = sizes
        self.run = run
        self.weights = weights
        self.arguments = [_Reader(a) for a in imported.arguments]
        self.draws = imported.draws
        self.results = imported.results
        bases = (r.base if isinstance(r, Aliased) else r for r in imported.results)
        self.computed = sum(isinstance(r, Computed) for r in bases)

    def __call__(self, args: Sequence[Any]) -> list[Any]:
        arrays = [read(args) for read in self.arguments]
        arrays += [plain_array(draw(arrays)) for draw in self.draws]
        results = self.run(*arrays) if self.computed else ()
        if not isinstance(results, tuple):
            results = (results,)
        tensors = [tensor_of(array) for array in results]
        return [self._result(result, tensors, args) for result in self.results]

    def _result(self, result: Any, tensors: list[torch.Tensor], args: Sequence[Any]) -> Any:
        if isinstance(result, Computed):
            return result.of(tensors[result.number])
        if isinstance(result, Passed):
            return result.of(args[result.position])
        if isinstance(result, Aliased):
            values = {name: size.read(args) for name, size in self.sizes.items()}
            return result.of(self._result(result.base, tensors, args), values)
        value = result.value
        return value.clone() if isinstance(value, torch.Tensor) else value


class _Reader:
    """Reads one argument as an array; a parameter's array is kept while its memory is the same."""

    __slots__ = ("address", "argument", "array", "order", "position")

    def __init__(self, argument: Argument) -> None:
        self.argument = argument
        self.position = argument.position
        self.order = None if list(argument.order) == sorted(argument.order) else argument.order
        self.address = -1
        self.array: Array | None = None

    def __call__(self, args: Sequence[Any]) -> Array:
        tensor = args[self.position]
        if isinstance(tensor, int):
            return self.argument.rows(tensor)
        kept = type(tensor) is torch.nn.Parameter
        if kept and self.array is not None and tensor.data_ptr() == self.address:
            return self.array
        address = tensor.data_ptr() if kept else -1
        if tensor.requires_grad:
            tensor = tensor.detach()
        if tensor.is_neg() or tensor.is_conj():  # which NumPy has no views for
            tensor = tensor.resolve_conj().resolve_neg()
        array = plain_array(tensor)
        array = array if self.order is None else array.transpose(self.order)
        if kept:
            self.array, self.address = array, address
        return array


@dataclass(frozen=True, slots=True)
class _Size:
    """A symbolic size: what reads it from the inputs of a call, and its range."""

    read: Callable[[Sequence[Any]], int]
    low: int
    high: int


class GraphFunction:
    """A graph of aot_autograd as a function of the list of its inputs, which it empties."""

    def __init__(
        self,
        graph: fx.GraphModule,
        inputs: Sequence[Any],
        kind: str,
        make: Make,
        weights: frozenset[int],
        fallback: bool,
        visible: int | None = None,
    ) -> None:
        self._boxed_call = True  # as ``make_boxed_func`` says it
        self.graph = graph
        self.kind = kind
        self.make = make
        self.weights = weights
        self.fallback = fallback
        self.visible = visible
        self.aliases = not kind.startswith("backward")
        self.depth = 0  # divisions that this graph is a part of
        self.traced = inputs
        self.sizes = _sizes_of(inputs)
        self.exact = self.sizes is None or bool(memory_reads(graph))
        self.variants: list[_Code] = []  # of symbolic sizes
        self.codes: dict[Any, Any] = {}
        self.changes = 0
        self.divided: _ByTorch | None = None
        self.worn_in = 0.0  # time from which on the code has served long enough

    def __call__(self, args: list[Any]) -> list[Any]:
        if self.divided is not None:
            return self.divided(args)
        inputs = list(args)
        args.clear()
        if self.exact or self.sizes is None:
            key = _key(inputs)
        else:
            key = tuple([size.read(inputs) for size in self.sizes.values()])
        code = self.codes.get(key)
        if code is None:
            code = self.codes[key] = self._code(inputs, key)
        if not all(weight.is_in(inputs) for weight in code.weights):
            self.changes += time.monotonic() < self.worn_in
            self.variants.clear()
            self.codes.clear()
            code = self.codes[key] = self._code(inputs, key)
        return code(inputs)

    def _code(self, inputs: list[Any], key: tuple[Any, ...]) -> Any:
        """Returns code for a call with sizes that there was none for: that for all sizes, unless
        there can be none."""
        sizes = {} if self.exact or self.sizes is None else self.sizes
        values = dict(zip(sizes, key))
        if sizes and all(size.low <= values[name] <= size.high for name, size in sizes.items()):
            for code in self.variants:
                if code.imported.holds(values):
                    return code
            if len(self.variants) < MOST_VARIANTS:
                try:
                    self.variants.append(self._compiled(inputs, values, []))
                    return self.variants[-1]
                except Exception as error:  # converters may need Python's ints, as NumPy does
                    level = logging.WARNING if isinstance(error, InternalError) else logging.DEBUG
                    _log.log(level, "a graph is compiled for each of its sizes: %s", error)
                    self.exact = True
        refused: list[fx.Node] = []
        try:
            return self._compiled(inputs, None, refused)
        except InternalError:
            raise
        except LoopwrightError as error:  # PyTorch has typed the graph: what we refuse, we lack
            self.divided = self.in_parts(error, refused)
            return self.divided

    def _compiled(
        self, inputs: list[Any], sizes: Mapping[str, int] | None, refused: list[fx.Node]
    ) -> _Code:
        """Returns code for inputs of these sizes; for symbolic ones, if their values are given.
        What is ``refused`` is as ``import_graph`` says it."""
        begun = time.monotonic()
        frozen = self.weights if self.changes < MOST_CHANGES else frozenset[int]()
        names = _names(self.graph)
        constants = {p: names[p] for p in frozen if isinstance(inputs[p], torch.Tensor)}
        weights = [
            _Weight(p, inputs[p], inputs[p].data_ptr(), inputs[p]._version) for p in constants
        ]
        name = f"{self.kind}_graph"
        given = [
            value if sizes is None or value is None or position in constants else traced
            for position, (value, traced) in enumerate(zip(inputs, self.traced, strict=True))
        ]
        imported = import_graph(
            self.graph, given, constants, name, self.visible, refused, sizes, self.aliases
        )
        run = self.make(imported.module, name)
        if sizes is not None:
            run.lower()  # what cannot be compiled is refused now, and not by the first call
        code = _Code(imported, run, weights, self.sizes or {})
        now = time.monotonic()
        self.worn_in = now + REUSE * (now - begun)
        return code

    def in_parts(self, error: LoopwrightError, refused: Sequence[fx.Node] = ()) -> _ByTorch:
        """Returns the graph as a function in which PyTorch runs what ``error`` refuses, as are the
        nodes ``refused`` and those like them, and compiled parts the rest.

        Raises ``error`` if there is no fallback.
        """
        if not self.fallback:
            raise error

        def compile(graph: fx.GraphModule, weights: frozenset[int], number: int) -> GraphFunction:
            inputs = [node.meta.get("val") for node in graph.graph.find_nodes(op="placeholder")]
            kind = f"{self.kind}_part_{number}"
            part = GraphFunction(graph, inputs, kind, self.make, weights, self.fallback)
            part.depth = self.depth + 1
            return part

        divided = None
        if self.depth < MOST_DIVISIONS and all(node.op == "call_function" for node in refused):
            alike = [n for node in refused for n in same_refusals(self.graph, node)]
            divided = divide(self.graph, alike, self.weights, compile)
        nodes = "".join(f", {node.target} ({place_of(node)})" for node in refused)
        what = "PyTorch runs a graph without Loopwright" if divided is None else divided
        _warn(f"{what}: {error.message}{nodes}")
        run = self.graph if divided is None else divided.graph
        return _ByTorch(run, self.kind)


class _ByTorch:
    """A graph that PyTorch runs, or its parts, as a function of the list of its inputs, which it
    empties.

    What is saved for a backward graph may lie in memory in another way than in PyTorch, whose
    operators read a copy that lies as they expect it.
    """

    weights = ()

    def __init__(self, graph: fx.GraphModule, kind: str) -> None:
        self._boxed_call = True
        self.saved: list[tuple[int, torch.Tensor]] = []
        for n, node in enumerate(graph.graph.find_nodes(op="placeholder")):
            traced = node.meta.get("val")
            read = any(user.op != "call_module" for user in node.users)
            if read and kind.startswith("backward") and isinstance(traced, torch.Tensor):
                self.saved.append((n, traced))
        graph.graph.set_codegen(_BoxedCodeGen())
        graph.recompile()
        self.run = graph.forward

    def __call__(self, args: list[Any]) -> Any:
        for n, traced in self.saved:
            args[n] = laid_out(args[n], traced)
        return self.run(args)


def _sizes_of(inputs: Sequence[Any]) -> dict[str, _Size] | None:
    """Returns the symbolic sizes of traced inputs by name; None if a call's do not tell them."""
    sizes: dict[str, _Size] = {}
    exprs: list[IntExpr] = []

    def enter(value: Any, read: Callable[[Sequence[Any]], int]) -> None:
        exprs.append(expr := size_of(value))
        for name, symbol in size_symbols(expr).items():
            if symbol.expr == expr and symbol.range is not None:
                sizes.setdefault(name, _Size(read, *symbol.range))

    try:
        for position, value in enumerate(inputs):
            if isinstance(value, torch.SymInt):
                enter(value, itemgetter(position))
            elif isinstance(value, torch.SymFloat | torch.SymBool):
                return None
            elif isinstance(value, torch.Tensor):
                for axis, size in enumerate(value.shape):
                    enter(size, lambda args, p=position, a=axis: args[p].shape[a])
    except UnsupportedError:
        return None
    return sizes if sizes.keys() == size_symbols(*exprs).keys() else None


def _key(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Returns where the elements of tensors lie, and the numbers among the inputs."""
    return tuple(
        (*i.shape, *i.stride(), i.storage_offset()) if isinstance(i, torch.Tensor) else i
        for i in inputs
    )


def _names(graph: fx.GraphModule) -> list[str]:
    """Returns the names of the placeholders."""
    return [node.name for node in graph.graph.find_nodes(op="placeholder")]
