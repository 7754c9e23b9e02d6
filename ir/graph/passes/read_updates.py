"""Read what was written to an array from there, so that it need not be an array of its own.

Before::

    fn (%x: Tensor[(64), float32], %y: Tensor[(62), float32]) {
      %0 = add(%y, 1.0f32);
      %1 = strided_set(%x, %0, begin=[1], strides=[1]);
      %2 = exp(%0);
      (%1, %2)
    }

After::

    fn (%x: Tensor[(64), float32], %y: Tensor[(62), float32]) {
      %0 = add(%y, 1.0f32);
      %1 = strided_set(%x, %0, begin=[1], strides=[1]);
      %2 = strided_slice(%1, begin=[1], end=[63], strides=[1]);
      %3 = exp(%2);
      (%1, %3)
    }

What computes ``%0`` is then a part of the kernel that writes ``%x``. Only large parts of an array
are read so, and only until it is written again.
"""

from __future__ import annotations

from typing import Any

from ...pass_context import optional
from ..builder import Builder
from ..nodes import Atom, Call, Expr, Function, Module, Var, tensor_type
from ..operator import Operator, Pattern, get
from ..walk import all_bindings, map_functions, rewrite_function

_MAPS = (Pattern.ELEMENTWISE, Pattern.BROADCAST)


@optional(level=1)
def read_updates(module: Module) -> Module:
    """Reads large parts that were written to arrays from these arrays."""
    return map_functions(module, _read)


def _read(function: Function) -> Function:
    if not any(_is_write(b.value) for b in all_bindings(function)):
        return function
    computed: set[Atom] = set()  # by operators that fuse with a write
    places: dict[Atom, tuple[Atom, dict[str, Any]]] = {}  # written parts: the array, the slice

    def step(var: Var, value: Expr, builder: Builder) -> Atom | None:
        if not isinstance(value, Call) or not isinstance(value.op, Operator):
            places.clear()  # a loop may write where the array lies
            return None
        if value.op.pattern in _MAPS:
            computed.add(var)
        args = list(value.args)
        for number, arg in enumerate(args):
            if arg in places and not (_is_write(value) and number == 1):
                array, attrs = places[arg]
                args[number] = builder.emit(get("strided_slice"), (array,), attrs)
        for part in [
            p for p, (array, _) in places.items() if _is_write(value) and array is args[0]
        ]:
            del places[part]
        if _is_write(value) and args[1] in computed and _is_large(args[1], args[0]):
            places[args[1]] = var, _slice(value, args[1])
        if args == list(value.args):
            return None
        return builder.emit(value.op, args, value.attrs)

    return rewrite_function(function, step)


def _is_write(value: Expr) -> bool:
    return isinstance(value, Call) and value.op is get("strided_set")


def _is_large(part: Atom, array: Atom) -> bool:
    size, whole = tensor_type(part).size, tensor_type(array).size
    return isinstance(size, int) and isinstance(whole, int) and 2 * size >= whole


def _slice(write: Call, part: Atom) -> dict[str, Any]:
    begin, strides = write.attrs["begin"], write.attrs["strides"]
    sizes = tensor_type(part).shape
    ends = tuple(b + (n - 1) * s + 1 for b, n, s in zip(begin, sizes, strides))
    return {"begin": begin, "end": ends, "strides": strides}
