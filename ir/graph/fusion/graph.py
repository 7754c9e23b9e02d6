"""The graph that fusion works on: the operators of a block, with index maps made transparent.

An index map (transpose, slice, pad, broadcast ...) costs nothing inside a kernel, since its reader
only reads elsewhere. So index maps are not nodes: each operand is a *root* and the chain of index
maps between the root and its reader, which copies the chain. Only an index map whose value must
exist as an array is a node, or one that picks elements which a contraction uses many times. Bytes
that are widened for a contraction are read so, too: machines have instructions that multiply bytes
and add up wider sums, and few rows are multiplied as fast as their weights are read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from math import inf, prod, sqrt

from ...dataclass import dataclass
from ...dims import IntExpr, as_int, product, typical
from ...dtype import FLOAT32, widens_many
from ...traits import Trait
from ..limits import DEFAULT_LIMITS, GraphLimits
from ..nodes import Atom, Binding, Block, Call, Constant, GlobalVar, Var, tensor_type
from ..operator import Operator, Pattern
from ..types import TensorType
from ..walk import all_bindings, all_uses, nested_blocks, setters, sizes_used

_LONGEST_CHAIN = 8
"""Index maps that a reader copies at most; a longer chain is computed once in between."""

_MANY_USES = 8.0
"""Uses of an element that make up for a copy of it."""


@dataclass(slots=True)
class Edge:
    """An operand: the value of the node ``source``, or of none. ``root`` is the value itself, and
    ``chain`` the index maps between it and its reader."""

    source: int | None
    root: Atom | None
    chain: tuple[Binding, ...]
    shape: tuple[IntExpr, ...]  # as the reader sees it


@dataclass(slots=True)
class Node:
    """A binding. ``pattern`` is None for tuples, branches, loops and function calls."""

    index: int
    binding: Binding
    pattern: Pattern | None
    shape: tuple[IntExpr, ...]
    edges: list[Edge] = field(default_factory=list)
    users: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    escapes: bool = False  # a tuple, branch, loop or function call uses the value
    weight: int = 1  # operators that the node brings into a group
    cost: float = 0.0  # arithmetic instructions per element
    plain: bool = False  # reads each operand at the index it computes
    bytes: int = 0  # of its value as an array, for typical sizes

    @property
    def op(self) -> Operator:
        return operator_of(self.binding)

    @property
    def call(self) -> Call:
        call = self.binding.value
        assert isinstance(call, Call)
        return call


@dataclass(slots=True)
class Graph:
    """``nodes`` in the order of the program, ``of_var`` the node that binds a variable, ``setters``
    the variables that set sizes, by their names."""

    nodes: list[Node]
    of_var: dict[Var, int]
    views: dict[Var, Binding]
    limits: GraphLimits = DEFAULT_LIMITS
    setters: Mapping[str, Var] = field(default_factory=dict)

    def setting(self, binding: Binding) -> set[int]:
        """Returns the nodes that set the sizes of a binding and of what is nested in it."""
        nested = [b for block in nested_blocks(binding.value) for b in all_bindings(block)]
        setters = [
            self.setters[name]
            for b in (binding, *nested)
            for name in sizes_used(b.var, b.value)
            if name in self.setters
        ]
        return {self.of_var[v] for v in setters if v in self.of_var and v is not binding.var}

    def resolve(self, atom: Atom | None) -> tuple[Atom | None, tuple[Binding, ...]]:
        """The root of ``atom`` and the index maps from it to ``atom``, first applied first."""
        chain: list[Binding] = []
        while isinstance(atom, Var) and atom not in self.of_var and atom in self.views:
            binding = self.views[atom]
            chain.append(binding)
            args = _args(binding)
            atom = args[0] if args else None
        return atom, tuple(reversed(chain))

    def paths(self, start: int, end: int, most: int) -> set[int] | None:
        """Returns the nodes on the paths from ``start``, which all lead to ``end``, both included;
        None if they are more than ``most``."""
        between = {start, end}
        work = [start]
        while work:
            for user in self.nodes[work.pop()].users:
                if user not in between:
                    between.add(user)
                    work.append(user)
            if len(between) > most:
                return None
        return between


def build_graph(block: Block, limits: GraphLimits = DEFAULT_LIMITS) -> Graph:
    """Returns the graph of ``block``; nested blocks count as users of what they use."""
    escaping = _escaping(block)
    widened = _widened_factors(block, _uses_in_contractions(block), limits)
    picked = _picked_factors(block, _uses_in_contractions(block, widened))
    columns = _gathered_columns(block)
    graph = Graph([], {}, {}, limits, setters(block))
    depth: dict[Var, int] = {}
    for binding in block.bindings:
        var, op = binding.var, _operator(binding)
        if op is not None and (_is_view(op) or var in widened) and var not in picked | columns:
            depth[var] = 1 + max(
                (depth.get(a, 0) for a in _args(binding) if isinstance(a, Var)), default=0
            )
            graph.views[var] = binding
            if depth[var] <= _LONGEST_CHAIN and not _is_alias(binding, graph):
                if var not in escaping:
                    continue
            else:
                depth[var] = 0
        _add_node(graph, binding, op, var in escaping)
        if var in columns:
            graph.nodes[-1].pattern = Pattern.OPAQUE
    return graph


def _add_node(graph: Graph, binding: Binding, op: Operator | None, escapes: bool) -> None:
    index, kind = len(graph.nodes), binding.var.type
    pattern = None if op is None else _pattern(binding, op, graph)
    if not isinstance(kind, TensorType) and pattern is not None:
        pattern = Pattern.OPAQUE
    shape = kind.shape if isinstance(kind, TensorType) else ()
    node = Node(index, binding, pattern, shape, escapes=escapes)
    if isinstance(kind, TensorType):
        node.bytes = typical(kind.size) * kind.dtype.bytes
    if op is not None:
        for arg in _args(binding):
            root, chain = graph.resolve(arg)
            source = graph.of_var.get(root) if isinstance(root, Var) else None
            seen = arg.type.shape if isinstance(arg.type, TensorType) else ()
            node.edges.append(Edge(source, root, chain, seen))
        node.sources = sorted({e.source for e in node.edges if e.source is not None})
        node.weight += sum(len(e.chain) for e in node.edges)
        aligned = pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST)
        node.plain = aligned and not any(e.chain for e in node.edges)
        node.cost = 0.0 if pattern == Pattern.INJECTIVE else op.cost
    else:
        node.sources = sorted(
            {graph.of_var[a] for a in all_uses(binding.value) if a in graph.of_var}
        )
    if graph.setters:
        read = [binding, *(view for edge in node.edges for view in edge.chain)]
        set_before = set[int]().union(*map(graph.setting, read))
        node.sources = sorted(set_before.union(node.sources))
    for source in node.sources:
        graph.nodes[source].users.append(index)
    graph.nodes.append(node)
    graph.of_var[binding.var] = index


def operator_of(binding: Binding) -> Operator:
    """Returns the operator that a binding applies."""
    op = _operator(binding)
    assert op is not None
    return op


def _operator(binding: Binding) -> Operator | None:
    """The operator that a binding applies; None where fusion has nothing to do with it."""
    value = binding.value
    if not isinstance(value, Call) or isinstance(value.op, GlobalVar | Var):
        return None
    return None if Trait.LIBRARY in value.op.traits else value.op


def _args(binding: Binding) -> Sequence[Atom]:
    return binding.value.args if isinstance(binding.value, Call) else ()


def _pattern(binding: Binding, op: Operator, graph: Graph) -> Pattern:
    return Pattern.OPAQUE if _is_view(op) and _is_alias(binding, graph) else op.pattern


def _is_view(op: Operator) -> bool:
    """True for an index map of one operand, or an operator of none (iota, full)."""
    if not op.params:
        return Trait.UNSET not in op.traits
    one = len(op.params) == 1 and not op.params[0].startswith("*")
    return one and op.pattern in (Pattern.INJECTIVE, Pattern.BROADCAST)


def _widened_factors(block: Block, uses: Mapping[Var, float], limits: GraphLimits) -> set[Var]:
    """Bytes cast to wider integers that nothing but contractions read, weights of 8 or 16 bits cast
    to floats for few rows, to which reading them is the work, and both factors of products that
    pairs of bfloat16 are added up to."""
    casts = [b for b in block.bindings if _is_of(b, "cast") and uses[b.var] > 0]
    widened = {
        b.var
        for b in casts
        if _widens_bytes(b) or (_widens_weights(b) and uses[b.var] <= limits.few_rows)
    }
    return widened | _pairs(block, casts) if limits.has_pairs else widened


def _pairs(block: Block, casts: Sequence[Binding]) -> set[Var]:
    """Returns the casts from bfloat16 to float32 that only products of two of them read."""
    of_var = {b.var: b for b in block.bindings}
    pairs = {b.var for b in casts if _is_half(_args(b)[0]) and tensor_type(b.var).dtype == FLOAT32}

    def root(atom: Atom) -> Atom:
        """The cast that an operand is, index maps aside."""
        while isinstance(atom, Var) and atom not in pairs and atom in of_var:
            binding = of_var[atom]
            op = _operator(binding)
            if op is None or not _is_view(op) or not _args(binding):
                break
            (atom,) = _args(binding)
        return atom

    for binding in block.bindings:
        op = _operator(binding)
        if op is not None and op.pattern == Pattern.CONTRACTION:
            roots = {root(a) for a in _args(binding)}
            if len(roots) != 2 or not roots <= pairs:
                pairs -= {r for r in roots if isinstance(r, Var)}
    return pairs


def _is_half(atom: Atom) -> bool:
    return tensor_type(atom).dtype.name == "bfloat16"


def _picked_factors(block: Block, uses: Mapping[Var, float]) -> set[Var]:
    """Returns index maps that only contractions read, of strided elements or with a division in
    their index: they are read many times, so a contiguous copy pays off."""
    maps: set[Var] = set()
    for binding in block.bindings:
        apart = _is_of(binding, "strided_slice") and abs(_last_step(binding)) > 1
        if (apart or _merges_axes(binding)) and uses[binding.var] >= _MANY_USES:
            maps.add(binding.var)
    return maps


def _gathered_columns(block: Block) -> set[Var]:
    """Returns transposes of which gathers read strided rows, as many elements as there are or more:
    an array of its own has contiguous ones."""
    unread: dict[Atom, int] = {}
    for var, call in ((b.var, b.value) for b in block.bindings if isinstance(b.value, Call)):
        types = [a.type for a in (*call.args, var) if isinstance(a.type, TensorType)]
        if not isinstance(call.op, Operator) or not isinstance(size := _size(var), int):
            continue
        if call.op.name == "transpose" and (call.attrs["axes"] or (0,))[-1] < types[0].rank - 1:
            unread[var] = size
        elif call.op.name == "nn.gather_nd" and call.args[0] in unread:
            depth = call.attrs["batch_dims"] + as_int(types[1].shape[-1])
            rows = depth < types[0].rank and as_int(types[0].shape[-1]) > 3  # in lanes
            unread[call.args[0]] -= size if rows else 0
    return {var for var, left in unread.items() if left <= 0 and isinstance(var, Var)}


def _merges_axes(binding: Binding) -> bool:
    """True if a reshape merges axes into one of the last two, so that the inner loops of a product
    divide every index. Batches are indexed outside of them, and splitting an axis multiplies and
    adds only."""
    if not _is_of(binding, "reshape"):
        return False
    (operand,) = _args(binding)
    old, new = tensor_type(operand), tensor_type(binding.var)
    before = [s for s in old.shape if isinstance(s, int)]
    after = [s for s in new.shape if isinstance(s, int)]
    if len(before) < len(old.shape) or len(after) < len(new.shape):
        return False
    # Axes by the number of elements behind them: one of the result that has the end of an old one
    # strictly inside is made of several.
    ends = {prod(before[n:]) for n in range(len(before))}
    inner, outer = prod(after[-1:]), prod(after[-2:])
    return any(1 < end < inner or inner < end < outer for end in ends)


def _is_of(binding: Binding, name: str) -> bool:
    op = _operator(binding)
    return op is not None and op.name == name


def _last_step(binding: Binding) -> int:
    assert isinstance(binding.value, Call)
    return next(reversed(binding.value.attrs["strides"]), 1)


def _uses_in_contractions(block: Block, widened: Collection[Var] = ()) -> dict[Var, float]:
    """Counts the uses of an element of each value by contractions, through index maps and casts
    that are ``widened`` where they are read; 0 where another operator reads it, too, but for sums
    of widened bytes, which widen what they read."""
    counts = {b.var: inf for b in block.bindings}
    bytes_ = {b.var for b in block.bindings if _is_of(b, "cast") and _widens_bytes(b)}
    if isinstance(block.result, Var):
        counts[block.result] = 0.0
    for binding in reversed(block.bindings):
        op = _operator(binding)
        for used in all_uses(binding.value):
            if op is not None and op.pattern == Pattern.CONTRACTION:
                uses = _uses(binding, used)
            elif used in bytes_ and _is_of(binding, "sum"):
                continue
            else:
                through = binding.var in widened or (op is not None and _is_view(op))
                uses = counts[binding.var] if through else 0.0
            counts[used] = min(counts.get(used, inf), uses)
    return {var: 0.0 if uses == inf else uses for var, uses in counts.items()}


def _uses(contraction: Binding, operand: Var) -> float:
    """Returns the uses of an operand's elements, 1 if sizes are not known.

    Of a product (M, K) by (K, N) they are N, and the product of the sizes of the other operand and
    of the result, divided by that of the first, is N squared; likewise with more axes.
    """
    others = [a for a in _args(contraction) if a is not operand]
    sizes = [_size(v) for v in (*others, contraction.var, operand)]
    if len(others) != 1 or None in sizes or 0 in sizes:
        return 1.0
    other, result, size = (float(s or 0) for s in sizes)
    return sqrt(other * result / size)


def is_used_once(contraction: Binding, operand: Atom) -> bool:
    """True if a product uses each element of this operand once, as one of a matrix and a vector
    does with the matrix: there are as many multiplications as it has elements."""
    size = product(operand.type.shape) if isinstance(operand.type, TensorType) else None
    products = _multiplications(contraction)
    return size is not None and size == products and _args(contraction).count(operand) == 1


def _multiplications(contraction: Binding) -> IntExpr | None:
    """Returns the multiplications of a product; None for other contractions and unknown sizes."""
    shapes = [a.type.shape for a in _args(contraction) if isinstance(a.type, TensorType)]
    if _is_of(contraction, "nn.matmul"):
        return product(tensor_type(contraction.var).shape) * shapes[0][-1]
    if not _is_of(contraction, "contract"):
        return None
    assert isinstance(contraction.value, Call)
    operands = contraction.value.attrs["equation"].split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for letters, shape in zip(operands, shapes, strict=True):
        for letter, size in zip(letters, shape, strict=True):
            if not isinstance(size, int):
                return None
            sizes[letter] = max(size, sizes.get(letter, 1))
    return prod(sizes.values())


def _size(value: Atom) -> int | None:
    size = product(value.type.shape) if isinstance(value.type, TensorType) else None
    return size if isinstance(size, int) else None


def _widens_bytes(binding: Binding) -> bool:
    (operand,) = _args(binding)
    old, new = tensor_type(operand), tensor_type(binding.var)
    whole = new.dtype.is_integer and old.dtype.is_integer
    return whole and old.dtype.bytes <= 2 and new.dtype.bytes >= 4


def _widens_weights(binding: Binding) -> bool:
    (operand,), new = _args(binding), tensor_type(binding.var)
    return isinstance(operand, Constant) and widens_many(operand.value, new.dtype)


def _is_alias(binding: Binding, graph: Graph) -> bool:
    """A reshape of a whole array. It is the same memory, so it is left to stand between groups:
    inside one it would turn every index into divisions and remainders."""
    op = _operator(binding)
    if op is None or op.name != "reshape" or not _args(binding):
        return False
    operand = _args(binding)[0]
    old, new = tensor_type(operand), tensor_type(binding.var)
    if same_but_ones(old.shape, new.shape):
        return False
    return not graph.resolve(operand)[1]


def same_but_ones(old: Sequence[IntExpr], new: Sequence[IntExpr]) -> bool:
    """True if two shapes differ only in axes of size 1."""
    return [s for s in old if s != 1] == [s for s in new if s != 1]


def _escaping(block: Block) -> set[Var]:
    """Variables whose value must exist as an array or is used by more than operators."""
    used = {block.result} if isinstance(block.result, Var) else set[Var]()
    for binding in block.bindings:
        op = _operator(binding)
        if op is None or op.pattern == Pattern.OPAQUE:
            used |= all_uses(binding.value)
    return used


def is_big_constant(atom: Atom) -> bool:
    """True for a constant that a group takes as an argument; a scalar is part of its code."""
    return isinstance(atom, Constant) and atom.value.size != 1
