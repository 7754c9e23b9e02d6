"""Linearisation: a block as values that are computed first, and a linear part that needs them.

What the linear part reads of the rest are its *residuals*. Those from a branch are further results
of it. Those of a loop's iterations are kept in arrays, a row for each iteration::

    %0 = for (%i < 10; %x = %x0) {                      %x' is sin(%x)
      ...
    }

becomes, with a tangent ``%t`` of ``%x0``::

    %0 = for (%i < 10; %x = %x0, %rows = zeros) {       the values, and cos(%x) in each iteration
      %1 = sin(%x);
      %2 = cos(%x);
      %3 = index_update(%rows, %2, %i, axes=[0]);
      (%1, %3)
    };
    %4 = for (%i < 10; %x.t = %t) {                     the tangents
      %5 = take(%rows, %i, axis=0);
      %6 = multiply(%x.t, %5);
      (%6,)
    }

What is cheap to compute from other residuals, from the index or from outside is not kept, but
computed again.

A ``while`` first counts its iterations, and is then a loop over as many. A loop whose number of
iterations values decide has no size for its rows: it becomes loops of at most ``kept_iterations``
(``GraphLimits``) inside of one another. The outer ones keep nothing but what they carry, and run
the inner ones again (Griewank, Walther: "Algorithm 799: revolve", 2000, with a fixed number of
checkpoints).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...dataclass import dataclass
from ...dims import IntExpr
from ...errors import LoopwrightTypeError, UnsupportedError
from ...traits import Trait
from ..builder import Builder
from ..compose import call
from ..loops import filled, int64, next_values
from ..nodes import Atom, Binding, Block, Call, Constant, Expr, For, If, Var, While
from ..operator import OPERATORS, Pattern
from ..patterns import is_constant, is_op, match, wildcard
from ..types import TensorType
from ..walk import all_uses, copy_block, has_trait, set_by, sizes_used
from .forward import Fields, Tangents, or_zeros, tangent_var
from .rules import Derived
from .transpose import Cotangents, partition


@dataclass(frozen=True, slots=True)
class Linear:
    """The linear part of a block: from the tangents ``inputs`` to those of its ``results``, which
    are None where they are 0."""

    inputs: Sequence[Var]
    bindings: Sequence[Binding]
    results: Sequence[Atom | None]
    derived: Derived

    def push(self, tangents: Sequence[Atom], builder: Builder) -> list[Atom | None]:
        """Emits the tangents of the results for tangents of the inputs."""
        instead: dict[Var, Atom] = dict(zip(self.inputs, tangents, strict=True))
        builder.bindings += copy_block(Block(tuple(self.bindings), tangents[0]), instead).bindings
        return [instead.get(r, r) if isinstance(r, Var) else r for r in self.results]

    def pull(self, cotangents: Sequence[Atom | None], builder: Builder) -> list[Atom | None]:
        """Emits the cotangents of the inputs for cotangents of the results."""
        linear = {*self.inputs, *(b.var for b in self.bindings)}
        back = Cotangents(builder, linear, self.derived)
        for result, cotangent in zip(self.results, cotangents, strict=True):
            if result is not None:
                back.add(result, cotangent)
        back.run(self.bindings)
        return [back.of.get(v) for v in self.inputs]


def linearise(
    block: Block, moving: Sequence[Var], builder: Builder, derived: Derived
) -> tuple[list[Atom], Linear]:
    """Emits the values of a block. Returns its results, and its linear part as a function of the
    tangents of the variables ``moving``. ``derived`` has the derivatives of functions."""
    inputs = [tangent_var(v) for v in moving]
    tangents = Tangents(
        Builder(limits=builder.limits), dict(zip(moving, inputs, strict=True)), derived, _split
    )
    values, results = tangents.outcome(block)
    rest, linear = partition(tangents.builder.bindings, set(inputs))
    builder.bindings += rest
    return values, Linear(inputs, linear, results, derived)


def _split(outer: Tangents, var: Var, value: If | For | While) -> None:
    if isinstance(value, If):
        _split_branch(outer, var, value)
        return
    if all(outer.get(a) is None for a in value.initial) and not _takes(outer, value):
        outer.keep(var, value)
        outer.fields[var] = [None] * len(value.params)
    elif isinstance(value, For) and _rows_of(outer, value.extent) is not None:
        _split_loop(outer, var, value)
    else:
        extent = value.extent if isinstance(value, For) else _counted(outer, value)
        index = value.index if isinstance(value, For) else Var("i", extent.type)
        made = _in_pieces(
            value, index, extent, int64(0), outer.builder.limits.nested_pieces, outer.builder
        )
        outer.bindings(made.bindings)
        outer.keep(var, made.result)
        assert isinstance(made.result, Var)
        outer.fields[var] = outer.fields[made.result]


def _counted(outer: Tangents, loop: While) -> Atom:
    """Emits a loop for the number of its iterations."""
    count, inside = Var("n", int64(0).type), Builder(limits=outer.builder.limits)
    following = next_values(loop.body)
    assert following is not None
    inside.bindings += [b for b in loop.body.bindings if b.var is not loop.body.result]
    body = inside.block(inside.make_tuple([*following, call(inside, "add", count, int64(1))]))
    params = [*loop.params, count]
    instead: dict[Var, Atom] = {p: Var(p.name, p.type, p.span) for p in params}
    copies = [instead[p] for p in params]
    bound = outer.builder.while_loop(
        copies,  # pyright: ignore[reportArgumentType]
        [*loop.initial, int64(0)],
        copy_block(loop.condition, dict(instead)),
        copy_block(body, instead),
        span=loop.span,
    )
    return outer.builder.get_item(bound, len(loop.params))


def _in_pieces(
    loop: For | While, index: Var, extent: Atom, first: Atom, level: int, builder: Builder
) -> Block:
    """Returns the iterations of a loop from ``first`` to ``extent``, at most ``kept_iterations``
    to the power of ``level``, as a block that results in what they carry."""
    outside = Builder(limits=builder.limits, span=loop.span)
    most = builder.limits.kept_iterations
    size = most ** (level - 1)
    rest = call(outside, "subtract", extent, first)
    pieces = call(outside, "floor_divide", call(outside, "add", rest, int64(size - 1)), int64(size))
    count = call(outside, "minimum", pieces, int64(most))
    inside, number = Builder(limits=builder.limits, span=loop.span), Var("i", index.type)
    at = call(inside, "add", first, call(inside, "multiply", number, int64(size)))
    params = [Var(p.name, p.type, p.span) for p in loop.params]
    if level == 1:
        instead: dict[Var, Atom] = {index: at, **dict(zip(loop.params, params))}
        made = copy_block(loop.body, instead)
    else:
        piece = replace(loop, initial=tuple(params))
        made = _in_pieces(piece, index, extent, at, level - 1, builder)
    inside.bindings += made.bindings
    body = inside.block(made.result)
    return outside.block(outside.for_loop(number, count, params, loop.initial, body))


def _takes(outer: Tangents, value: Expr) -> bool:
    """True if a loop or branch uses a value from outside that has a tangent."""
    return any(u in outer.of for u in all_uses(value))


def _linear_outside(outer: Tangents) -> set[Var]:
    fields = (f for each in outer.fields.values() for f in each)
    return {a for a in (*outer.of.values(), *fields) if isinstance(a, Var)}


def _residuals(
    linear: Sequence[Binding], rest: Sequence[Binding], params: Sequence[Var] = ()
) -> list[Var]:
    """Returns the variables of a body that its linear part uses, and the values of its sizes."""
    setters = [b for b in rest if has_trait(b.value, Trait.SETS_SIZE)]
    used = {u for b in [*linear, *setters] for u in all_uses(b.value)}
    used |= {b.var for b in setters}
    return [v for v in (*params, *(b.var for b in rest)) if v in used]


def _without_sizes(kept: Sequence[Var], rest: Sequence[Binding]) -> Sequence[Var]:
    """Returns ``kept``. UnsupportedError if the shape of one has a size that ``rest`` sets."""
    inside = {name for b in rest for name in set_by(b.value)}
    if any(not inside.isdisjoint(sizes_used(v, v)) for v in kept):
        raise UnsupportedError(
            "the derivative needs an array whose size changes inside of a loop or branch",
            hint="one of a fixed size, where elements are 0 or chosen by np.where",
        )
    return kept


def _split_branch(outer: Tangents, var: Var, branch: If) -> None:
    sides = [outer.inside({}), outer.inside({})]
    outcomes = [s.outcome(b) for s, b in zip(sides, (branch.then, branch.orelse), strict=True)]
    outside = _linear_outside(outer)
    parts = [partition(side.builder.bindings, set(outside)) for side in sides]
    kept = [_without_sizes(_residuals(linear, rest), rest) for rest, linear in parts]
    blocks: list[Block] = []
    for n, (values, _) in enumerate(outcomes):
        inside = Builder(limits=outer.builder.limits)
        inside.bindings += parts[n][0]
        fields = list(values)
        for other, residuals in enumerate(kept):
            fields += (r if n == other else filled(r.type, 0, inside) for r in residuals)
        blocks.append(inside.block(inside.make_tuple(fields)))
    bound = outer.builder.cond(branch.condition, *blocks, span=branch.span)
    count = len(outcomes[0][0])
    moving = [n for n in range(count) if any(t[n] is not None for _, t in outcomes)]
    residual_atoms = [
        outer.builder.get_item(bound, count + n) for n in range(len(kept[0]) + len(kept[1]))
    ]
    values = [outer.builder.get_item(bound, n) for n in range(count)]
    tangents: Fields = [None] * count
    if moving:
        linear_blocks: list[Block] = []
        for n, (_, moved) in enumerate(outcomes):
            first = len(kept[0]) * n
            instead: dict[Var, Atom] = dict(zip(kept[n], residual_atoms[first:]))
            inside = Builder(limits=outer.builder.limits)
            inside.bindings += [b for b in parts[n][0] if has_trait(b.value, Trait.SETS_SIZE)]
            inside.bindings += parts[n][1]
            ends = [or_zeros(moved[k], values[k].type, inside) for k in moving]
            linear_blocks.append(copy_block(inside.block(inside.make_tuple(ends)), instead))
        bound = outer.builder.cond(branch.condition, *linear_blocks, span=branch.span)
        for n, k in enumerate(moving):
            tangents[k] = outer.builder.get_item(bound, n)
    outer.bind_results(var, values, tangents)


def _split_loop(outer: Tangents, var: Var, loop: For) -> None:
    rows = _rows_of(outer, loop.extent)
    assert rows is not None
    if rows == 0:
        outer.bind_results(var, loop.initial, [outer.get(a) for a in loop.initial])
        return
    moving, inside, tangents, ends, moved = outer.traced_body(loop)
    if not any(t is not None for t in moved) and not moving:
        outer.keep(var, loop)
        outer.fields[var] = [None] * len(loop.params)
        return
    limits = outer.builder.limits
    rest, linear = partition(inside.builder.bindings, {*_linear_outside(outer), *tangents})
    residuals = _residuals(linear, rest, loop.params)
    if _is_piece(outer, loop.extent) and any(isinstance(b.value, For) for b in loop.body.bindings):
        used = {u for b in [*rest, *linear] for u in all_uses(b.value)}
        kept, repeated = [p for p in loop.params if p in used], rest
    else:
        kept, repeated = _kept_and_computed(residuals, rest, (loop.index, *loop.params))
    kept = _without_sizes(kept, rest)

    # The values, with a row of each residual that is kept.
    body = Builder(limits=limits)
    body.bindings += rest
    stacks = [
        Var(f"{v.name}.rows", TensorType((rows, *_tensor(v).shape), _tensor(v).dtype)) for v in kept
    ]
    written = [
        call(body, "index_update", stack, v, loop.index, axes=(0,))
        for stack, v in zip(stacks, kept, strict=True)
    ]
    begins = [
        call(outer.builder, "empty", shape=_tensor(s).shape, dtype=_tensor(s).dtype.name)
        for s in stacks
    ]
    carried = [*loop.params, *stacks]
    bound = outer.builder.for_loop(
        loop.index,
        loop.extent,
        carried,
        [*loop.initial, *begins],
        body.block(body.make_tuple([*ends, *written])),
        span=loop.span,
    )
    items = [outer.builder.get_item(bound, n) for n in range(len(carried))]
    count = len(loop.params)

    # The tangents.
    index = Var(loop.index.name, loop.index.type, loop.index.span)
    reads = Builder(limits=limits)
    instead: dict[Var, Atom] = {loop.index: index}
    for v, stack in zip(kept, items[count:], strict=True):
        instead[v] = call(reads, "take", stack, index, axis=0)
    part = Builder(limits=limits)
    part.bindings += [*repeated, *linear]
    result = part.make_tuple([or_zeros(moved[n], ends[n].type, part) for n in moving])
    params = [Var(t.name, t.type, t.span) for t in tangents]
    instead.update(zip(tangents, params))
    copied = copy_block(part.block(result), instead)
    reads.bindings += copied.bindings
    initial = [
        or_zeros(outer.get(loop.initial[n]), loop.params[n].type, outer.builder) for n in moving
    ]
    bound = outer.builder.for_loop(
        index, loop.extent, params, initial, reads.block(copied.result), span=loop.span
    )
    results: Fields = [None] * count
    for n, k in enumerate(moving):
        results[k] = outer.builder.get_item(bound, n)
    outer.bind_results(var, items[:count], results)


def _tensor(var: Var) -> TensorType:
    if not isinstance(var.type, TensorType):
        raise LoopwrightTypeError("a tuple inside of a loop, which its derivative needs")
    return var.type


def _kept_and_computed(
    residuals: Sequence[Var], rest: Sequence[Binding], params: Sequence[Var]
) -> tuple[list[Var], list[Binding]]:
    """Returns the residuals of a loop's iterations that are kept, and the bindings that compute the
    others again: maps of the index, of what is outside of the loop, and of residuals that are
    kept."""
    index, *carries = params
    definitions = {b.var: b.value for b in rest}
    wanted = set(residuals)
    computed: dict[Var, bool] = {index: True, **dict.fromkeys(carries, False)}

    def is_cheap(var: Var) -> bool:
        value = definitions[var]
        return has_trait(value, Trait.SETS_SIZE) or (
            isinstance(value, Call)
            and value.op is not OPERATORS.get("random")
            and not isinstance(value.op, Var)
            and getattr(value.op, "pattern", Pattern.OPAQUE) <= Pattern.INJECTIVE
        )

    for binding in rest:  # in order, so that operands are decided before
        uses = [u for u in all_uses(binding.value) if u in definitions or u in computed]
        computed[binding.var] = is_cheap(binding.var) and all(
            computed[u] or u in wanted for u in uses
        )
    kept = [v for v in residuals if not computed[v]]
    needed = set(residuals) - set(kept)
    repeated: list[Binding] = []
    for binding in reversed(rest):
        if binding.var in needed and computed[binding.var]:
            repeated.append(binding)
            needed |= {u for u in all_uses(binding.value) if u in definitions}
    return kept, repeated[::-1]


def _rows_of(outer: Tangents, extent: Atom) -> IntExpr | None:
    """Returns the most iterations of a loop as a size; None if that is not known."""
    if isinstance(extent, Constant):
        return max(0, int(extent.value))
    full = match(
        is_op("full").has_attr({"fill_value": wildcard("size")}), extent, outer.definitions
    )
    if full is not None:
        return full["size"]
    return outer.builder.limits.kept_iterations if _is_piece(outer, extent) else None


def _is_piece(outer: Tangents, extent: Atom) -> bool:
    """True for the number of iterations of a loop that is a piece of another one."""
    most = is_constant(outer.builder.limits.kept_iterations)
    return match(is_op("minimum")(wildcard(), most), extent, outer.definitions) is not None
