"""``lw.as_function``: a function of a module as one of Python's.

Called while another function is traced, it runs its blocks on traced values: calls of operators are
emitted, functions that are values are functions of Python's, so that those which a trace knows are
specialised and leave nothing behind; only functions of the module that call themselves stay
functions. Where functions are values that a trace cannot know, they are made data before
(``ir/graph/passes/defunctionalise.py``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...ir.dims import Dim, IntExpr, size_symbols
from ...ir.errors import LoopwrightTypeError, UnsupportedError
from ...ir.graph import nodes
from ...ir.graph.call_graph import call_graph, recursive_components
from ...ir.graph.evaluate import evaluate, no_size
from ...ir.graph.nodes import Atom, Block, Function, GlobalVar, Var
from ...ir.graph.passes.defunctionalise import defunctionalise, holds_functions
from ...ir.graph.passes.lift_functions import lift_functions
from ...ir.graph.passes.specialise_types import specialise_types
from ...ir.graph.types import (
    DataType,
    TensorType,
    TupleType,
    Type,
    bind_sizes,
    parts_of,
    sizes_in,
    sizes_in_attr,
    substitute_attr,
    substitute_type,
)
from ...ir.graph.verify import verify
from ...ir.graph.walk import all_bindings, captured_variables
from ..control.branches import cond
from ..control.functions import TracedFunction
from ..control.loops import fori_loop, while_loop
from ..control.references import Reference
from ..control.traced import COUNT
from ..core.emitting import lift
from ..core.proxy import Proxy
from ..core.runtime_checks import check
from ..core.trace import active
from ..data.family import family_of
from ..data.patterns import ANYTHING, Bind, Of, Pattern, Row, bind, test
from ..data.value import Value
from .families import TUPLE, Families, not_of_type

Env = Mapping[Var, Any]
_NO_CASE = "match: no case for this value"


def as_function(module: nodes.Module, name: str = "main") -> Callable[..., Any]:
    """Returns the function ``name`` of a module as a function of Python's.

    It takes and returns arrays, tuples of them, and values of the module's data types, whose
    constructors are in its attribute ``types``, by how the type is written. In compiled functions
    it is a part of them (so ``lw.compile`` and ``lw.grad`` take it); elsewhere the interpreter
    computes it. Raises LoopwrightTypeError for a module that is malformed, or a function over type
    parameters.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> module = lw.parse('''
    ... def @main(%xs: List[Tensor[(2), float32]]) {
    ...   @foldl(fn (%a, %x) { %a + %x }, full(shape=[2], fill_value=0, dtype="float32"), %xs)
    ... }
    ... ''')
    >>> total = lw.as_function(module)
    >>> List = total.types["List[Tensor[(2), float32]]"]
    >>> lw.compile(total)(List.Cons(np.float32([1, 2]), List.Cons(np.float32([3, 4]), List.Nil())))
    array([4., 6.], dtype=float32)
    """
    function = module.functions.get(name)
    if not isinstance(function, Function):
        raise LoopwrightTypeError(f"there is no graph function @{name}")
    if function.type_params:
        raise LoopwrightTypeError(
            f"@{name} is over types: {', '.join(function.type_params)}",
            hint=f"a function without type parameters that calls @{name}",
        )
    verify(module)
    program = _Program(lowered(module))
    kinds = [p.type for p in function.params]
    names = [p.name for p in function.params]
    result = function.body.result.type
    for kind in (*kinds, result):
        if holds_functions(kind):
            raise UnsupportedError(f"@{name} takes or returns a function: {kind}")

    def call(*args: Any) -> Any:
        if active() is not None:
            pairs = zip(names, args, kinds, strict=True)
            return program.call(name, [program.argument(*each) for each in pairs])
        plain = [program.families.plain(*each) for each in zip(names, args, kinds, strict=True)]
        return program.families.object(evaluate(module, *plain, entry=name), result)

    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(p.name, either) for p in function.params]
    call.__name__ = call.__qualname__ = name
    program.families.add([*kinds, result])
    types = program.families.namespaces(_types_in([*kinds, result], module))
    vars(call).update(__signature__=inspect.Signature(parameters), types=types)
    return call


def _types_in(types: Iterable[Type], module: nodes.Module) -> Iterator[Type]:
    """Yields types and those of their parts, and of the fields of data."""
    seen: set[Type] = set()
    work = [*types]
    while work:
        type = work.pop()
        if type not in seen:
            seen.add(type)
            yield type
            work += parts_of(type)
            if isinstance(type, DataType):
                data = module.types[type.name]
                given = dict(zip(data.type_params, type.args))
                fields = [f for c in data.constructors for f in c.type.params]
                work += [substitute_type(f, {}, given) for f in fields]


def lowered(module: nodes.Module) -> nodes.Module:
    """Returns a module without type parameters, and without functions that a trace cannot know."""
    module = specialise_types(module)
    return defunctionalise(lift_functions(module)) if _has_unknown_functions(module) else module


def _has_unknown_functions(module: nodes.Module) -> bool:
    """True if functions are parts of data and references, results of branches, loops and functions
    that call themselves, or other ones whenever a function calls itself."""
    recursive = recursive_components(call_graph(module))
    for name, function in module.functions.items():
        if not isinstance(function, Function):
            continue
        if name in recursive and holds_functions(function.body.result.type):
            return True
        around = recursive.get(name, frozenset())
        if any(_makes_unknown(b, function.params, around) for b in all_bindings(function)):
            return True
    return False


_CHOOSE = nodes.If | nodes.Match | nodes.While | nodes.For | nodes.Ref


def _makes_unknown(
    binding: nodes.Binding, params: Sequence[Var], recursive: frozenset[str]
) -> bool:
    """True if a trace cannot know the functions that a binding gives, or gives to others; the
    functions ``recursive`` call the one with these ``params``."""
    kind, value = binding.var.type, binding.value
    if not isinstance(value, nodes.Call):
        return isinstance(value, _CHOOSE) and holds_functions(kind)
    given = [a for a in value.args if holds_functions(a.type)]
    calls_itself = isinstance(value.op, GlobalVar) and value.op.name in recursive
    if calls_itself and any(a not in params for a in given):
        return True
    is_kept = isinstance(value.op, nodes.Constructor) and bool(given)
    return is_kept or (isinstance(kind, DataType) and holds_functions(kind))


def _has_symbolic_data(module: nodes.Module) -> bool:
    """True if values of data types have arrays of symbolic sizes."""
    for function in module.functions.values():
        if isinstance(function, Function):
            kinds = [v.type for v in function.params]
            kinds += [binding.var.type for binding in all_bindings(function)]
            data = [k for k in kinds if isinstance(k, DataType)]
            if any(isinstance(size, Dim) for kind in data for size in sizes_in(kind)):
                return True
    return False


class _Program:
    """A module whose functions are run on traced values."""

    def __init__(self, module: nodes.Module) -> None:
        self.module = module
        self.families = Families(module.types, _has_symbolic_data(module))
        recursive = recursive_components(call_graph(module))
        self._recursive = {name: TracedFunction(self._named(name)) for name in recursive}

    def _named(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            return self._run(self._function(name), args, {}, {})

        call.__name__ = name
        return call

    def _function(self, name: str) -> Function:
        function = self.module.functions[name]
        if not isinstance(function, Function):
            raise UnsupportedError(f"@{name} is a kernel, called among data types or functions")
        return function

    def call(self, name: str, args: Sequence[Any]) -> Any:
        """Returns the result of a function of the module."""
        function = self._recursive.get(name)
        if function is not None:
            return function(*args)
        return self._run(self._function(name), args, {}, {})

    def argument(self, name: str, value: Any, kind: Type) -> Any:
        """Returns an argument as the language has it: numbers are scalars that have a dtype.
        LoopwrightTypeError for one of another type."""
        if isinstance(kind, TupleType) and isinstance(value, tuple):
            if len(value) == len(kind.fields):
                return tuple(self.argument(name, v, k) for v, k in zip(value, kind.fields))
        elif isinstance(kind, DataType):
            family = value.family if type(value) is Value else family_of(type(value))
            if family is not None and family.base is self.families.constructor(kind, ""):
                return value
        elif isinstance(kind, TensorType) and not isinstance(value, tuple):
            proxy = lift(value, kind.dtype if type(value) in (bool, int, float) else None)
            proxy = lift(proxy, kind.dtype) if proxy.weak is not None else proxy
            if bind_sizes([kind], [proxy.type]) is not None:
                return Proxy(proxy.atom, proxy.owner)
        raise LoopwrightTypeError(not_of_type(name, value, kind))

    def _run(
        self, function: Function, args: Sequence[Any], env: Env, sizes: Mapping[str, IntExpr]
    ) -> Any:
        """Returns the result of a function among the variables and ``sizes`` around it."""
        pairs = dict(zip(function.params, args, strict=True))
        return self.block(function.body, {**env, **pairs}, {**sizes, **_sizes_of(pairs)})

    def block(self, block: Block, env: Env, sizes: Mapping[str, IntExpr]) -> Any:
        """Returns the result of a block among the values of the variables around it."""
        env = dict(env)
        for binding in block.bindings:
            env[binding.var] = self.value(binding.value, binding.var.type, env, sizes)
        return self.atom(block.result, env)

    def atom(self, atom: Atom, env: Env) -> Any:
        if isinstance(atom, Var):
            return env[atom]
        if isinstance(atom, nodes.Constant):
            return lift(atom.value[()] if not atom.value.ndim else atom.value)
        if isinstance(atom, nodes.Constructor):
            return partial(self.made, atom.name, atom.type.result)
        return partial(self.call_positional, atom.name)

    def call_positional(self, name: str, *args: Any) -> Any:
        return self.call(name, args)

    def value(
        self, value: nodes.Expr, kind: Type, env: dict[Var, Any], sizes: Mapping[str, IntExpr]
    ) -> Any:
        """Returns the value of an expression, of type ``kind``."""
        if isinstance(value, nodes.Call):
            args = [self.atom(a, env) for a in value.args]
            return self._call(value, args, kind, env, sizes)
        if isinstance(value, nodes.Tuple):
            return tuple(self.atom(f, env) for f in value.fields)
        if isinstance(value, nodes.TupleGetItem):
            return self.atom(value.value, env)[value.index]
        if isinstance(value, Function):
            around = {v: env[v] for v in captured_variables(value)}
            return lambda *args: self._run(value, args, around, sizes)
        if isinstance(value, nodes.If):
            blocks = (value.then, value.orelse)
            taken = [partial(self.block, block, env, sizes) for block in blocks]
            return cond(self.atom(value.condition, env), *taken)
        if isinstance(value, nodes.Match):
            return self._match(value, env, sizes)
        if isinstance(value, nodes.Ref):
            return self._reference(value.kind, [self.atom(a, env) for a in value.args])
        if isinstance(value, nodes.While | nodes.For):
            return self._loop(value, env, sizes)
        return self.atom(value, env)

    def _call(
        self,
        call: nodes.Call,
        args: list[Any],
        kind: Type,
        env: Env,
        sizes: Mapping[str, IntExpr],
    ) -> Any:
        if isinstance(call.op, nodes.Constructor):
            return self.made(call.op.name, kind, *args)
        if isinstance(call.op, GlobalVar):
            return self.call(call.op.name, args)
        if isinstance(call.op, Var):
            return env[call.op](*args)
        trace = active()
        assert trace is not None
        for name in size_symbols(*(s for v in call.attrs.values() for s in sizes_in_attr(v))):
            if name not in sizes:
                raise LoopwrightTypeError(no_size(name))
        attrs = {k: substitute_attr(v, sizes) for k, v in call.attrs.items()}
        atom = trace.emit(call.op.name, [lift(a).atom for a in args], attrs)
        if isinstance(kind, TensorType):
            return Proxy(atom, trace)
        fields = range(len(kind.fields)) if isinstance(kind, TupleType) else ()
        return tuple(Proxy(trace.builder.get_item(atom, n), trace) for n in fields)

    # -- data --------------------------------------------------------------------------------------

    def made(self, name: str, kind: Type, *args: Any) -> Any:
        """Returns a value of a data type, made of its fields."""
        fields = self.families.fields(kind, name)
        parts = [self.stored(a, f) for a, f in zip(args, fields, strict=True)]
        return self.families.constructor(kind, name)(*parts)

    def stored(self, value: Any, kind: Type) -> Any:
        """Returns what a field of a value has for one of a type: tuples are values there."""
        return self.made(TUPLE, kind, *value) if isinstance(value, tuple) else value

    def opened(self, value: Any, kind: Type) -> Any:
        """Returns a tuple for one that is a value of a family, as fields of values are."""
        if not isinstance(kind, TupleType):
            return value
        fields = value
        if not isinstance(value, tuple):
            fields = [getattr(value, f"field{n}") for n in range(len(kind.fields))]
        return tuple(map(self.opened, fields, kind.fields))

    def _match(
        self,
        match: nodes.Match,
        env: Env,
        sizes: Mapping[str, IntExpr],
    ) -> Any:
        """Returns the result of the first case that fits."""
        subject = self.atom(match.value, env)
        cases: list[tuple[Any, Callable[[], Any]]] = []
        for case in match.cases:
            names: dict[str, Var] = {}
            pattern = self._pattern(case.pattern, match.value.type, names, type(subject) is tuple)
            holds = test(pattern, subject)
            taken = partial(self._taken, case, pattern, names, subject, env, sizes)
            if holds is not False:
                cases.append((holds, taken))
            if holds is True:
                break
        failed = not cases or (not match.complete and cases[-1][0] is not True)
        return self._first(cases, failed)

    def _first(self, cases: Sequence[tuple[Any, Callable[[], Any]]], may_fail: bool) -> Any:
        """Returns the result of the first of ``cases`` whose condition holds; one does, unless
        ``may_fail``."""
        if not cases:
            raise ValueError(_NO_CASE)
        (holds, taken), *others = cases
        if not others:
            if may_fail:
                check(~holds, ValueError, _NO_CASE)
            return taken()
        return cond(holds, taken, partial(self._first, others, may_fail))

    def _taken(
        self,
        case: nodes.Case,
        pattern: Pattern,
        names: Mapping[str, Var],
        subject: Any,
        env: Env,
        sizes: Mapping[str, IntExpr],
    ) -> Any:
        """Returns the result of a case, whose pattern fits."""
        values: dict[str, Any] = {}
        bind(pattern, subject, values)
        bound = {names[n]: self.opened(v, names[n].type) for n, v in values.items()}
        return self.block(case.block, {**env, **bound}, {**sizes, **_sizes_of(bound)})

    def _pattern(
        self, pattern: nodes.Pattern, kind: Type, names: dict[str, Var], is_tuple: bool
    ) -> Pattern:
        """Returns a pattern of Python's; ``names`` has the variables that its names stand for.
        ``is_tuple``: the subject is a tuple, and no field of a value."""
        if isinstance(pattern, Var):
            name = f"v{len(names)}"
            names[name] = pattern
            return Bind(name)
        if not isinstance(pattern, nodes.ConstructorPattern):
            return ANYTHING
        name = TUPLE if pattern.constructor is None else pattern.constructor.name
        fields = self.families.fields(kind, name)
        inside = [
            self._pattern(p, f, names, is_tuple and name == TUPLE)
            for p, f in zip(pattern.fields, fields, strict=True)
        ]
        if is_tuple and pattern.constructor is None:
            return Row(tuple(inside))
        return Of(self.families.constructor(kind, name), tuple(inside))

    # -- references and loops ----------------------------------------------------------------------

    def _reference(self, kind: str, args: Sequence[Any]) -> Any:
        if kind == "ref":
            return Reference(args[0])
        if kind == "ref_read":
            return args[0].value
        args[0].value = args[1]
        return ()

    def _loop(self, loop: nodes.While | nodes.For, env: Env, sizes: Mapping[str, IntExpr]) -> Any:
        initial = tuple(self.atom(a, env) for a in loop.initial)

        def inside(block: Block, carry: Sequence[Any], *index: Any) -> Any:
            params = (*loop.params, *([loop.index] if isinstance(loop, nodes.For) else []))
            return self.block(block, {**env, **dict(zip(params, (*carry, *index)))}, sizes)

        if isinstance(loop, nodes.While):
            condition = loop.condition
            return while_loop(partial(inside, condition), partial(inside, loop.body), initial)
        extent = self.atom(loop.extent, env)

        def iterate(index: Any, carry: Sequence[Any]) -> Any:
            return inside(loop.body, carry, self.argument("index", index, COUNT))

        return fori_loop(0, extent, iterate, initial)


def _sizes_of(values: Env) -> dict[str, IntExpr]:
    """Returns the sizes that the arrays have which variables stand for."""
    arrays = [(var.type, v.type) for var, v in values.items() if type(v) is Proxy]
    return bind_sizes([t for t, _ in arrays], [t for _, t in arrays]) or {}
