"""Solves the requirements of functions for their sizes.

What a function requires holds in all of its calls, so that a size that equals another one is
written as the other one, and a range is as narrow as it must be. What is not solved stays.

Before::

    def @main(%x: Tensor[(n), float32], %y: Tensor[(m), float32]) -> Tensor[(n), float32] {
      requires n == m "add: operands do not broadcast";
      requires n <= 64 "guard";
      add(%x, %y)
    }

After::

    def @main[n in 0..64](
      %x: Tensor[(n), float32],
      %y: Tensor[(n), float32]
    ) -> Tensor[(n), float32] {
      add(%x, %y)
    }
"""

from __future__ import annotations

import math
from dataclasses import replace

from ... import dims
from ...dims import Atom as SizeAtom
from ...errors import LoopwrightTypeError
from ..nodes import Atom, Binding, Block, Function, GlobalVar, Module
from ..requirements import Requirement
from ..walk import map_functions, map_operands, nested_blocks, with_nested_blocks, with_sizes


def apply_requirements(module: Module) -> Module:
    """Writes every size as few others, with the narrowest ranges. LoopwrightTypeError if there are
    no sizes that satisfy what a function requires."""
    functions = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function) and function.requirements:
            functions[name] = _solved(function)
    if all(functions[name] is function for name, function in module.functions.items()):
        return module
    return _with_signatures(module.with_functions(functions))


def _solved(function: Function) -> Function:
    values, left = solve(function.requirements)
    if not values and len(left) == len(function.requirements):
        return function
    return replace(with_sizes(function, values), requirements=left)


def _with_signatures(module: Module) -> Module:
    """Gives references to functions the types that these have now."""
    kinds = {n: f.type for n, f in module.functions.items() if isinstance(f, Function)}

    def atom(a: Atom) -> Atom:
        if isinstance(a, GlobalVar) and a.name in kinds and kinds[a.name] != a.type:
            return replace(a, type=kinds[a.name])
        return a

    def block(old: Block) -> Block:
        bindings: list[Binding] = []
        for binding in old.bindings:
            value = map_operands(binding.value, atom)
            value = with_nested_blocks(value, [block(b) for b in nested_blocks(value)])
            same = value is binding.value
            bindings.append(binding if same else replace(binding, value=value))
        same = all(a is b for a, b in zip(bindings, old.bindings))
        return old if same else Block(tuple(bindings), atom(old.result))

    return map_functions(module, lambda function: function.with_body(block(function.body)))


def solve(
    requirements: tuple[Requirement, ...],
) -> tuple[dict[str, dims.IntExpr], tuple[Requirement, ...]]:
    """Returns what the sizes are in terms of others, and the requirements that are left.

    LoopwrightTypeError if one of them is known to be false.
    """
    values: dict[str, dims.IntExpr] = {}
    left = list(requirements)
    position = 0
    while position < len(left):
        wanted = left[position]
        if wanted.decided is False:
            raise LoopwrightTypeError(
                f"no sizes satisfy {wanted}: {wanted.message}", span=wanted.span
            )
        step = None if wanted.decided else _step(wanted)
        if step is None:
            position += 1
            continue
        values = {name: dims.substitute(value, step) for name, value in values.items()}
        values.update({name: value for name, value in step.items() if name not in values})
        left = [r.substitute(step) for r in left]
        position = 0
    return values, tuple(r for r in left if not r.decided)


def _step(wanted: Requirement) -> dict[str, dims.IntExpr] | None:
    """Returns sizes in terms of others that a requirement gives; None if it says no more."""
    difference = wanted.right - wanted.left
    if not isinstance(difference, dims.Dim):
        return None
    if wanted.relation == "==":
        return _equal(difference, dims.size_symbols(wanted.right, wanted.left))
    if wanted.relation == "!=":
        return _excluded(difference)
    return _narrowed(difference - (wanted.relation == "<"))


