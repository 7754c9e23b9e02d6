"""Compiles modules from text or a builder: programs that no Python function was traced for.

::

    text --parse--> Module --build--> CompiledModule: called, tuned and shown as compiled functions
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from ..extras import extra
from ..ir.dtype import Array
from ..ir.errors import InternalError, LoopwrightTypeError, UnsupportedError
from ..ir.graph.evaluate import evaluate
from ..ir.graph.nodes import Function, Module, Ref
from ..ir.graph.types import DataType, TensorType, TupleType, Type, fields_of
from ..ir.graph.verify import verify
from ..ir.graph.walk import all_bindings
from ..ir.loop.evaluate import evaluate_prim
from ..ir.loop.prim import PrimFunc
from ..ir.loop.verify import verify_prim
from ..tracer import ArraySpec, Request, Spec, Traced, any_traced
from ..tracer.core.pytree import LEAF, Node, Structure, flatten
from ..tracer.function import trace
from ..tracer.traced import trims_of
from .compile import check_options
from .compiled_function import CompiledFunction
from .lowered import Lowered
from .sizes import request_sizes
from .user_errors import refuse_other_kind, reports_errors

if TYPE_CHECKING:
    from ..inspect.memory import Memory
    from ..inspect.profile import Profile


@reports_errors
def parse(
    text: str, *, constants: Mapping[str, Array] | None = None, file: str = "<text>"
) -> Module:
    """Returns the module that ``text`` spells: graph functions, kernels, and schedules of kernels.

    ``constants`` holds the arrays that the text calls ``meta[name]``; ``file`` is the name that
    errors give the text. ``str(module)`` is the text again. Raises ParseError with line and column
    for malformed text, and LoopwrightTypeError for operands that do not fit an operator.

    >>> import loopwright as lw
    >>> module = lw.parse('''
    ... def @main(%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
    ...   %0 = exp(%x);
    ...   @double(%0)
    ... }
    ... prim @double(x: float32[4]) -> y: float32[4] { y[i] = x[i] * 2.0 }
    ... schedule @double { vectorize('i') }
    ... ''')
    >>> list(module.functions)
    ['main', 'double']
    """
    from ..ir.graph.parser import parse_module  # loaded when it is first needed

    return parse_module(text, constants=constants, file=file)


def build(module: Module | str, *, name: str = "main", **options: Any) -> CompiledModule:
    """Compiles a module, or the text of one; returns what calls its function ``main``.

    Data types, functions as values and references in the module are lowered; if ``main`` takes or
    returns values of data types, ``lw.compile(lw.as_function(module))`` compiles it.

    ``name`` is what errors and messages call it. The options ``log``, ``threads``, ``precision``,
    ``target``, ``tune`` and ``passes`` are those of ``lw.compile``. Raises LoopwrightTypeError if
    the module is malformed, ScheduleError if a schedule of its kernels is illegal, and
    UnsupportedError for what cannot be compiled yet (symbolic sizes, control flow).

    >>> import numpy as np
    >>> import loopwright as lw
    >>> double = lw.build("def @main(%x: Tensor[(2), float32]) { add(%x, %x) }")
    >>> double(np.float32([1, 2]))
    array([2., 4.], dtype=float32)
    >>> double.run({"x": np.float32([3, 4])})
    {'0': array([6., 8.], dtype=float32)}
    """
    check_options("lw.build", options)
    module = parse(module) if isinstance(module, str) else module
    if not _is_plain(module):
        module = _lowered(module, name)
    made = CompiledModule(module, name, **options)
    made.lower()
    return made


def _is_plain(module: Module) -> bool:
    """True if a module has no data types, type parameters and references."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    special = (
        f.type_params or any(isinstance(b.value, Ref) for b in all_bindings(f)) for f in functions
    )
    return not module.types and not any(special)


def _lowered(module: Module, name: str) -> Module:
    """Returns a module of arrays alone that computes the same."""
    _check(module)
    calls = traced_calls(module, name)
    return trace(extra("as_function")(module), calls.signature, calls.request, name).module


