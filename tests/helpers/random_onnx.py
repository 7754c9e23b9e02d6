"""Random ONNX models whose every value is known: nodes are tried on the standard's own evaluator.

::

    rows (``random_onnx_nodes``) propose a node on values that exist
    onnx.reference computes it   -> outputs with dtype, shape, elements; refused nodes are dropped
    twice more with noise        -> how far correct results may differ

The noise decides what can be compared. Every float that a node computes is also carried along with
relative errors of some ulps, in two samples. Where they change an integer, a bool or a shape, the
node is not used, since a rounding decides its result; the spread of a float is its tolerance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from loopwright.ir.dtype import dtype_of
from loopwright.ir.tolerance import tolerance
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from random_draw import RandomDraw

__all__ = [
    "Drawing",
    "ROWS",
    "OnnxProgram",
    "Tensor",
    "Unfit",
    "draw_model",
    "mistakes",
    "row",
    "single",
]

Array = np.ndarray[Any, Any]

ULPS = 8.0
"""Relative error of a noisy result, in units of the last place."""

SPREADS = 8.0
"""Spreads of the noisy samples that a result may be off."""

LARGEST = 1e6
"""Greatest absolute value of a float; beyond it products overflow soon."""

MOST_ELEMENTS = 5000

SIZES = (1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17)
DTYPES = ("float32",) * 8 + (
    "float64", "int64", "int32", "int64", "int32", "int8", "uint8", "int16", "uint16", "uint32",
    "uint64", "bool", "bool",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value of the model, with two noisy samples of it. ``known``: an initializer."""

    name: str
    value: Array
    noisy: tuple[Array, Array]
    known: bool = False
    steps: int = 0
    right: Array | None = None  # what another evaluator computes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype

    @property
    def rank(self) -> int:
        return self.value.ndim

    @property
    def bounds(self) -> tuple[float, float]:
        """Relative and absolute tolerance."""
        if self.dtype.kind != "f" or not self.value.size:
            return 0.0, 0.0
        rtol, atol = tolerance(dtype_of(self.dtype), 64, operations=8 + 4 * self.steps)
        finite = np.isfinite(self.value)
        spread = max(
            float(np.max(np.abs(n.astype(np.float64) - self.value), where=finite, initial=0.0))
            for n in self.noisy
        )
        return rtol, SPREADS * spread + atol


@dataclass(eq=False)
class OnnxProgram:
    """A random model, the arrays of its inputs, and what its outputs have to be."""

    model: ModelProto
    feeds: dict[str, Array]
    wanted: dict[str, Tensor]
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def __str__(self) -> str:
        graph = self.model.graph
        opset = self.model.opset_import[0].version
        lines = [f"opset {opset}"]
        lines += [f"  {n} = {v.dtype}{list(v.shape)}" for n, v in self.feeds.items()]
        for each in graph.initializer:
            array = numpy_helper.to_array(each)
            text = str(array.tolist()) if array.size <= 8 else "..."
            lines.append(f"  {each.name} = {array.dtype}{list(array.shape)} {text}")
        for node in graph.node:
            attributes = ", ".join(helper.printable_attribute(a) for a in node.attribute)
            lines.append(
                f"  {', '.join(node.output)} = {node.op_type}({', '.join(node.input)})"
                + (f" {{{attributes}}}" if attributes else "")
            )
        return "\n".join([*lines, f"  return {', '.join(self.wanted)}"])

    def with_wanted(self, values: Mapping[str, Array]) -> OnnxProgram:
        """Returns the program with other values for its outputs, as tolerant."""
        wanted = {n: replace(t, right=np.asarray(values[n])) for n, t in self.wanted.items()}
        return replace(self, wanted=wanted)

    def up_to(self, name: str) -> OnnxProgram:
        """Returns the part of the program that computes one value."""
        needed, nodes = {name}, []
        for node in reversed(self.model.graph.node):
            if needed & set(node.output):
                nodes.append(node)
                needed |= inputs_of(node)
        return _program(
            self.model.opset_import[0].version, nodes[::-1], self.tensors, self.feeds, [name]
        )


