"""The meaning of a graph program: a slow, plain interpreter in NumPy.

Every operator is computed by its ``reference``. Blocks that are being evaluated are frames on a
list of ours, so a function may be as long, and recurse as deep, as memory allows; of a loop it
holds one block at a time, so iterations take no memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..dataclass import dataclass
from ..dims import Dim, linear, size_symbols, symbols
from ..dims import evaluate as evaluate_dim
from ..errors import InternalError, LoopwrightTypeError, LoopwrightValueError
from ..loop.prim import PrimFunc
from ..traits import Trait
from . import nodes
from .operator import Operator
from .types import DataType, RefType, TensorType, TupleType, Type, sizes_in
from .walk import free_sizes, free_variables

Value: TypeAlias = "np.ndarray[Any, Any] | tuple[Value, ...] | Closure | Made | Cell"
CallPrim: TypeAlias = "Callable[[PrimFunc, Sequence[Value]], Value]"


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function value: the function, and the variables and sizes it was made among."""

    function: nodes.Function | nodes.Constructor
    env: Mapping[nodes.Var, Value]
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A value of a data type: its constructor and fields."""

    constructor: str
    fields: tuple[Value, ...]


@dataclass(slots=True, eq=False)
class Cell:
    """A reference."""

    value: Value


@dataclass(slots=True, eq=False)
class _Frame:
    """A block that is being evaluated, among the values of the blocks around it (``env``). Its
    result goes to ``done``."""

    todo: Iterator[nodes.Binding]
    result: nodes.Atom
    env: dict[nodes.Var, Value]
    sizes: dict[str, int]
    done: Callable[[Value], None] | None = None


def evaluate(
    program: nodes.Module | nodes.Function,
    *args: Any,
    entry: str = "main",
    call_prim: CallPrim | None = None,
) -> Value:
    """Returns the result of ``program`` (of a module: of its function ``entry``) on ``args``.

    Arguments are arrays, or tuples of them where a parameter is a tuple; so is the result.
    ``call_prim`` computes the PrimFuncs of a module. Symbolic sizes are read off the arguments.
    Raises LoopwrightTypeError for arguments that do not fit the parameters, and InternalError if an
    operator's reference does not give what its type rule promised.
    """
    module = program if isinstance(program, nodes.Module) else nodes.Module()
    function = program if isinstance(program, nodes.Function) else module.functions[entry]
    if not isinstance(function, nodes.Function):
        raise InternalError(f"@{entry} is not a graph function")
    with np.errstate(all="ignore"):
        return _Interpreter(module, call_prim).run(Closure(function, {}), args)


class _Interpreter:
    def __init__(self, module: nodes.Module, call_prim: CallPrim | None) -> None:
        self.module, self.call_prim = module, call_prim
        self.frames: list[_Frame] = []

    def run(self, closure: Closure, args: Sequence[Any]) -> Value:
        values = [_as_value(a) for a in args]
        self._enter(closure, values, None, checked=True)
        while True:
            frame = self.frames[-1]
            binding = next(frame.todo, None)
            if binding is not None:
                self._bind(frame, binding)
                continue
            result = self._atom(frame, frame.result)
            self.frames.pop()
            if not self.frames:
                return result
            assert frame.done is not None
            frame.done(result)

    def _enter(
        self,
        closure: Closure,
        args: Sequence[Value],
        done: Callable[[Value], None] | None,
        around: Mapping[str, int] | None = None,
        *,
        checked: bool = False,
    ) -> None:
        function, env = closure.function, dict(closure.env)
        if isinstance(function, nodes.Constructor):
            assert done is not None
            return done(Made(function.name, tuple(args)))
        sizes: dict[str, int] = {}
        if checked and len(args) != len(function.params):
            raise LoopwrightTypeError(
                f"the function takes {len(function.params)} arguments, not {len(args)}"
            )
        for param, arg in zip(function.params, args, strict=True):
            _read_sizes(param.type, arg, sizes)
        # Sizes that no operand has are those around the function, or the caller's.
        sizes = {**closure.sizes, **(around or {}), **sizes}
        for param, arg in zip(function.params, args, strict=True):
            if checked and not (_fits(param.type, arg, sizes) and _in_range(param.type, sizes)):
                raise LoopwrightTypeError(
                    f"argument {param.name} is {_describe(arg)}, not {param.type}"
                )
            env[param] = arg
        for needed in function.requirements:
            if sizes.keys() >= set(needed.names) and not needed.holds(sizes):
                values = ", ".join(f"{name} = {sizes[name]}" for name in needed.names)
                raise LoopwrightTypeError(
                    f"{needed.message or 'sizes'}: {needed} does not hold for {values}",
                    span=needed.span,
                )
        body = function.body
        self.frames.append(_Frame(iter(body.bindings), body.result, env, sizes, done))

    def _atom(self, frame: _Frame, atom: nodes.Atom) -> Value:
        if isinstance(atom, nodes.Var):
            return frame.env[atom]
        if isinstance(atom, nodes.Constant):
            return atom.value
        if isinstance(atom, nodes.Constructor):
            return Closure(atom, {})
        function = self.module.functions[atom.name]
        if not isinstance(function, nodes.Function):
            raise InternalError(f"@{atom.name} is a kernel and can only be called")
        return Closure(function, {})

    def _bind(self, frame: _Frame, binding: nodes.Binding) -> None:
        """Evaluates one binding, or pushes the frame that will."""
        var, value = binding.var, binding.value
        if isinstance(value, nodes.Call):
            args = [self._atom(frame, a) for a in value.args]
            if isinstance(value.op, nodes.GlobalVar | nodes.Var):
                self._call(frame, value.op, args, value.attrs, var)
            else:
                if Trait.SETS_SIZE in value.op.traits:
                    (name,) = symbols(value.attrs["size"])
                    frame.sizes[name] = int(np.asarray(args[0]))
                frame.env[var] = _apply(value.op, args, value.attrs, var, frame.sizes)
        elif isinstance(value, nodes.Tuple):
            frame.env[var] = tuple(self._atom(frame, f) for f in value.fields)
        elif isinstance(value, nodes.TupleGetItem):
            fields = self._atom(frame, value.value)
            assert isinstance(fields, tuple)
            frame.env[var] = fields[value.index]
        elif isinstance(value, nodes.Function):
            captured = {v: frame.env[v] for v in free_variables(value) if v in frame.env}
            frame.env[var] = Closure(value, captured, dict(frame.sizes))
        elif isinstance(value, nodes.If):
            taken = self._atom(frame, value.condition)
            block = value.then if bool(taken) else value.orelse
            self._inside(frame, block, partial(frame.env.__setitem__, var))
        elif isinstance(value, nodes.Match):
            self._match(frame, var, value)
        elif isinstance(value, nodes.Ref):
            frame.env[var] = _referenced(value.kind, [self._atom(frame, a) for a in value.args])
        elif isinstance(value, nodes.While):
            self._while(frame, var, value)
        elif isinstance(value, nodes.For):
            self._for(frame, var, value)
        else:
            frame.env[var] = self._atom(frame, value)

    def _match(self, frame: _Frame, var: nodes.Var, match: nodes.Match) -> None:
        value = self._atom(frame, match.value)
        for case in match.cases:
            if _fits_pattern(case.pattern, value, frame.env):
                for bound in nodes.pattern_variables(case.pattern):
                    _read_sizes(bound.type, frame.env[bound], frame.sizes)
                self._inside(frame, case.block, partial(frame.env.__setitem__, var))
                return
        raise LoopwrightValueError(f"match: no case for {_describe(value)}", span=match.span)

    def _inside(self, frame: _Frame, block: nodes.Block, done: Callable[[Value], None]) -> None:
        """Pushes a block that sees the variables of ``frame``."""
        todo = iter(block.bindings)
        self.frames.append(_Frame(todo, block.result, frame.env, dict(frame.sizes), done))

    def _while(self, frame: _Frame, var: nodes.Var, loop: nodes.While) -> None:
        def check() -> None:
            self._inside(frame, loop.condition, decide)

        def decide(holds: Value) -> None:
            if holds:
                self._inside(frame, loop.body, iterate)
            else:
                frame.env[var] = tuple(frame.env[p] for p in loop.params)

        def iterate(carry: Value) -> None:
            assert isinstance(carry, tuple)
            frame.env.update(zip(loop.params, carry, strict=True))
            check()

        iterate(tuple(self._atom(frame, a) for a in loop.initial))

    def _for(self, frame: _Frame, var: nodes.Var, loop: nodes.For) -> None:
        extent = self._atom(frame, loop.extent)
        assert isinstance(extent, np.ndarray)
        indices = iter(range(int(extent)))

        def iterate(carry: Value) -> None:
            assert isinstance(carry, tuple)
            frame.env.update(zip(loop.params, carry, strict=True))
            index = next(indices, None)
            if index is None:
                frame.env[var] = carry
                return
            frame.env[loop.index] = np.array(index)
            self._inside(frame, loop.body, iterate)

        iterate(tuple(self._atom(frame, a) for a in loop.initial))

    def _call(
        self,
        frame: _Frame,
        op: nodes.GlobalVar | nodes.Var,
        args: list[Value],
        attrs: Mapping[str, Any],
        var: nodes.Var,
    ) -> None:
        if isinstance(op, nodes.GlobalVar) and not isinstance(op, nodes.Constructor):
            callee = self.module.functions[op.name]
            if not isinstance(callee, nodes.Function):
                if self.call_prim is None:
                    raise InternalError(f"nothing was given to compute the kernel @{op.name}")
                frame.env[var] = self.call_prim(callee, args)
                return
        closure = self._atom(frame, op)
        assert isinstance(closure, Closure)
        function = closure.function
        around = (
            {
                size.name: evaluate_dim(value, frame.sizes)
                for size, value in zip(free_sizes(function), attrs["sizes"], strict=True)
            }
            if "sizes" in attrs and isinstance(function, nodes.Function)
            else {}
        )
        self._enter(closure, args, partial(frame.env.__setitem__, var), around)


def _fits_pattern(pattern: nodes.Pattern, value: Value, env: dict[nodes.Var, Value]) -> bool:
    """True if a pattern fits a value; ``env`` has its variables then."""
    if isinstance(pattern, nodes.Var):
        env[pattern] = value
    if not isinstance(pattern, nodes.ConstructorPattern):
        return True
    fields = value.fields if isinstance(value, Made) else value
    assert isinstance(fields, tuple)
    if isinstance(value, Made):
        assert pattern.constructor is not None
        if value.constructor != pattern.constructor.name:
            return False
    return all(_fits_pattern(p, v, env) for p, v in zip(pattern.fields, fields, strict=True))


def _referenced(kind: str, args: Sequence[Value]) -> Value:
    """The value of an operation on a reference."""
    if kind == "ref":
        return Cell(args[0])
    cell = args[0]
    assert isinstance(cell, Cell)
    if kind == "ref_read":
        return cell.value
    cell.value = args[1]
    return ()


def _apply(
    op: Operator,
    args: list[Value],
    attrs: Mapping[str, Any],
    var: nodes.Var,
    sizes: Mapping[str, int],
) -> Value:
    """``op.reference`` on ``args``, its result held against the type of ``var``."""
    attrs = {key: _concrete(value, sizes) for key, value in attrs.items()}
    result = _as_value(op.reference(args, attrs))
    if not _fits(var.type, result, sizes):
        raise InternalError(
            f"the reference of {op.name} gives {_describe(result)}, its type rule {var.type}",
            span=var.span,
        )
    return result


def _as_value(value: Any) -> Value:
    if isinstance(value, tuple | list):
        return tuple(_as_value(v) for v in value)
    return value if isinstance(value, Closure | Made | Cell) else np.asarray(value)


def _concrete(value: Any, sizes: Mapping[str, int]) -> Any:
    """Returns an attribute with every symbolic size replaced by its value."""
    if isinstance(value, tuple):
        return tuple(_concrete(v, sizes) for v in value)
    if not isinstance(value, Dim):
        return value
    for name in symbols(value):
        if name not in sizes:
            raise LoopwrightTypeError(no_size(name))
    return evaluate_dim(value, sizes)


def no_size(name: str) -> str:
    """Returns the message for a size that no operand tells."""
    return f"the size {name} is that of no array here, which an argument of that size would be"


def _read_sizes(kind: Type, value: Value, sizes: dict[str, int]) -> None:
    """Gives every symbol that is alone in the size of an axis (``n``, ``2 * n + 1``) its value."""
    if isinstance(kind, TupleType) and isinstance(value, tuple):
        for field_type, part in zip(kind.fields, value):
            _read_sizes(field_type, part, sizes)
    if isinstance(kind, TensorType) and isinstance(value, np.ndarray):
        for size, actual in zip(kind.shape, value.shape):
            if not isinstance(size, Dim):
                continue
            plain = linear(size)
            if plain is not None and len(plain[0]) == 1:
                ((name, factor),) = plain[0].items()
                sizes.setdefault(name, (actual - plain[1]) // factor)


def _fits(kind: Type, value: Value, sizes: Mapping[str, int]) -> bool:
    if isinstance(kind, TensorType):
        return (
            isinstance(value, np.ndarray)
            and value.dtype == kind.dtype.numpy
            and len(value.shape) == kind.rank
            and all(_size_fits(s, a, sizes) for s, a in zip(kind.shape, value.shape))
        )
    if isinstance(kind, TupleType):
        return (
            isinstance(value, tuple)
            and len(value) == len(kind.fields)
            and all(_fits(k, v, sizes) for k, v in zip(kind.fields, value))
        )
    if isinstance(kind, DataType):
        return isinstance(value, Made)
    return isinstance(value, Cell if isinstance(kind, RefType) else Closure)


def _in_range(kind: Type, sizes: Mapping[str, int]) -> bool:
    """True if the symbolic sizes of a type have values in their ranges."""
    ranges = ((s.name, s.range) for s in size_symbols(*sizes_in(kind)).values())
    return all(r is None or r[0] <= sizes.get(name, r[0]) <= r[1] for name, r in ranges)


def _size_fits(size: Any, actual: int, sizes: Mapping[str, int]) -> bool:
    try:
        return evaluate_dim(size, sizes) == actual
    except KeyError:
        return True


def _describe(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_describe, value))})"
    if isinstance(value, Closure):
        return str(value.function.type)
    if isinstance(value, Made):
        fields = ", ".join(map(_describe, value.fields))
        return f"{value.constructor}({fields})" if fields else value.constructor
    if isinstance(value, Cell):
        return f"ref({_describe(value.value)})"
    return f"Tensor[({', '.join(map(str, value.shape))}), {value.dtype}]"
