"""Replace every complex tensor by two, of real and of imaginary parts.

Before::

    def @main(%x: Tensor[(8), complex64], %y: Tensor[(8), float32]) -> Tensor[(8), float32] {
      %0 = imag(%x);
      add(%0, %y)
    }

After::

    def @main(%x: Tensor[(8), complex64], %y: Tensor[(8), float32]) -> Tensor[(8), float32] {
      %0 = bitcast(%x, dtype="float32");
      %1 = strided_slice(%0, begin=[0, 0], end=[8, 1], strides=[1, 1]);
      %2 = strided_slice(%0, begin=[0, 1], end=[8, 2], strides=[1, 1]);
      %3 = reshape(%1, newshape=[8]);
      %4 = reshape(%2, newshape=[8]);
      add(%4, %y)
    }

The other passes, kernels and machine code know no complex numbers. Those of arguments and results
of ``main`` are interleaved in memory; the bytes are read and written in place, as floats with one
more axis. Everywhere else - in branches, loops and functions too - the two parts are tensors of
their own (planar), so that loops over them vectorise. ``ir/graph/pairs.py`` says what operators do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ...dataclass import dataclass
from ...errors import InternalError, UnsupportedError
from ...traits import Trait
from .. import nodes
from ..builder import Builder
from ..compose import F, Value
from ..operator import Operator
from ..pairs import INTERLEAVED_RULES, Pair, is_composed, pair_rule
from ..types import FuncType, TensorType, TupleType, Type, parts_of
from ..walk import all_bindings, map_operands, nested_blocks, nested_params, operands

_BORDERS = Trait.BYTES | Trait.LIBRARY
"""Traits of operators whose complex operands and results are interleaved in memory."""


def split_complex(module: nodes.Module) -> nodes.Module:
    """Returns the module without complex tensors, except where memory holds them: parameters and
    results of ``main``, operands and results of library calls."""
    functions = [(name, f) for name, f in module.functions.items() if isinstance(f, nodes.Function)]
    if not any(_is_to_split(f, name == "main") for name, f in functions):
        return module
    splitter = _Splitter()
    changed = dict(module.functions)
    changed.update((name, splitter.function(f, name == "main")) for name, f in functions)
    return module.with_functions(changed)


def _is_to_split(function: nodes.Function, is_main: bool) -> bool:
    """True if the function computes with complex tensors."""
    if not is_main and any(map(_has_complex, (*function.type.params, function.type.result))):
        return True
    return any(
        not _is_border(b.value)
        and not (is_main and b.var is function.body.result and isinstance(b.value, nodes.Tuple))
        and any(
            map(
                _has_complex,
                (b.var.type, *(a.type for a in (*operands(b.value), *nested_params(b.value)))),
            )
        )
        for b in all_bindings(function)
    )


def _is_border(value: nodes.Expr) -> bool:
    if isinstance(value, nodes.Call):
        return not isinstance(value.op, nodes.Var | nodes.GlobalVar) and bool(
            value.op.traits & _BORDERS
        )
    return isinstance(value, nodes.TupleGetItem)


def _has_complex(type: Type) -> bool:
    if isinstance(type, TensorType):
        return type.dtype.is_complex
    return any(map(_has_complex, parts_of(type)))


@dataclass(frozen=True, slots=True)
class _Parts:
    """A complex tensor; ``whole`` is its interleaved form, if there is one."""

    re: nodes.Atom
    im: nodes.Atom
    whole: nodes.Atom | None = None


_Split: TypeAlias = "nodes.Atom | _Parts | list[_Split]"
"""The substitute of a value: a tuple with complex tensors in it is a list of its fields."""


def _leaf_types(type: Type) -> list[Type]:
    """Returns the types of the values that one of ``type`` becomes."""
    if isinstance(type, FuncType):
        params = tuple(leaf for p in type.params for leaf in _leaf_types(p))
        return [FuncType(params, _joined_type(type.result))]
    if not _has_complex(type):
        return [type]
    if isinstance(type, TensorType):
        return [TensorType(type.shape, type.dtype.part)] * 2
    return [leaf for field in parts_of(type) for leaf in _leaf_types(field)]


def _joined_type(type: Type) -> Type:
    """Returns the type of the one value that one of ``type`` becomes."""
    leaves = _leaf_types(type)
    return leaves[0] if len(leaves) == 1 else TupleType(tuple(leaves))


def _leaves(split: _Split) -> list[nodes.Atom]:
    if isinstance(split, _Parts):
        return [split.re, split.im]
    return (
        [leaf for field in split for leaf in _leaves(field)] if isinstance(split, list) else [split]
    )


def _rebuilt(type: Type, leaves: Iterator[nodes.Atom]) -> _Split:
    """Returns the substitute of a value of ``type``, given its leaves."""
    if isinstance(type, FuncType) or not _has_complex(type):
        return next(leaves)
    if isinstance(type, TensorType):
        return _Parts(next(leaves), next(leaves))
    return [_rebuilt(field, leaves) for field in parts_of(type)]


class _Splitter:
    def __init__(self) -> None:
        self.values: dict[nodes.Var, _Split] = {}  # of variables that became something else
        self.constants: dict[int, _Parts] = {}

    def function(self, function: nodes.Function, is_main: bool) -> nodes.Function:
        builder = Builder()
        if is_main:
            for param in function.params:
                if _has_complex(param.type):
                    self.values[param] = self.parts_of(builder, param)
            params = function.params
        else:
            params = self.params(function.params)
        split = self.block(function.body, builder)
        result = self.whole(builder, split) if is_main else self.joined(builder, split)
        return replace(function, params=params, body=builder.block(result))

    def params(self, params: Iterable[nodes.Var]) -> tuple[nodes.Var, ...]:
        """Returns the variables that are bound instead of ``params``."""
        made: list[nodes.Var] = []
        for param in params:
            if not _has_complex(param.type):
                made.append(param)
                continue
            leaves = _leaf_types(param.type)
            names = ("_re", "_im") if len(leaves) == 2 else map("_{}".format, range(len(leaves)))
            variables = [nodes.Var(param.name + n, t, param.span) for n, t in zip(names, leaves)]
            self.values[param] = _rebuilt(param.type, iter(variables))
            made += variables
        return tuple(made)

    def block(self, block: nodes.Block, builder: Builder) -> _Split:
        """Emits the bindings of a block; returns the substitute of its result."""
        for binding in block.bindings:
            var, value = binding.var, binding.value
            builder.span = var.span or getattr(value, "span", None)
            inside = bool(nested_blocks(value))
            fields = [self.of(a) for a in operands(value)]
            plain = all(not isinstance(f, _Parts | list) for f in fields)
            if plain and not inside and not _has_complex(var.type):
                value = map_operands(value, self.atom)
                builder.bindings.append(
                    binding if value is binding.value else nodes.Binding(var, value)
                )
                continue
            self.values[var] = self.value(var, value, fields, builder)
        return self.of(block.result)

    def nested(self, block: nodes.Block) -> nodes.Block:
        builder = Builder()
        split = self.block(block, builder)
        return builder.block(self.joined(builder, split))

    def value(
        self, var: nodes.Var, value: nodes.Expr, fields: list[_Split], builder: Builder
    ) -> _Split:
        """Emits ``value``, whose operands are ``fields``."""
        if isinstance(value, nodes.Tuple):
            return fields
        if isinstance(value, nodes.TupleGetItem):
            (tuple_,) = fields
            assert isinstance(tuple_, list)
            return tuple_[value.index]
        if isinstance(value, nodes.Call):
            if isinstance(value.op, nodes.GlobalVar | nodes.Var):
                callee, *args = [leaf for field in fields for leaf in _leaves(field)]
                assert isinstance(callee, nodes.GlobalVar | nodes.Var)
                return self.parted(builder, var.type, builder.emit(callee, args, value.attrs))
            return self.operator(var, value, fields, builder)
        if isinstance(value, nodes.If):
            (condition,) = fields
            assert not isinstance(condition, _Parts | list)
            then, orelse = self.nested(value.then), self.nested(value.orelse)
            return self.parted(builder, var.type, builder.cond(condition, then, orelse))
        if isinstance(value, nodes.While):
            params = self.params(value.params)
            initial = [leaf for field in fields for leaf in _leaves(field)]
            condition, body = self.nested(value.condition), self.nested(value.body)
            return self.parted(
                builder, var.type, builder.while_loop(params, initial, condition, body)
            )
        if isinstance(value, nodes.For):
            params = self.params(value.params)
            extent, *initial = [leaf for field in fields for leaf in _leaves(field)]
            body = self.nested(value.body)
            made = builder.for_loop(value.index, extent, params, initial, body)
            return self.parted(builder, var.type, made)
        if isinstance(value, nodes.Function):
            function = self.function(value, is_main=False)
            return builder.bind(function, function.type)
        (alias,) = fields
        return alias

    def operator(
        self, var: nodes.Var, call: nodes.Call, fields: list[_Split], builder: Builder
    ) -> _Split:
        op = call.op
        assert not isinstance(op, nodes.GlobalVar | nodes.Var)
        if op.traits & _BORDERS:
            args = [self.whole(builder, f) for f in fields]
            return self.parted(builder, var.type, builder.emit(op, args, call.attrs))
        rule = pair_rule(op)
        if rule is None and is_composed(op):
            return self.composed(call, fields, builder)
        if rule is None:
            raise UnsupportedError(f"{op.name} is not supported for complex numbers", span=var.span)
        values = [_as_value(builder, f) for f in fields]
        result = None
        if isinstance(fields[0] if fields else None, _Parts) and op.name in INTERLEAVED_RULES:
            result = self.interleaved(op.name, fields[0], values[1:], call.attrs, builder)
        if result is None:
            result = rule(*values, **call.attrs) if values else rule(builder, **call.attrs)
        split: _Split = (
            [_as_split(r) for r in result] if type(result) is list else _as_split(result)
        )
        types = [leaf.type for leaf in _leaves(split)]
        if types != _leaf_types(var.type):
            raise InternalError(
                f"{op.name} of complex numbers gives {', '.join(map(str, types))} for {var.type}"
            )
        return split

    def interleaved(
        self,
        name: str,
        first: _Split,
        others: list[Pair | Value],
        attrs: Mapping[str, Any],
        builder: Builder,
    ) -> Any:
        """Emits what is faster where the first operand is a parameter or a library's result."""
        if not isinstance(first, _Parts) or not isinstance(first.whole, nodes.Var):
            return None
        whole = Value(builder, first.whole)
        pairs = F.bitcast(whole, dtype=whole.dtype.part.name)
        return INTERLEAVED_RULES[name](pairs, *others, **attrs)

    def composed(self, call: nodes.Call, fields: list[_Split], builder: Builder) -> _Split:
        """Emits what an operator consists of."""
        op = call.op
        assert isinstance(op, Operator) and op.decompose is not None
        inner = Builder(span=builder.span)
        params = [inner.param(f"x{n}", a.type) for n, a in enumerate(call.args)]
        result = op.decompose(inner, params, call.attrs)
        self.values.update(zip(params, fields, strict=True))
        return self.block(inner.block(result), builder)

    def of(self, atom: nodes.Atom) -> _Split:
        """Returns the substitute of ``atom``."""
        if isinstance(atom, nodes.Var):
            return self.values.get(atom, atom)
        if isinstance(atom, nodes.GlobalVar):
            (type,) = _leaf_types(atom.type)
            assert isinstance(type, FuncType)
            return atom if type == atom.type else nodes.GlobalVar(atom.name, type, atom.span)
        if not _has_complex(atom.type):
            return atom
        parts = self.constants.get(id(atom))
        if parts is None:
            re, im = (
                nodes.Constant(np.array(v, order="C"), atom.name and f"{atom.name}_{n}", atom.span)
                for n, v in (("re", atom.value.real), ("im", atom.value.imag))
            )
            parts = self.constants[id(atom)] = _Parts(re, im, atom)
        return parts

    def atom(self, atom: nodes.Atom) -> nodes.Atom:
        split = self.of(atom)
        assert not isinstance(split, _Parts | list)
        return split

    def parted(self, builder: Builder, type: Type, made: nodes.Atom) -> _Split:
        """Returns the substitute of a value of ``type`` that was emitted as ``made``: interleaved
        in memory, or as the tuple of its leaves."""
        if isinstance(type, FuncType) or not _has_complex(type):
            return made
        if isinstance(made.type, TensorType):
            return self.parts_of(builder, made)
        assert isinstance(made.type, TupleType)
        items = [builder.get_item(made, n) for n in range(len(made.type.fields))]
        if made.type != type:
            return _rebuilt(type, iter(items))
        return [self.parted(builder, i.type, i) for i in items]

    def parts_of(self, builder: Builder, whole: nodes.Atom) -> _Split:
        """Returns the substitute of a value that is interleaved in memory."""
        type = whole.type
        if isinstance(type, TupleType):
            items = [builder.get_item(whole, n) for n in range(len(type.fields))]
            return [self.parts_of(builder, i) if _has_complex(i.type) else i for i in items]
        assert isinstance(type, TensorType)
        pairs = F.bitcast(Value(builder, whole), dtype=type.dtype.part.name)
        shape, ones = type.shape, (1,) * (type.rank + 1)
        parts = [
            F.strided_slice(pairs, begin=(*begin, n), end=(*shape, n + 1), strides=ones)
            for begin in [(0,) * type.rank]
            for n in (0, 1)
        ]
        re, im = (F.reshape(part, newshape=shape).atom for part in parts)
        return _Parts(re, im, whole)

    def joined(self, builder: Builder, split: _Split) -> nodes.Atom:
        """The one value that stands for a value: a tuple if it has several leaves."""
        if isinstance(split, _Parts | list):
            return builder.make_tuple(_leaves(split))
        return split

    def whole(self, builder: Builder, split: _Split) -> nodes.Atom:
        """A value with complex tensors that are interleaved in memory."""
        if isinstance(split, list):
            return builder.make_tuple([self.whole(builder, field) for field in split])
        if not isinstance(split, _Parts):
            return split
        if split.whole is not None:
            return split.whole
        re, im = Value(builder, split.re), Value(builder, split.im)
        pairs = F.stack(re, im, axis=re.rank)
        return F.bitcast(pairs, dtype=re.dtype.complex.name).atom


def _as_value(builder: Builder, split: _Split) -> Pair | Value:
    if isinstance(split, _Parts):
        return Pair(Value(builder, split.re), Value(builder, split.im))
    assert not isinstance(split, list)
    return Value(builder, split)


def _as_split(result: Pair | Value) -> _Split:
    return _Parts(result.re.atom, result.im.atom) if isinstance(result, Pair) else result.atom