def mistakes(program: OnnxProgram, results: Mapping[str, Array]) -> str:
    """Returns what is wrong with results, or nothing."""
    for name, wanted in program.wanted.items():
        given = np.asarray(results[name])
        right = wanted.value if wanted.right is None else wanted.right
        if (given.dtype, given.shape) != (right.dtype, right.shape):
            return (
                f"{name} is {given.dtype}{list(given.shape)}, not {right.dtype}{list(right.shape)}"
            )
        rtol, atol = wanted.bounds
        if not np.allclose(given, right, rtol=rtol, atol=atol, equal_nan=True):
            with np.errstate(all="ignore"):
                off = np.abs(given.astype(np.float64) - right.astype(np.float64))
                at = np.unravel_index(np.argmax(np.nan_to_num(off, nan=np.inf)), off.shape)
            return (
                f"{name}{list(map(int, at))} is {given[at]}, not {right[at]} "
                f"(rtol {rtol:.1e}, atol {atol:.1e})"
            )
    return ""


class Drawing:
    """A model in the making: what rows see of it."""

    def __init__(self, draw: RandomDraw, opset: int) -> None:
        self.draw = draw
        self.opset = opset
        self.rng = draw.rng
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[NodeProto] = []
        self.feeds: dict[str, Array] = {}

    def pick(self, choices: Sequence[Any]) -> Any:
        return self.draw.pick(choices)

    def between(self, low: int, high: int) -> int:
        return self.draw.between(low, high)

    def chance(self, percent: int) -> bool:
        return self.between(1, 100) <= percent

    def axis(self, rank: int) -> int:
        """An axis, from the end at times."""
        axis = self.between(0, rank - 1)
        return axis - rank if self.chance(30) else axis

    def axes(self, rank: int) -> list[int]:
        """Some different axes in any order."""
        count = self.between(min(1, rank), rank)
        some = self.rng.permutation(rank)[:count].tolist()
        return [a - rank if self.chance(20) else a for a in some]

    def shape(self, low: int = 0, high: int = 4) -> list[int]:
        shape = [self.pick(SIZES) for _ in range(self.between(low, high))]
        while np.prod(shape) > MOST_ELEMENTS // 2:
            shape[int(np.argmax(shape))] = self.pick((1, 2, 3))
        if shape and self.chance(3):
            shape[self.between(0, len(shape) - 1)] = 0
        return shape

    def elements(self, shape: Sequence[int], dtype: Any) -> Array:
        """Random elements: floats around 0 or positive ones, small ints."""
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if dtype.kind in "iu":
            return np.asarray(self.rng.integers(0 if dtype.kind == "u" else -8, 9, shape), dtype)
        values = self.rng.standard_normal(shape)
        if self.chance(25):
            values = np.abs(values) + 0.25
        return np.asarray(values, dtype)

    def known(self, value: Any, dtype: Any = None) -> Tensor:
        """A new initializer."""
        array = np.asarray(value, dtype)
        return self._add(Tensor(f"c{len(self.tensors)}", array, (array, array), True))

    def fresh(self, shape: Sequence[int], dtype: Any) -> Tensor:
        """A new input of the model, or an initializer."""
        array = self.elements(shape, dtype)
        return self.known(array) if self.chance(50) else self.given(array)

    def given(self, array: Array) -> Tensor:
        """A new input of the model."""
        name = f"x{len(self.tensors)}"
        self.feeds[name] = array
        return self._add(Tensor(name, array, (array, array)))

    def _add(self, tensor: Tensor) -> Tensor:
        self.tensors[tensor.name] = tensor
        return tensor

    def some(
        self,
        kinds: str = "fiub",
        low: int = 0,
        high: int = 6,
        fits: Callable[[Tensor], bool] | None = None,
    ) -> Tensor:
        """A value of these kinds of dtype and ranks: mostly a late one, at times a new one."""
        found = [
            t
            for t in self.tensors.values()
            if t.dtype.kind in kinds and low <= t.rank <= high and (fits is None or fits(t))
        ]
        if found and not self.chance(15):
            return found[-1] if self.chance(40) else self.pick(found)
        for _ in range(40):
            dtype = self.pick([d for d in DTYPES if np.dtype(d).kind in kinds])
            shape = self.shape(low, min(high, 4) if high >= low else low)
            array = self.elements(shape, dtype)
            if fits is None or fits(Tensor("", array, (array, array))):
                return self.fresh(shape, dtype)
        raise Unfit

    def partner(self, x: Tensor) -> Tensor:
        """A value of the dtype of ``x`` that broadcasts against it."""
        found = [
            t
            for t in self.tensors.values()
            if t.dtype == x.dtype
            and all(a == b or 1 in (a, b) for a, b in zip(x.shape[::-1], t.shape[::-1]))
        ]
        if found and self.chance(60):
            return self.pick(found)
        shape = [1 if self.chance(25) else s for s in x.shape]
        return self.fresh(shape[self.between(0, len(shape)) if self.chance(40) else 0 :], x.dtype)

    def emit(
        self,
        op_type: str,
        inputs: Sequence[Tensor | None],
        outputs: int = 1,
        domain: str = "",
        captured: Sequence[Tensor] = (),
        **attributes: Any,
    ) -> list[Tensor]:
        """Adds a node if the standard's evaluator computes it and noise does not change it."""
        names = [f"v{len(self.tensors) + n}" for n in range(outputs)]
        given = {k: v for k, v in attributes.items() if v is not None}
        node = helper.make_node(
            op_type, ["" if x is None else x.name for x in inputs], names,
            name=f"{op_type}_{len(self.nodes)}", domain=domain, **given,
        )  # fmt: skip
        return self.emit_nodes([node], [*(x for x in inputs if x is not None), *captured], names)

    def emit_nodes(
        self, nodes: Sequence[NodeProto], inputs: Sequence[Tensor], names: Sequence[str]
    ) -> list[Tensor]:
        """Adds nodes, of whose results those of these names are values."""
        arrays = {x.name: x for x in inputs}
        values = _run(nodes, names, self.opset, {n: x.value for n, x in arrays.items()})
        samples: list[list[Array]] = []
        for k in range(2):
            results = _run(nodes, names, self.opset, {n: x.noisy[k] for n, x in arrays.items()})
            samples.append([self._noise(result) for result in results])
        steps = 1 + max((x.steps for x in arrays.values()), default=0)
        made: list[Tensor] = []
        for name, value, *noisy in zip(names, values, *samples, strict=True):
            _check(value, noisy)
            made.append(Tensor(name, value, (noisy[0], noisy[1]), False, steps))
        self.nodes += nodes
        for tensor in made:
            self._add(tensor)
        return made

    def _noise(self, value: Array) -> Array:
        if value.dtype.kind != "f":
            return value
        ulps = ULPS * float(np.finfo(value.dtype).eps)
        factor = 1 + ulps * self.rng.uniform(-1, 1, value.shape)
        return (value * factor).astype(value.dtype)