class CompiledModule(CompiledFunction):
    """A module that is compiled for the arrays its ``main`` takes, by position or by name.

    All of a compiled function is here: calls, ``tune``, ``lower``, ``background``. Where no
    arguments are given, ``lower`` and ``tune`` take those that ``main`` declares (``specs``).
    ``inputs`` and ``outputs`` are the names of the arguments and results; the attribute ``outputs``
    of ``main`` names results, which otherwise have their numbers for names. Its attribute ``sizes``
    names sizes that data decides, whose values are the last results, and are not given out. With
    the attribute ``lists``, tuples among arguments and results are lists.

    >>> net = lw.build("def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { exp(%x) }")
    >>> net(np.zeros(2, np.float32)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, module: Module, name: str = "main", **options: Any) -> None:
        from ..driver.pipeline import own_schedules

        _check(module)
        own_schedules(module)  # raises ScheduleError for one that is illegal
        self._module = module
        count = len(fields_of(module.main.body.result.type)) - len(_data_sizes(module))
        names = module.main.attrs.get("outputs", tuple(map(str, range(count))))
        if len(names) != count:
            raise LoopwrightTypeError(
                f"main returns {count} results, and its attribute outputs has {len(names)} names"
            )
        inputs = tuple(p.name for p in module.main.params)
        self._declare(traced_calls(module, name), inputs, tuple(names), options)

    def _declare(
        self,
        traced: Traced,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        options: dict[str, Any],
    ) -> None:
        """Takes what calls are like, which is known before the module is."""
        self._traced = traced
        leaves = iter(traced.request.leaves)
        self.specs = tuple(_spec(s, leaves) for s in traced.request.structures)
        self.inputs = inputs
        self.outputs = outputs
        self._options = options

        def interpreted(*args: Any, **kwargs: Any) -> Any:
            if any_traced((*args, *kwargs.values())):
                raise UnsupportedError(f"{traced.name} is code already, which no other code calls")
            bound = traced.signature.bind(*args, **kwargs)
            result = evaluate(self.module, *bound.args, call_prim=_call_prim)
            return traced.result(list(flatten(result)[0])) if traced.trims else result

        interpreted.__name__ = interpreted.__qualname__ = traced.name
        interpreted.__doc__ = None
        vars(interpreted)["__signature__"] = traced.signature
        super().__init__(interpreted, **options)
        if request_sizes(traced.request):
            self._signature.dynamic.declared = traced.request

    @property
    def module(self) -> Module:
        """The module that is compiled."""
        return self._module

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the results by name, for arguments by name; names may be any strings."""
        if set(feeds) != set(self.inputs):
            raise LoopwrightTypeError(
                f"{self._name} takes {', '.join(self.inputs) or 'nothing'}, "
                f"not {', '.join(feeds) or 'nothing'}"
            )
        result = self(*(feeds[name] for name in self.inputs))
        structure = self._traced.structure
        alone = not (isinstance(structure, Node) and structure.type is tuple)
        return dict(zip(self.outputs, (result,) if alone else result, strict=True))

    def as_text(self, level: str = "graph") -> str:
        """Returns the text at ``level``: graph, kernels, loops, program, llvm or asm."""
        return self.lower().as_text(level)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Returns the code, to look at or to keep; arguments may be left out."""
        return super().lower(*self._declared(args, kwargs), **kwargs)

    def tune(self, *args: Any, **kwargs: Any) -> Any:
        """Tunes as a compiled function does, on random arrays where no arguments are given.

        Schedules that the kernels of the module were written with are candidates like all others;
        from then on the fastest is used, which the log holds.
        """
        return super().tune(*self._declared(args, kwargs), **kwargs)

    def profile(self, *args: Any, seconds: float = 1.0, **kwargs: Any) -> Profile:
        """Profiles calls as a compiled function does, on random arrays where no arguments are
        given."""
        from ..tuning.at_sizes import random_arrays

        given = self._declared(args, kwargs)
        if given is self.specs:
            given = tuple(random_arrays(self.module, {}))
        return super().profile(*given, seconds=seconds, **kwargs)

    def memory(self, *args: Any, **kwargs: Any) -> Memory:
        """Returns what memory a call takes; arguments may be left out. The constants of ``module``
        count as originals of the weights, as far as they are not the same arrays."""
        return self._code_in_use(self._declared(args, kwargs), kwargs)[0].memory(self.module)

    def _declared(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns ``args``, or specs of main's parameters if no arguments are given."""
        if args or kwargs.keys() & self._signature.parameters.keys():
            return args
        return self.specs

    def _for_threads(self, count: int | None) -> CompiledFunction:
        return CompiledModule(self.module, self._name, **{**self._options, "threads": count})

    def _trace(self, request: Request, _borrowed: Any = None, _checks: bool = False, /) -> Traced:
        refuse_other_kind(self._traced, request)
        return self._traced


