"""Lowers one operator to its tensor expression, and a fused group of operators to a PrimFunc.

Reductions and results become stages. A map becomes a stage only if several stages would otherwise
recompute it, or if it pads an operand that a contraction reads many times. Everything else is
composed into the expressions that use it. Names are canonical (``x0 x1 .. t0 .. out``, axes
``i j l ..`` and ``k r ..``), so that equal work gives equal text wherever it comes from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...dims import IntExpr, Symbol, symbol
from ...dtype import dtype_of
from ...errors import InternalError
from ...loop.causal_mask import causal_mask
from ...loop.expr import Expr, IndexLike, Read, const, read, walk
from ...loop.hoist_factors import hoist_factors
from ...loop.nest import Stmt, expressions, statements
from ...loop.prim import Axis, Buffer, PrimFunc, Stage
from ...loop.procedure import Procedure, procedure
from ...loop.scalar import SCALAR_OPS
from ...loop.simplify_prim import canonical_prim
from ...loop.tensor import Map, Reduction, Statements, Tensor, copied
from ...traits import Trait
from ..nodes import Atom, Call, Constant, Function, Tuple, Var, tensor_type
from ..operator import Operator, Pattern
from ..types import TensorType, Type
from ..walk import with_sizes


def apply_compute(
    op: Operator, inputs: Sequence[Tensor], attrs: Mapping[str, Any], out_type: Type
) -> Map | Reduction | Statements:
    """Returns the tensor expression of a primitive operator on ``inputs``; ``attrs`` are complete.

    Raises InternalError if the operator is not a primitive, or if its expression does not have the
    shape and dtype that its type rule gave.
    """
    if op.compute is None or not isinstance(out_type, TensorType):
        raise InternalError(f"{op.name} is not a primitive operator; lower it first")
    result = op.compute(inputs, attrs, out_type)
    if result.shape != out_type.shape or result.dtype != out_type.dtype:
        got = TensorType(result.shape, result.dtype)
        raise InternalError(f"{op.name} computes {got} where its type rule says {out_type}")
    return result


def placeholder(buffer: Buffer) -> Tensor:
    """Returns the tensor whose elements are read from ``buffer``."""

    def element(*indices: IndexLike) -> Expr:
        return read(buffer.name, indices, buffer.dtype)

    return Tensor(buffer.shape, buffer.dtype, element)


def procedure_of(
    name: str, params: tuple[Buffer, ...], result: Statements, given: Mapping[str, Tensor]
) -> Procedure:
    """Returns the procedure that writes ``result`` to a buffer called ``out``; ``given`` holds the
    tensors of the parameters.

    What the result begins as is copied by statements if it is computed in this group, or if the
    other statements read it.
    """
    out = Buffer("out", result.shape, result.dtype)
    body = result.body(out.name)
    if result.begins_as is None:
        return procedure(name, params, (out,), result.workspace, body)
    start = next((p for p, tensor in given.items() if tensor is result.begins_as), None)
    if start is None or start in _buffers_read(body):
        copy = copied(out.name, result.begins_as)
        return procedure(name, params, (out,), result.workspace, (*copy, *body))
    return procedure(name, params, (out,), result.workspace, body, ((out.name, start),))


def _buffers_read(body: Sequence[Stmt]) -> set[str]:
    exprs = [e for stmt in statements(tuple(body)) for e in expressions(stmt)]
    return {node.buffer for e in exprs for node in walk(e) if isinstance(node, Read)}


CHEAP = 4.0
"""Arithmetic instructions up to which a map is recomputed rather than stored."""

LONG_CHAIN = 64
"""Operators in a group from which expressions are composed in order, not by recursion alone."""


def group_to_prim(
    name: str,
    group: Function,
    constant: Collection[int] = (),
    causal: Mapping[int, int] | None = None,
) -> PrimFunc:
    """Returns the PrimFunc of a group.

    ``constant`` holds the positions of parameters that are known at compile time, ``causal`` the
    positions of causal masks and their offsets (those of ``np.tri``).

    The PrimFunc's ``sizes`` stand for those of ``group``, in this order. Raises InternalError if an
    operator in the group is not a primitive.
    """
    group, order = _with_plain_sizes(group)
    lowering = _Lowering(group, frozenset(constant))
    if any(call.operator.pattern == Pattern.OPAQUE for _, call in lowering.calls):
        made = lowering.procedure(name)
        return replace(made, size_order=order) if order else made
    if lowering.contractions > 1:
        for position, offset in (causal or {}).items():
            lowering.mask(position, offset)
    prim = lowering.prim(name)
    if order:
        prim = replace(prim, size_order=order)
    if lowering.contractions > 1:
        prim = hoist_factors(prim)
    return canonical_prim(prim)


def _with_plain_sizes(group: Function) -> tuple[Function, tuple[Symbol, ...]]:
    """Returns a group whose sizes have names that no axis has, and these sizes in order."""
    sizes = group.sizes
    if not sizes:
        return group, ()
    plain = {s.name: Symbol(f"n{n}", s.low, s.high) for n, s in enumerate(sizes.values())}
    values: dict[str, IntExpr] = {name: plain[name].expr for name in sizes}
    return with_sizes(group, values), tuple(plain.values())


class _Lowering:
    def __init__(self, group: Function, constant: frozenset[int]) -> None:
        self.group = group
        self.params = [
            Buffer(f"x{n}", tensor_type(p).shape, tensor_type(p).dtype, n in constant)
            for n, p in enumerate(group.params)
        ]
        self.values = {id(p): placeholder(b) for p, b in zip(group.params, self.params)}
        self.calls: list[tuple[Var, Call]] = []
        self.results: list[Atom] = [group.body.result]
        for binding in group.body.bindings:
            if isinstance(binding.value, Call):
                self.calls.append((binding.var, binding.value))
            elif isinstance(binding.value, Tuple) and binding.var is group.body.result:
                self.results = list(binding.value.fields)
            else:
                raise InternalError(f"{type(binding.value).__name__} inside a fused group")
        self.composed: dict[
            int, int
        ] = {}  # numbers of the calls of maps that are no stages, by id(var)
        self.stages: list[Stage] = []
        self.stored = self._choose_stages()

    def mask(self, position: int, offset: int) -> None:
        """Use the comparison that a causal mask holds in place of the parameter."""
        mask = causal_mask(self.params[position], offset)
        self.values[id(self.group.params[position])] = mask

    @property
    def contractions(self) -> int:
        return sum(call.operator.pattern == Pattern.CONTRACTION for _, call in self.calls)

    def prim(self, name: str) -> PrimFunc:
        for number in range(len(self.calls)):
            self._lower(number)
        outputs: list[str] = []
        for result in self.results:
            stage = self.stored.get(id(result))
            if stage is None or stage in outputs:
                stage = self._copy(result)
            outputs.append(stage)
        return PrimFunc(name, tuple(self.params), tuple(outputs), tuple(self.stages))

    def procedure(self, name: str) -> PrimFunc:
        """The procedure of a group that ends with an operator with state: maps in front of it are
        computed where it reads them."""
        for var, call in self.calls:
            inputs = [self._tensor(a) for a in call.args]
            result = apply_compute(call.operator, inputs, call.attrs, var.type)
            if isinstance(result, Statements):
                if [var] != self.results:
                    raise InternalError(f"{call.operator.name} is not the end of its group")
                params = zip(self.group.params, self.params)
                given = {buffer.name: self.values[id(param)] for param, buffer in params}
                return procedure_of(name, tuple(self.params), result, given)
            if isinstance(result, Reduction):
                raise InternalError("a reduction in front of an operator with state")
            self.values[id(var)] = _remembering(result)
        raise InternalError("a group without an operator with state")

    def _copy(self, result: Atom) -> str:
        """A stage that only copies, for a result that is a parameter or occurs twice."""
        tensor = self._tensor(result)
        name = f"copy{len(self.stages)}"
        self._store(name, Map(tensor.shape, tensor.dtype, tensor.element), (result,))
        return name

    def _choose_stages(self) -> dict[int, str]:
        """Returns the name of the stage of each stored value, by the identity of its variable."""
        users: dict[int, list[tuple[Var, Call]]] = {}
        pads: set[int] = set()  # and views of them
        for var, call in self.calls:
            view = Trait.PICKS in call.operator.traits and id(call.args[0]) in pads
            if view or call.operator.name == "nn.pad":
                pads.add(id(var))
            for arg in call.args:
                users.setdefault(id(arg), []).append((var, call))

        def is_factor(var: Var, call: Call) -> bool:
            """True for a contraction, and for a cast that one reads."""
            if call.operator.name == "cast":
                return any(is_factor(*user) for user in users.get(id(var), []))
            return call.operator.pattern == Pattern.CONTRACTION

        results = {id(r) for r in self.results}
        costs = self._inlined_costs()
        scores = self._scores()
        together = self._is_pointwise()
        stored: dict[int, str] = {}
        owners: dict[int, set[int]] = {}
        for var, call in reversed(self.calls):
            mine = users.get(id(var), [])
            within: set[int] = set()
            for user, _ in mine:
                within |= {id(user)} if id(user) in stored else owners.get(id(user), set())
            owners[id(var)] = within
            reduces = call.operator.pattern in (Pattern.REDUCTION, Pattern.CONTRACTION)
            reduces = reduces and not call.operator.maps
            padded = id(var) in pads and any(is_factor(v, c) for v, c in mine)
            recomputed = len(within) > 1 and (costs[id(var)] > CHEAP or id(var) in scores)
            recomputed = recomputed and not together
            if reduces or padded or recomputed or id(var) in results:
                stored[id(var)] = f"s{len(stored)}"
        return stored

    def _is_pointwise(self) -> bool:
        """True if all results are maps over one shape, so that one loop computes them."""
        kinds = {call.operator.pattern for _, call in self.calls}
        shapes = {tensor_type(r).shape for r in self.results}
        return kinds <= {Pattern.ELEMENTWISE, Pattern.BROADCAST} and len(shapes) == 1

    def _scores(self) -> set[int]:
        """Returns the maps of the first of two contractions: they are applied to its tile."""
        if self.contractions < 2:
            return set()
        kinds = [call.operator.pattern for _, call in self.calls]
        first = kinds.index(Pattern.CONTRACTION)
        scores = {id(self.calls[first][0])}
        shape = tensor_type(self.calls[first][0]).shape
        for var, call in self.calls[first + 1 :]:
            is_map = call.operator.pattern in (Pattern.ELEMENTWISE, Pattern.BROADCAST)
            if (
                is_map
                and tensor_type(var).shape == shape
                and any(id(a) in scores for a in call.args)
            ):
                scores.add(id(var))
        return scores

    def _inlined_costs(self) -> dict[int, float]:
        """Returns a rough cost of one element of each value if all maps below are recomputed."""
        costs: dict[int, float] = {}
        for var, call in self.calls:
            op = call.operator
            row = SCALAR_OPS.get(op.name)
            cost = row.cost if row else 1.0
            if op.pattern in (Pattern.REDUCTION, Pattern.CONTRACTION):
                costs[id(var)] = 0.0
            else:
                costs[id(var)] = cost + sum(costs.get(id(a), 0.0) for a in call.args)
        return costs

    def _lower(self, number: int) -> None:
        var, call = self.calls[number]
        inputs = [self._tensor(a) for a in call.args]
        result = apply_compute(call.operator, inputs, call.attrs, var.type)
        assert not isinstance(result, Statements)
        name = self.stored.get(id(var))
        if name is not None or isinstance(result, Reduction):
            buffer = self._store(name or f"r{id(var)}", result, call.args)
            self.values[id(var)] = placeholder(buffer)
            return
        self.values[id(var)] = _remembering(result)
        self.composed[id(var)] = number

    def _store(self, name: str, result: Map | Reduction, sources: Sequence[Atom]) -> Buffer:
        buffer = Buffer(name, result.shape, result.dtype)
        axes = tuple(Axis(f"{name}.a{n}", s) for n, s in enumerate(result.shape))
        over: tuple[Axis, ...] = ()
        combiner: str | None = None
        if isinstance(result, Reduction):
            over = tuple(Axis(f"{name}.r{n}", s) for n, s in enumerate(result.over))
            combiner = result.combiner
        if not over:
            self._compose(sources, tuple(symbol(a.name) for a in axes), result.shape)
        expr = result.element(*(symbol(a.name) for a in (*axes, *over)))
        self.stages.append(Stage(buffer, axes, expr, over, combiner))
        return buffer

    def _compose(
        self, sources: Sequence[Atom], indices: tuple[IndexLike, ...], shape: tuple[IntExpr, ...]
    ) -> None:
        """Composes a long chain of maps in order, since recursion would exceed Python's limit: the
        maps that ``sources`` are made of, as far as they are no stages."""
        if len(self.calls) <= LONG_CHAIN:
            return
        below: set[int] = set()
        work = [*sources]
        while work:
            number = self.composed.get(id(work.pop()))
            if number is not None and number not in below:
                below.add(number)
                work += self.calls[number][1].args
        for number in sorted(below):
            tensor = self._tensor(self.calls[number][0])
            if tensor.shape == shape:
                tensor.element(*indices)

    def _tensor(self, atom: Atom) -> Tensor:
        if isinstance(atom, Constant):
            return _constant(atom)
        return self.values[id(atom)]


def _constant(atom: Constant) -> Tensor:
    if atom.value.size != 1:
        raise InternalError("a constant array in a fused group must be one of its parameters")
    dtype = dtype_of(atom.value.dtype)
    value = const(atom.value.reshape(()).item(), dtype)
    return Tensor(tuple(atom.value.shape), dtype, lambda *_indices: value)


def _remembering(result: Map) -> Tensor:
    """Returns the tensor of a map whose equal elements are the same expression."""
    elements: dict[tuple[IndexLike, ...], Expr] = {}

    def element(*indices: IndexLike) -> Expr:
        expr = elements.get(indices)
        if expr is None:
            expr = elements[indices] = result.element(*indices)
        return expr

    return Tensor(result.shape, result.dtype, element)