class Unfit(Exception):
    """A node that is not used."""


ROWS: dict[str, Callable[[Drawing], object]] = {}
"""One function per operator, which adds a node with random attributes."""


def row(*names: str) -> Callable[[Callable[[Drawing, str], object]], Callable[..., object]]:
    """Enters the function as the row of each operator; it gets the name."""

    def enter(function: Callable[[Drawing, str], object]) -> Callable[..., object]:
        for name in names:
            ROWS[name] = lambda d, n=name: function(d, n)
        return function

    return enter


def single(d: Drawing, low: int = 0) -> Tensor:
    """Returns a value of float32 that has elements."""
    return d.some("f", low, fits=lambda t: t.dtype == np.float32 and t.value.size > 0)


def inputs_of(node: NodeProto) -> set[str]:
    """Returns the names that a node reads, in its graphs too."""
    graphs = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
    return set(node.input).union(*(inputs_of(each) for g in graphs for each in g.node))


def _run(
    nodes: Sequence[NodeProto], names: Sequence[str], opset: int, feeds: Mapping[str, Array]
) -> list[Array]:
    inputs = [_info(n, a) for n, a in feeds.items()]
    outputs = [helper.make_empty_tensor_value_info(n) for n in names]
    model = _model(helper.make_graph(nodes, "node", inputs, outputs), opset)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if any(n.domain or n.op_type in OF_RUNTIME for n in nodes):
                results = _by_runtime(model, feeds)
            else:
                graph = helper.make_graph(nodes, "node", inputs, [])
                onnx.checker.check_graph(graph, _context(model))
                results = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception as error:
        raise Unfit(f"{type(error).__name__}: {error}") from None
    if nodes[-1].op_type == "ReduceSumSquare":  # which keeps the dtype; NumPy's sum does not
        results = [np.asarray(results[0], feeds[nodes[-1].input[0]].dtype)]
    return [np.asarray(r) for r in results]


