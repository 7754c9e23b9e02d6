"""Operators as Relay's own texts (0.14) call them, where they differ from those of the same name.

Attributes that follow from types of operands (``units``, ``kernel_size``, ``channels``) are left
out, a padding of two numbers is one of four, and some operators are written with others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..dims import IntExpr
from .builder import Builder
from .nodes import Atom, tensor_type
from .operator import OPERATORS
from .types import TupleType

_FOLLOWS = ("units", "kernel_size", "channels", "out_dtype", "out_layout", "num_newaxis")
_Attrs = Mapping[str, Any]


def emit_relays(builder: Builder, name: str, args: Sequence[Atom], attrs: _Attrs) -> Atom | None:
    """Emits an operator of Relay's; None if there is none of that name."""
    written = _WRITTEN.get(name)
    if written is not None:
        return written(builder, args, attrs)
    op = OPERATORS.get(name)
    if op is None:
        return None
    accepted = {attr.name for attr in op.attrs}
    kept = {k: v for k, v in attrs.items() if k in accepted or k not in _FOLLOWS}
    padding = kept.get("padding")
    if isinstance(padding, tuple) and len(padding) == 2 and name.endswith("2d"):
        kept["padding"] = padding * 2
    if op.params[0].startswith("*"):  # a tuple is one operand in Relay
        args = [field for arg in args for field in _fields(builder, arg)]
    return builder.emit(op, args, kept)


def _fields(builder: Builder, value: Atom) -> list[Atom]:
    kind = builder.known(value.type)
    count = len(kind.fields) if isinstance(kind, TupleType) else 0
    return [builder.get_item(value, n) for n in range(count)] or [value]


def _emit(builder: Builder, name: str, *args: Atom, **attrs: Any) -> Atom:
    return builder.emit(OPERATORS[name], args, attrs)


def _filled(number: int) -> Callable[[Builder, Sequence[Atom], _Attrs], Atom]:
    def emit(builder: Builder, args: Sequence[Atom], attrs: _Attrs) -> Atom:
        given = attrs
        if args:
            kind = tensor_type(args[0])
            given = {"shape": kind.shape, "dtype": kind.dtype.name}
        return _emit(builder, "full", fill_value=number, **given)

    return emit


def _bias_add(builder: Builder, args: Sequence[Atom], attrs: _Attrs) -> Atom:
    x, bias = args
    axis, rank = attrs.get("axis", 1), tensor_type(x).rank
    shape: list[IntExpr] = [1] * rank
    shape[axis] = tensor_type(bias).shape[0]
    return _emit(builder, "add", x, _emit(builder, "reshape", bias, newshape=tuple(shape)))


def _batch_flatten(builder: Builder, args: Sequence[Atom], _attrs: _Attrs) -> Atom:
    kind = tensor_type(args[0])
    size = kind.size if not kind.rank else type(kind)(kind.shape[1:], kind.dtype).size
    return _emit(builder, "reshape", args[0], newshape=(kind.shape[0], size))


def _batch_matmul(builder: Builder, args: Sequence[Atom], attrs: _Attrs) -> Atom:
    transposed = (attrs.get("transpose_a", False), attrs.get("transpose_b", True))
    axes = {"axes": (0, 2, 1)}
    x, y = (_emit(builder, "transpose", a, **axes) if t else a for a, t in zip(args, transposed))
    return _emit(builder, "nn.matmul", x, y)


def _batch_norm(builder: Builder, args: Sequence[Atom], attrs: _Attrs) -> Atom:
    kept = {k: v for k, v in attrs.items() if k in ("axis", "epsilon")}
    result = _emit(builder, "nn.batch_norm", *args, **kept)
    return builder.make_tuple([result, *args[3:]])


def _leaky_relu(builder: Builder, args: Sequence[Atom], attrs: _Attrs) -> Atom:
    slope = {"fill_value": attrs.get("alpha", 0.01), "dtype": tensor_type(args[0]).dtype.name}
    less = _emit(builder, "multiply", args[0], _emit(builder, "full", shape=(), **slope))
    zero = _filled(0)(builder, args, {})
    return _emit(builder, "where", _emit(builder, "greater", args[0], zero), args[0], less)


_WRITTEN: dict[str, Callable[[Builder, Sequence[Atom], _Attrs], Atom]] = {
    "copy": lambda _builder, args, _attrs: args[0],
    "nn.batch_flatten": _batch_flatten,
    "nn.batch_matmul": _batch_matmul,
    "nn.batch_norm": _batch_norm,
    "nn.bias_add": _bias_add,
    "nn.leaky_relu": _leaky_relu,
    "ones": _filled(1),
    "ones_like": _filled(1),
    "zeros": _filled(0),
    "zeros_like": _filled(0),
}
