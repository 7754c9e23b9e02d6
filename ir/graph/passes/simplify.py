"""Algebra: each rule is an equation, and what stands on its left becomes what stands on its right.

Before::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %0 = multiply(%x, 1f);
      %1 = power(%0, 2f);
      negative(negative(%1))
    }

After::

    def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      multiply(%x, %x)
    }

Every rule keeps NumPy's result in dtype and value, nan, infinities and the sign of zero included.
Three kinds may differ by rounding: ``x**3`` in the last bit; ``1 + tanh(x)`` by what the sum
rounds; and ``2 * (c * x)`` where ``c * x`` is denormal. That is why there is no ``exp(log(x)) = x``
(it rounds), no ``x - x = 0`` for floats (nan, inf), and ``x + 0 = x`` only where ``x`` is no -0 or
nobody can tell.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...dtype import DTYPES
from ...loop.causal_mask import causal_offset
from ...pass_context import optional
from ...traits import Trait
from .. import nodes
from ..builder import Builder
from ..type_rules import normalise_axes, permutation
from ..walk import has_trait, map_functions, nested_blocks, operands, rewrite_function
from .eliminate_dead_code import without_dead_code
from .rules import Facts, Helper, RuleTable, dtype, parse_rules

RULES = parse_rules(
    """
    # Sums. x + 0 would turn -0 into 0; x + -0 and x - 0 change nothing.
    add(x, 0) = x                                    if zero_sign_does_not_matter(x, result)
    add(x, -0.0) = x
    subtract(x, 0) = x
    subtract(x, x) = 0                               if integer(x)
    add(x, negative(y)) = subtract(x, y)
    subtract(x, negative(y)) = add(x, y)
    negative(negative(x)) = x
    negative(subtract(x, y)) = subtract(y, x)        if integer(x)

    # Products, quotients and powers.
    (multiply | divide | power)(x, 1) = x
    multiply(x, 0) = 0                               if integer(x)
    multiply(x, -1) = negative(x)                    if signed(x)
    multiply(negative(x), negative(y)) = multiply(x, y)
    divide(x, -1) = negative(x)
    divide(x, c) = multiply(x, inverse(c))           if power_of_two(c)
    floor_divide(x, 1) = x                           if integer(x)
    floor_mod(x, 1) = 0                              if integer(x)
    power(x, 0) = 1
    power(x, 2) = multiply(x, x)
    power(x, 3) = multiply(multiply(x, x), x)
    power(x, -1) = divide(1, x)                      if floating(x)
    power(x, 1.5) = where(isinf(x), abs(x), multiply(x, sqrt(x)))    if floating(x)

    # The logistic function costs less than tanh and loses nothing where 1 + tanh(x) cancels.
    add(tanh(x), 1) = multiply(sigmoid(multiply(x, 2)), 2)
    multiply(multiply(x, c), 2) = multiply(x, twice(c))    if can_double(c)
    multiply(multiply(sigmoid(x), 2), 0.5) = sigmoid(x)
    multiply(multiply(x, 0.5), multiply(sigmoid(y), 2)) = multiply(x, sigmoid(y))
    multiply(multiply(x, multiply(sigmoid(y), 2)), 0.5) = multiply(x, sigmoid(y))

    # Functions that undo or repeat themselves.
    abs(abs(x)) = abs(x)
    abs(negative(x)) = abs(x)                        if signed(x)
    sign(sign(x)) = sign(x)
    ceil(ceil(x)) = ceil(x)
    floor(floor(x)) = floor(x)
    trunc(trunc(x)) = trunc(x)
    round(round(x)) = round(x)
    nn.relu(nn.relu(x)) = nn.relu(x)
    (maximum | minimum | fmax | fmin)(x, x) = x
    maximum(maximum(x, c), d) = maximum(x, greater_of(c, d))    if are_numbers(c, d)

    # Logic, bits and choices.
    logical_and(x, True) = x
    logical_and(x, False) = False
    (logical_and | logical_or | bitwise_and | bitwise_or)(x, x) = x
    (logical_or | logical_xor)(x, False) = x
    logical_or(x, True) = True
    logical_xor(x, True) = logical_not(x)
    logical_not(logical_not(x)) = x
    logical_not(equal(x, y)) = not_equal(x, y)
    logical_not(not_equal(x, y)) = equal(x, y)
    logical_not(less(x, y)) = greater_equal(x, y)    if integer(x)
    logical_not(less_equal(x, y)) = greater(x, y)    if integer(x)
    logical_not(greater(x, y)) = less_equal(x, y)    if integer(x)
    logical_not(greater_equal(x, y)) = less(x, y)    if integer(x)
    equal(x, True) = x
    not_equal(x, False) = x
    equal(x, x) = True                               if integer(x)
    not_equal(x, x) = isnan(x)                       if floating(x)
    (less | greater)(x, x) = False
    (bitwise_or | bitwise_xor | left_shift | right_shift)(x, 0) = x
    bitwise_and(x, 0) = 0
    bitwise_not(bitwise_not(x)) = x
    where(c, x, x) = x
    where(True, x, y) = x
    where(False, x, y) = y
    where(logical_not(c), x, y) = where(c, y, x)
    where(c, x, y) = where(complement(c), y, x)      if upper_triangle(c)

    # A softmax is NaN in whole rows: those whose weights have no sum. Otherwise that is 1 or more.
    where(isnan(q := divide(w := exp(subtract(x, max(x, axis=a, keepdims=True))),
                            s := sum(w, axis=a, keepdims=True))), 0, q) =
      where(greater(s, 0), q, 0)

    # Casts: one of two is enough if the first loses nothing.
    cast(x) = x                                      if has_dtype(x, dtype)
    cast(cast(x, dtype=c), dtype=d) = cast(x, dtype=d)    if holds_all_of(c, x)

    # Index maps.
    transpose(x, axes=p) = x                         if in_order(x, p)
    transpose(x, axes=p) = reshape(x, newshape=shape)     if moves_only_ones(x, p)
    transpose(transpose(x, axes=p), axes=q) = transpose(x, axes=one_after_the_other(x, p, q))
    nn.matmul(transpose(x), v) = nn.matmul(v, x)     if are_matrix_and_vector(x, v)
    nn.matmul(v, transpose(x)) = nn.matmul(x, v)     if are_matrix_and_vector(x, v)
    nn.grouped_matmul(a, transpose(b, axes=p), e, transposed=False) =
      nn.grouped_matmul(a, b, e, transposed=True)    if exchanges_matrices(p)
    nn.grouped_matmul(a, transpose(b, axes=p), e, transposed=True) =
      nn.grouped_matmul(a, b, e, transposed=False)   if exchanges_matrices(p)
    (reshape | squeeze | broadcast_to | nn.pad)(x) = x    if has_shape(x, shape)
    (reshape | expand_dims | squeeze)((reshape | expand_dims | squeeze)(x)) =
      reshape(x, newshape=shape)
    broadcast_to(broadcast_to(x)) = broadcast_to(x, shape=shape)
    reverse(reverse(x, axis=a), axis=a) = x
    strided_slice(x, strides=s) = x                  if has_shape(x, shape) and all_ones(s)
    concatenate(x) = x
    (max | min)(x, axis=a) = reshape(x, newshape=shape)    if one_element_each(x, a)

    # An element that becomes itself and more is updated where it lies, with one look at its index.
    index_update(x, add(take(x, i), v), i, axes=a, reduction="none") =
      index_update(x, v, i, axes=a, reduction="add")  if is_element(x, i)
    index_update(x, subtract(take(x, i), v), i, axes=a, reduction="none") =
      index_update(x, negative(v), i, axes=a, reduction="add")  if is_element(x, i) and signed(v)
    index_update(x, multiply(take(x, i), v), i, axes=a, reduction="none") =
      index_update(x, v, i, axes=a, reduction="mul")  if is_element(x, i)
    """
)


@optional(level=1)
def simplify(module: nodes.Module) -> nodes.Module:
    """Applies ``RULES`` until none matches, and removes bindings without users."""
    return map_functions(module, _simplify_function)


def _simplify_function(function: nodes.Function) -> nodes.Function:
    before = function
    while (after := _simplify_once(function)) is not function:
        function = after
    return function if function is before else without_dead_code(function)


def _simplify_once(function: nodes.Function) -> nodes.Function:
    facts = Facts(unseen_zero_sign=_unseen_zero_signs(function))

    def step(var: nodes.Var, value: nodes.Expr, builder: Builder) -> nodes.Atom | None:
        if isinstance(value, nodes.Var | nodes.Constant | nodes.GlobalVar):
            return value
        if isinstance(value, nodes.TupleGetItem) and isinstance(value.value, nodes.Var):
            fields = facts.values.get(value.value)
            return fields.fields[value.index] if isinstance(fields, nodes.Tuple) else None
        if isinstance(value, nodes.Call) and not isinstance(value.op, nodes.GlobalVar | nodes.Var):
            simpler = TABLE.apply(facts, var, value, builder)
            if simpler is not None:
                return simpler
            if _is_never_negative_zero(value, facts):
                facts.no_negative_zero.add(var)
        facts.values[var] = value
        return None

    return rewrite_function(function, step)


def _unseen_zero_signs(function: nodes.Function) -> set[nodes.Var]:
    """Variables of which every user takes -0 for 0."""
    used: set[nodes.Var] = set()
    seen: set[nodes.Var] = set()
    blocks = [function.body]
    while blocks:
        block = blocks.pop()
        if isinstance(block.result, nodes.Var):
            seen.add(block.result)
        for binding in block.bindings:
            value = binding.value
            variables = {a for a in operands(value) if isinstance(a, nodes.Var)}
            blind = has_trait(value, Trait.IGNORES_ZERO_SIGN)
            (used if blind else seen).update(variables)
            blocks += nested_blocks(value)
    return used - seen


def _is_never_negative_zero(call: nodes.Call, facts: Facts) -> bool:
    name = call.op.name
    if name == "multiply":
        return call.args[0] is call.args[1]
    if name == "add":  # a sum is -0 only if both terms are
        return any(_not_negative_zero(facts, a) for a in call.args)
    if name == "sum":  # it begins with 0; the sum of one element may be the element
        kind = nodes.tensor_type(call.args[0])
        axes = normalise_axes(call.attrs["axis"], kind.rank, kind)
        return any(kind.shape[axis] != 1 for axis in axes)
    if name == "cast":
        return not dtype(call.args[0]).is_float
    return has_trait(call, Trait.NEVER_NEGATIVE_ZERO)


def _not_negative_zero(facts: Facts, atom: nodes.Atom) -> bool:
    number = facts.number(atom)
    if number is not None:
        return not (number == 0 and np.signbit(number))
    return atom in facts.no_negative_zero


def _zero_sign_does_not_matter(facts: Facts, x: nodes.Atom, result: nodes.Var) -> bool:
    return not dtype(x).is_float or result in facts.unseen_zero_sign or _not_negative_zero(facts, x)


def _power_of_two(facts: Facts, c: nodes.Atom) -> bool:
    """True if dividing by ``c`` is the same as multiplying by its inverse, to the last bit."""
    number = facts.number(c)
    if number is None or number == 0 or not math.isfinite(number):
        return False
    mantissa, exponent = math.frexp(abs(float(number)))
    return mantissa == 0.5 and abs(exponent) < 100


def _inverse(facts: Facts, c: nodes.Atom) -> nodes.Constant:
    number = facts.number(c)
    return nodes.Constant(np.array(1 / number, number.dtype))


def _are_numbers(facts: Facts, c: nodes.Atom, d: nodes.Atom) -> bool:
    """True if ``c`` and ``d`` are numbers, neither of them nan."""
    numbers = facts.number(c), facts.number(d)
    return all(number is not None and number == number for number in numbers)


def _greater_of(facts: Facts, c: nodes.Atom, d: nodes.Atom) -> nodes.Constant:
    return nodes.Constant(np.array(np.maximum(facts.number(c), facts.number(d))))


def _upper_triangle(_facts: Facts, c: nodes.Atom) -> bool:
    """True for a constant mask of what lies above a diagonal. Kernels leave out what is masked by
    the complement of one: ``np.tri`` is the form they know."""
    if not isinstance(c, nodes.Constant) or c.value.dtype != np.bool_ or c.value.ndim < 2:
        return False
    return causal_offset(~c.value) is not None


def _complement(_facts: Facts, c: nodes.Atom) -> nodes.Constant:
    assert isinstance(c, nodes.Constant)
    return nodes.Constant(~c.value)


def _can_double(facts: Facts, c: nodes.Atom) -> bool:
    """True if ``2 * c`` is a finite number, and 2 (c x) = (2 c) x but for what denormals lose."""
    number = facts.number(c)
    if number is None or not dtype(c).is_float:
        return False
    limits = np.finfo(number.dtype)
    return bool(limits.tiny <= abs(number) <= limits.max / 2)


def _twice(facts: Facts, c: nodes.Atom) -> nodes.Constant:
    number = facts.number(c)
    return nodes.Constant(np.array(2 * number, number.dtype))


def _holds_all_of(_facts: Facts, wide: str, x: nodes.Atom) -> bool:
    """True if every value of the dtype of ``x`` is one of ``wide``."""
    narrow, target = dtype(x), DTYPES[wide]
    if narrow.is_integer and target.is_float:
        return narrow.bits <= target.fraction_bits
    return bool(np.can_cast(narrow.numpy, target.numpy, "safe"))


def _one_after_the_other(
    _facts: Facts, x: nodes.Atom, p: tuple[int, ...] | None, q: tuple[int, ...] | None
) -> tuple[int, ...]:
    rank = nodes.tensor_type(x).rank
    return tuple(permutation(p, rank)[a] for a in permutation(q, rank))


def _in_order(_facts: Facts, x: nodes.Atom, axes: tuple[int, ...] | None) -> bool:
    return permutation(axes, rank := nodes.tensor_type(x).rank) == (*range(rank),)


def _are_matrix_and_vector(_facts: Facts, x: nodes.Atom, v: nodes.Atom) -> bool:
    return (nodes.tensor_type(x).rank, nodes.tensor_type(v).rank) == (2, 1)


def _moves_only_ones(_facts: Facts, x: nodes.Atom, axes: tuple[int, ...] | None) -> bool:
    shape = nodes.tensor_type(x).shape
    long = [a for a in permutation(axes, len(shape)) if shape[a] != 1]
    return long == sorted(long)


def _one_element_each(_facts: Facts, x: nodes.Atom, axis: Any) -> bool:
    shape = nodes.tensor_type(x).shape
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return all(shape[a] == 1 for a in axes)


HELPERS: dict[str, Helper] = {
    "are_numbers": _are_numbers,
    "greater_of": _greater_of,
    "all_ones": lambda _facts, values: all(v == 1 for v in values),
    "can_double": _can_double,
    "floating": lambda _facts, x: dtype(x).is_float,
    "exchanges_matrices": lambda _facts, p: tuple(p) == (0, 2, 1),
    "has_dtype": lambda _facts, x, name: dtype(x).name == name,
    "has_shape": lambda _facts, x, shape: nodes.tensor_type(x).shape == shape,
    "holds_all_of": _holds_all_of,
    "in_order": _in_order,
    "integer": lambda _facts, x: dtype(x).is_integer,
    "is_element": lambda _facts, x, i: (
        len(nodes.tensor_type(x).shape) == 1 and not nodes.tensor_type(i).shape
    ),
    "complement": _complement,
    "inverse": _inverse,
    "moves_only_ones": _moves_only_ones,
    "are_matrix_and_vector": _are_matrix_and_vector,
    "one_after_the_other": _one_after_the_other,
    "one_element_each": _one_element_each,
    "power_of_two": _power_of_two,
    "signed": lambda _facts, x: dtype(x).is_float or dtype(x).is_signed,
    "twice": _twice,
    "upper_triangle": _upper_triangle,
    "zero_sign_does_not_matter": _zero_sign_does_not_matter,
}

TABLE = RuleTable(RULES, HELPERS)