def _by_runtime(model: ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Returns what ONNX Runtime computes; other domains' operators are drawn where it is there."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(feeds))


def _model(graph: onnx.GraphProto, opset: int) -> ModelProto:
    domains = {"": opset} | {n.domain: opset_of(n.domain, opset) for n in graph.node}
    imports = [helper.make_opsetid(*each) for each in domains.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


OF_RUNTIME = (
    *("GlobalLpPool", "MaxRoiPool", "SimplifiedLayerNormalization"),
    *("Loop", "Optional", "OptionalGetElement"),
)
"""Operators that the standard's evaluator does not have, or gives results of other shapes; as it
does of other domains' operators."""


def opset_of(domain: str, opset: int) -> int:
    """Returns the opset of a domain in a model of an opset of the standard's."""
    return {"com.microsoft": 1, "ai.onnx.ml": 3 if opset < 20 else 5}.get(domain, opset)


def _context(model: ModelProto) -> onnx.checker.C.CheckerContext:
    context = onnx.checker.C.CheckerContext()
    context.ir_version = 10
    context.opset_imports = {each.domain: each.version for each in model.opset_import}
    return context


def _code(dtype: np.dtype[Any]) -> int:
    return helper.np_dtype_to_tensor_dtype(dtype)


def _check(value: Array, noisy: Sequence[Array]) -> None:
    if value.dtype.name not in DTYPES:
        raise Unfit(f"dtype {value.dtype}")
    if value.size > MOST_ELEMENTS:
        raise Unfit("large")
    if any(n.shape != value.shape for n in noisy):
        raise Unfit("ill-conditioned shape")
    if value.dtype.kind == "f":
        if value.size and not np.max(np.abs(value)) < LARGEST:
            raise Unfit("not finite, or large")
        if value.size and any(not np.allclose(n, value, rtol=0.05, atol=0.05) for n in noisy):
            raise Unfit("ill-conditioned")
    if value.dtype.kind != "f" and not all(np.array_equal(n, value) for n in noisy):
        raise Unfit("ill-conditioned")


def draw_model(
    seed: int, rows: Mapping[str, Callable[[Drawing], object]], least: int = 1, most: int = 10
) -> OnnxProgram:
    """Returns a model of ``least`` to ``most`` nodes drawn from ``rows``."""
    draw = RandomDraw(seed)
    newest = onnx.defs.onnx_opset_version()
    opset = draw.pick((7, 9, 11, 13, 13, 15, 17, 18, 19, 20, 21, 22, 23, 24, newest))
    made = Drawing(draw, min(opset, newest))
    names = sorted(rows)
    count = draw.between(least, most)
    for _ in range(8 * count):
        if len(made.nodes) >= count:
            break
        try:
            rows[draw.pick(names)](made)
        except Unfit:
            continue
    if not made.nodes:
        made.emit("Identity", [made.some()])
    computed = [n for node in made.nodes for n in node.output if n in made.tensors]
    read = {n for node in made.nodes for n in inputs_of(node)}
    last = [n for n in computed if n not in read]
    more = [n for n in computed if n in read and draw.between(1, 8) == 1]
    return _program(made.opset, made.nodes, made.tensors, made.feeds, [*last, *more])


def _program(
    opset: int,
    nodes: Sequence[NodeProto],
    tensors: dict[str, Tensor],
    feeds: Mapping[str, Array],
    outputs: Sequence[str],
) -> OnnxProgram:
    used = {n for node in nodes for n in inputs_of(node)}
    feeds = {n: a for n, a in feeds.items() if n in used}
    graph = helper.make_graph(
        list(nodes),
        "random",
        [_info(n, a) for n, a in feeds.items()],
        [_info(n, tensors[n].value) for n in outputs],
        [numpy_helper.from_array(t.value, n) for n, t in tensors.items() if t.known and n in used],
    )
    return OnnxProgram(_model(graph, opset), dict(feeds), {n: tensors[n] for n in outputs}, tensors)


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, _code(array.dtype), array.shape)