def _check(module: Module) -> None:
    """Raises LoopwrightTypeError unless the module is well formed and has a function ``main``."""
    if not isinstance(module.functions.get("main"), Function):
        raise LoopwrightTypeError(
            "a module needs a graph function @main; the functions of this one are "
            f"{', '.join(module.functions) or 'none'}"
        )
    try:
        verify(module)
        for function in module.functions.values():
            if isinstance(function, PrimFunc):
                verify_prim(function)
    except InternalError as error:  # verify expects a pass's module; this one is the user's
        raise LoopwrightTypeError(error.message, notes=error.notes) from None
    for name in module.schedules:
        if not isinstance(module.functions.get(name), PrimFunc):
            raise LoopwrightTypeError(f"there is a schedule of {name}, which is not a kernel")


def traced_calls(module: Module, name: str) -> Traced:
    """Describes the calls of a module as tracing describes those of a Python function."""
    names: list[str] = []
    structures: list[Structure] = []
    leaves: list[ArraySpec] = []
    sizes, lists = _data_sizes(module), bool(module.main.attrs.get("lists"))
    container = list if lists else tuple
    for param in module.main.params:
        names.append(_identifier(param.name, names))
        structures.append(_structure(param.type, leaves, container))
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(n, either) for n in names])
    results: list[ArraySpec] = []
    result = module.main.body.result.type
    if sizes or lists:  # main returns a tuple then, of one result as well
        fields = fields_of(result)
        kinds = fields[: len(fields) - len(sizes)]
        each = tuple(_structure(kind, results, container) for kind in kinds)
        structure = each[0] if len(each) == 1 else Node(tuple, None, each)
    else:
        structure = _structure(result, results, container)
    numbers = {name: len(results) + n for n, name in enumerate(sizes)}
    trims = trims_of([spec.type for spec in results], numbers) if sizes else ()
    request = Request(tuple(names), tuple(structures), tuple(leaves))
    places = tuple(range(len(leaves)))
    outputs = (None,) * len(results)
    return Traced(name, signature, module, request, places, structure, outputs, trims=trims)


def _data_sizes(module: Module) -> tuple[str, ...]:
    """Returns the names of the sizes whose values are the last results of ``main``."""
    return tuple(module.main.attrs.get("sizes", ()))


def _identifier(name: str, taken: Collection[str]) -> str:
    """Returns a parameter's name as a Python identifier that is not in ``taken``."""
    name = re.sub(r"\W", "_", name)
    name = f"_{name}" if not name.isidentifier() or iskeyword(name) else name
    while name in taken:
        name += "_"
    return name


def _structure(kind: Type, leaves: list[ArraySpec], container: type) -> Structure:
    """Returns the structure of a value, and appends the types of its arrays to ``leaves``."""
    if isinstance(kind, TupleType):
        fields = tuple(_structure(field, leaves, container) for field in kind.fields)
        return Node(container, None, fields)
    if not isinstance(kind, TensorType):
        is_data = isinstance(kind, DataType)
        raise UnsupportedError(
            f"main takes or returns {kind}",
            hint="lw.compile(lw.as_function(module))" if is_data else "arrays, or tuples of them",
        )
    leaves.append(ArraySpec(kind))
    return LEAF


def _spec(structure: Structure, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Node):
        return structure.type(_spec(child, leaves) for child in structure.children)
    return Spec(next(leaves).type)


def _call_prim(prim: PrimFunc, args: Sequence[Any]) -> Any:
    """Returns the results of a kernel, in the form that the interpreter of graphs needs."""
    outputs = evaluate_prim(prim, dict(zip((p.name for p in prim.params), args, strict=True)))
    results = tuple(outputs.values())
    return results[0] if len(results) == 1 else results
