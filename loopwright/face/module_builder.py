"""A builder of modules, for programs that no Python function traced: importers, generators."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.errors import LoopwrightValueError
from ..ir.graph.builder import Builder
from ..ir.graph.nodes import Atom, Constant, Function, GlobalVar, Module, Var
from ..ir.graph.operator import OPERATORS, Operator
from ..ir.graph.verify import signature_of
from ..ir.loop.parser import parse_prim
from ..ir.loop.prim import PrimFunc
from ..ir.schedule.steps import Schedule, Step
from ..tracer import DTypeSpec, Spec
from .user_errors import for_user


class ModuleBuilder(Builder):
    """Builds the function ``main`` of a module call by call, and holds the functions it calls.

    Each call's type is inferred, and its operands are checked, when it is emitted.

    >>> import numpy as np
    >>> import loopwright as lw
    >>> b = lw.ModuleBuilder()
    >>> x = b.param("x", lw.f32[4])
    >>> halved = b.kernel(
    ...     "prim @halved(a: float32[4]) -> y: float32[4] { y[n] = a[n] * 0.5 }",
    ...     lw.schedule.vectorize("n"),
    ... )
    >>> y = b.emit("nn.relu", [b.emit("subtract", [x, np.float32(3)])])
    >>> program = lw.build(b.module(b.emit(halved, [y])))
    >>> program(np.float32([1, 3, 5, 7]))
    array([0., 0., 1., 2.], dtype=float32)
    """

    def __init__(self) -> None:
        super().__init__()
        self._functions: dict[str, Function | PrimFunc] = {}
        self._schedules: dict[str, Schedule] = {}

    def param(self, name: str, type: Any, span: Any = None) -> Var:
        """Adds a parameter of ``main``: ``b.param("x", lw.f32[64, 784])``."""
        return super().param(name, type.type if isinstance(type, Spec | DTypeSpec) else type, span)

    def emit(
        self,
        op: str | Operator | GlobalVar | Var,
        args: Sequence[Any],
        attrs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Var:
        """Applies an operator, by its name, or a function of the module; returns its result.

        ``args`` are values of this builder, arrays and NumPy scalars. Raises LoopwrightTypeError or
        LoopwrightValueError where they do not fit.
        """
        try:
            operator = _operator(op) if isinstance(op, str) else op
            return super().emit(operator, [self.atom(a) for a in args], attrs, **options)
        except Exception as error:
            reported = for_user(error)
        raise reported

    def atom(self, value: Any, name: str = "") -> Atom:
        """Returns an operand: ``value`` itself, or an array as a constant called ``name``."""
        if isinstance(value, Var | Constant | GlobalVar):
            return value
        return Constant(np.asarray(value), name)

    def kernel(self, prim: PrimFunc | str, *steps: Step) -> GlobalVar:
        """Adds a kernel, or the text of one, scheduled by ``steps`` if there are any.

        Returns what ``emit`` takes to call it.
        """
        prim = parse_prim(prim) if isinstance(prim, str) else prim
        if steps:
            self._schedules[prim.name] = Schedule(steps)
        return self.add(prim.name, prim)

    def add(self, name: str, function: Function | PrimFunc) -> GlobalVar:
        """Adds a function under a name; returns what ``emit`` takes to call it."""
        if name in self._functions or name == "main":
            raise LoopwrightValueError(f"the module has a function {name} already")
        self._functions[name] = function
        return GlobalVar(name, signature_of(function))

    def module(self, result: Atom | Sequence[Atom], outputs: Sequence[str] = ()) -> Module:
        """Returns the module whose ``main`` gives ``result``, or several under these names."""
        value = self.make_tuple(result) if isinstance(result, Sequence) else result
        main = self.function(value, attrs={"outputs": tuple(outputs)} if outputs else None)
        return Module({"main": main, **self._functions}, self._schedules)


def _operator(name: str) -> Operator:
    if name not in OPERATORS:
        near = difflib.get_close_matches(name, OPERATORS, n=1)
        raise LoopwrightValueError(
            f"there is no operator {name!r}", hint=repr(near[0]) if near else None
        )
    return OPERATORS[name]