def _equal(zero: dims.Dim, sizes: dict[str, dims.Symbol]) -> dict[str, dims.IntExpr] | None:
    """Solves ``zero == 0`` for one of the sizes, or for a multiple that a remainder of 0 says it
    is."""
    for name, unknown in sizes.items():
        coefficient, rest = _linear(zero, unknown)
        if abs(coefficient) != 1 or name in dims.symbols(rest):
            continue
        value = -rest * coefficient
        narrower = _within(value, unknown)
        return {**narrower, name: dims.substitute(value, narrower)}
    for atoms, coefficient in zero.terms:
        atom = atoms[-1] if atoms else None
        if isinstance(atom, dims.FloorDiv) and _is_remainder(zero, atoms, coefficient):
            assert isinstance(atom.right, int)
            return _multiple(atom.left, atom.right, 0)
        if len(atoms) != 1 or abs(coefficient) != 1:
            continue
        value = (coefficient * dims.of_atom(atoms[0]) - zero) * coefficient  # of the atom
        step: dict[str, dims.IntExpr] | None = None
        if isinstance(atom, dims.Mod) and isinstance(atom.right, int) and isinstance(value, int):
            step = _multiple(atom.left, atom.right, value)
        elif isinstance(atom, dims.Min | dims.Max) and value in (atom.left, atom.right):
            other = atom.right if value == atom.left else atom.left
            step = _narrowed(other - value if isinstance(atom, dims.Min) else value - other)
        if step is not None:
            return step
    return None


def _is_remainder(zero: dims.Dim, atoms: tuple[SizeAtom, ...], coefficient: int) -> bool:
    """True if ``zero`` is ``factor * (left - right * (left // right))`` for the quotient that is
    the last of the atoms of one of its terms."""
    *others, quotient = atoms
    assert isinstance(quotient, dims.FloorDiv)
    if not isinstance(quotient.right, int) or coefficient % quotient.right:
        return False
    factor = dims.product(dims.of_atom(atom) for atom in others) * -(coefficient // quotient.right)
    return zero == factor * (quotient.left - quotient.right * dims.of_atom(quotient))


def _multiple(value: dims.IntExpr, divisor: int, remainder: int) -> dict[str, dims.IntExpr] | None:
    """Solves ``value % divisor == remainder`` where the value is linear in one size."""
    sizes = dims.size_symbols(value)
    if len(sizes) != 1 or not isinstance(value, dims.Dim):
        return None
    ((name, unknown),) = sizes.items()
    factor, more = _linear(value, unknown)
    common = math.gcd(factor, divisor)
    if isinstance(more, dims.Dim) or (remainder - more) % common or unknown.low is None:
        return None
    assert unknown.high is not None
    step = divisor // common
    shift = (remainder - more) // common * pow(factor // common, -1, step) % step
    low, high = -(-(unknown.low - shift) // step), (unknown.high - shift) // step
    return {name: step * dims.size(name, low, high) + shift} if low <= high else None


def _linear(value: dims.Dim, unknown: dims.Symbol) -> tuple[int, dims.IntExpr]:
    """Returns the coefficient of a size, and the other terms."""
    coefficient = next((c for atoms, c in value.terms if atoms == (unknown,)), 0)
    return coefficient, value - coefficient * unknown.expr


def _within(value: dims.IntExpr, unknown: dims.Symbol) -> dict[str, dims.IntExpr]:
    """Narrows the size in ``value``, if it is one alone, so that the value is in a range."""
    if not isinstance(value, dims.Dim) or unknown.low is None or unknown.high is None:
        return {}
    lower = _narrowed(value - unknown.low) or {}
    return lower | (_narrowed(unknown.high - dims.substitute(value, lower)) or {})


def _narrowed(positive: dims.IntExpr) -> dict[str, dims.IntExpr] | None:
    """Narrows the range of a size so that ``positive`` is not negative, if it is linear in one."""
    sizes = dims.size_symbols(positive)
    if len(sizes) != 1 or not isinstance(positive, dims.Dim):
        return None
    ((name, unknown),) = sizes.items()
    coefficient, rest = _linear(positive, unknown)
    if not coefficient or isinstance(rest, dims.Dim) or unknown.low is None or unknown.high is None:
        return None
    low, high = unknown.low, unknown.high
    if coefficient > 0:
        low = max(low, -(rest // coefficient))
    else:
        high = min(high, rest // -coefficient)
    if low > high or (low, high) == unknown.range:
        return None
    return {name: dims.size(name, low, high) if low < high else low}


def _excluded(nonzero: dims.Dim) -> dict[str, dims.IntExpr] | None:
    """Narrows a range whose end is not a value of the size."""
    inside = dims.bounds(nonzero, {})
    if inside is None or 0 not in inside:
        return None
    return _narrowed(nonzero - 1 if inside[0] == 0 else -nonzero - 1)
