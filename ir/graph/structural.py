"""When two programs are the same: equal up to the names of variables and of constants.

Equality is equality of a canonical text, so that equality and hash cannot disagree: variables are
numbered, spans left out, and a constant is named by a digest of its dtype, shape and bytes.
Bindings count in their order, attributes with their types, floats by their bits (0 and -0 differ).
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import replace

from . import nodes
from .operator import Operator
from .printer import as_text, value_text
from .walk import map_operands, nested_blocks, nested_params, operands, with_nested_blocks

_COMPARED_BYTES = 1 << 15
"""Constants up to this size are compared by content; bigger ones by being the same array."""


def structural_hash(program: nodes.Module | nodes.Function) -> str:
    """32 hexadecimal digits that equal programs share, in this process and in every other.

    The functions of a module keep their names, since calls refer to them, but not their order.
    """
    return hashlib.blake2b(canonical_text(program).encode(), digest_size=16).hexdigest()


def canonical_text(program: nodes.Module | nodes.Function) -> str:
    """Returns the text that equal programs share."""
    if isinstance(program, nodes.Function):
        return as_text(_anonymous(program, {}), spans=False)
    functions = sorted(program.functions.items())
    return as_text(
        nodes.Module(
            {n: _anonymous(f, {}) if isinstance(f, nodes.Function) else f for n, f in functions},
            types=dict(sorted(program.types.items())),
        ),
        spans=False,
    )


def _anonymous(function: nodes.Function, instead: dict[nodes.Var, nodes.Var]) -> nodes.Function:
    """``function`` with new variables that have no names, and constants named by their content."""
    params = tuple(_rename(p, instead) for p in function.params)
    attrs = dict(sorted(function.attrs.items()))
    body = _anonymous_block(function.body, instead)
    plain = tuple(replace(r, message="", span=None) for r in function.requirements)
    return nodes.Function(params, body, attrs, None, plain, function.type_params)


def _rename(var: nodes.Var, instead: dict[nodes.Var, nodes.Var]) -> nodes.Var:
    new = instead[var] = nodes.Var("", var.type)
    return new


def _anonymous_block(block: nodes.Block, instead: dict[nodes.Var, nodes.Var]) -> nodes.Block:
    def atom(a: nodes.Atom) -> nodes.Atom:
        if isinstance(a, nodes.Constant) and a.value.ndim:
            return nodes.Constant(a.value, _digest(a))
        return instead.get(a, a) if isinstance(a, nodes.Var) else a

    bindings: list[nodes.Binding] = []
    for binding in block.bindings:
        value = map_operands(binding.value, atom)
        if isinstance(value, nodes.Function):
            value = _anonymous(value, instead)
        elif blocks := nested_blocks(value):
            params = [_rename(p, instead) for p in nested_params(value)]
            inside = [_anonymous_block(b, instead) for b in blocks]
            value = with_nested_blocks(value, inside, params)
        bindings.append(nodes.Binding(_rename(binding.var, instead), value))
    return nodes.Block(tuple(bindings), atom(block.result))


def _digest(constant: nodes.Constant) -> str:
    array = constant.value
    content = f"{array.dtype}{array.shape}".encode() + array.tobytes()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def atom_key(atom: nodes.Atom) -> Hashable:
    """Equal for atoms that are certainly the same value."""
    if isinstance(atom, nodes.Constant):
        array = atom.value
        if array.nbytes > _COMPARED_BYTES:
            return id(array)
        return (array.dtype.name, array.shape, array.tobytes())
    return atom.name if isinstance(atom, nodes.GlobalVar) else atom


def equal_blocks(left: nodes.Block, right: nodes.Block) -> bool:
    """True if two blocks of one function certainly compute the same from the variables around."""
    return _equal_blocks(left, right, {})


def _equal_blocks(left: nodes.Block, right: nodes.Block, pairs: dict[nodes.Var, nodes.Var]) -> bool:
    """``pairs`` has the variable on the right for each that was bound on the left."""

    def equal_atoms(a: nodes.Atom, b: nodes.Atom) -> bool:
        return atom_key(pairs.get(a, a) if isinstance(a, nodes.Var) else a) == atom_key(b)

    if len(left.bindings) != len(right.bindings):
        return False
    for one, other in zip(left.bindings, right.bindings):
        a, b = one.value, other.value
        if type(a) is not type(b) or one.var.type != other.var.type or detail(a) != detail(b):
            return False
        atoms, params = (operands(a), operands(b)), (nested_params(a), nested_params(b))
        if len(atoms[0]) != len(atoms[1]) or not all(map(equal_atoms, *atoms)):
            return False
        if [p.type for p in params[0]] != [p.type for p in params[1]]:
            return False
        pairs.update(zip(*params))
        blocks = zip(nested_blocks(a), nested_blocks(b), strict=True)
        if not all(_equal_blocks(x, y, pairs) for x, y in blocks):
            return False
        pairs[one.var] = other.var
    return equal_atoms(left.result, right.result)


def detail(value: nodes.Expr) -> Hashable:
    """Returns what an expression says besides its operands and blocks."""
    if isinstance(value, nodes.TupleGetItem):
        return value.index
    if isinstance(value, nodes.Call | nodes.Function):
        attrs = tuple(sorted((k, value_text(v)) for k, v in value.attrs.items()))
        op = value.op if isinstance(value, nodes.Call) else None
        return attrs, op if isinstance(op, Operator) else None
    if isinstance(value, nodes.Match):
        return value.complete, tuple(_shape(case.pattern) for case in value.cases)
    return value.kind if isinstance(value, nodes.Ref) else None


def _shape(pattern: nodes.Pattern) -> Hashable:
    """Returns what a pattern says besides the names of its variables."""
    if isinstance(pattern, nodes.ConstructorPattern):
        name = pattern.constructor.name if pattern.constructor is not None else ""
        return name, tuple(map(_shape, pattern.fields))
    return type(pattern).__name__
